"""NumPy's functions that return views: reshape, transpose and others, which see writes to their base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError, Unsupported
from ..recorder import Recorder
from ..tracer import Tracer
from ..views import View, reshaped, transposed

VIEWS = frozenset(["reshape", "squeeze", "expand_dims", "broadcast_to"])


def view_or_value(recorder: Recorder, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of the language; a view if the function returns views and the argument is a tracer."""
    if "dtype" in kwargs:
        kwargs = {**kwargs, "dtype": recorder.dtype(kwargs["dtype"])}
    if name not in VIEWS or not isinstance(args[0], Tracer):
        return recorder.apply(name, *args, **kwargs)
    return viewed(recorder, name, args, kwargs)


def viewed(recorder: Recorder, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A view of a tracer by a shape function of the language."""
    settled = [recorder.specialized(a) for a in args[1:]]
    named = {key: recorder.specialized(value) for key, value in kwargs.items()}

    def read(x):
        return recorder.call(name, (recorder.tracer(x), *settled), named)

    with recorder.at_user_line():
        view = View(read) if name == "broadcast_to" else reshaped(recorder.builder, read, args[0].node)
    return args[0].viewed(view)


def reshape(recorder: Recorder, a: Any, *args: Any, order: Any = "C", copy: Any = None, **named: Any) -> Any:
    shape: Any = named.pop("shape", named.pop("newshape", args))
    if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[1], str):
        shape, order = shape[:1], shape[1]
    if isinstance(shape, tuple) and len(shape) == 1:
        shape = shape[0]
    if order == "F":
        backwards = tuple(reversed(shape)) if isinstance(shape, (tuple, list)) else shape
        return reshape(recorder, recorder.lifted(a).T, backwards).T
    if order not in ("C", "A"):
        raise Unsupported(f"order={order!r} is not supported", "unsupported.order", help="order='C' or 'F'")
    return view_or_value(recorder, "reshape", (a, tuple(shape) if isinstance(shape, list) else shape), {})


def ravel(recorder: Recorder, a: Any, order: str = "C") -> Any:
    return reshape(recorder, a, -1, order=order)


def transpose(recorder: Recorder, a: Any, *axes: Any, **named: Any) -> Any:
    axes = named.get("axes", axes)
    if isinstance(axes, tuple) and len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
        axes = axes[0]
    return permuted(recorder, a, tuple(recorder.specialized(axes)) if axes else None)


def permuted(recorder: Recorder, a: Any, axes: tuple[int, ...] | None) -> Any:
    """A view with permuted axes."""
    return recorder.lifted(a).viewed(transposed(recorder.builder, axes))


def swapaxes(recorder: Recorder, a: Any, axis1: int, axis2: int) -> Any:
    first, second = recorder.axis(a, axis1), recorder.axis(a, axis2)
    order = list(range(a.ndim))
    order[first], order[second] = order[second], order[first]
    return permuted(recorder, a, tuple(order))


def moveaxis(recorder: Recorder, a: Any, source: Any, destination: Any) -> Any:
    moved, targets = recorder.axes(a, source), recorder.axes(a, destination)
    if len(moved) != len(targets):
        raise ArgumentError(
            f"{len(moved)} axes move to {len(targets)} places", "argument.axis", help="give one place for each axis"
        )
    return permuted(recorder, a, moved_axes(a.ndim, moved, targets))


def moved_axes(rank: int, moved: Sequence[int], targets: Sequence[int]) -> tuple[int, ...]:
    """The permutation that moves some axes to these positions and keeps the order of the others."""
    order = [k for k in range(rank) if k not in moved]
    for target, axis in sorted(zip(targets, moved)):
        order.insert(target, axis)
    return tuple(order)
