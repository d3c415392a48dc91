# %% [markdown]
# # The heat equation
#
# An explicit step adds to each cell a share of the difference to its four neighbours. As operations of NumPy it is a
# dozen passes over the grid; fused, it is one kernel that reads the grid and the conductivity once and writes the
# next grid. Two arrays take turns as the input and as `out=`, so a simulation allocates nothing.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import INK, compare, pick, show

import fusedsl as fd

# %%
step = fd.kernel("""
    here = u[1:-1, 1:-1]
    flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * here
    return pad(here + rate[1:-1, 1:-1] * flow, 1, mode="edge")     # the border is insulated
""")


def unfused(u, rate):
    here = u[1:-1, 1:-1]
    flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * here
    return np.pad(here + rate[1:-1, 1:-1] * flow, 1, mode="edge")


# %% [markdown]
# A plate with walls that conduct little, two hot spots and a cold one.

# %%
n, steps = pick(160, 600), pick(1500, 20_000)
y, x = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij")
u = np.zeros((n, n), np.float32)
for cx, cy, radius, value in ((0.2, 0.25, 0.11, 1), (0.75, 0.78, 0.13, 1), (0.3, 0.75, 0.12, -1)):
    u[(x - cx) ** 2 + (y - cy) ** 2 < radius**2] = value
rate = np.full((n, n), 0.24, np.float32)
rate[(abs(x - 0.5) < 0.02) & (abs(y - 0.5) > 0.06)] = 0.002
rate[(abs(y - 0.5) < 0.02) & (x < 0.5)] = 0.002

compare(f"a step on {n} × {n} cells", step, unfused, (u, rate), 1e-5)

# %%
moments, now, following = {0: u.copy()}, u, np.empty_like(u)
for done in range(1, steps + 1):
    step(now, rate, out=following)
    now, following = following, now
    if done in (steps // 10, steps):
        moments[done] = now.copy()

# %%
figure, every = plt.subplots(1, 3, figsize=(7.2, 2.6), layout="constrained")
for axes, (done, temperature) in zip(every, moments.items()):
    shown = axes.imshow(temperature, cmap="RdBu_r", vmin=-1, vmax=1, origin="lower")
    axes.contour(rate < 0.1, levels=(0.5,), colors=INK, linewidths=0.6)
    axes.set(title=f"after {done:,} steps", xticks=(), yticks=())
    axes.spines[:].set_visible(True)
bar = figure.colorbar(shown, ax=every, shrink=0.85, ticks=(-1, 0, 1), label="temperature")
bar.outline.set_edgecolor(INK)
show(figure, "heat")
