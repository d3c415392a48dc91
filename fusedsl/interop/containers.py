"""Lists and labelled arrays (pandas, polars, xarray, JAX) as arguments: conversion to arrays, and of results back.

A library is found by the type of the argument, among the imported modules; none is imported here.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ArgumentError, FusedslError, kind_of
from ..ir.types import DTYPES
from ..runtime.argument_errors import dtype_fault, library_of
from . import jax_arrays, pandas_objects, polars_objects, xarray_objects
from .labelled import Label, Labelled

LISTS = (list, tuple, range, array.array)
LIBRARIES = {
    "pandas": pandas_objects,
    "polars": polars_objects,
    "xarray": xarray_objects,
    "jax": jax_arrays,
    "jaxlib": jax_arrays,
}
NATIVE = ("builtins", "numpy", "torch", "cupy")
Origins = Sequence[frozenset[tuple[int, int]]]


def is_container_type(kind: type) -> bool:
    """True if instances of a class are converted to arrays; False for arrays that kernels take directly."""
    is_container = _known_types.get(kind)
    if is_container is None:
        library = (kind.__module__ or "").partition(".")[0]
        is_container = kind in LISTS or (library in LIBRARIES and LIBRARIES[library].is_array(kind))
        if is_container or library in NATIVE:
            _known_types[kind] = is_container
    return is_container


_known_types: dict[type, bool] = {}


def is_container(x: Any) -> bool:
    """True for a list, a labelled array, or a JAX array."""
    return is_container_type(type(x))


def is_labelled_type(kind: type) -> bool:
    """True if instances of a class have labels: pandas, polars and xarray."""
    return is_container_type(kind) and kind not in LISTS and not (kind.__module__ or "").startswith("jax")


def is_uniform(x: Any) -> bool:
    """True if a labelled array has one dtype of NumPy's for all elements, and none is missing."""
    return LIBRARIES[type(x).__module__.partition(".")[0]].is_uniform(x)


def columns(x: Any) -> Mapping[str, Any] | None:
    """The columns of a DataFrame by name; None for anything else."""
    library = type(x).__module__.partition(".")[0]
    pairs = LIBRARIES[library].columns(x) if library in ("pandas", "polars") else None
    return None if pairs is None else {name: part for name, part in pairs if isinstance(name, str)}


def read(x: Any, name: str) -> Any:
    """An argument as kernels take it: Labelled for a labelled array, a NumPy array for a list, else unchanged.

    Raises ArgumentError or DTypeError, with the argument's (or column's) name, if it holds no numbers.
    """
    kind = type(x)
    if not is_container_type(kind):
        return x
    if kind in LISTS:
        return _list_as_array(x, name)
    return LIBRARIES[kind.__module__.partition(".")[0]].read(x, name)


def _list_as_array(x: Any, name: str) -> Any:
    """A NumPy array of a list of numbers, or of nested lists of equal length."""
    import numpy as np

    if type(x) in (list, tuple) and any(type(part).__module__.partition(".")[0] in ("torch", "cupy") for part in x):
        library = type(x[0]).__module__.partition(".")[0]
        raise ArgumentError(
            f"{name} is {kind_of(x)} of {library} arrays", "argument.type",
            help=f"pass {library}.stack({name}), or one argument for each; foreach takes lists of arrays",
        )  # fmt: skip
    try:
        converted = np.asarray(x)
    except ValueError:
        raise ArgumentError(
            f"the parts of {name} differ in length", "argument.type",
            help="an array is rectangular: pad the parts, or give each an argument; foreach takes lists of arrays",
        ) from None  # fmt: skip
    if converted.dtype.name not in DTYPES:
        raise dtype_fault(name, converted.dtype.name)
    return converted


# -- results


def wrapper(values: Sequence[Any], names: Sequence[str]) -> Callable[[Sequence[Any], Callable], list] | None:
    """A function that wraps results in the library and labels of the labelled arguments; None if there are none.

    It is called with (results, origins): `origins()` gives, for each result axis, the argument axes it runs along.
    """
    labelled = {k: x for k, x in enumerate(values) if isinstance(x, Labelled)}
    if not labelled:
        return None
    first = next(iter(labelled.values()))
    library = LIBRARIES[first.library]
    if first.library == "jax" and any(library_of(x) in ("torch", "cupy") for x in values):
        return None
    own = {k: x for k, x in labelled.items() if x.library == first.library}

    def wrap(results: Sequence[Any], origins: Callable[[], Sequence[Origins]]) -> list:
        wrapped = []
        for result, axes in zip(results, origins()):
            labels = [_label(library, own, names, sources, n) for sources, n in zip(axes, result.shape)]
            wrapped.append(library.wrap(result, labels, list(own.values())))
        return wrapped

    return wrap


def _label(
    library: Any, own: Mapping[int, Labelled], names: Sequence[str], sources: frozenset[tuple[int, int]], extent: int
) -> Label | None:
    """The label of a result's axis; ArgumentError if the arguments along it have different labels."""
    first: tuple[int, Label] | None = None
    for k, axis in sorted(sources):
        label = own[k].axes[axis] if k in own else None
        if label is None or len(label) != extent:
            continue
        if first is None:
            first = k, label
        elif (fault := library.differ(first[1], label)) is not None:
            raise _misaligned(names[first[0]], names[k], *fault)
    return None if first is None else first[1]


def _misaligned(first: str, second: str, what: str, help: str) -> FusedslError:
    help = help.format(a=first, b=second)
    return ArgumentError(f"{first} and {second} have different {what}", "argument.labels", help=help)
