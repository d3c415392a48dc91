"""The map's elementwise functions: operators, functions, activations and casts."""

from __future__ import annotations

from dataclasses import replace

from language_cases import Case, each

X, XY, P = "x float32[long]", "x float32[long]; y float32[long]", "x float32[long] in 0.05..0.95"
I32 = "i int32[long]; j int32[long] in 1..9"
FLOATS = {"float64": "half", "float16": "long", "bfloat16": "long"}

OPERATORS = [
    *(Case(name, f"x {sign} y", XY, f"x {sign} y", f"x {sign} y", numexpr=True) for name, sign in (
        ("add", "+"), ("subtract", "-"), ("multiply", "*"), ("divide", "/"), ("less", "<"), ("less_equal", "<="),
        ("greater", ">"), ("greater_equal", ">="), ("equal", "=="), ("not_equal", "!="))),
    *each("floor_divide remainder", XY, "?(x, y)"),
    Case("power", "x ** y", "x float32[long] in 0.1..4; y float32[long]", "x ** y", "x ** y", numexpr=True),
    Case("power", "x ** 3", X, "x ** 3", "x ** 3", numexpr=True),
    Case("power", "x ** 0.45", P, "x ** np.float32(0.45)", "x ** 0.45"),
    Case("negative", "-x", X, "-x", "-x", numexpr=True),
    *each("logical_and logical_or", "m bool[long]; c bool[long]", "?(m, c)"),
    *each("logical_not", "m bool[longer]", "?(m)"),
    *each("bitwise_and bitwise_or bitwise_xor", I32, "?(i, j)"),
    Case("bitwise_invert", "~i", "i int32[long]", "~i", "~i"),
    Case("left_shift", "i << j", I32, "i << j", "i << j"),
    Case("right_shift", "i >> j", I32, "i >> j", "i >> j"),
    *(Case("add", "x + y", f"x {d}[{n}]; y {d}[{n}]", "x + y", "x + y", numexpr=d == "float64") for d, n in (
        *FLOATS.items(), ("int8", "longer"), ("uint8", "longer"), ("int16", "long"), ("int32", "long"),
        ("int64", "half"))),
    *(Case("divide", "i / j", f"i {d}[long]; j {d}[long] in 1..9", "i / j") for d in ("int32", "int8")),
    *(Case(name, f"{name}(i, j)", f"i {d}[{n}]; j {d}[{n}] in 1..9", f"np.{name}(i, j)", f"torch.{name}(i, j)")
      for name in ("floor_divide", "remainder")
      for d, n in (("int32", "long"), ("int64", "half"), ("int8", "longer"))),
    Case("floor_divide", "i // 7", "i int64[half]", "i // 7", "i // 7"),
    Case("power", "i ** 2", "i int32[long]", "i ** 2", "i ** 2"),
    Case("add", "x + y", "x float32[rows, columns]; y float32[columns]", "x + y", "x + y"),
    Case("add", "x + y[:, None]", "x float32[rows, columns]; y float32[rows]", "x + y[:, None]", "x + y[:, None]"),
    *(Case("multiply", "x * w", f"x {d}[tall, {n}]; w {d}[{n}]", "x * w", "x * w")
      for d, n in (("float32", 3), ("float32", 12), ("float64", 8))),
    Case("add", "x + y.T", "x float32[square, square]; y float32[square, square]", "x + y.T", "x + y.T"),
    Case("add", "x[:, ::2] + y[:, 1::2]", "x float32[rows, columns]; y float32[rows, columns]",
         "x[:, ::2] + y[:, 1::2]", "x[:, ::2] + y[:, 1::2]"),
    Case("multiply", "float32(u) * 0.0078 - 1", "u uint8[longer]", "u.astype(np.float32) * np.float32(0.0078) - 1",
         "u.float() * 0.0078 - 1"),
    Case("power", "uint8(255 * (u / 255.0) ** 0.45)", "u uint8[longer]", "(255 * (u / 255.0) ** 0.45).astype(np.uint8)",
         "(255 * (u / 255.0) ** 0.45).to(torch.uint8)", same=False),
    Case("multiply", "uint8(0.299 * u[..., 0] + 0.587 * u[..., 1] + 0.114 * u[..., 2])",
         "u uint8[images, tallest, widest, 3]",
         "(0.299 * u[..., 0] + 0.587 * u[..., 1] + 0.114 * u[..., 2]).astype(np.uint8)",
         "(0.299 * u[..., 0] + 0.587 * u[..., 1] + 0.114 * u[..., 2]).to(torch.uint8)", same=False),
]  # fmt: skip

SAME_NAMES = "absolute sign floor ceil trunc square isnan isinf isfinite signbit nan_to_num"
SAME_NAMES += " exp exp2 expm1 sin cos tan arctan sinh cosh tanh arcsinh sinc deg2rad rad2deg"
NUMEXPR = "exp expm1 sin cos tan arctan sinh cosh tanh arcsinh sqrt log log10 log1p arcsin arccos arctanh"

