"""A Llama block as a function of torch and as a text: over 4,096 tokens, and over the next token of 16 sequences.

32 heads of queries on 8 of keys and values, each 128 wide; 4096 to 14336 and back. A decoding block attends to the keys
and values that are cached and returns those of its tokens.
"""

from __future__ import annotations

from math import prod

HEADS, SHARED, WIDTH, MODEL, HIDDEN = 32, 8, 128, 4096, 14_336
TOKENS, SEQUENCES, CACHED = 4096, 16, 4096
EPS = 1e-5

Shapes = dict[str, tuple[tuple[int, ...], float]]
"""By name: a shape, and by what random numbers are scaled."""


def weights(model: int, heads: int, shared: int, width: int, hidden: int) -> Shapes:
    """The matrices and the weights of the norms."""
    found: Shapes = {"n1": ((model,), 1.0)}
    for name, shape in (
        ("wq", (model, heads * width)),
        ("wk", (model, shared * width)),
        ("wv", (model, shared * width)),
        ("wo", (heads * width, model)),
    ):
        found[name] = (shape, shape[0] ** -0.5)
    found["n2"] = ((model,), 1.0)
    for name, shape in (("wg", (model, hidden)), ("wu", (model, hidden)), ("wd", (hidden, model))):
        found[name] = (shape, shape[0] ** -0.5)
    return found


def shapes(tokens: int, sequences: int, cached: int, sizes: tuple[int, int, int, int, int]) -> tuple[Shapes, Shapes]:
    """The arrays of `prefill` and of `decode`, where `sizes` are model, heads, shared, width, hidden."""
    model, _, shared, width, _ = sizes
    turn = {"cos": ((tokens, width), 1.0), "sin": ((tokens, width), 1.0)}
    prefilled = {"x": ((tokens, model), 1.0)} | weights(*sizes) | turn
    turn = {"cos": ((sequences, width), 1.0), "sin": ((sequences, width), 1.0)}
    cache = dict.fromkeys(("keys", "values"), ((sequences, shared, cached, width), 1.0))
    return prefilled, {"x": ((sequences, model), 1.0)} | weights(*sizes) | turn | cache


PREFILL, DECODE = shapes(TOKENS, SEQUENCES, CACHED, (MODEL, HEADS, SHARED, WIDTH, HIDDEN))


def flops(tokens: int) -> int:
    """Of the products with weights, and of attention."""
    pairs = TOKENS * TOKENS // 2 if tokens == TOKENS else tokens * CACHED
    matrices = sum(prod(shape) for name, (shape, _) in PREFILL.items() if name.startswith("w"))
    return 2 * tokens * matrices + 4 * pairs * HEADS * WIDTH


def _turned(x, cos, sin):
    """RoPE of the last axis, in halves."""
    import torch

    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def prefill(x, n1, wq, wk, wv, wo, n2, wg, wu, wd, cos, sin):
    """(tokens, model) to the same; WIDTH is the last axis of cos."""
    import torch

    tokens, width = cos.shape

    def heads(y):
        return y.reshape(tokens, -1, width).transpose(0, 1)

    h = torch.nn.functional.rms_norm(x, x.shape[-1:], n1, EPS)
    q, k, v = _turned(heads(h @ wq), cos, sin), _turned(heads(h @ wk), cos, sin), heads(h @ wv)
    a = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)
    x = x + a[0].transpose(0, 1).reshape(tokens, -1) @ wo
    h = torch.nn.functional.rms_norm(x, x.shape[-1:], n2, EPS)
    return x + (torch.nn.functional.silu(h @ wg) * (h @ wu)) @ wd


def decode(x, n1, wq, wk, wv, wo, n2, wg, wu, wd, cos, sin, keys, values):
    """(sequences, model) to the same, and the keys and values of these tokens."""
    import torch

    sequences, width = cos.shape

    def heads(y):
        return y.reshape(sequences, -1, 1, width)

    def turned(y):
        return _turned(y, cos[:, None, None], sin[:, None, None])

    h = torch.nn.functional.rms_norm(x, x.shape[-1:], n1, EPS)
    q, k, v = turned(heads(h @ wq)), turned(heads(h @ wk)), heads(h @ wv)
    a = torch.nn.functional.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
    x = x + a.reshape(sequences, -1) @ wo
    h = torch.nn.functional.rms_norm(x, x.shape[-1:], n2, EPS)
    return x + (torch.nn.functional.silu(h @ wg) * (h @ wu)) @ wd, k, v


HALVES = "concat([-{0}[..., size({0}, -1) // 2:], {0}[..., :size({0}, -1) // 2]], axis=-1)"
TURNED = "{0} = {0} * {1} + " + HALVES + " * {2}\n"
AFTER = f"""
h = rms_norm(r, n2, eps={EPS})
y = r + (silu(h @ wg) * (h @ wu)) @ wd
"""
PREFILL_TEXT = (
    f"""h = rms_norm(x, n1, eps={EPS})
q = swapaxes(reshape(h @ wq, (size(cos, 0), -1, size(cos, 1))), 0, 1)
k = swapaxes(reshape(h @ wk, (size(cos, 0), -1, size(cos, 1))), 0, 1)
v = swapaxes(reshape(h @ wv, (size(cos, 0), -1, size(cos, 1))), 0, 1)
"""
    + TURNED.format("q", "cos", "sin")
    + TURNED.format("k", "cos", "sin")
    + "a = attention(q[None], k[None], v[None], mask='j <= i')[0]\n"
    + "r = x + reshape(swapaxes(a, 0, 1), (size(x, 0), -1)) @ wo"
    + AFTER
    + "y"
)
DECODE_TEXT = (
    f"""h = rms_norm(x, n1, eps={EPS})
c = cos[:, None, None]; s = sin[:, None, None]
q = reshape(h @ wq, (size(cos, 0), -1, 1, size(cos, 1)))
k = reshape(h @ wk, (size(cos, 0), -1, 1, size(cos, 1)))
v = reshape(h @ wv, (size(cos, 0), -1, 1, size(cos, 1)))
"""
    + TURNED.format("q", "c", "s")
    + TURNED.format("k", "c", "s")
    + "a = attention(q, keys, values)\n"
    + "r = x + reshape(a, (size(x, 0), -1)) @ wo"
    + AFTER
    + "return y, k, v"
)
