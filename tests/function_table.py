"""Every function of the language with its keywords and forms of axis: texts that NumPy or torch can read themselves,
or pairs of a text and the NumPy expression that it equals."""

from __future__ import annotations

import numpy as np

RANDOM = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 2).astype(np.float32)


def whole(low: int, high: int, dtype: str, *shape: int) -> np.ndarray:
    return RANDOM.integers(low, high, shape or (3, 4, 5)).astype(dtype)


ARRAYS: dict[str, np.ndarray] = {
    "x": floats(3, 4, 5),
    "y": floats(3, 4, 5),
    "z": floats(3, 4, 5),
    "p": RANDOM.random((3, 4, 5)).astype(np.float32),  # in [0, 1)
    "q": (RANDOM.random((3, 4, 5)) * 5 + 1.1).astype(np.float32),  # above 1
    "v": floats(5),
    "r": floats(6),
    "s": floats(4, 5),
    "t": floats(1, 4, 1, 5),
    "d": floats(3, 4, 5).astype(np.float64),
    "h": floats(3, 4, 5).astype(np.float16),
    "i": whole(-9, 10, "int32"),
    "j": whole(1, 8, "int32"),
    "b": whole(-9, 10, "int8"),
    "w": whole(0, 9, "uint8"),
    "u": whole(0, 200, "uint8", 4, 8),
    "e": whole(-3, 4, "int32"),
    "m": RANDOM.random((3, 4, 5)) < 0.6,
    "c": RANDOM.random((3, 4, 5)) < 0.4,
    "k": np.array([True, False, True, True, False]),
    "at": whole(-3, 3, "int64", 2, 3),
    "along": whole(-4, 4, "int32", 3, 2, 5),
    "g": np.float32([[0, -0.0, np.inf, -np.inf, np.nan], [1, -1, 1e-30, 1e30, 0.5]]),
}
ARRAYS["n"] = np.where(ARRAYS["m"], ARRAYS["x"], np.float32(np.nan))


def each(names: str, *forms: str) -> list[str]:
    """Every form with `?` replaced by every name."""
    return [form.replace("?", name) for name in names.split() for form in forms]


OPERATORS = each(
    "+ - * / // % < <= > >= == !=", "x ? y", "i ? j"
) + ["q ** y", "x ** 3", "i ** 2", "-x", "+x", "~i", "i & j", "i | j", "i ^ j", "i << j", "i >> j",
     ("1 < q < 3", "(1 < q) & (q < 3)"), ("x > 0 and y > 0", "(x > 0) & (y > 0)"), ("m or c", "m | c"),
     ("not m", "~m"), ("x if m else y", "where(m, x, y)"), "x.T", "x.mT"]  # fmt: skip

