"""The map's scans, windows, norms of rows, and what orders elements."""

from __future__ import annotations

from language_cases import Case, each

X, ROWS, TALL = "x float32[longer]", "x float32[rows, columns]", "x float32[tall, few]"
WIDE, N = "x float32[few, wide]", "x float32[rows, columns] with NaN"
NEAR_ONE = "x float32[rows, columns] in 0.99..1.01"

SCANS = [
    Case("cumsum", "cumsum(x)", X, "np.cumsum(x)", "torch.cumsum(x, 0)"),
    *(Case("cumsum", f"cumsum(x, axis={axis})", arrays, f"np.cumsum(x, axis={axis})", f"torch.cumsum(x, {axis})")
      for arrays in (ROWS, TALL, WIDE) for axis in (-1, 0)),
    Case("cumsum", "cumsum(x, axis=-1)", "x float32[tall, 12]", "np.cumsum(x, axis=-1)", "torch.cumsum(x, -1)"),
    Case("cumsum", "cumsum(x, axis=-1, reverse=True)", ROWS, "np.cumsum(x[:, ::-1], axis=-1)[:, ::-1]",
         "torch.cumsum(x.flip(-1), -1).flip(-1)"),
    *(Case("cumsum", "cumsum(x)", f"x {d}[{n}]", "np.cumsum(x)", "torch.cumsum(x, 0)", same=d != "bfloat16")
      for d, n in (("float64", "long"), ("bfloat16", "longer"), ("int32", "long"), ("int8", "long"))),
    Case("cumulative_sum", "cumulative_sum(x, axis=-1, include_initial=True)", ROWS, "",
         "F.pad(torch.cumsum(x, -1), (1, 0))"),
    Case("cumulative_prod", "cumulative_prod(x, axis=-1)", NEAR_ONE, "np.cumprod(x, axis=-1)", "torch.cumprod(x, -1)"),
    Case("cumprod", "cumprod(x)", "x float32[longer] in 0.999..1.001", "np.cumprod(x)", "torch.cumprod(x, 0)",
         same=False),
    *(Case("cumprod", f"cumprod(x, axis={a})", NEAR_ONE, f"np.cumprod(x, axis={a})", f"torch.cumprod(x, {a})")
      for a in (-1, 0)),
    *(Case(f"cum{f}", f"cum{f}(x, axis={a})", ROWS, f"np.{f}imum.accumulate(x, axis={a})", f"torch.cum{f}(x, {a})[0]")
      for f in ("max", "min") for a in (-1, 0)),
    Case("cummax", "cummax(x)", X, "np.maximum.accumulate(x)", "torch.cummax(x, 0)[0]"),
    *(Case("logcumsumexp", f"logcumsumexp(x, axis={a})", ROWS, "", f"torch.logcumsumexp(x, {a})") for a in (-1, 0)),
    *(Case("linear_scan", f"linear_scan(a, x, axis={a})", "a float32[rows, columns] in 0.1..0.99; " + ROWS)
      for a in (-1, 0)),
    Case("linear_scan", "linear_scan(0.9, x)", X),
    *each("nancumsum nancumprod", N, "?(x, axis=-1)", torch=""),
    *each("nancumsum", "x float32[longer] with NaN", torch="torch.cumsum(torch.nan_to_num(x), 0)"),
]  # fmt: skip

STENCIL = "x[1:-1, 1:-1] * -4 + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]"
WINDOWS = [
    Case("diff", "diff(x)", X, "np.diff(x)", "torch.diff(x)"),
    Case("diff", "diff(x, axis=0)", ROWS, "np.diff(x, axis=0)", "torch.diff(x, dim=0)"),
    Case("diff", "diff(x, n=2, axis=-1)", ROWS, "np.diff(x, n=2, axis=-1)", "torch.diff(x, n=2, dim=-1)"),
    Case("diff", STENCIL, "x float32[rows, columns]", STENCIL, STENCIL, compiled=True),
    *(Case("sliding_window", f"{f}(sliding_window(x, {n}), axis=-1)", X, "",
           f"{'torch.mean' if f == 'mean' else 'torch.amax'}(x.unfold(0, {n}, 1), -1)")
      for f, n in (("mean", 7), ("max", 7), ("max", 100))),
    Case("sliding_window", "mean(sliding_window(x, 100), axis=-1)", X, "", "torch.mean(x.unfold(0, 100, 1), -1)"),
    Case("sliding_window", "max(sliding_window(x, 5, axis=0), axis=-1)", ROWS, "",
         "torch.amax(x.unfold(0, 5, 1), -1)"),
    Case("conv", "silu(conv(x, w, padding=1, layout='NHWC') + v)",
         "x bfloat16[32, 56, 56, 256]; w bfloat16[256, 3, 3, 256]; v bfloat16[256]", "",
         "F.silu(F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), v, padding=1).permute(0, 2, 3, 1))"),
    Case("convolve", "convolve(x, v, mode='same')", f"{X}; v float32[9]", "np.convolve(x, v, mode='same')",
         "F.conv1d(x[None, None], v.flip(0)[None, None], padding=4)[0, 0]"),
    Case("convolve", "convolve(x, (1, 2, 1), mode='same')", X,
         "np.convolve(x, np.asarray((1, 2, 1), np.float32), mode='same')",
         "F.conv1d(x[None, None], x.new_tensor((1, 2, 1))[None, None], padding=1)[0, 0]"),
    Case("correlate", "correlate(x, v)", f"{X}; v float32[9]", "np.correlate(x, v)",
         "F.conv1d(x[None, None], v[None, None])[0, 0]"),
    Case("correlate", "correlate(x, v, mode='same')", f"{ROWS}; v float32[5]", "",
         "F.conv1d(x[:, None], v[None, None], padding=2)[:, 0]"),
    Case("trapezoid", "trapezoid(x)", ROWS, "", "torch.trapezoid(x)"),
    Case("trapezoid", "trapezoid(y, x)", "y float32[longer]; x float32[longer] sorted", "", "torch.trapezoid(y, x)"),
]  # fmt: skip

