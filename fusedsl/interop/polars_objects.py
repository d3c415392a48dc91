"""polars Series and DataFrames as arguments and results: columns have names, rows no labels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..runtime.argument_errors import dtype_fault
from .labelled import Label, Labelled, common_name

if TYPE_CHECKING:
    import numpy as np


def is_array(kind: type) -> bool:
    """True for a polars class of arrays."""
    polars = sys.modules.get("polars")
    return polars is not None and issubclass(kind, (polars.Series, polars.DataFrame))


def columns(x: Any) -> Iterable[tuple[str, Any]] | None:
    """The columns of a DataFrame; None for anything else."""
    return ((name, x[name]) for name in x.columns) if isinstance(x, sys.modules["polars"].DataFrame) else None


def is_uniform(x: Any) -> bool:
    """True if all elements of a Series or DataFrame have one dtype, and none is null."""
    parts = [x] if isinstance(x, sys.modules["polars"].Series) else x.get_columns()
    return len({part.dtype for part in parts}) == 1 and not any(part.null_count() for part in parts)


def read(x: Any, name: str) -> Labelled:
    """The array of a Series or DataFrame; nulls are NaN, so integers become floats, as in polars."""
    if isinstance(x, sys.modules["polars"].Series):
        return Labelled("polars", _values(x, name), (Label(range(len(x))),), x.name)
    import numpy as np

    parts = [_values(x[c], f"column {c!r} of {name}", f"{name}[{c!r}]") for c in x.columns]
    table = np.stack(parts, axis=1) if parts else np.empty(x.shape)
    return Labelled("polars", table, (Label(range(len(x))), Label(tuple(x.columns))))


def _values(x: Any, name: str, form: str | None = None) -> np.ndarray:
    if not (x.dtype.is_numeric() or x.dtype == sys.modules["polars"].Boolean):
        raise dtype_fault(name, str(x.dtype), form)
    values = x.to_numpy()
    if values.dtype.kind not in "biuf":  # decimals, and bools with nulls
        raise dtype_fault(name, f"{x.dtype} with nulls" if x.null_count() else str(x.dtype), form)
    return values


def differ(a: Label, b: Label) -> tuple[str, str] | None:
    """(difference, help) of two labels of one axis; None if they are equal."""
    if a.index == b.index:
        return None
    return "columns", "select the columns of {a} in the order of {b}: {a}.select({b}.columns)"


def wrap(result: Any, labels: Sequence[Label | None], arguments: Sequence[Labelled]) -> Any:
    """A Series for one axis along rows, a DataFrame for two axes with a label, else the array."""
    if all(label is None for label in labels) or type(result).__module__ != "numpy":
        return result
    polars = sys.modules["polars"]
    if len(labels) == 1 and isinstance(labels[0].index, range):  # type: ignore[union-attr]
        return polars.Series(common_name(list(arguments)) or "", result)
    if len(labels) == 2:
        names: Any = None if labels[1] is None else labels[1].index
        return polars.DataFrame(result, schema=list(names) if isinstance(names, tuple) else None)
    return result