ELEMENTWISE = [
    *each("abs absolute fabs sign positive negative square reciprocal cbrt exp exp2 expm1 sin cos tan arctan atan sinh "
          "cosh tanh arcsinh asinh floor ceil rint fix trunc round around isnan isinf isfinite signbit logical_not "
          "deg2rad rad2deg degrees radians sinc nan_to_num copy", "?(x)"),
    *each("sqrt log log2 log10 log1p arcsin arccos arctanh asin acos atanh", "?(p)"),
    *each("arccosh acosh", "?(q)"),
    *each("minimum maximum fmin fmax arctan2 atan2 copysign nextafter hypot fmod remainder mod floor_divide add "
          "subtract multiply divide true_divide logaddexp logaddexp2 less less_equal greater greater_equal equal "
          "not_equal logical_and logical_or logical_xor heaviside isclose", "?(x, y)"),
    *each("bitwise_and bitwise_or bitwise_xor left_shift right_shift bitwise_left_shift bitwise_right_shift fmod "
          "remainder floor_divide power pow maximum equal", "?(i, j)"),
    *each("bitwise_invert bitwise_not invert", "?(i)"),
    "power(q, y)", "pow(q, 2)", "ldexp(x, e)", "divmod(x, y)[0]", "divmod(i, j)[1]", "divmod(i, 3)[0]",
    "round(x, 1)", "round(x, decimals=2)", "around(x, decimals=-1)", "round(i, -1)",
    "nan_to_num(g, nan=1.5, posinf=7, neginf=-8)", "clip(x, -1, 1)", "clip(x, min=-1)", "clip(x, max=y)",
    "clip(x, None, 1)", "clip(x, -1, None)", "clip(x, a_min=-1, a_max=1)", "clip(i, -2, 2)", "logaddexp(x, float64(x))",
    "logaddexp2(float64(x), x)",
    "isclose(x, y, rtol=0.5)", "isclose(x, y, atol=1.0)", "isclose(g, g, equal_nan=True)",
    "where(m, x, y)", "where(m, x, 0)", "where(x > 0, i, y)", "where(m, 1, 0)", "where(i, x, y)",
    ("rsqrt(q)", "1 / sqrt(q)"), ("erf(x)", "torch_('erf', x)"), ("erfc(x)", "torch_('erfc', x)"),
    ("lgamma(q)", "torch_('lgamma', q)"), ("gammaln(q)", "torch_('lgamma', q)"),
    ("xlogy(p, q)", "p * log(q)"), ("lerp(x, y, p)", "x + p * (y - x)"), ("fma(x, y, z)", "x * y + z"),
    ("fma(i, j, 2)", "i * j + 2"),
    *each("zeros_like ones_like", "?(x)", "?(i, dtype=float64)", "?(x, shape=(2, 3))"),
    "full_like(x, 3)", "full_like(i, 2.7)", "full_like(x, v)", "full_like(x, 2.5, dtype=float64, shape=(2, 5))",
    "full_like(i, fill_value=2)", *each("tril triu", "?(x)", "?(i)", "?(m)", "?(x, k=1)", "?(x, -2)", "?(s, k=9)"),
]  # fmt: skip

ELEMENTWISE += [("logit(p)", "torch_('logit', p)"), ("ndtr(x)", "torch_('erfc', -x / sqrt(float32(2))) / 2")]

CASTS = [
    "astype(x, int32)", "astype(x, 'float64')", ("astype(i, dtype=float32)", "astype(i, float32)"), "astype(x, bool)",
    *each("int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64", "?(j)"), ("bool(i)", "i != 0"),
    ("bfloat16(i)", "i.astype(BFLOAT16)"), ("float32(astype(x, float8_e4m3fn))", "x.astype(E4M3).astype(float32)"),
    ("float32(astype(x, float8_e5m2))", "x.astype(E5M2).astype(float32)"),
]  # fmt: skip

AXES = ("", ", axis=None", ", axis=0", ", axis=1", ", axis=-1", ", axis=(0, 2)", ", axis=(-1, 0)", ", axis=()")
SUMS = {"sum": "x", "prod": "p", "mean": "x", "var": "x", "std": "x", "any": "m", "all": "c", "nansum": "n",
        "nanmean": "n"}  # fmt: skip
