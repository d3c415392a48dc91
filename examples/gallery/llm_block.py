# %% [markdown]
# # A block of a language model, step by step
#
# A block of the Llama family is written here one step at a time. After each step `explain()` counts the kernels of
# the program so far, for 4,096 tokens in bfloat16 on a GPU; none is needed for that. The program itself then runs on
# the CPU with a small size and is compared with NumPy.

# %%
import matplotlib.pyplot as plt
import numpy as np
from _gallery import BLUE, INK, compare, pick, show

import fusedsl as fd

# %%
STEPS = {
    "RMS norm": "h = rms_norm(x, w1, eps=1e-5)",
    "q, k, v": """
        split(t, heads) = swapaxes(reshape(t, (size(t, 0), heads, -1)), 0, 1)[None]
        q = split(h @ wq, 4 * group)
        k = split(h @ wk, group)
        v = split(h @ wv, group)
        """,
    "rotary positions": """
        half(t) = concatenate((-t[..., size(t, -1) // 2 :], t[..., : size(t, -1) // 2]), -1)
        rotated(t) = t * cosine + half(t) * sine
        q = rotated(q)
        k = rotated(k)
        """,
    "attention": "o = reshape(swapaxes(attention(q, k, v, mask='j <= i')[0], 0, 1), (size(x, 0), -1))",
    "output, residual": "x = x + o @ wo",
    "gate and up": """
        h = rms_norm(x, w2, eps=1e-5)
        g = silu(h @ wg) * (h @ wu)
        """,
    "down, residual": "x = x + g @ wd",
}
RESULTS = ("h", "q, k, v", "q, k, v", "o", "x", "x, g", "x")


def program(steps):
    """The kernel of the first steps."""
    written = "\n".join("\n".join(line.strip() for line in step.splitlines()) for step in list(STEPS.values())[:steps])
    return fd.kernel(f"{written}\nreturn {RESULTS[steps - 1]}", constants={"group": GROUP})


# %% [markdown]
# The weights have the shapes of Llama 3 8B, with 32 heads that share 8 pairs of keys and values.


# %%
GROUP = 8


def shapes(tokens, width, hidden, head):
    keys = GROUP * head
    return {
        "x": (tokens, width), "w1": (width,), "w2": (width,), "cosine": (tokens, head), "sine": (tokens, head),
        "wq": (width, 4 * keys), "wk": (width, keys), "wv": (width, keys), "wo": (4 * keys, width),
        "wg": (width, hidden), "wu": (width, hidden), "wd": (hidden, width),
    }  # fmt: skip


counts = []
print("kernels, gigabytes   fused  unfused      fused  unfused")
for steps, name in enumerate(STEPS, 1):
    kernel = program(steps)
    specs = {k: fd.spec(v, "bfloat16") for k, v in shapes(4096, 4096, 14336, 128).items() if k in kernel.params}
    plan = kernel.explain(**specs, cc=90, compile=False)
    counts.append((len(plan.kernels), plan.before.kernels, plan.bytes / 1e9, plan.before.bytes / 1e9))
    print("{:18}{:8}{:9}{:11.2f}{:9.2f}".format(name, *counts[-1]))


# %% [markdown]
# The same in NumPy.


# %%
def unfused(*arrays):
    x, w1, wq, wk, wv, cosine, sine, wo, w2, wg, wu, wd = arrays

    def norm(t, w):
        return t / np.sqrt((t * t).mean(axis=-1, keepdims=True) + 1e-5) * w

    def split(t, heads):
        return t.reshape(len(t), heads, -1).swapaxes(0, 1)

    def rotated(t):
        first, second = np.split(t, 2, axis=-1)
        return t * cosine + np.concatenate((-second, first), axis=-1) * sine

    h = norm(x, w1)
    q, k, v = rotated(split(h @ wq, 4 * GROUP)), rotated(split(h @ wk, GROUP)), split(h @ wv, GROUP)
    scores = q @ np.repeat(k, 4, axis=0).swapaxes(1, 2) * q.shape[-1] ** -0.5
    scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    x = x + (weights @ np.repeat(v, 4, axis=0)).swapaxes(0, 1).reshape(len(x), -1) @ wo
    h = norm(x, w2)
    gate = h @ wg
    return x + (gate / (1 + np.exp(-gate)) * (h @ wu)) @ wd


random = np.random.default_rng(0)
block = program(len(STEPS))
tokens, width, hidden, head = pick(128, 512), pick(128, 1024), pick(256, 2816), pick(16, 32)
arrays = {
    k: (random.standard_normal(v) * v[0] ** -0.5).astype(np.float32)
    for k, v in shapes(tokens, width, hidden, head).items()
}
angle = np.arange(tokens)[:, None] * 10_000.0 ** -(np.arange(head) % (head // 2) * 2 / head)
arrays |= {"cosine": np.cos(angle).astype(np.float32), "sine": np.sin(angle).astype(np.float32)}
compare(f"the block on {tokens} tokens of width {width}", block, unfused, [arrays[name] for name in block.params], 1e-5)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained", sharey=True)
rows = np.arange(len(STEPS))[::-1]
for axes, (fused, before), title, style in (
    (left, (0, 1), "kernels", "{:.0f} of {:.0f}"),
    (right, (2, 3), "GB moved", "{:.1f} of {:.1f}"),
):
    values = np.array([[count[fused], count[before]] for count in counts])
    axes.barh(rows, values[:, 1], height=0.7, color=INK, alpha=0.35, label="unfused")
    axes.barh(rows, values[:, 0], height=0.7, color=BLUE, label="fused")
    for row, (a, b) in zip(rows, values):
        axes.annotate(style.format(a, b), (b, row), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set(title=f"{title} up to here", xlim=(0, values.max() * 1.35), yticks=rows, yticklabels=list(STEPS))
right.legend(loc="upper right")
show(figure, "llm_block")