FUNCTIONS = [
    *each(SAME_NAMES, X),
    *each("sqrt log log2 log10 log1p arcsin arccos arctanh", P),
    *each("arccosh", "x float32[long] in 1.05..5"),
    *each("rsqrt", P, numpy="1 / np.sqrt(x)"),
    *each("cbrt", X, torch=""),
    *each("erf erfc", X, numpy="sp.?(x)"),
    *each("lgamma", "x float32[long] in 0.1..9", numpy="sp.gammaln(x)"),
    *each("round", X, numpy="np.round(x)"),
    Case("round", "round(x, decimals=2)", X, "np.round(x, 2)", "torch.round(x, decimals=2)"),
    *each("rint", X, torch="torch.round(x)"),
    *each("fix", X),
    *each("fabs", X, torch="torch.abs(x)"),
    *each("degrees", X, torch="torch.rad2deg(x)"),
    *each("radians", X, torch="torch.deg2rad(x)"),
    *each("arctan2 minimum maximum fmin fmax copysign nextafter hypot fmod logaddexp logaddexp2 heaviside isclose",
          XY, "?(x, y)"),
    *each("logical_xor", "m bool[longer]; c bool[longer]", "?(m, c)"),
    *each("clip", X, "?(x, -1, 1)"),
    Case("where", "where(m, x, y)", f"m bool[long]; {XY}", "np.where(m, x, y)", "torch.where(m, x, y)"),
    Case("where", "where(x > 0, x, y)", XY, "np.where(x > 0, x, y)", "torch.where(x > 0, x, y)", numexpr=True),
    *each("ldexp", "x float32[long]; i int32[long] in -9..9", "?(x, i)"),
    Case("divmod", "divmod(x, y)", XY, "np.divmod(x, y)", "(torch.floor_divide(x, y), torch.remainder(x, y))"),
    Case("divmod", "divmod(i, j)", I32, "np.divmod(i, j)", "(torch.floor_divide(i, j), torch.remainder(i, j))"),
    *each("reciprocal", P),
    *each("xlogy", f"{P}; y float32[long] in 0.05..2", "?(x, y)", numpy="sp.xlogy(x, y)"),
    *each("lerp", f"{XY}; w float32[long] in 0..1", "?(x, y, w)", numpy="x + w * (y - x)"),
    *each("fma", f"{XY}; z float32[long]", "?(x, y, z)", numpy="x * y + z", torch="torch.addcmul(z, x, y)"),
    *each("copy positive", X, torch="torch.clone(x)"),
    *each("zeros_like ones_like", X, unread="x"),
    *each("full_like", X, "?(x, 7)", unread="x"),
    *each("tril triu", "x float32[square, square]"),
    *each("logit", P, numpy="sp.logit(x)"),
    *each("ndtr", X, numpy="sp.ndtr(x)", torch="torch.special.ndtr(x)"),
    *(case for d, n in FLOATS.items() for case in each("exp sin tanh", f"x {d}[{n}]")),
    *(case for d, n in FLOATS.items() for case in each("erf", f"x {d}[{n}]", numpy="sp.?(x)")),
    *(case for d, n in FLOATS.items() for case in each("sqrt log", f"x {d}[{n}] in 0.05..0.95")),
    *each("cos tan sinh arctan expm1", "x float64[half]"),
    *each("cbrt", "x float64[half]", torch=""),
    *each("erfc", "x float64[half]", numpy="sp.?(x)"),
    *each("lgamma", "x float64[half] in 0.1..9", numpy="sp.gammaln(x)"),
    *each("arctan2 hypot fmod", "x float64[half] in 0.1..4; y float64[half] in 0.1..3", "?(x, y)"),
    Case("power", "x ** y", "x float64[half] in 0.1..4; y float64[half] in 0.1..3", "x ** y", "x ** y", numexpr=True),
    *(case for d, n in (("int8", "longer"), ("int32", "long"), ("int64", "half"))
      for case in each("maximum", f"x {d}[{n}]; y {d}[{n}]", "?(x, y)")),
    *(case for d in ("int8", "int32") for case in each("exp sqrt", f"x {d}[long] in 0..9")),
    *each("absolute sign", "x int8[longer]"),
    *each("clip", "x int8[longer]", "?(x, -9, 9)"),
]  # fmt: skip

FUNCTIONAL = "relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardsigmoid hardswish"
ACTIVATIONS = [
    *each("sigmoid", X, numpy="1 / (1 + np.exp(-x))"),
    *each(f"{FUNCTIONAL} tanhshrink softshrink", X, numpy="", torch="F.?(x)"),
    Case("gelu", 'gelu(x, approximate="tanh")', X, torch="F.gelu(x, approximate='tanh')"),
    *each("relu gelu silu softplus mish", "x bfloat16[longer]", numpy="", torch="F.?(x)"),
    *each("sigmoid", "x bfloat16[longer]", numpy=""),
]  # fmt: skip

CASTS = [
    Case("astype", "astype(x, int32)", X, "x.astype(np.int32)", "x.to(torch.int32)"),
    *each("bool int8 int16 int32 int64 float16 float64", X, numpy="x.astype(np.?)", torch="x.to(torch.?)"),
    *each("uint8 uint16 uint32 uint64", "x float32[long] in 0..99", numpy="x.astype(np.?)", torch="x.to(torch.?)"),
    *each("bfloat16 float8_e4m3fn float8_e5m2", X, numpy="", torch="x.to(torch.?)"),
    *(case for d, n in (("bfloat16", "longer"), ("float16", "longer"), ("uint8", "longer"), ("int64", "half"))
      for case in each("float32", f"x {d}[{n}]", numpy="" if d == "bfloat16" else "x.astype(np.?)",
                       torch="x.to(torch.?)")),
    *each("float32", "x float8_e4m3fn[longer]", numpy="", torch="x.to(torch.?)"),
    *each("int8 int64", "x int32[long]", numpy="x.astype(np.?)", torch="x.to(torch.?)"),
]  # fmt: skip


def _with_numexpr(case: Case) -> Case:
    """The case, with numexpr where that has the function for this dtype."""
    plain = "float32" in case.arrays or "float64" in case.arrays
    return replace(case, numexpr=True) if case.function in NUMEXPR.split() and plain else case


CASES = (*OPERATORS, *map(_with_numexpr, FUNCTIONS), *ACTIVATIONS, *CASTS)