SUMS |= {"nanvar": "n", "nanstd": "n"}
MOST = {"nanmax": "n", "nanmin": "n", "ptp": "x", "max": "x", "min": "x", "count_nonzero": "i"}
REDUCTIONS = [
    *(f"{f}({a}{axis}{keep})" for f, a in (SUMS | MOST).items() for axis in AXES for keep in ("", ", keepdims=True")),
    *(f"{f}({a}, -1)" for f, a in (SUMS | {"argmax": "x", "argmin": "x"}).items()),
    *(f"{f}({a}, axis=-1, where=c)" for f, a in SUMS.items()),
    *(f"{f}({a}, axis=(0, 1), where=k, keepdims=True)" for f, a in SUMS.items()),
    *each("max min", "?(x, axis=-1, where=m, initial=0.5)", "?(i, initial=2)", "?(p, axis=(0, 2), initial=3)",
          "a?(x, axis=0)", "?(m)", "?(i, axis=0)"),
    *each("argmax argmin", "?(x)", "?(x, axis=0)", "?(i, axis=1, keepdims=True)", "?(m, axis=-1)",
          "?(x, keepdims=True)"),
    *each("sum prod mean var std nansum nanmean", "?(p, dtype=float64)", "?(j, axis=0, dtype=float32)",
          "?(h, axis=1, dtype='float32')", "?(j, axis=0, dtype=float32, where=c)"),
    *each("sum prod nansum", "?(p, axis=0, initial=3)", "?(p, initial=0.5, axis=-1, where=m)", "?(j, initial=2.5)"),
    "nansum(w, dtype=uint8)", "nansum(w, axis=0, dtype=bool)",
    *each("var std", "?(x, ddof=1)", "?(x, axis=0, ddof=2, keepdims=True)", "?(x, axis=1, correction=1)",
          "?(x, axis=-1, ddof=1, where=m)", "?(x, axis=-1, mean=mean(x, axis=-1, keepdims=True))", "?(i, axis=0)"),
    *each("sum prod mean nansum nanmean any all count_nonzero", "?(b)", "?(w, axis=0)", "?(m, axis=(0, 1))"),
    *each("sum mean var std max", "?(h, axis=0)"),
    ("max(x, axis=-1, where=m)", "max(x, axis=-1, where=m, initial=-inf)"),
    ("min(x, axis=-1, where=m)", "min(x, axis=-1, where=m, initial=inf)"),
    ("count_nonzero(x, axis=0, where=m)", "count_nonzero(where(m, x, 0), axis=0)"),
    ("argmax(x, axis=-1, where=m)", "argmax(where(m, x, -inf), axis=-1)"),
    ("argmin(i, where=m)", "argmin(where(m, i, 99))"),
    ("argmax(g - inf, axis=-1, where=k)", "array([2, 0])"),
    ("argmax(-1.0 / w, axis=0, where=w > 0)", "argmax(where(w > 0, -1.0 / maximum(w, 1), -inf), axis=0)"),
    *((f"logsumexp(x{a}{keep})", f"log(sum(exp(x.astype(float64)){a}{keep})).astype(float32)")
      for a in AXES for keep in ("", ", keepdims=True")),
    *((f"norm(x{a}{keep})", f"sqrt(sum(x * x{a}{keep}))") for a in AXES for keep in ("", ", keepdims=True")),
    ("logsumexp(x, axis=-1, where=m)", "log(sum(where(m, exp(x), 0), axis=-1))"),
    ("norm(x, axis=0, where=m)", "sqrt(sum(where(m, x * x, 0), axis=0))"), ("norm(b)", "sqrt(sum((1.0 * b) ** 2))"),
]  # fmt: skip

REDUCTIONS += [
    *each("nanvar nanstd", "?(n, axis=0, ddof=1)", "?(i)"), "nanmax(i, axis=0)", "nanmin(m)",
    *each("nanmax nanmin", "?(where(c, nan, x), axis=-1)"),
    ("nanmax(n, axis=0, where=c)", "nanmax(where(c, n, nan), axis=0)"), "ptp(i, axis=1)", "ptp(w)",
    "average(x)", "average(x, axis=0)", "average(i)", "average(x, weights=p)", "average(x, 1, q[0, :, 0])",
    "average(x, axis=-1, weights=abs(v), keepdims=True)", "average(x, axis=(0, 1), weights=p)", "average(i, 2, p)",
    *((f"cross_entropy(x, w[:, 0] % 4{r})", f"cross_entropy_(x, w[:, 0] % 4{r})")
      for r in ("", ", reduction='sum'", ", reduction='none'")),
    *each("median nanmedian", "?(n)", "?(x, axis=(0, 2))", "?(i, axis=-1, keepdims=True)", "?(w, axis=0)"),
    *each("quantile nanquantile", "?(n, 0.3, axis=1)", "?(x, 0.25, axis=(2, 0), keepdims=True)",
          "?(i, abs(d[0, :, 0]) % 1, axis=1)", "?(d, abs(d[0, :, 0]) % 1, axis=0, keepdims=True)",
          "?(x, 0.4, method='hazen')", "?(i, 0.4, axis=0, method='lower')"),
    *each("percentile nanpercentile", "?(d, [10, 60], axis=-1)", "?(x, 33, axis=0, method='nearest')"),
    *each("nanprod nancumsum nancumprod", "?(n)", "?(n, axis=1)", "?(n, axis=0, dtype=float64)"),
    *each("nanargmax nanargmin", "?(where(c[0], x, nan))", "?(where(x < 5, x, nan), axis=1, keepdims=True)"),
    ("cross_entropy(x[:, :, 0], w[:, 0, 0] % 4, axis=-1)", "cross_entropy_(x[:, :, 0], w[:, 0, 0] % 4)"),
]  # fmt: skip

