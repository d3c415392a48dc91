"""DataArrays of xarray, and what a result is in their kind: axes keep their dimensions' names and coordinates."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError
from .labelled import Label, Labelled, common_name


def is_array(kind: type) -> bool:
    """Whether a class of xarray's is of arrays."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and issubclass(kind, (xarray.DataArray, xarray.Dataset))


def columns(x: Any) -> None:
    """A Dataset is a mapping already."""
    return


def read(x: Any, name: str) -> Labelled:
    """The array of a DataArray, with its dimensions."""
    if isinstance(x, sys.modules["xarray"].Dataset):
        help = f"pass one of its variables, {name}['...'], or the dataset as the mapping: evaluate(text, {name})"
        raise ArgumentError(f"{name} is a Dataset", "argument.type", help=help)
    if hasattr(x.data, "__dask_graph__"):
        help = f"pass {name}.compute(), or use xarray.apply_ufunc(kernel, {name}, dask='parallelized')"
        raise ArgumentError(f"{name} holds a Dask array", "argument.type", help=help)
    axes = tuple(Label(x.indexes[d] if d in x.indexes else range(n), d) for d, n in zip(x.dims, x.shape))
    return Labelled("xarray", x.data, axes, x.name, x)


def differ(a: Label, b: Label) -> tuple[str, str] | None:
    """What two labels of one axis disagree about, and what to do; None where they agree."""
    if a.name != b.name:
        return f"dimensions, {a.name!r} and {b.name!r}, along one axis", "axes go by position: transpose one of them"
    plain = isinstance(a.index, range) or isinstance(b.index, range)
    if plain or a.index is b.index or a.index.equals(b.index):  # type: ignore[attr-defined]
        return None
    return f"coordinates along {a.name!r}", "align them first: {a}, {b} = xarray.align({a}, {b})"


def wrap(result: Any, labels: Sequence[Label | None], arguments: Sequence[Labelled]) -> Any:
    """A DataArray with the dimensions and the coordinates that its axes keep; others are called dim_0 and so on."""
    dims = [f"dim_{k}" if label is None else label.name for k, label in enumerate(labels)]
    if len(set(dims)) < len(dims):  # an outer product of a dimension with itself
        return result
    coords = {}
    for x in reversed(arguments):
        own = [label for label in x.axes if label is not None]
        kept = {a.name for a in labels if a is not None and any(differ(a, b) is None for b in own)}
        for key, coord in x.owner.coords.items():
            if set(coord.dims) <= kept and (coord.dims or _everywhere(key, coord, arguments)):
                coords[key] = coord
    return sys.modules["xarray"].DataArray(result, coords=coords, dims=dims, name=common_name(list(arguments)))


def _everywhere(key: Any, coord: Any, arguments: Sequence[Labelled]) -> bool:
    """Whether a coordinate without dimensions is the same in all arguments: it is a fact about the result as well."""
    return all(key in x.owner.coords and bool((x.owner.coords[key] == coord).all()) for x in arguments)
