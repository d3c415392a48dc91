"""out= of NumPy's functions: an argument of the traced function that a result is written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import TraceError
from ..tracer import Tracer

if TYPE_CHECKING:
    from ..recorder import Recorder


def single_out(out: Any) -> Any:
    """What out= names: ufuncs hand it over in a tuple."""
    return out[0] if isinstance(out, tuple) else out


def write(recorder: Recorder, target: Any, value: Tracer, casting: str) -> None:
    """Write a value to `target`, unless that is None; TraceError where it is no argument of the traced function."""
    if target is None:
        return
    if not isinstance(target, Tracer):
        raise TraceError(
            f"out= is a {type(target).__name__} that is no argument of the function",
            code="trace.out",
            help="pass it to the function, or leave out= away",
        )
    with recorder.at_user_line():
        target._write(value.node, casting)


def write_out(recorder: Recorder, out: Any, result: Any) -> Any:
    """The result, or `out` with the result written to it."""
    if single_out(out) is None:
        return result
    write(recorder, single_out(out), result, "same_kind")
    return single_out(out)