ROWS = [
    *each("x p,dx=0.5 x,axis=0 x,v x,y x,x=s[:,0],axis=1 i", "trapezoid(?)"),
    *each("cumsum cumprod cumulative_sum cumulative_prod", "?(v)", "?(p, axis=0)", "?(p, axis=-1)", "?(j, axis=1)",
          "?(p, axis=1, dtype=float64)", "?(m, axis=0)"),
    *each("cumsum cumprod", "?(p)", "?(p, 1)", "?(p, None)"),
    *each("cumulative_sum cumulative_prod", "?(p, axis=1, include_initial=True)", "?(v, include_initial=True)"),
    *((f"cum{f}(x, axis={a})", f"{f}imum.accumulate(x, axis={a})") for f in ("max", "min") for a in (0, 1, -1)),
    *((f"logcumsumexp({x}, axis={a})", f"logaddexp.accumulate({x}, axis={a})") for x in "xd" for a in (0, -1)),
    ("logcumsumexp(x, 1, reverse=True)", "logaddexp.accumulate(x[:, ::-1], 1)[:, ::-1]"),
    ("cumsum(i, 1, exclusive=True)", "cumsum(i, 1) - i"), ("cumsum(i, exclusive=True)", "cumsum(i) - ravel(i)"),
    ("cumprod(q, 0, reverse=True, exclusive=True)", "(cumprod(q[::-1], 0) / q[::-1])[::-1]"),
    ("cummax(x, 1, exclusive=True)[:, 1:]", "maximum.accumulate(x, 1)[:, :-1]"),
    ("cummin(b, 0, reverse=True)", "minimum.accumulate(b[::-1], 0)[::-1]"),
    ("linear_scan(1, j, axis=1)", "cumsum(j, axis=1)"), ("linear_scan(p, 0, axis=0, initial=1)", "cumprod(p, axis=0)"),
    ("linear_scan(1, x, initial=y[..., 0], exclusive=True)", "cumsum(x, axis=-1) - x + y[..., :1]"),
    ("sliding_window(x, 2, axis=1)", "stack((x[:, :-1], x[:, 1:]), axis=-1)"),
    ("sliding_window(x, (2, 3), axis=(0, 2))[0, :, 0]", "stack((x[0, :, :3], x[1, :, :3]), axis=1)"),
    ("conv(x, full((2, 4, 3), 2))", "stack([sum(x[..., :3] + x[..., 1:4] + x[..., 2:], axis=1) * 2] * 2, axis=1)"),
    ("conv(x, ones((3, 1, 5)), layout='NWC')", "stack([sum(x, axis=-1)] * 3, axis=-1)"),
    *(f"{f}({a}, {v}, mode='{m}')" for f in ("convolve", "correlate") for m in ("full", "same", "valid")
      for a, v in (("v", "r[:4]"), ("r", "r[1:2]"), ("i[0, :, 0]", "j[0, :3, 0]"))),
    ("convolve(v, (1, 2, 0.5))", "convolve(v, float32([1, 2, 0.5]))"), "convolve(v, r[:4])",
    ("correlate(j[:, 0, 0], (2, -1), mode='same')", "correlate(j[:, 0, 0], int32([2, -1]), 'same')"),
    "diff(x)", "diff(x, axis=0)", "diff(x, n=2)", "diff(x, 2, 1)", "diff(i)", "diff(m)", "diff(v)", "diff(x, n=0)",
    "diff(w, axis=0)", "diff(x, append=y[:, :, :1])", "diff(x, n=9)", "diff(x, prepend=y, append=z, axis=1)",
    ("diff(x, n=2, axis=1, prepend=1, append=2)", "diff(x, n=2, axis=1, prepend=float32(1), append=float32(2))"),
    "sort(x)", "sort(x, axis=-1)", "argsort(x)", "argsort(i)", "sort(x, stable=True)", "argsort(i, -1, stable=True)",
    "sort(x, axis=0)", "sort(x, 1)", "argsort(x, axis=1)", "argsort(i, 0)",
    ("partition(x, 1)", "sort(x)"), ("argpartition(x, -1, axis=1)", "argsort(x, axis=1, kind='stable')"),
    ("topk(x, 2, axis=1)[0]", "-sort(-x, axis=1)[:, :2]"), ("topk(x, 1, axis=0)[1]", "argsort(-x, axis=0)[:1]"),
    ("sort(x, descending=True)", "-sort(-x)"), ("argsort(i, descending=True)", "argsort(-i, stable=True)"),
    ("topk(x, 2)[0]", "-sort(-x)[..., :2]"), ("topk(i, k=3)[1]", "argsort(-i, stable=True)[..., :3]"),
    *((f"softmax(x{a})", f"exp(x) / sum(exp(x){a or ', axis=-1'}, keepdims=True)") for a in AXES),
    *((f"log_softmax(x{a})", f"x - log(sum(exp(x){a or ', axis=-1'}, keepdims=True))") for a in AXES),
    ("softmax(x, dim=-1)", "exp(x) / sum(exp(x), axis=-1, keepdims=True)"),
    ("softmax(x, axis=0, where=m)", "where(m, exp(x), 0) / maximum(sum(where(m, exp(x), 0), 0, keepdims=True), 1e-30)"),
    ("layer_norm(x)", "normal(x)"), ("layer_norm(x, v, v)", "normal(x) * v + v"), ("layer_norm(i)", "normal(i)"),
    ("layer_norm(x, weight=v, eps=0.1)", "normal(x, eps=float32(0.1)) * v"), ("layer_norm(x, bias=v)", "normal(x) + v"),
    ("layer_norm(x, s, s, (1, 2))", "normal(x, (1, 2)) * s + s"), ("layer_norm(x, axis=0)", "normal(x, 0)"),
    *((f"rms_norm(x{w}{a}{eps})", f"x / sqrt(mean(x * x{a or ', axis=-1'}, keepdims=True) + float32({eps[6:] or 1e-6}))"
       + (" * v" if w else "")) for w in ("", ", v", ", weight=v") for a in ("", ", axis=1", ", axis=(0, 1)")
      for eps in ("", ", eps=0.1")),
    ("group_norm(x, 2)", "normal(x.reshape(3, 2, 10)).reshape(3, 4, 5)"),
    ("group_norm(x, groups=4, weight=x[0, :, 0], bias=x[1, :, 0], eps=0.01)",
     "normal(x, eps=float32(0.01)) * x[0, :, :1] + x[1, :, :1]"),
]  # fmt: skip

