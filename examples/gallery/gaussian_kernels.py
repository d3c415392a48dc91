# %% [markdown]
# # Density and regression with Gaussian kernels
#
# A kernel density estimate is a sum over all points for each place of a grid, and Nadaraya-Watson regression is the
# weighted mean of the points' values with the same weights. NumPy stores a weight for each pair of a place and a
# point. Fused, a weight is computed, added to both sums and forgotten: no array of pairs exists.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import INK, compare, pick, show

import fusedsl as fd


# %%
@fd.fuse
def smooth(grid_x, grid_y, x, y, values, width):
    """The density and the regression at the places of a grid, from points x, y and their values."""
    squared = (grid_x[:, None] - x) ** 2 + (grid_y[:, None] - y) ** 2
    weight = np.exp(squared * (-0.5 / width**2))
    total = weight.sum(axis=1)
    return total / (2 * np.pi * width**2 * x.shape[0]), (weight * values).sum(axis=1) / total


# %% [markdown]
# Points on two arms of a spiral, and a noisy value at each.

# %%
random = np.random.default_rng(0)
count, side = pick(800, 4000), pick(60, 200)
angle = 3.2 * np.sqrt(random.uniform(0.05, 1, count))
turn = angle + np.pi * random.integers(0, 2, count)
x, y = (angle * f(turn) + 0.22 * random.standard_normal(count) for f in (np.cos, np.sin))
values = np.sin(2 * x) + y / 2 + 0.3 * random.standard_normal(count)
line = np.linspace(-4, 4, side)
grid_x, grid_y = (axis.ravel() for axis in np.meshgrid(line, line))

arguments = (*(array.astype(np.float32) for array in (grid_x, grid_y, x, y, values)), 0.3)
compare(f"{side * side:,} places, {count:,} points", smooth, smooth.__wrapped__, arguments, 1e-5)
density, regression = (result.reshape(side, side) for result in smooth(*arguments))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.4), layout="constrained", sharey=True)
left.contourf(line, line, density, levels=12, cmap="viridis")
left.scatter(x, y, s=1.5, color="white", alpha=0.5, linewidths=0)
left.set_title("density of the points")
seen = np.ma.masked_where(density < 0.002, regression)
filled = right.contourf(line, line, seen, levels=np.linspace(-2.4, 2.4, 13), cmap="RdBu_r", extend="both")
right.set_title("regression of their values")
colours = figure.colorbar(filled, ax=right, shrink=0.9, ticks=(-2, -1, 0, 1, 2))
colours.outline.set_edgecolor(INK)
for axes in (left, right):
    axes.set(aspect="equal", xticks=(-4, 0, 4), yticks=(-4, 0, 4))
    axes.spines[:].set_visible(True)
show(figure, "gaussian_kernels")
