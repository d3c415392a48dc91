"""The map's products, gathers, scatters, segments, counts, random numbers, derivatives and quantised numbers."""

from __future__ import annotations

from language_cases import Case

ROWS, COLUMN = "x float32[rows, columns]", "v float32[columns]"
PAIR = "x float32[longer]; y float32[longer]"

PRODUCTS = [
    *(Case("matmul", "matmul(x, y)", f"x {d}[product, product]; y {d}[product, product]", "x @ y", "x @ y")
      for d in ("float32", "bfloat16")),
    Case("matmul", "x @ v", f"{ROWS}; {COLUMN}", "x @ v", "x @ v"),
    Case("matmul", "v @ x", f"{ROWS}; v float32[rows]", "v @ x", "v @ x"),
    Case("matmul", "x @ y", "x float32[places, 4, 4]; y float32[places, 4, 4]", "x @ y", "x @ y"),
    Case("dot", "dot(x, y)", PAIR, "np.dot(x, y)", "torch.dot(x, y)"),
    Case("inner", "inner(x, v)", f"{ROWS}; {COLUMN}", "np.inner(x, v)", "torch.inner(x, v)"),
    Case("vdot", "vdot(x, y)", PAIR, "np.vdot(x, y)", "torch.vdot(x, y)"),
    Case("vecdot", "vecdot(x, y)", f"{ROWS}; y float32[rows, columns]", "np.vecdot(x, y)", "torch.linalg.vecdot(x, y)"),
    Case("vecdot", "vecdot(x, y)", "x float32[longer, 3]; y float32[longer, 3]", "np.vecdot(x, y)",
         "torch.linalg.vecdot(x, y)"),
    Case("tensordot", "tensordot(x, v, axes=1)", f"{ROWS}; {COLUMN}", "np.tensordot(x, v, axes=1)",
         "torch.tensordot(x, v, 1)"),
    Case("einsum", 'einsum("ij,ij->i", x, y)', f"{ROWS}; y float32[rows, columns]", "np.einsum('ij,ij->i', x, y)",
         "torch.einsum('ij,ij->i', x, y)"),
    Case("einsum", 'einsum("bij,bjk->bik", x, y)', "x float32[batch, middle, middle]; y float32[batch, middle, middle]",
         "np.einsum('bij,bjk->bik', x, y)", "torch.einsum('bij,bjk->bik', x, y)"),
    *(Case("attention", "attention(q, k, v)", "; ".join(f"{n} {d}[2, heads, tokens, dim]" for n in "qkv"), "",
           "F.scaled_dot_product_attention(q, k, v)") for d in ("float32", "bfloat16")),
    Case("sum", "sum((x[:, None] - y[None]) ** 2, -1)", "x float32[square, 3]; y float32[square, 3]",
         "np.sum((x[:, None] - y[None]) ** 2, -1)", "((x[:, None] - y[None]) ** 2).sum(-1)"),
    Case("argmin", "argmin(sum((x[:, None] - y[None]) ** 2, -1), -1)", "x float32[tokens, 3]; y float32[columns, 3]",
         "np.argmin(np.sum((x[:, None] - y[None]) ** 2, -1), -1)", "((x[:, None] - y[None]) ** 2).sum(-1).argmin(-1)",
         same=False),
]  # fmt: skip

GATHERS = [
    Case("take", "take(x, i)", "x float32[places]; i int64[long] < places", "np.take(x, i)", "torch.take(x, i)"),
    Case("take", "take(x, i)", "x float32[long]; i int64[long] < long", "np.take(x, i)", "torch.take(x, i)"),
    Case("take", "take(x, i)", "x float32[long]; i int64[long] < long sorted", "np.take(x, i)", "torch.take(x, i)"),
    Case("take", "take(x, i)", "x float32[places]; i int32[long] < places", "np.take(x, i)", "x[i]"),
    Case("take", "take(x, i, axis=0)", "x float32[places, 64]; i int64[places] < places", "np.take(x, i, axis=0)",
         "torch.index_select(x, 0, i)"),
    Case("take", "take(x, i, axis=0)", "x float32[tall, 3]; i int64[tall] < tall", "np.take(x, i, axis=0)",
         "torch.index_select(x, 0, i)"),
    Case("take", "take(x, i, axis=1)", f"{ROWS}; i int64[columns] < columns", "np.take(x, i, axis=1)",
         "torch.index_select(x, 1, i)"),
    Case("take", "x[i, j]", f"{ROWS}; i int64[places] < rows; j int64[places] < columns", "x[i, j]", "x[i, j]",
         unread="x"),
    Case("take", "t[u]", "u uint8[longer]; t float32[bins]", "t[u]", "t[u.int()]"),
    Case("take_along_axis", "take_along_axis(x, i, axis=-1)", f"{ROWS}; i int64[rows, columns] < columns",
         "np.take_along_axis(x, i, axis=-1)", "torch.take_along_dim(x, i, -1)"),
    Case("take_along_axis", "take_along_axis(x, i[:, None], axis=-1)", f"{ROWS}; i int64[rows] < columns",
         "np.take_along_axis(x, i[:, None], axis=-1)", "torch.take_along_dim(x, i[:, None], -1)", unread="x"),
    Case("take_along_axis", "take_along_axis(x, i, axis=0)", f"{ROWS}; i int64[rows, columns] < rows",
         "np.take_along_axis(x, i, axis=0)", "torch.take_along_dim(x, i, 0)"),
]  # fmt: skip

