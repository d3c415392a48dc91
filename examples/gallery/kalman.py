# %% [markdown]
# # Many Kalman filters
#
# A tracker of position and velocity predicts, compares with a measurement, and corrects: forty small operations at
# each time for each tracked object. Fused, a step of all filters is one kernel, and several steps in one function
# keep the state of a filter in registers between them.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import BLUE, INK, ORANGE, compare, pick, show

import fusedsl as fd


# %%
def step(state, measured, noise, drift):
    """One step of a constant-velocity filter. The state: position, velocity, and their covariance in three numbers."""
    p, v, pp, pv, vv = state
    p = p + v  # the prediction, one unit of time later
    pp = pp + 2 * pv + vv + drift / 3
    pv = pv + vv + drift / 2
    vv = vv + drift
    gain_p, gain_v = pp / (pp + noise), pv / (pp + noise)
    seen = np.isfinite(measured)  # a missing measurement corrects nothing
    gap = np.where(seen, measured - p, 0)
    gain_p, gain_v = np.where(seen, gain_p, 0), np.where(seen, gain_v, 0)
    return p + gain_p * gap, v + gain_v * gap, (1 - gain_p) * pp, (1 - gain_p) * pv, vv - gain_v * pv


@fd.fuse
def four_steps(state, measured, noise, drift):
    """The states after four measurements, measured (4, filters), and the positions and variances on the way."""
    positions, variances = [], []
    for k in range(4):
        state = step(state, measured[k], noise, drift)
        positions.append(state[0])
        variances.append(state[2])
    return state, positions, variances


# %% [markdown]
# Objects that wander, measured with noise and gaps.

# %%
random = np.random.default_rng(5)
times, filters = 120, pick(5_000, 200_000)
noise, drift = 4.0, 0.01
velocity = np.cumsum(np.sqrt(drift) * random.standard_normal((times, filters)), axis=0)
path = np.cumsum(velocity, axis=0)
measured = path + np.sqrt(noise) * random.standard_normal((times, filters))
measured[random.random((times, filters)) < 0.1] = np.nan
measured[60:75] = np.nan  # nobody looks for a while

state = tuple(np.full(filters, value) for value in (0.0, 0.0, 10.0, 0.0, 1.0))
arguments = (state, measured[:4], noise, drift)
compare(f"four steps of {filters:,} filters", four_steps, four_steps.__wrapped__, arguments, 1e-12)

positions, variances = [], []
for begin in range(0, times, 4):
    state, p, v = four_steps(state, measured[begin : begin + 4], noise, drift)
    positions += p
    variances += v
position, deviation = np.stack(positions), np.sqrt(np.stack(variances))
inside = (abs(position - path) < 2 * deviation).mean()
print(f"{100 * inside:.1f} % of the true positions lie within two deviations of the filter's")

# %%
figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
one, time = 7, np.arange(times)
axes.fill_between(
    time,
    *(position[:, one] + side * deviation[:, one] for side in (-2, 2)),
    color=BLUE,
    alpha=0.2,
    linewidth=0,
    label="two deviations",
)
axes.plot(time, position[:, one], color=BLUE, linewidth=1.6, label="filtered")
axes.plot(time, path[:, one], color=ORANGE, linewidth=1.2, label="true")
axes.scatter(time, measured[:, one], s=7, color=INK, linewidths=0, label="measured")
axes.set(xlabel="time", ylabel="position", xlim=(0, times - 1))
axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.15))
show(figure, "kalman")
