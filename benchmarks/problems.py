"""The problems of `expressions`, `wide`, `reductions` and `backward`: texts with inputs at the sizes of use."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))
import expressions as listed
from expressions import Expression

SUITES = ("expressions", "wide", "reductions", "backward")
COLUMNS = (256, 1024, 4096, 16_384, 32_768, 65_536, 131_072, 262_144)
ELEMENTS = 1 << 28  # of a row problem's array


@dataclass(frozen=True)
class Problem:
    """An expression at a size of use. `twin` is its name in torch_expressions.py."""

    suite: str
    expression: Expression
    shape: str
    dtype: str
    twin: str

    @property
    def name(self) -> str:
        return self.expression.name

    @property
    def case(self) -> tuple[str, str, str, str]:
        return (self.suite, self.name, self.shape, self.dtype)

    def arguments(self, quick: bool = False, seed: int = 1) -> dict[str, torch.Tensor | float]:
        """Random arrays on the GPU, and the numbers."""
        import torch

        draw = torch.Generator(device="cuda").manual_seed(seed)
        e = self.expression
        return {n: _array(e, n, draw, quick) if n in e.arrays else e.inputs[n] for n in e.inputs}  # type: ignore

    def specs(self) -> dict[str, Any]:
        """What stands for the arrays where only their shapes and dtypes matter, and the numbers."""
        import fusedsl as fd

        e = self.expression
        return {n: fd.spec(e.shape(n, False), e.dtype(n)) if n in e.arrays else e.inputs[n] for n in e.inputs}


def _array(e: Expression, name: str, draw: torch.Generator, quick: bool) -> torch.Tensor:
    import torch

    shape, kind, limit = e.shape(name, quick), getattr(torch, e.dtype(name)), e.below(name, quick)
    if limit is not None:
        return torch.randint(0, limit, shape, device="cuda", generator=draw, dtype=kind)
    if kind == torch.bool:
        return torch.rand(shape, device="cuda", generator=draw) < 0.5
    if not kind.is_floating_point:
        return torch.randint(-(2**31), 2**31 - 1, shape, device="cuda", generator=draw, dtype=kind)
    x = torch.randn(shape, device="cuda", generator=draw, dtype=torch.promote_types(kind, torch.float32))
    if str(e.inputs[name]).startswith("positive"):
        x = x.abs() + 0.1
    return x.to(kind)


def problems(suite: str) -> list[Problem]:
    """The problems of one suite."""
    return {"expressions": _expressions, "wide": _wide, "reductions": _reductions, "backward": _backward}[suite]()


def _expressions() -> list[Problem]:
    found = []
    for e in listed.EXPRESSIONS:
        first = max(e.arrays, key=lambda name: prod(e.shape(name, False)))
        shape = "x".join(map(str, e.shape(first, False)))
        found.append(Problem("expressions", e, shape, e.dtype(first), e.name))
    return found


def _problem(suite: str, name: str, text: str, inputs: dict, shape: tuple[int, ...], dtype: str, twin: str = ""):
    return Problem(suite, Expression(0, name, text, inputs), "x".join(map(str, shape)), dtype, twin or name)


def _wide() -> list[Problem]:
    """Rows of 256 to 262,144 columns, each array of 2**28 elements."""
    found = []
    for dtype in ("float32", "bfloat16"):
        for columns in COLUMNS:
            rows = ELEMENTS // columns
            x, w, shape = f"{dtype}[{rows}, {columns}]", f"{dtype}[{columns}]", (rows, columns)
            found += [
                _problem("wide", "softmax", "softmax(x)", {"x": x}, shape, dtype),
                _problem("wide", "rms_norm", listed_text("rms_norm"), {"x": x, "w": w}, shape, dtype),
                _problem("wide", "layer_norm", "layer_norm(x, w, b)", {"x": x, "w": w, "b": w}, shape, dtype),
                _problem(
                    *("wide", "cross_entropy", "logsumexp(x, -1) - take_along_axis(x, y[:, None], -1)[:, 0]"),
                    *({"x": x, "y": f"int64[{rows}] < {columns}"}, shape, dtype, "cross_entropy_plain"),
                ),
            ]
    return found


def listed_text(name: str) -> str:
    """The text of the list's expression of this name."""
    return next(e.text for e in listed.EXPRESSIONS if e.name == name)


def _reductions() -> list[Problem]:
    """Full, column and middle-axis reductions, and the norms over other axes."""
    found = []
    for dtype in ("float32", "bfloat16"):
        for shape in ((ELEMENTS,), (16_384, 16_384), (1 << 20, 256), (256, 1 << 20), (16, 1 << 24)):
            x = f"{dtype}[{', '.join(map(str, shape))}]"
            found.append(_problem("reductions", "sum_all", "sum(x)", {"x": x}, shape, dtype))
            if len(shape) > 1:
                found.append(_problem("reductions", "sum_columns", "sum(x, 0)", {"x": x}, shape, dtype))
                found.append(_problem("reductions", "sum_rows", "sum(x, -1)", {"x": x}, shape, dtype))
        x, shape = f"{dtype}[16384, 16384]", (16_384, 16_384)
        found.append(_problem("reductions", "max_columns", "max(x, axis=0)", {"x": x}, shape, dtype))
        found.append(_problem("reductions", "argmax_all", "argmax(x)", {"x": x}, shape, dtype))
        found.append(_problem("reductions", "var_columns", "var(x, 0)", {"x": x}, shape, dtype))
    names = ("sum_middle", "max_middle", "argmin_middle", "channel_rms_norm", "batch_norm", "instance_norm")
    names += ("group_norm_swish", "softmax_first", "softmax_channel", "mse", "frobenius")
    for e in listed.EXPRESSIONS:
        if e.name in names:
            first = e.arrays[0]
            shape = "x".join(map(str, e.shape(first, False)))
            found.append(Problem("reductions", e, shape, e.dtype(first), e.name))
    return found


def _backward() -> list[Problem]:
    """The gradients of layer norm and RMS norm."""
    found = []
    for dtype in ("bfloat16", "float32"):
        for rows, columns in ((8192, 4096), (16_384, 1024), (4096, 8192), (32_768, 2048), (8192, 5120)):
            x, w = f"{dtype}[{rows}, {columns}]", f"{dtype}[{columns}]"
            for name in ("rms_norm_backward", "layer_norm_backward"):
                inputs = {"x": x, "w": w, "g": x}
                found.append(_problem("backward", name, listed_text(name), inputs, (rows, columns), dtype))
    return found