RANDOM = [
    Case("uniform", "uniform(7, x)", "x float32[longer]", "np.random.random(x.shape).astype(np.float32)",
         "torch.rand_like(x)", same=False, unread="x"),
    Case("normal", "normal(7, x)", "x float32[longer]", "np.random.standard_normal(x.shape).astype(np.float32)",
         "torch.randn_like(x)", same=False, unread="x"),
    Case("normal", "normal(7, x)", "x float64[long]", "np.random.standard_normal(x.shape)", "torch.randn_like(x)",
         same=False, unread="x"),
    Case("uniform", "where(uniform(7, x) < 0.9, x / 0.9, 0)", "x float32[longer]", "",
         "F.dropout(x, 0.1)", same=False, compiled=True),
    Case("randint", "randint(7, shape(x), 0, 10)", "x float32[long]", "np.random.randint(0, 10, x.shape)",
         "torch.randint(0, 10, x.shape, device=x.device)", same=False, unread="x"),
    Case("permutation", "permutation(7, size(x, 0)) + 0 * int64(x[:1])", "x float32[places]",
         "np.random.permutation(len(x))", "torch.randperm(len(x), device=x.device)", same=False, unread="x"),
]  # fmt: skip

TANH = "torch.func.vjp(torch.tanh, x)[1](c)[0]"
DERIVATIVES = [
    Case("grad", "grad(sum(tanh(x) ** 2), x)", "x float32[long]", "",
         "torch.func.grad(lambda u: (torch.tanh(u) ** 2).sum())(x)"),
    Case("grad", "grad(mean(logsumexp(x, -1) - take_along_axis(x, y[:, None], -1)[:, 0]), x)",
         f"{ROWS}; y int64[rows] < columns", "", "torch.func.grad(lambda u: F.cross_entropy(u, y))(x)"),
    Case("grad", "grad(sum(max(x, axis=-1)), x)", ROWS, "", "torch.func.grad(lambda u: u.amax(-1).sum())(x)"),
    Case("vjp", "vjp(tanh(x), c, x)", "x float32[long]; c float32[long]", "", TANH),
    Case("vjp", "vjp(softmax(x), c, x)", f"{ROWS}; c float32[rows, columns]", "",
         "torch.func.vjp(lambda u: torch.softmax(u, -1), x)[1](c)[0]"),
    Case("vjp", "vjp(layer_norm(x, w, b), c, x, w, b)", f"{ROWS}; w float32[columns]; b float32[columns]; "
         "c float32[rows, columns]", "",
         "torch.func.vjp(lambda u, v, t: F.layer_norm(u, v.shape, v, t), x, w, b)[1](c)"),
    Case("vjp", "vjp(cumsum(x, axis=-1), c, x)", f"{ROWS}; c float32[rows, columns]", "",
         "torch.func.vjp(lambda u: torch.cumsum(u, -1), x)[1](c)[0]"),
    Case("vjp", "vjp(x[i], c, x)", "x float32[places]; i int64[long] < places; c float32[long]", "",
         "torch.func.vjp(lambda u: u[i], x)[1](c)[0]", unread="x"),
    Case("jvp", "jvp(sin(x), x, t)", "x float32[long]; t float32[long]", "",
         "torch.func.jvp(torch.sin, (x,), (t,))[1]"),
    Case("stop_gradient", "grad(sum(x * stop_gradient(x)), x)", "x float32[long]", "",
         "torch.func.grad(lambda u: (u * u.detach()).sum())(x)"),
]  # fmt: skip

AT = "x float32[places]; i int64[long] < places; v float32[long]"
SORTED = "v float32[long]; i int64[long] < segments sorted"
UNSORTED = "v float32[long]; i int64[long] < segments"
FEATURES = "v float32[tall, 64]; i int64[tall] < segments sorted"
OFFSETS = "v float32[long]; o int64[segments] < long sorted"


