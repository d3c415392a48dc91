# %% [markdown]
# # Rolling statistics
#
# Rolling means and deviations are differences of cumulative sums, and an exponential average is a cumulative sum of
# values scaled by a power. A cumulative sum is a scan; what comes before it is fused into its kernel. Many series are
# computed at once, one a column.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import BLUE, ORANGE, compare, pick, show

import fusedsl as fd


# %%
@fd.fuse
def bands(price, window):
    """The rolling mean and the band of two standard deviations around it, from row window - 1 on."""
    none = np.zeros((1, price.shape[1]))
    middle = price[:1]  # subtracted, so that the squares lose no digits
    total = np.concatenate([none, np.cumsum(price - middle, axis=0)])
    squares = np.concatenate([none, np.cumsum((price - middle) ** 2, axis=0)])
    mean = (total[window:] - total[:-window]) / window
    deviation = np.sqrt(np.maximum((squares[window:] - squares[:-window]) / window - mean * mean, 0))
    return mean + middle, mean + middle - 2 * deviation, mean + middle + 2 * deviation


@fd.fuse
def exponential_average(price, decay):
    """The weights of older rows decay by a factor a row, as in pandas' ewm(alpha=1 - decay).mean()."""
    age = np.arange(price.shape[0], 0, -1)[:, None]
    weight = decay**age
    return np.cumsum(weight * price, axis=0) / np.cumsum(weight, axis=0)


# %% [markdown]
# Prices of a market: random walks with a common part.

# %%
random = np.random.default_rng(3)
days, series = pick(500, 2500), pick(200, 2000)
moves = 0.008 * random.standard_normal((days, 1)) + 0.008 * random.standard_normal((days, series))
price = 100 * np.exp(np.cumsum(moves, axis=0))

compare(f"bands of {series:,} series of {days:,} days", bands, bands.__wrapped__, (price, 20), 1e-9)
compare("exponential averages", exponential_average, exponential_average.__wrapped__, (price, 0.96), 1e-9)

# %%
mean, low, high = bands(price, 20)
slow = exponential_average(price, 0.96)
figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
day, last = np.arange(days), min(days, 400)
axes.fill_between(
    day[19:last], low[: last - 19, 0], high[: last - 19, 0], color=BLUE, alpha=0.2, linewidth=0, label="band, 20 days"
)
axes.plot(day[:last], price[:last, 0], color=BLUE, linewidth=0.8, label="price")
axes.plot(day[19:last], mean[: last - 19, 0], color=BLUE, linewidth=1.6, label="rolling mean")
axes.plot(day[:last], slow[:last, 0], color=ORANGE, linewidth=1.6, label="exponential average")
axes.set(xlabel="day", ylabel="price", xlim=(0, last))
axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.15))
show(figure, "time_series")