NORMS = [
    *(Case("softmax", f"softmax(x, axis={a})", ROWS, "", f"torch.softmax(x, {a})", compiled=True) for a in (-1, 0)),
    *(Case("softmax", "softmax(x, axis=-1)", f"x float32[tall, {n}]", "", "torch.softmax(x, -1)", compiled=True)
      for n in (12, "few")),
    Case("softmax", "softmax(x, axis=-1)", "x bfloat16[rows, columns]", "", "torch.softmax(x, -1)", compiled=True),
    Case("log_softmax", "log_softmax(x, axis=-1)", ROWS, "", "torch.log_softmax(x, -1)", compiled=True),
    *(Case("layer_norm", "layer_norm(x, w, b)", f"x {d}[rows, columns]; w {d}[columns]; b {d}[columns]", "",
           "F.layer_norm(x, w.shape, w, b)", compiled=True) for d in ("float32", "bfloat16")),
    *(Case("rms_norm", "rms_norm(x, w)", f"x {d}[rows, columns]; w {d}[columns]", "",
           "F.rms_norm(x, w.shape, w, 1e-6)", compiled=True) for d in ("float32", "bfloat16")),
    Case("group_norm", "group_norm(x, 4, w, b)", "x float32[batch, channels, height, width]; "
         "w float32[channels]; b float32[channels]", "", "F.group_norm(x, 4, w, b)", compiled=True),
]  # fmt: skip

ORDER = [
    Case("sort", "sort(x)", "x float32[long]", "np.sort(x)", "torch.sort(x)[0]"),
    Case("sort", "sort(x, axis=-1)", ROWS, "np.sort(x, axis=-1)", "torch.sort(x, -1)[0]"),
    Case("sort", "sort(x, axis=0)", ROWS, "np.sort(x, axis=0)", "torch.sort(x, 0)[0]"),
    Case("sort", "sort(x, axis=-1)", TALL, "np.sort(x, axis=-1)", "torch.sort(x, -1)[0]"),
    Case("sort", "sort(x, axis=-1)", WIDE, "np.sort(x, axis=-1)", "torch.sort(x, -1)[0]"),
    Case("sort", "sort(x, descending=True)", "x float32[long]", "np.sort(x)[::-1]",
         "torch.sort(x, descending=True)[0]"),
    *(Case("sort", "sort(x)", f"x {d}[{n}]", "np.sort(x)", "torch.sort(x)[0]")
      for d, n in (("float64", "half"), ("float16", "long"), ("int8", "long"), ("int32", "long"), ("int64", "half"))),
    Case("argsort", "argsort(x)", "x float32[long]", "np.argsort(x, kind='stable')", "torch.argsort(x, stable=True)"),
    Case("argsort", "argsort(x, axis=-1)", ROWS, "np.argsort(x, axis=-1, kind='stable')",
         "torch.sort(x, dim=-1, stable=True)[1]"),
    Case("argsort", "argsort(x)", "x int64[half]", "np.argsort(x, kind='stable')", "torch.argsort(x, stable=True)"),
    Case("topk", "topk(x, 100)", "x float32[long]", "", "torch.topk(x, 100)", same=False),
    Case("topk", "topk(x, 8)", ROWS, "", "torch.topk(x, 8)", same=False),
    Case("topk", "topk(x, 2)", "x float32[tall, few]", "", "torch.topk(x, 2)", same=False),
    Case("topk", "topk(x, 50)", WIDE, "", "torch.topk(x, 50)", same=False),
    Case("topk", "topk(x, 8)", "x bfloat16[rows, columns]", "", "torch.topk(x, 8)", same=False),
    Case("partition", "partition(x, 30)", ROWS, "np.partition(x, 30, axis=-1)", same=False),
    Case("partition", "partition(x, 30)", "x float32[long]", "np.partition(x, 30)", same=False),
    Case("argpartition", "argpartition(x, 30)", ROWS, "np.argpartition(x, 30, axis=-1)", same=False),
]  # fmt: skip

CASES = (*SCANS, *WINDOWS, *NORMS, *ORDER)
