"""What each form of lang/foreign_names.py is to give: the function that it stands for, in NumPy or torch.

`F` is torch.nn.functional, `t` makes a tensor of an array; the arrays and numbers are those of ARRAYS.
"""

from __future__ import annotations

import numpy as np

RANDOM = np.random.default_rng(11)
ARRAYS = {
    "x": RANDOM.random((4, 4)) * 0.9 + 0.05,
    "y": RANDOM.random((4, 4)) * 0.9 + 0.05,
    "w": RANDOM.random((4, 4)),
    "a": RANDOM.random(4),
    "b": RANDOM.random(4),
    "d": RANDOM.random(4),
    "c1": RANDOM.random((4, 4)) < 0.5,
    "c2": RANDOM.random((4, 4)) < 0.5,
    "mask": RANDOM.random((4, 4)) < 0.5,
    "i": np.array([0, 2, 1, 3]),
    "indices": np.array([[0, 1, 2, 3], [3, 2, 1, 0]]),
    "edges": np.array([0.0, 0.25, 0.5, 1.0]),
    **dict.fromkeys(("value", "weight", "threshold", "p"), 0.3),
    "min": 0.2,
    "max": 0.7,
    "eps": 1e-5,
    "q": 0.35,
}
WITH_NAN = np.where(ARRAYS["mask"], np.nan, ARRAYS["x"])
# Names that are written as literals, and what for.
STATIC = {"axis": "0", "axes": "(1, 0)", "shape": "(2, 8)", "repeats": "2", "k": "2", "n": "3", "bins": "3"}