def _segment(name: str, arrays: str, n: str, torch: str = "", numpy: str = "") -> Case:
    return Case(f"segment_{name}", f"segment_{name}(v, ids=i, n={n})", arrays, numpy, torch)


SCATTERS = [
    Case("scatter", "scatter(x, i, v)", "x float32[long]; i int64[places] < long; v float32[places]", "",
         "x.clone().index_put_((i,), v)", same=False),
    Case("scatter", "scatter(x, i, v)", AT, "", "x.clone().index_put_((i,), v)", same=False),
    Case("scatter_add", "scatter_add(x, i, v)", AT, "", "x.clone().index_add_(0, i, v)"),
    Case("scatter_add", "scatter_add(x, i, v)", "x float32[places]; i int64[long] < places sorted; v float32[long]", "",
         "x.clone().index_add_(0, i, v)"),
    Case("scatter_add", "scatter_add(x, i, v)", "x float32[segments, 64]; i int64[tall] < segments; "
         "v float32[tall, 64]", "", "x.clone().index_add_(0, i, v)"),
    Case("scatter_add", "scatter_add(x, i, v)", "x int64[places]; i int64[long] < places; v int64[long]", "",
         "x.clone().index_add_(0, i, v)"),
    *(Case(f"scatter_{f}", f"scatter_{f}(x, i, v)", AT, "", f"x.clone().scatter_reduce_(0, i, v, 'a{f}')")
      for f in ("max", "min")),
    *(_segment("sum", arrays, "65536", "torch.zeros(65536, *v.shape[1:], device=v.device).index_add_(0, i, v)",
               "np.bincount(i, v, 65536)" if "64]" not in arrays else "")
      for arrays in (SORTED, UNSORTED, FEATURES)),
    Case("segment_sum", "segment_sum(v, offsets=o)", OFFSETS, "np.add.reduceat(v, o)[:-1]", same=False),
    _segment("mean", SORTED, "65536"),
    *(_segment(f, arrays, "65536",
               f"torch.full((65536,), {sign}torch.inf, device=v.device).scatter_reduce_(0, i, v, 'a{f}')")
      for f, sign in (("max", "-"), ("min", "")) for arrays in (SORTED, UNSORTED)),
    _segment("softmax", SORTED, "65536"),
    _segment("softmax", UNSORTED, "65536"),
    Case("bincount", "bincount(i, 256)", "i int64[long] < bins", "np.bincount(i, minlength=256)",
         "torch.bincount(i, minlength=256)"),
    Case("bincount", "bincount(i, 256)", "i uint8[longer]", "np.bincount(i, minlength=256)",
         "torch.bincount(i, minlength=256)"),
    Case("bincount", "bincount(i, 256, weights=w)", "i int64[long] < bins; w float32[long]",
         "np.bincount(i, w, 256)", "torch.bincount(i, w, 256)"),
    Case("histogram", "histogram(x, 256, range=(-4, 4))[0]", "x float32[longer]",
         "np.histogram(x, 256, range=(-4, 4))[0]", "torch.histc(x, 256, -4, 4)", same=False),
    Case("histogram", "histogram(x)[0]", "x float32[long]", "np.histogram(x)[0]", "torch.histc(x, 10)", same=False),
]  # fmt: skip

QUANTISED = [
    Case("quantize", "quantize(x, 0.05)", "x float32[longer]", "np.clip(np.rint(x / np.float32(0.05)), -128, 127)"
         ".astype(np.int8)", "(x / 0.05).round().clamp(-128, 127).to(torch.int8)", compiled=True, same=False),
    Case("quantize", "quantize(x, s, axis=0)", f"{ROWS}; s float32[rows] in 0.01..0.1", "",
         "(x / s[:, None]).round().clamp(-128, 127).to(torch.int8)", compiled=True, same=False),
    Case("quantize", "s = max(abs(x), axis=-1) / 127; quantize(x, s, axis=0), s", ROWS, "",
         "(lambda s: ((x / s[:, None]).round().clamp(-128, 127).to(torch.int8), s))(x.abs().amax(-1) / 127)",
         compiled=True, same=False),
    Case("dequantize", "dequantize(i, 0.1, zero=2)", "i int8[longer]", "(i.astype(np.float32) - 2) * np.float32(0.1)",
         "(i.float() - 2) * 0.1", compiled=True),
    Case("unpack", "unpack(u, bits=4)", "u uint8[longer]", "",
         "(torch.stack([u & 15, u >> 4], -1).flatten() ^ 8).to(torch.int8) - 8", compiled=True),
]  # fmt: skip

CASES = (*PRODUCTS, *GATHERS, *RANDOM, *DERIVATIVES, *SCATTERS, *QUANTISED)
