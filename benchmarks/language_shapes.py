"""The map's functions of shapes, of positions and of constants: what moves elements, or makes them of nothing."""

from __future__ import annotations

from language_cases import Case

X, XY = "x float32[longer]", "x float32[long]; y float32[long]"
ROWS, BOTH = "x float32[rows, columns]", "x float32[rows, columns]; y float32[rows, columns]"
SQUARE, IMAGES = "x float32[square, square]", "x float32[batch, channels, height, width]"
PIXELS = "u uint8[images, tallest, widest, 3]"

MOVES = [
    Case("reshape", "reshape(x, (-1, 128)) * 2", IMAGES,
         "x.reshape(-1, 128) * 2", "x.reshape(-1, 128) * 2"),
    *(Case("transpose", "transpose(x)", f"x {d}[square, square]", "np.ascontiguousarray(x.T)", "x.T.contiguous()")
      for d in ("float32", "bfloat16", "uint8", "float64")),
    Case("transpose", "transpose(x, (0, 2, 3, 1))", IMAGES, "np.ascontiguousarray(np.transpose(x, (0, 2, 3, 1)))",
         "x.permute(0, 2, 3, 1).contiguous()"),
    Case("transpose", "transpose(float32(u) * 0.0078 - 1, (0, 3, 1, 2))", PIXELS,
         "np.ascontiguousarray(np.transpose(u.astype(np.float32) * np.float32(0.0078) - 1, (0, 3, 1, 2)))",
         "(u.float() * 0.0078 - 1).permute(0, 3, 1, 2).contiguous()", compiled=True),
    Case("transpose", "transpose(x, (1, 0, 2))", "x float32[batch, middle, middle]",
         "np.ascontiguousarray(np.transpose(x, (1, 0, 2)))", "x.permute(1, 0, 2).contiguous()"),
    Case("transpose", "transpose(x)", "x float32[tall, few]", "np.ascontiguousarray(x.T)", "x.T.contiguous()"),
    Case("matrix_transpose", "matrix_transpose(x)", "x float32[batch, middle, middle]",
         "np.ascontiguousarray(np.swapaxes(x, -1, -2))", "x.mT.contiguous()"),
    Case("swapaxes", "swapaxes(x, 1, 2)", IMAGES, "np.ascontiguousarray(np.swapaxes(x, 1, 2))",
         "x.transpose(1, 2).contiguous()"),
    Case("expand_dims", "expand_dims(v, 0) * x", f"{ROWS}; v float32[columns]", "np.expand_dims(v, 0) * x",
         "v.unsqueeze(0) * x"),
    Case("squeeze", "squeeze(v) + x", f"{ROWS}; v float32[1, columns]", "np.squeeze(v) + x", "v.squeeze() + x"),
    Case("broadcast_to", "broadcast_to(v, shape(x))", f"{ROWS}; v float32[columns]",
         "np.ascontiguousarray(np.broadcast_to(v, x.shape))", "v.expand(x.shape).contiguous()", unread="x"),
    Case("concat", "concat([x, y])", XY, "np.concatenate([x, y])", "torch.cat([x, y])"),
    Case("concat", "concat([x, y], axis=-1)", BOTH, "np.concatenate([x, y], axis=-1)", "torch.cat([x, y], -1)"),
    Case("concat", "concat([x, y], axis=-1)", "x float32[tall, few]; y float32[tall, 3]",
         "np.concatenate([x, y], axis=-1)", "torch.cat([x, y], -1)"),
    Case("stack", "stack([x, y])", XY, "np.stack([x, y])", "torch.stack([x, y])"),
    Case("stack", "stack([x, y], axis=-1)", XY, "np.stack([x, y], axis=-1)", "torch.stack([x, y], -1)"),
    Case("stack", "stack([u, v, w], axis=-1)", "u uint8[longer]; v uint8[longer]; w uint8[longer]",
         "np.stack([u, v, w], axis=-1)", "torch.stack([u, v, w], -1)"),
    Case("flip", "flip(x)", X, "np.ascontiguousarray(np.flip(x))", "x.flip(0)"),
    Case("flip", "flip(x, axis=0)", ROWS, "np.ascontiguousarray(np.flip(x, axis=0))", "x.flip(0)"),
    Case("flip", "flip(u, axis=2)", PIXELS, "np.ascontiguousarray(np.flip(u, axis=2))", "u.flip(2)"),
    Case("roll", "roll(x, 1)", X, "np.roll(x, 1)", "torch.roll(x, 1)"),
    Case("roll", "roll(x, (3, 5), axis=(0, 1))", ROWS, "np.roll(x, (3, 5), axis=(0, 1))",
         "torch.roll(x, (3, 5), (0, 1))"),
    Case("repeat", "repeat(x, 4)", "x float32[long]", "np.repeat(x, 4)", "torch.repeat_interleave(x, 4)"),
    Case("repeat", "repeat(x, 2, axis=0)", ROWS, "np.repeat(x, 2, axis=0)", "torch.repeat_interleave(x, 2, 0)"),
    Case("tile", "tile(x, 4)", "x float32[long]", "np.tile(x, 4)", "torch.tile(x, (4,))"),
    Case("tile", "tile(x, (2, 2))", ROWS, "np.tile(x, (2, 2))", "torch.tile(x, (2, 2))"),
    *(Case("pad", f"pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode='{mode}')", IMAGES,
           f"np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode='{mode}')", f"F.pad(x, (1, 1, 1, 1), mode='{torch}')")
      for mode, torch in (("constant", "constant"), ("edge", "replicate"), ("reflect", "reflect"),
                          ("wrap", "circular"))),
    Case("pad", "pad(x, 9)", X, "np.pad(x, 9)", "F.pad(x, (9, 9))"),
    Case("outer", "outer(x, y)", "x float32[rows]; y float32[columns]", "np.outer(x, y)", "torch.outer(x, y)"),
    Case("diagonal", "diagonal(x) * 2", SQUARE, "np.diagonal(x) * 2", "torch.diagonal(x) * 2", unread="x"),
]  # fmt: skip

