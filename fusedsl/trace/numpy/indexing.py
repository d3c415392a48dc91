"""NumPy's data movement on tracers: gathers, concatenation, repetition, padding, flips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ArgumentError, Unsupported
from ..array_state import check_cast
from ..recorder import Recorder
from .out import write_out


def _take(recorder: Recorder, a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    if mode not in ("raise", "wrap", "clip"):
        raise ArgumentError(f"take has no mode {mode!r}", "argument.choice", help="raise, wrap or clip")
    indices = recorder.index_array(indices) if isinstance(indices, (list, tuple)) else indices
    if axis is None:
        a, axis = recorder.apply("reshape", a, -1), 0
    if mode != "raise":
        extent = recorder.apply("size", a, axis)
        if mode == "wrap":
            indices = recorder.apply("remainder", indices, extent)
        else:
            indices = recorder.apply("clip", indices, min=0, max=extent - 1)
    return write_out(recorder, out, recorder.apply("take", a, indices, axis))


def _joining(name: str) -> Callable[..., Any]:
    """concatenate or stack."""

    def apply(recorder: Recorder, arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, **named: Any) -> Any:
        casting = named.pop("casting", "same_kind")
        if named:
            message = f"{name} takes no {next(iter(named))}="
            raise ArgumentError(message, "argument.surplus", help="axis=, out= and dtype= are there")
        parts = tuple(recorder.strong(a) for a in arrays)
        if dtype is not None:
            with recorder.at_user_line():
                for part in parts:
                    check_cast(part.node, recorder.dtype(dtype), casting)
            parts = tuple(recorder.apply("astype", part, recorder.dtype(dtype)) for part in parts)
        return write_out(recorder, out, recorder.apply(name, parts, axis))

    return apply


_concatenate = _joining("concat")


def _hstack(recorder: Recorder, tup: Any, **named: Any) -> Any:
    arrays = [recorder.apply("reshape", a, -1) if not _rank(recorder, a) else a for a in tup]
    return _concatenate(recorder, arrays, 0 if _rank(recorder, arrays[0]) == 1 else 1, **named)


def _vstack(recorder: Recorder, tup: Any, **named: Any) -> Any:
    rows = [recorder.apply("reshape", a, (1, -1)) if _rank(recorder, a) < 2 else a for a in tup]
    return _concatenate(recorder, rows, 0, **named)


def _rank(recorder: Recorder, a: Any) -> int:
    return recorder.node(a).type.rank


def _pad(recorder: Recorder, array: Any, pad_width: Any, mode: str = "constant", **named: Any) -> Any:
    if isinstance(pad_width, dict):
        raise Unsupported("pad_width as a dict is not supported", "unsupported.pad", help="give a pair for each axis")
    return recorder.apply("pad", array, recorder.specialized(pad_width), mode, **named)


def _repeat(recorder: Recorder, a: Any, repeats: Any, axis: Any = None) -> Any:
    if not isinstance(repeats, (list, tuple)):
        return recorder.apply("repeat", a, repeats, axis)
    a, axis = (recorder.apply("reshape", a, -1), 0) if axis is None else (a, axis)
    if int(a.shape[axis]) != len(repeats):
        raise ArgumentError(f"repeat has {len(repeats)} counts", "argument.repeats", help="one for each element")
    indices = [k for k, count in enumerate(repeats) for _ in range(int(count))]
    return recorder.apply("take", a, recorder.index_array(indices), axis)


def flipped(recorder: Recorder, m: Any, axis: Any) -> Any:
    """A view reversed along axes."""
    recorder.apply("flip", m, axis)  # checks the axes
    axes = range(m.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    reversed_axes = {a % m.ndim for a in recorder.specialized(tuple(axes))}
    return recorder.lifted(m)[tuple(slice(None, None, -1 if k in reversed_axes else 1) for k in range(m.ndim))]


def _outer(recorder: Recorder, a: Any, b: Any, out: Any = None) -> Any:
    both = (recorder.tracer(recorder.builder.strong(recorder.node(x))) for x in (a, b))
    return write_out(recorder, out, recorder.apply("outer", *both))


INDEXING: dict[str, Callable[..., Any]] = {
    "take": _take,
    "take_along_axis": lambda recorder, arr, indices, axis=-1: recorder.apply("take_along_axis", arr, indices, axis),
    "concatenate": _concatenate,
    "concat": _concatenate,
    "stack": _joining("stack"),
    "hstack": _hstack,
    "vstack": _vstack,
    "flip": lambda recorder, m, axis=None: flipped(recorder, m, axis),
    "fliplr": lambda recorder, m: flipped(recorder, m, 1),
    "flipud": lambda recorder, m: flipped(recorder, m, 0),
    "roll": lambda recorder, a, shift, axis=None: recorder.apply("roll", a, shift, axis),
    "repeat": _repeat,
    "tile": lambda recorder, A, reps: recorder.apply("tile", A, reps),
    "pad": _pad,
    "outer": _outer,
}