SHAPES = [
    *each("(12,5) (-1,) -1 (3,-1) (2,6,5) [6,10]", "reshape(x, ?)"), "reshape(x, shape=(4, 15))",
    ("reshape(x, (size(x, 0), -1))", "reshape(x, (3, -1))"), ("reshape(x, shape(y))", "x"),
    ("reshape(x, (shape(x)[1], size(x, 0) * 5))", "reshape(x, (4, 15))"),
    "transpose(x)", "transpose(x, (2, 0, 1))", "transpose(x, axes=(0, 2, 1))", "transpose(x, (-1, 0, 1))",
    "permute_dims(x, (1, 2, 0))", "permute_dims(x, axes=(1, 2, 0))", "matrix_transpose(x)", "swapaxes(x, 0, 2)",
    "swapaxes(x, axis1=0, axis2=-1)", "expand_dims(x, 0)", "expand_dims(x, axis=-1)", "expand_dims(x, axis=(1, -1))",
    "squeeze(t)", "squeeze(t, 0)", "squeeze(t, axis=2)", "squeeze(t, axis=(0, -2))",
    "broadcast_to(v, (4, 5))", "broadcast_to(v, shape=(2, 3, 5))", "broadcast_to(3.5, (2, 2))",
    ("broadcast_to(v, shape(x))", "broadcast_to(v, x.shape)"),
    ("broadcast_to(v, (size(x, 0), size(v, 0)))", "broadcast_to(v, (3, 5))"),
    *each("concat concatenate", "?([x, y])", "?([x, y], axis=1)", "?((x, y), axis=-1)", "?([x, y, z], 2)", "?([x, i])",
          "?([x, y], axis=None)", "?([x, h], dtype=float64)", "?([m, c])"),
    "stack([x, y])", "stack([x, y], axis=-1)", "stack([x, y, z], 1)", "stack([x, i], axis=2)",
    "stack([x, y], dtype=float16)",
    *each("flip", "?(x)", "?(x, 0)", "?(x, axis=-1)", "?(x, axis=(0, 2))", "?(x, axis=None)"),
    *each("2 -3 1,axis=0 -2,axis=-1 (1,2),axis=(0,1) 7,axis=(0,2) 1,2 shift=1,axis=1", "roll(x, ?)"),
    *each("2 3,axis=1 repeats=2,axis=-1 2,0 0", "repeat(x, ?)"),
    *each("2 (2,1,3) (2,1,1,2) reps=(1,2) 0", "tile(x, ?)"), ("tile(v, repetitions=(2, 2))", "tile(v, (2, 2))"),
    *each("constant edge reflect wrap", "pad(x, 1, mode='?')", "pad(x, (1, 2), '?')", "pad(x, ((2, 1),), mode='?')",
          "pad(x, ((0, 0), (1, 2), (3, 1)), mode='?')", "pad(v, (7, 9), mode='?')", "pad(i, pad_width=1, mode='?')"),
    "pad(x, 1)", "pad(x, 1, constant_values=7)", "pad(i, 1, constant_values=-3)", "pad(m, 1)",
    "pad(x, ((1, 0), (0, 1), (2, 2)), constant_values=((1, 2), (3, 4), (5, 6)))",
    "pad(x, 1, 'constant', constant_values=(1, 2))", "pad(v, 2, constant_values=v[0])",
    *each("0 -2 offset=1 0,1,2 axis1=-1,axis2=0 9", "diagonal(x, ?)", "trace(x, ?)"), "diagonal(s)", "trace(s)",
    "trace(i, dtype=float64)", "trace(w)", "outer(v, r)", "outer(s, v)", "outer(v, i[0, 0])", "size(x)", "size(x, 1)",
    "size(x, axis=-1)", "shape(x)[-1]",
    ("size(x, (0, 1))", "12"), ("iota(x, 1)", "arange(4)[:, None] + zeros_like(x, dtype=int64)"),
    ("iota(x, axis=-1) + x", "arange(5, dtype=float32) + x"), ("arange(5) * v", "arange(5, dtype=float32) * v"),
    *each("5 2,7 1,10,2 9,0,-3 1,10,step=3 0,5,dtype=float32", "arange(?)"), ("arange(size(x, 1))", "arange(4)"),
    ("arange(start=1, stop=5)", "arange(1, 5)"),
    *each("zeros ones", "?(3)", "?((2, 3))", "?([2, 3], dtype=int32)"), ("zeros(shape(x)) + x", "x"),
    "full((2, 3), 2.5)", "full(3, x[0, 0, 0])", "full((2, 5), v)", "full(3, 2, dtype=float16)", "eye(3)", "eye(2, 4)",
    "eye(4, k=-1)", "eye(3, M=5, k=2, dtype=int8)", ("eye(size(x, 0))", "eye(3)"),
    ("eye(5) * v", "eye(5, dtype=float32) * v"),
    *each("0,1 1,2,7 1,2,1 3,-1,num=4 0,1,5,endpoint=False 0,1,4,dtype=float32 2,2,3", "linspace(?)"),
    ("linspace(x[0, 0, 0], x[0, 0, 1], 4)", "linspace(x[0, 0, 0], x[0, 0, 1], 4, dtype=float32)"),
    ("one_hot(w, 9)", "(w[..., None] == arange(9)).astype(int64)"),
    ("one_hot(e, num_classes=3, dtype=float32)", "(e[..., None] == arange(3)).astype(float32)"),
]  # fmt: skip

