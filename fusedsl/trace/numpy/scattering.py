"""NumPy's counts, histograms and writes along an axis on tracers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ArgumentError, Unsupported
from ...ir import shapes
from ..recorder import Recorder
from ..scattered_writes import flat_indices_along, merged_at
from ..tracer import Tracer


def _bincount(recorder: Recorder, x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    """np.bincount of a given length: larger numbers are left out."""
    length = recorder.specialized(minlength)
    if not length:
        help = "np.bincount(x, minlength=n) counts the numbers below n; or count outside of the function"
        raise Unsupported("bincount has a length that depends on values", "unsupported.function", help=help)
    return recorder.apply("bincount", x, length, *([] if weights is None else [weights]))


def _histogram(
    recorder: Recorder, a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    if isinstance(bins, (str, list, tuple)) or (isinstance(bins, Tracer) and bins.ndim):
        message = "histogram with edges of its own is not supported"
        raise Unsupported(message, "unsupported.function", help="bins=10, range=(lo, hi): equal bins; others outside")
    given = {} if weights is None else {"weights": weights}
    return recorder.apply("histogram", a, recorder.specialized(bins), range, bool(density), **given)


def _put_along_axis(recorder: Recorder, arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    if axis is None:
        raise ArgumentError("put_along_axis takes an axis", "argument.axis", help="arr[indices] = values of a vector")
    b, node, at = recorder.builder, arr.node, recorder.node(indices)
    with recorder.at_user_line():
        a = shapes.normalize_axis(b, node, axis)
        wide = (*node.type.shape[:a], at.type.shape[a], *node.type.shape[a + 1 :])
        flat_indices = flat_indices_along(b, node.type.shape, shapes.broadcast_to(b, at, wide), a)
        arr._write(merged_at(b, node, flat_indices, recorder.node(values), "last"), "unsafe")


SCATTERING: dict[str, Callable[..., Any]] = {
    "bincount": _bincount,
    "histogram": _histogram,
    "put_along_axis": _put_along_axis,
}
