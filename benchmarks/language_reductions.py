"""The map's reductions: of all elements, of rows, of columns and of other axes; several dtypes."""

from __future__ import annotations

from itertools import product

from language_cases import Case, each

X, ROWS, N = "x float32[longer]", "x float32[rows, columns]", "x float32[rows, columns] with NaN"
TALL, WIDE = "x float32[tall, few]", "x float32[few, wide]"
IMAGES = "x float32[batch, channels, height, width]"


def by_layout(names: str) -> list[Case]:
    """Each function of all elements, of rows and of columns, of short rows and of few long ones."""
    found: list[Case] = []
    for name in names.split():
        torch = TORCH.get(name, f"torch.{name}")
        found.append(Case(name, f"{name}(x)", X, f"np.{name}(x)", f"{torch}(x)"))
        for arrays, axis in product((ROWS, TALL, WIDE), (-1, 0)):
            words = f"x, axis={axis}"
            found.append(Case(name, f"{name}({words})", arrays, f"np.{name}({words})", f"{torch}(x, {axis})"))
    return found


TORCH = {"max": "torch.amax", "min": "torch.amin"}
SUMS = [
    *by_layout("sum max argmax"),
    *(case for case in by_layout("mean min argmin") if case.arrays in (X, ROWS)),
    *(Case(name, f"{name}(x{axis})", ROWS, f"np.{name}(x{axis})", f"torch.{name}(x{dim}, correction=0)")
      for name in ("var", "std") for axis, dim in (("", ""), (", axis=-1", ", -1"), (", axis=0", ", 0"))),
    *each("prod", "x float32[longer] in 0.999..1.001"),
    *each("prod", ROWS, "?(x, axis=-1)", torch="torch.prod(x, -1)"),
    Case("sum", "sum(x, axis=1)", "x float32[batch, middle, middle]", "np.sum(x, axis=1)", "torch.sum(x, 1)"),
    Case("sum", "sum(x, axis=(0, 2, 3))", IMAGES, "np.sum(x, axis=(0, 2, 3))", "torch.sum(x, (0, 2, 3))"),
    Case("var", "var(x, axis=(0, 2, 3))", IMAGES, "np.var(x, axis=(0, 2, 3))", "torch.var(x, (0, 2, 3), correction=0)"),
    Case("max", "max(x, axis=(2, 3))", IMAGES, "np.max(x, axis=(2, 3))", "torch.amax(x, (2, 3))"),
    Case("sum", "sum(x, where=m)", "x float32[longer]; m bool[longer]", "np.sum(x, where=m)",
         "torch.where(m, x, 0).sum()"),
    Case("sum", "sum((x - y) ** 2)", "x float32[longer]; y float32[longer]", "np.sum((x - y) ** 2)",
         "((x - y) ** 2).sum()", compiled=True),
    *(Case(name, f"{name}(x)", f"x {d}[{n}]", f"np.{name}(x)", f"torch.{TORCH.get(name, 'torch.' + name)[6:]}(x)",
           same=d != "float16")
      for name in ("sum", "max", "argmax")
      for d, n in (("float64", "long"), ("float16", "longer"), ("bfloat16", "longer"), ("int8", "longer"),
                   ("uint8", "longer"), ("int32", "long"), ("int64", "long"))),
    *(Case("sum", f"sum(x, axis={axis})", f"x {d}[rows, columns]", f"np.sum(x, axis={axis})", f"torch.sum(x, {axis})",
           same=d != "float16")
      for axis in (-1, 0) for d in ("float64", "bfloat16", "int8", "int32")),
    *(case for kind, sign, share in (("any", ">", "0..0"), ("all", "<", "1..1")) for case in (  # all have to be read
        Case(kind, f"{kind}(x {sign} 9)", X, f"np.{kind}(x {sign} 9)", f"torch.{kind}(x {sign} 9)"),
        *(Case(kind, f"{kind}({m})", f"m bool[{extents}] in {share}", f"np.{kind}({m})", f"torch.{kind}({t})")
          for extents, m, t in (("longer", "m", "m"), ("rows, columns", "m, axis=-1", "m, -1"),
                                ("rows, columns", "m, axis=0", "m, 0"))))),
    *each("count_nonzero", "m bool[longer]", "?(m)"),
    Case("count_nonzero", "count_nonzero(x > 0, axis=-1)", ROWS, "np.count_nonzero(x > 0, axis=-1)",
         "torch.count_nonzero(x > 0, -1)"),
]  # fmt: skip

