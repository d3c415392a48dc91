# %% [markdown]
# # Two galaxies
#
# Gravity acts between all pairs of bodies. In NumPy a step stores the differences, distances and forces of all pairs;
# fused, the forces on a body are summed in registers while the others stream by.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import BLUE, ORANGE, compare, pick, show

import fusedsl as fd


# %%
@fd.fuse
def accelerations(x, y, z, mass, softening):
    """Of each body towards all others, along the three axes."""
    dx, dy, dz = x - x[:, None], y - y[:, None], z - z[:, None]
    squared = dx * dx + dy * dy + dz * dz + softening**2
    pull = mass / (squared * np.sqrt(squared))
    return (pull * dx).sum(axis=1), (pull * dy).sum(axis=1), (pull * dz).sum(axis=1)


@fd.fuse
def advance(position, velocity, acceleration, step):
    """The velocities by the forces, then the positions by the velocities, each (axes, bodies), in one kernel."""
    faster = velocity + np.stack(acceleration) * step
    return position + faster * step, faster


# %% [markdown]
# Two discs of stars around heavy centres, on their way to each other.


# %%
def disc(random, stars, centre, drift, tilt):
    radius = np.sqrt(random.uniform(0.04, 1, stars))
    angle = random.uniform(0, 2 * np.pi, stars)
    flat = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0.02 * random.standard_normal(stars)], -1)
    speed = np.sqrt(radius**2 / (radius**2 + 0.01) ** 1.5)[:, None]
    around = np.stack([-np.sin(angle), np.cos(angle), 0 * angle], -1) * speed
    turn = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    at = np.concatenate([[centre], flat @ turn.T + centre])
    return at.T, np.concatenate([[drift], around @ turn.T + drift]).T


random = np.random.default_rng(0)
stars, steps = pick(400, 3000), pick(130, 260)
one, two = (
    disc(random, stars, (-1.3, -0.35, 0), (0.6, 0.1, 0), 0.5),
    disc(random, stars, (1.3, 0.35, 0), (-0.6, -0.1, 0), -0.9),
)
position, velocity = (np.concatenate(both, axis=1).astype(np.float32) for both in zip(one, two))
mass = np.full(2 * stars + 2, 1e-5, np.float32)
mass[[0, stars + 1]] = 1

compare(f"forces of {len(mass):,} bodies", accelerations, accelerations.__wrapped__, (*position, mass, 0.1), 1e-4)

# %% [markdown]
# A step is two calls, whatever the number of bodies.

# %%
step = np.float32(2.6 / steps)
moments = {0: position}
for done in range(1, steps + 1):
    position, velocity = advance(position, velocity, accelerations(*position, mass, 0.1), step)
    if done in (steps // 3, 2 * steps // 3, steps):
        moments[done] = position

# %%
figure, every = plt.subplots(1, 4, figsize=(7.2, 2.1), layout="constrained")
for axes, (done, at) in zip(every, moments.items()):
    for colour, part in ((BLUE, at[:, : stars + 1]), (ORANGE, at[:, stars + 1 :])):
        axes.scatter(part[0], part[1], s=1.6, color=colour, alpha=0.7, linewidths=0)
        axes.scatter(part[0, 0], part[1, 0], s=14, color=colour)
    axes.set(title=f"t = {done * step:.1f}", aspect="equal", xlim=(-2.4, 2.4), ylim=(-2.4, 2.4), xticks=(), yticks=())
    axes.spines[:].set_visible(True)
show(figure, "n_body")