POSITIONS = [
    Case("size", "x / size(x, -1)", "x float32[long]", "x / x.shape[-1]", "x / x.shape[-1]"),
    Case("shape", "x / shape(x)[-1]", "x float32[long]", "x / x.shape[-1]", "x / x.shape[-1]"),
    Case("iota", "x + iota(x, -1)", ROWS, "x + np.arange(x.shape[1], dtype=np.float32)",
         "x + torch.arange(x.shape[1], device=x.device)"),
    Case("arange", "x + arange(size(x, 0))", "x float32[long]", "x + np.arange(len(x), dtype=np.float32)",
         "x + torch.arange(len(x), device=x.device, dtype=torch.float32)", compiled=True),
    Case("zeros", "zeros(shape(x), dtype=float32) + v", "x float32[rows, columns]; v float32[columns]",
         "np.zeros(x.shape, np.float32) + v", "torch.zeros_like(x) + v", unread="x"),
    Case("ones", "ones(shape(x), dtype=float32) * v", "x float32[rows, columns]; v float32[columns]",
         "np.ones(x.shape, np.float32) * v", "torch.ones_like(x) * v", unread="x"),
    Case("full", "full(shape(x), 7) * v", "x float32[rows, columns]; v float32[columns]",
         "np.full(x.shape, 7, np.float32) * v", "torch.full_like(x, 7) * v", unread="x"),
    Case("eye", "x + eye(size(x, 0))", SQUARE, "x + np.eye(len(x), dtype=np.float32)",
         "x + torch.eye(len(x), device=x.device)"),
    Case("linspace", "x * linspace(0, 1, size(x, 0))", "x float32[long]",
         "x * np.linspace(0, 1, len(x), dtype=np.float32)", "x * torch.linspace(0, 1, len(x), device=x.device)"),
    Case("one_hot", "one_hot(i, 64)", "i int64[places] < classes", "",
         "F.one_hot(i, 64)"),
    Case("one_hot", "one_hot(i, 64, dtype=float32)", "i int64[places] < classes", "",
         "F.one_hot(i, 64).float()", compiled=True),
]  # fmt: skip

OWN = [
    Case("as_float", "as_float(i)", "i int32[long]", "i.astype(np.float64)", "i.double()"),
    Case("given", "x if given(None) else 2 * x", "x float32[long]", "2 * x", "2 * x"),
    Case("summand", "summand(i)", "i int64[half]", "i.astype(np.float64)", "i.double()"),
]  # fmt: skip

CASES = (*MOVES, *POSITIONS, *OWN)