LOG = "np.log(np.sum(np.exp(x - np.max(x, axis=-1, keepdims=True)), axis=-1)) + np.max(x, axis=-1)"
NORMS = [
    Case("logsumexp", "logsumexp(x)", X, torch="torch.logsumexp(x, 0)"),
    Case("logsumexp", "logsumexp(x, axis=-1)", ROWS, LOG, "torch.logsumexp(x, -1)", compiled=True),
    Case("logsumexp", "logsumexp(x, axis=0)", ROWS, torch="torch.logsumexp(x, 0)"),
    Case("norm", "norm(x)", X, "np.linalg.norm(x)", "torch.linalg.vector_norm(x)"),
    Case("norm", "norm(x, axis=-1)", ROWS, "np.linalg.norm(x, axis=-1)", "torch.linalg.vector_norm(x, dim=-1)"),
    Case("norm", "norm(x, axis=0)", ROWS, "np.linalg.norm(x, axis=0)", "torch.linalg.vector_norm(x, dim=0)"),
    Case("ptp", "ptp(x)", X, "np.ptp(x)", "torch.amax(x) - torch.amin(x)"),
    Case("ptp", "ptp(x, axis=-1)", ROWS, "np.ptp(x, axis=-1)", "torch.amax(x, -1) - torch.amin(x, -1)"),
    Case("average", "average(x, axis=-1, weights=w)", f"{ROWS}; w float32[columns] in 0.1..1",
         "np.average(x, axis=-1, weights=w)", "(x * w).sum(-1) / w.sum()"),
    Case("average", "average(x, weights=w)", "x float32[longer]; w float32[longer] in 0.1..1",
         "np.average(x, weights=w)", "(x * w).sum() / w.sum()"),
    Case("trace", "trace(x)", "x float32[square, square]", "np.trace(x)", "torch.trace(x)", unread="x"),
    Case("cross_entropy", "cross_entropy(x, y)", f"{ROWS}; y int64[rows] < columns", "",
         "F.cross_entropy(x, y)", compiled=True),
    Case("cross_entropy", "cross_entropy(x, y)", "x bfloat16[rows, columns]; y int64[rows] < columns", "",
         "F.cross_entropy(x.float(), y)", compiled=True),
]  # fmt: skip

LONG_NAN = "x float32[longer] with NaN"
NAN = [
    *each("nansum nanmean", LONG_NAN),
    *each("nansum nanmean", N, "?(x, axis=-1)", torch="torch.?(x, -1)"),
    *each("nansum nanmean", N, "?(x, axis=0)", torch="torch.?(x, 0)"),
    *each("nanvar nanstd nanmax nanmin", LONG_NAN, torch=""),
    *each("nanvar nanstd nanmax nanmin nanargmax nanargmin", N, "?(x, axis=-1)", torch=""),
    *each("nanmax nanargmax", N, "?(x, axis=0)", torch=""),
    *each("nanargmax nanargmin", LONG_NAN, torch=""),
    *each("nanprod", "x float32[longer] in 0.999..1.001 with NaN", torch=""),
    *each("nanprod", "x float32[rows, columns] in 0.999..1.001 with NaN", "?(x, axis=-1)", torch=""),
]  # fmt: skip

QUANTILES = [
    *each("median", "x float32[long]", torch="", numpy="np.?(x)"),
    *each("median", ROWS, "?(x, axis=-1)", torch="", numpy="np.?(x, axis=-1)"),
    *each("median", ROWS, "?(x, axis=0)", torch="", numpy="np.?(x, axis=0)"),
    *each("median", TALL, "?(x, axis=-1)", torch="", numpy="np.?(x, axis=-1)"),
    *each("nanmedian", N, "?(x, axis=-1)", torch=""),
    *each("quantile", ROWS, "?(x, 0.25, axis=-1)", torch="torch.?(x, 0.25, -1)"),
    *each("quantile", "x float32[long]", "?(x, 0.9)", torch=""),
    *each("percentile", "x float32[long]", "?(x, [25, 75])", torch=""),
    *each("percentile", ROWS, "?(x, [25, 75], axis=-1)", torch="torch.quantile(x, x.new_tensor([0.25, 0.75]), -1)"),
    *each("nanquantile", N, "?(x, 0.75, axis=-1)", torch="torch.nanquantile(x, 0.75, -1)"),
    *each("nanpercentile", N, "?(x, 75, axis=-1)", torch="torch.nanquantile(x, 0.75, -1)"),
]  # fmt: skip

CASES = (*SUMS, *NORMS, *NAN, *QUANTILES)