# Name → what it gives; (that, other arrays) where ARRAYS do not show it.
WANTED = {
    "swish": "F.silu(t(x))", "expit": "torch.sigmoid(t(x))", "logsigmoid": "F.logsigmoid(t(x))",
    "log_sigmoid": "F.logsigmoid(t(x))", "hardshrink": "F.hardshrink(t(x))", "threshold": "F.threshold(t(x), 0.3, 0.3)",
    "prelu": "F.prelu(t(x), t(np.array([0.3])))", "glu": "F.glu(t(x))", "softmin": "F.softmin(t(x), -1)",
    "swiglu": "F.silu(t(x)) * t(y)", "geglu": "F.gelu(t(x)) * t(y)", "reglu": "F.relu(t(x)) * t(y)",
    "quick_gelu": "t(x) * torch.sigmoid(1.702 * t(x))", "relu_squared": "F.relu(t(x)) ** 2",
    "normalize": "F.normalize(t(x))", "vector_norm": "np.linalg.vector_norm(x)",
    "batch_norm": "F.batch_norm(t(x), None, None, training=True)", "instance_norm": "F.instance_norm(t(x))",
    "mse_loss": "F.mse_loss(t(x), t(y))", "l1_loss": "F.l1_loss(t(x), t(y))",
    "smooth_l1_loss": "F.smooth_l1_loss(t(x), t(y))", "huber_loss": "F.huber_loss(t(x), t(y))",
    "kl_div": "F.kl_div(t(x), t(y), reduction='mean')", "binary_cross_entropy": "F.binary_cross_entropy(t(x), t(y))",
    "binary_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits(t(x), t(y))",
    "entropy": "-(x * np.log(x)).sum(-1)", "zscore": "(x - x.mean(0)) / x.std(0)",
    "standardize": "(x - x.mean()) / x.std()", "rms": "np.sqrt(np.mean(x**2))", "l1_norm": "np.abs(x).sum()",
    "l2_norm": "np.linalg.norm(x)", "nll_loss": "F.nll_loss(t(x), t(i))",
    "cosine_similarity": "F.cosine_similarity(t(x), t(y))", "clamp": "np.clip(x, 0.2, 0.7)",
    "masked_fill": "t(x).masked_fill(t(mask), 0.3)", "select": "np.select([c1, c2], [a, b], d)",
    "choose": "np.choose(i, [a, b, d, d])", "piecewise": "np.select([c1, c2], [a, b], d)",
    "ifelse": "np.where(mask, x, y)", "clamp_min": "np.maximum(x, 0.2)", "clamp_max": "np.minimum(x, 0.7)",
    "sub": "torch.sub(t(x), t(y))", "rsub": "torch.rsub(t(x), t(y))", "mul": "x * y", "div": "x / y", "neg": "-x",
    "eq": "x == y", "ne": "x != y", "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y", "lshift": "i << 1",
    "rshift": "i >> 1", "sqr": "x * x", "exp10": "10**x", "ln": "np.log(x)", "normcdf": "torch.special.ndtr(t(x))",
    "cast": "x.astype(np.float32)", "clone": "x", "detach": "x", "sgn": "torch.sgn(t(x))", "frac": "torch.frac(t(x))",
    "modf": "np.modf(x)", "float_power": "np.float_power(x, y)", "isneginf": "np.isneginf(x)",
    "isposinf": "np.isposinf(x)", "addcmul": "torch.addcmul(t(x), t(a), t(b), value=0.3)",
    "addcdiv": "torch.addcdiv(t(x), t(a), t(b), value=0.3)", "int": "x.astype(int)", "float": "x.astype(float)",
    "var_mean": "torch.var_mean(t(x))", "std_mean": "torch.std_mean(t(x))",
    "isin": "np.isin(x, edges)", "gradient": "np.gradient(x)",
    "ediff1d": "np.ediff1d(x)", "cov": "np.cov(x)", "polyval": "np.polyval([a, b, d], x)",
    "kthvalue": "torch.kthvalue(t(x), 2)[0]", "allclose": "np.allclose(x, y)", "array_equal": "np.array_equal(x, y)",
    "partition": "np.sort(np.partition(x, 2))", "argpartition": "np.argsort(x)", "ravel": "x.ravel()",
    "flatten": "x.flatten()", "view": "t(x).view(2, 8)", "moveaxis": "np.moveaxis(x, 0, 1)",
    "rollaxis": "np.rollaxis(x, 1)", "permute": "t(x).permute(1, 0)", "unsqueeze": "t(x).unsqueeze(0)",
    "atleast_1d": "np.atleast_1d(x)", "atleast_2d": "np.atleast_2d(x)", "expand": "t(x).expand(2, 8)",
    "broadcast_arrays": "np.broadcast_arrays(x, y)[0]", "cat": "torch.cat([t(x), t(y)])", "append": "np.append(x, y)",
    "vstack": "np.vstack([x, y])", "hstack": "np.hstack([x, y])", "dstack": "np.dstack([x, y])",
    "column_stack": "np.column_stack([x, y])", "split": "np.split(x, [3])", "array_split": "np.array_split(x, [3])",
    "chunk": "(x[:3], x[3:])", "unstack": "(x[0], x[1])", "unbind": "t(x).unbind()", "flipud": "np.flipud(x)",
    "fliplr": "np.fliplr(x)", "rot90": "np.rot90(x)", "repeat_interleave": "t(x).repeat_interleave(2, 0)",
    "gather": "t(x).gather(0, t(indices))", "index_select": "t(x).index_select(0, t(i))",
    "fill_diagonal": "filled(x, 0.3)", "embedding": "F.embedding(t(i), t(w))", "narrow": "t(x).narrow(0, 1, 3)",
    "unflatten": "t(x).unflatten(0, (2, 8))", "movedim": "t(x).movedim(0, 1)",
    "swapdims": "t(x).swapdims(0, 1)", "linear": "F.linear(t(x), t(w), t(b))", "mv": "torch.mv(t(x), t(y))",
    "matvec": "x @ y", "addmm": "torch.addmm(t(b), t(x), t(y))", "baddbmm": "b + x @ y", "ger": "np.outer(a, b)",
    "addr": "torch.addr(t(x), t(a), t(b))", "kron": "np.kron(x, y)", "diag": "np.diag(x)", "len": "len(x)",
    "length": "len(x)",
    "scaled_dot_product_attention": "F.scaled_dot_product_attention(t(x), t(x), t(x))",
    "range": "np.array(range(3))", "sorted": "np.sort(x)", "empty_like": "np.zeros_like(x)",
    "empty": "np.zeros((2, 8))", "identity": "np.identity(3)", "meshgrid": "np.meshgrid(x, y, sparse=True)",
    "indices": "np.indices(x.shape)[0]", "searchsorted": "np.searchsorted(edges, x)",
    "scatter": "np.bincount(i, x, 4)[:3]", "bincount": "np.bincount(i)[:3]",
    "histogram": "np.histogram(x, edges)[0]",
    "pairwise_distance": "F.pairwise_distance(t(x), t(y))", "dist": "torch.dist(t(x), t(y))",
    "logistic": "torch.sigmoid(t(x))", "xlog1py": "torch.special.xlog1py(t(x), t(y))",
    "entr": "torch.special.entr(t(x))", "cot": "1 / np.tan(x)", "sec": "1 / np.cos(x)", "csc": "1 / np.sin(x)",
    "avg": "np.mean(x)", "stdev": "np.std(x)", "variance": "np.var(x)", "aminmax": "torch.aminmax(t(x))",
    "msort": "torch.msort(t(x))", "trapz": "np.trapezoid(x)", "histc": "torch.histc(t(x), 3)",
    "take_along_dim": "torch.take_along_dim(t(x), t(indices), 0)", "index_add": "t(x).index_add(0, t(i), t(y))",
    "index_copy": "t(x).index_copy(0, t(i), t(y))", "index_put": "t(x).index_put((t(i),), t(y))",
    "view_as": "t(x).view_as(t(y))", "reshape_as": "t(x).reshape_as(t(y))", "expand_as": "t(x).expand_as(t(y))",
    "adjoint": "t(x).adjoint()",
}  # fmt: skip