GATHERS = [
    *each("at,axis=0 at,axis=-1 at indices=at,axis=1 1,axis=1 -1,axis=1 at,1", "take(x, ?)"),
    *each("raise clip wrap", "take(x, at, axis=1, mode='?')"), "take(x, at * 5, axis=1, mode='clip')",
    "take(x, at * 5, axis=2, mode='wrap')", "take(x, at - 70, mode='clip')", "take_along_axis(x, along, axis=1)",
    "take_along_axis(x, along, 1)", "take_along_axis(x, reshape(at, (-1,)), axis=None)",
    ("take_along_axis(x, iota(x, -1))", "x"), "x[at]", "x[:, at]", "x[at, 1]", "x[at, at]", "x[1]", "x[0, 1, 2]",
    "x[:, None]", "x[..., -1]", "x[::-1, 1:3]", "x[None, ..., ::2]",
    ("scatter(v, arange(5) % 2, v)", "concatenate([v[4:], v[3:4], v[2:]])"),
    ("scatter_add(3, arange(5) % 3, v)", "concatenate([v[:2] + v[3:], v[2:3]])"),
    ("scatter_max(3, arange(5) % 3, v)", "concatenate([maximum(v[:2], v[3:]), v[2:3]])"),
    ("scatter_min(v[:3], arange(5) % 3, v)", "concatenate([minimum(v[:2], v[3:]), v[2:3]])"),
    ("bincount(w, 9)", "bincount(w.ravel(), minlength=9)"), ("bincount(w, 4)", "bincount(w.ravel(), minlength=9)[:4]"),
    ("bincount(w, 9, p)", "bincount(w.ravel(), p.ravel(), 9)"),
    *((f"histogram(x, {how})[{k}]", f"histogram(x, {how})[{k}]") for how in ("5", "4, range=(-2, 2)") for k in (0, 1)),
    ("segment_sum(v, ids=arange(5) // 2, n=3)", "add.reduceat(v, [0, 2, 4])"),
    ("segment_max(v, ids=arange(5) // 2, n=3)", "maximum.reduceat(v, [0, 2, 4])"),
    ("segment_min(v, offsets=2 * arange(3))", "minimum.reduceat(v[:4], [0, 2])"),
    ("segment_mean(v, offsets=2 * arange(3))", "add.reduceat(v[:4], [0, 2]) / float32(2)"),
    ("segment_softmax(v, ids=zeros(5, dtype=int32), n=1)", "exp(v - max(v)) / sum(exp(v - max(v)))"),
]  # fmt: skip

