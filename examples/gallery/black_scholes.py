# %% [markdown]
# # Implied volatility
#
# An option's implied volatility is the volatility at which the Black-Scholes formula gives its market price. A closed
# form comes near it, and two steps of Halley's method make it accurate: 160 operations on each option. As operations
# of NumPy, each is a pass over memory.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import INK, compare, pick, show

import fusedsl as fd

# %% [markdown]
# The functions are ordinary Python; `@fd.fuse` traces the last of them once.


# %%
def normal_cdf(x):
    """Abramowitz and Stegun's formula 26.2.17, accurate to within 7.5e-8; NumPy has no error function."""
    k = 1 / (1 + 0.2316419 * np.abs(x))
    tail = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    upper = tail * np.exp(-x * x / 2) * 0.3989422804014327
    return np.where(x > 0, 1 - upper, upper)


def call_price(spot, strike, years, rate, sigma):
    """The price, and by how much d1 and d2 of the formula lie above 0, in standard deviations."""
    deviation = sigma * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + sigma * sigma / 2) * years) / deviation
    d2 = d1 - deviation
    return spot * normal_cdf(d1) - strike * np.exp(-rate * years) * normal_cdf(d2), d1, d2


@fd.fuse
def implied_volatility(price, spot, strike, years, rate):
    """Corrado and Miller's closed form, then two steps of Halley's method."""
    discounted = strike * np.exp(-rate * years)
    above = price - (spot - discounted) / 2
    root = np.sqrt(np.maximum(above * above - (spot - discounted) ** 2 / np.pi, 0))
    sigma = np.maximum(np.sqrt(2 * np.pi / years) / (spot + discounted) * (above + root), 0.1)
    for _ in range(2):
        model, d1, d2 = call_price(spot, strike, years, rate, sigma)
        vega = spot * np.exp(-d1 * d1 / 2) * 0.3989422804014327 * np.sqrt(years)  # the derivative by sigma
        step = (model - price) / vega
        sigma = sigma - step / (1 - step * d1 * d2 / (2 * sigma))
    return sigma


# %% [markdown]
# A market: prices that follow from a volatility with a smile over strikes and a term structure over maturities.

# %%
n = pick(150, 1500)
strike, years = np.meshgrid(np.linspace(80, 125, n), np.linspace(0.25, 2, n))
spot, rate = 100.0, 0.03
moneyness = np.log(strike / spot) / np.sqrt(years)
market = 0.18 + 0.10 * moneyness**2 - 0.06 * moneyness + 0.04 * np.exp(-2 * years)
price, *_ = call_price(spot, strike, years, rate, market)

arguments = (price, spot, strike, years, rate)
compare(
    f"implied volatility of {price.size:,} options", implied_volatility, implied_volatility.__wrapped__, arguments, 1e-9
)
found = implied_volatility(*arguments)
print(f"farthest from the volatility that made the prices: {np.abs(found - market).max():.1e}")

# %%
figure = plt.figure(figsize=(5.8, 3.6))
axes = figure.add_axes((0.03, 0.02, 0.92, 1.02), projection="3d")
every = max(1, n // 60)
axes.plot_surface(
    strike, years, 100 * found, cmap="viridis", vmin=15, rstride=every, cstride=every, linewidth=0, antialiased=False
)
axes.set(xlabel="strike", ylabel="years to maturity", zlabel="implied volatility, %", box_aspect=(4, 4, 2.4))
for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
    axis.set_pane_color((0.5, 0.5, 0.5, 0.08))
    axis._axinfo["grid"]["color"] = INK + "40"
axes.view_init(elev=28, azim=-50)
show(figure, "black_scholes")