# Other arrays than those above, as expressions of them.
OTHER = {
    "prelu": {"x": "x - 0.5"}, "instance_norm": {"x": "x.reshape(1, 2, 2, 4)"}, "float": {"x": "i"},
    "modf": {"x": "5 * x"}, "isneginf": {"x": "-1 / np.zeros(2)"}, "int": {"x": "x * 9"},
    "isin": {"x": "np.round(x * 4) / 4"}, "gradient": {"x": "x[0]"}, "polyval": {"x": "x[0]"},
    "atleast_1d": {"x": "3.0"}, "atleast_2d": {"x": "a"}, "expand": {"x": "a[:1]"},
    "broadcast_arrays": {"x": "a"}, "column_stack": {"x": "a", "y": "b"}, 
    "dstack": {"x": "x[:, :, None]", "y": "y[:, :, None]"}, "index_select": {"indices": "i"},
    "unbind": {"x": "x[:2]"}, "unflatten": {"x": "x.reshape(-1)"}, "mv": {"y": "y[0]"}, "matvec": {"y": "y[0]"},
    "scaled_dot_product_attention": {"x": "x[None, None]"}, "meshgrid": {"x": "a", "y": "b"},
    "scatter": {"x": "x[:, 0]"}, "histogram": {"x": "x[0]"},
    "view_as": {"y": "y.reshape(2, 8)"}, "reshape_as": {"y": "y.reshape(2, 8)"}, "expand_as": {"x": "a"},
}  # fmt: skip

# Of random numbers, which are others than the library's.
RANDOM_NAMES = (
    "dropout", "rand", "rand_like", "random", "randn", "randn_like", "bernoulli", "standard_normal", "randperm",
    "shuffle", "exponential", "gumbel", "categorical", "multinomial",
)  # fmt: skip