ACTIVATIONS = [
    (call, f"torch_('{call.partition('(')[0]}', {call.partition('(')[2]}")
    for call in each("sigmoid relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh "
                     "hardsigmoid hardswish tanhshrink softshrink", "?(x)")
    + each("negative_slope=0.2 0.3", "leaky_relu(x, ?)") + each("alpha=0.5 2.0", "elu(x, ?)", "celu(x, ?)")
    + each("approximate='tanh' approximate='none'", "gelu(x, ?)")
    + each("beta=2.0 beta=2.0,threshold=1.0 threshold=5 2.0,3.0", "softplus(x, ?)")
    + each("min_val=-2.0,max_val=0.5 max_val=0.3 -0.5,0.5", "hardtanh(x, ?)")
    + each("lambd=1.0 0.2", "softshrink(x, ?)")
]  # fmt: skip

SCALED = "clip(rint(x / float32(0.05)) + {0}, {1}, {2}).astype({3})"
QUANTISED = [
    ("quantize(x, 0.05)", SCALED.format(0, -128, 127, "int8")),
    ("quantize(x, 0.05, 3)", SCALED.format(3, -128, 127, "int8")),
    ("quantize(x, scale=0.05, zero=100, dtype=uint8)", SCALED.format(100, 0, 255, "uint8")),
    ("quantize(x, q[0, 0], axis=-1)", "rint(x / q[0, 0]).astype(int8)"),
    ("quantize(x, q[0, :, 0], axis=1)", "rint(x / q[0, :, :1]).astype(int8)"),
    ("quantize(reshape(x, (3, 20)), q[:, :, 0], group=5)", "rint(x / q[:, :, :1]).astype(int8).reshape(3, 20)"),
    ("dequantize(b, 0.05)", "b * float32(0.05)"),
    ("dequantize(b, 0.05, zero=3)", "(b - 3.0).astype(float32) * float32(0.05)"),
    ("dequantize(b, v, axis=-1)", "b * v"),
    ("dequantize(b, q[0, :, 0], b[0, :, 0], axis=1)", "(b.astype(float32) - b[0, :, :1]) * q[0, :, :1]"),
    ("dequantize(reshape(b, (3, 20)), q[:, :, 0], group=5)", "(b * q[:, :, :1]).reshape(3, 20)"),
    ("unpack(u)", "unpacked(u, 4, True)"),
    ("unpack(u, bits=2)", "unpacked(u, 2, True)"),
    ("unpack(u, 1, False)", "unpacked(u, 1, False)"),
    ("unpack(u, bits=4, signed=False)", "unpacked(u, 4, False)"),
]

