# %% [markdown]
# # Masks and scores of attention, as pictures
#
# With the identity matrix as values, the result of attention is the matrix of its weights: row i is what query i
# makes of the keys. So each picture is computed by the kernel that it explains. A mask is a condition on the indices
# `b h i j`, a score a formula of them and of arrays; no matrix of scores is stored, and tiles where nothing is kept
# are skipped.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import compare, pick, show

import fusedsl as fd

# %%
VARIANTS = {  # the mask, and the score where it is not the plain one
    "full": ("True",),
    "causal": ("j <= i",),
    "sliding window": ("j <= i and i - j < 12",),
    "prefix": ("j <= i or j < 20",),
    "documents": ("doc[i] == doc[j] and j <= i",),
    "dilated": ("j <= i and (i - j) % 4 == 0",),
    "blocks and sinks": ("j <= i and (j < 4 or i // 16 == j // 16)",),
    "ALiBi": ("j <= i", "score + slope * (j - i)"),
    "soft cap": ("j <= i", "2 * tanh(score / 2)"),
    "relative bias": ("True", "score - 0.02 * (i - j) ** 2"),
}

# %% [markdown]
# A mask may depend on the head `h` too. So one call computes all variants, each in a head of its own.

# %%
mask = " or ".join(f"(h == {head} and ({how[0]}))" for head, how in enumerate(VARIANTS.values()))
score = "score"
for head, how in enumerate(VARIANTS.values()):
    if len(how) == 2:
        score = f"where(h == {head}, {how[1]}, {score})"

n, heads = 64, len(VARIANTS)
random = np.random.default_rng(4)
walk = np.cumsum(random.standard_normal((n, 16)), axis=0) / 4  # neighbours are alike, as words of a sentence are
q = k = np.broadcast_to((walk - walk.mean(axis=0)).astype(np.float32), (1, heads, n, 16))
identity = np.broadcast_to(np.eye(n, dtype=np.float32), (1, heads, n, n))
doc = np.repeat(np.arange(4), [10, 22, 14, 18])
weights = fd.attention(q, k, identity, mask=mask, score=score, doc=doc, slope=0.3)[0]

# %% [markdown]
# The causal variant at a longer length, beside NumPy, which stores the scores.


# %%
def unfused(q, k, v):
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    scores = np.where(np.tri(q.shape[2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ v / weights.sum(axis=-1, keepdims=True)


causal = fd.kernel("attention(q, k, v, mask='j <= i')")
long = [random.standard_normal((1, pick(4, 8), pick(512, 2048), 64), dtype=np.float32) for _ in range(3)]
compare(f"causal attention of {long[0].shape[2]:,} tokens, {long[0].shape[1]} heads", causal, unfused, long, 1e-5)
assert np.abs(weights[1] - unfused(q, k, identity)[0, 1]).max() < 1e-6

# %%
figure, every = plt.subplots(2, 5, figsize=(7.2, 3.3), layout="constrained")
for axes, (name, weight) in zip(every.flat, zip(VARIANTS, weights)):
    shown = np.ma.masked_equal(weight / weight.max(axis=1, keepdims=True), 0)
    axes.imshow(shown**0.5, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
    axes.set(title=name, xticks=(), yticks=())
    axes.spines[:].set_visible(True)
every[0, 0].set(ylabel="query i")
every[1, 0].set(ylabel="query i", xlabel="key j")
show(figure, "attention_masks")
