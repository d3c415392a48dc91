"""xarray DataArrays as arguments and results: axes keep their dimension names and coordinates."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError
from .labelled import Label, Labelled, common_name


def is_array(kind: type) -> bool:
    """True for an xarray class of arrays."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and issubclass(kind, (xarray.DataArray, xarray.Dataset))


def is_uniform(x: Any) -> bool:
    """True for a DataArray, whose elements have one dtype."""
    return isinstance(x, sys.modules["xarray"].DataArray)


def columns(x: Any) -> None:
    """None: a Dataset is a mapping already."""
    return


def read(x: Any, name: str) -> Labelled:
    """The array of a DataArray, with its dimensions."""
    if isinstance(x, sys.modules["xarray"].Dataset):
        help = f"pass one of its variables, {name}['...'], or the dataset as the mapping: evaluate(expression, {name})"
        raise ArgumentError(f"{name} is a Dataset", "argument.type", help=help)
    if hasattr(x.data, "__dask_graph__"):
        help = f"pass {name}.compute(), or use xarray.apply_ufunc(kernel, {name}, dask='parallelized')"
        raise ArgumentError(f"{name} holds a Dask array", "argument.type", help=help)
    axes = tuple(Label(x.indexes[d] if d in x.indexes else range(n), d) for d, n in zip(x.dims, x.shape))
    return Labelled("xarray", x.data, axes, x.name, x)


def differ(a: Label, b: Label) -> tuple[str, str] | None:
    """(difference, help) of two labels of one axis; None if they are equal."""
    if a.name != b.name:
        return f"dimensions, {a.name!r} and {b.name!r}, along one axis", "axes go by position: transpose one of them"
    plain = isinstance(a.index, range) or isinstance(b.index, range)
    if plain or a.index is b.index or a.index.equals(b.index):  # type: ignore[attr-defined]
        return None
    return f"coordinates along {a.name!r}", "align them first: {a}, {b} = xarray.align({a}, {b})"


def wrap(result: Any, labels: Sequence[Label | None], arguments: Sequence[Labelled]) -> Any:
    """A DataArray with the dimensions and coordinates that its axes keep; other dimensions are named dim_0, ..."""
    dims = [f"dim_{k}" if label is None else label.name for k, label in enumerate(labels)]
    if len(set(dims)) < len(dims):  # an outer product of a dimension with itself
        return result
    coords = {}
    for x in reversed(arguments):
        own = [label for label in x.axes if label is not None]
        kept_dims = {a.name for a in labels if a is not None and any(differ(a, b) is None for b in own)}
        for key, coord in x.owner.coords.items():
            if set(coord.dims) <= kept_dims and (coord.dims or _everywhere(key, coord, arguments)):
                coords[key] = coord
    return sys.modules["xarray"].DataArray(result, coords=coords, dims=dims, name=common_name(list(arguments)))


def _everywhere(key: Any, coord: Any, arguments: Sequence[Labelled]) -> bool:
    """True if a scalar coordinate is equal in all arguments, so that the result has it too."""
    return all(key in x.owner.coords and bool((x.owner.coords[key] == coord).all()) for x in arguments)