CONTRACTIONS = [
    "x @ y.mT", "matmul(x, y.mT)", "matmul(x, v)", "dot(s, v)", "dot(v, v)", "inner(v, v)", "vdot(s, s)",
    "tensordot(s, s, axes=((0, 1), (0, 1)))", "tensordot(s, s.T, axes=1)", "einsum('bij,bkj->bik', x, y)",
    "einsum('...jk,k,ij->...i', x, v, s.T[:, :4])", "einsum('iij->j', x[:, :3])", "einsum('ij', s)",
    ("vecdot(x, y)", "sum(x * y, axis=-1)"), ("vecdot(x, y, axis=1)", "sum(x * y, axis=1)"),
]  # fmt: skip

DERIVATIVES = [
    ("stop_gradient(x)", "x"), ("grad(sum(x * x * y), x)", "2 * x * y"), ("grad(sum(x * y), x, y)[1]", "x"),
    ("grad(sum(stop_gradient(x) * x), x)", "x"), ("vjp(x * y, z, x)", "z * y"),
    ("vjp((x, x * y), (y, z), x)", "y + z * y"), ("jvp(x * y, x, z)", "z * y"),
    ("jvp(x * y, (x, y), (z, x))", "z * y + x * x"),
]  # fmt: skip

GROUPS = {
    "operators": OPERATORS, "elementwise": ELEMENTWISE, "casts": CASTS, "reductions": REDUCTIONS, "rows": ROWS,
    "shapes": SHAPES, "gathers": GATHERS, "activations": ACTIVATIONS, "quantised": QUANTISED,
    "contractions": CONTRACTIONS, "derivatives": DERIVATIVES,
}  # fmt: skip
