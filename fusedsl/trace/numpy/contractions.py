"""NumPy's contractions on tracers: matmul, dot, tensordot, vecdot and einsum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ArgumentError, Unsupported
from ...ir.contraction import LETTERS
from ...lang.declared_signatures import declared
from ..recorder import Recorder
from .out import write_out


def _product(name: str) -> Callable[..., Any]:
    """A NumPy product of two arrays, with out=."""

    def apply(recorder: Recorder, a: Any, b: Any, out: Any = None) -> Any:
        operands = (recorder.tracer(recorder.builder.strong(recorder.node(x))) for x in (a, b))
        return write_out(recorder, out, recorder.apply(name, *operands))

    return apply


def _vecdot(recorder: Recorder, x1: Any, x2: Any, axis: int = -1, out: Any = None, **named: Any) -> Any:
    if named:
        raise Unsupported(
            f"vecdot({next(iter(named))}=) is not supported",
            "unsupported.function",
            help="take out what NumPy ignores; vecdot(x, y, axis=-1) is there",
        )
    return write_out(recorder, out, recorder.apply("vecdot", x1, x2, axis=axis))


def _tensordot(recorder: Recorder, a: Any, b: Any, axes: Any = 2) -> Any:
    if not isinstance(axes, int):
        axes = tuple(tuple(side) if isinstance(side, list) else side for side in axes)
    return recorder.apply("tensordot", a, b, axes)


@declared("recorder, subscripts, *operands, out=None, dtype=None, order='K', casting='safe', optimize=False")
def _einsum(recorder: Recorder, subscripts: Any, operands: tuple, out: Any, dtype: Any) -> Any:
    subscripts, operands = subscripts_as_text(subscripts, operands)
    if dtype is not None:
        operands = tuple(recorder.apply("astype", x, recorder.dtype(dtype)) for x in operands)
    return write_out(recorder, out, recorder.apply("einsum", subscripts, *operands))


def subscripts_as_text(subscripts: Any, operands: tuple) -> tuple[Any, tuple]:
    """(subscripts string, operands) of an einsum call; converts the form x, [0, 1], y, [1, 2], [0, 2]."""
    if isinstance(subscripts, str):
        return subscripts, operands
    parts = [subscripts, *operands]
    lists = parts[1::2] + (parts[-1:] if len(parts) % 2 else [])
    if not all(isinstance(axes, (list, tuple)) for axes in lists):
        raise ArgumentError("einsum takes subscripts first", "argument.kind", help='einsum("ij,jk->ik", x, y)')
    texts = ["".join("..." if a is Ellipsis else LETTERS[int(a)] for a in axes) for axes in lists]
    joined = ",".join(texts[: len(parts) // 2])
    return (f"{joined}->{texts[-1]}" if len(parts) % 2 else joined), tuple(parts[: len(parts) // 2 * 2 : 2])


PRODUCTS: dict[str, Callable[..., Any]] = {
    **{name: _product(name) for name in ("dot", "inner", "vdot", "matmul")},
    "vecdot": _vecdot,
    "tensordot": _tensordot,
    "einsum": _einsum,
}
