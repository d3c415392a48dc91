# %% [markdown]
# # Muon: orthogonal updates
#
# The optimiser Muon replaces a gradient by the nearest matrix whose singular values are all about 1, computed by five
# Newton-Schulz iterations (Jordan et al. 2024): products of matrices with a polynomial around them. fusedsl leaves
# the products to BLAS where that takes less time, and fuses what surrounds them.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import BLUE, GREEN, INK, ORANGE, RED, VIOLET, compare, pick, show

import fusedsl as fd


# %%
def newton_schulz(gradient, steps):
    x = gradient / (np.sqrt((gradient * gradient).sum()) + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x


@fd.fuse
def update(weight, gradient, momentum, rate=0.02):
    """The next weight and momentum."""
    momentum = 0.95 * momentum + gradient
    x = newton_schulz(gradient + 0.95 * momentum, 5)
    return weight - rate * x, momentum


# %%
random = np.random.default_rng(0)
rows, columns = pick(128, 512), pick(256, 1024)
weight, gradient, momentum = (random.standard_normal((rows, columns), dtype=np.float32) for _ in range(3))
gradient *= np.geomspace(1, 1e-2, rows, dtype=np.float32)[:, None]  # singular values of all sizes

compare(f"an update of {rows} × {columns} weights", update, update.__wrapped__, (weight, gradient, momentum), 1e-4)

# %% [markdown]
# The singular values after each iteration, computed by the undecorated function.

# %%
figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for steps, colour in enumerate((INK, BLUE, ORANGE, GREEN, VIOLET, RED)):
    values = np.linalg.svd(newton_schulz(gradient, steps), compute_uv=False)
    axes.semilogy(values, color=colour, label=f"{steps} iterations" if steps != 1 else "1 iteration")
axes.set(xlabel="singular values, the largest first", ylabel="value", xlim=(0, rows), ylim=(1e-3, 2))
axes.legend(loc="lower left", ncols=2)
axes.grid(True)
show(figure, "muon")
