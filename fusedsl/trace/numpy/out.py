"""The out= argument of NumPy's functions: writes a result to an argument of the traced function."""

from __future__ import annotations

from typing import Any

from ...errors import TraceError
from ..recorder import Recorder
from ..tracer import Tracer


def single_out(out: Any) -> Any:
    """The array of out=, which ufuncs pass as a tuple."""
    return out[0] if isinstance(out, tuple) else out


def write(recorder: Recorder, target: Any, value: Tracer, casting: str) -> None:
    """Write a value to `target`, unless that is None; TraceError if it is no argument of the traced function."""
    if target is None:
        return
    if not isinstance(target, Tracer):
        raise TraceError(
            f"out= is of type {type(target).__name__}, and no argument of the function",
            "trace.out",
            help="pass it to the function, or leave out= away",
        )
    with recorder.at_user_line():
        target._write(value.node, casting)


def write_out(recorder: Recorder, out: Any, result: Any) -> Any:
    """Write the result to `out` and return that; the result itself without out=."""
    if single_out(out) is None:
        return result
    write(recorder, single_out(out), result, "same_kind")
    return single_out(out)
