"""pandas Series and DataFrames as arguments, and results as Series and DataFrames."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DTypeError
from ..runtime.argument_errors import dtype_fault
from .labelled import Label, Labelled, common_name

if TYPE_CHECKING:
    import numpy as np


def is_array(kind: type) -> bool:
    """True for a pandas class of arrays."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return False
    return issubclass(kind, (pandas.Series, pandas.DataFrame, pandas.Index, pandas.api.extensions.ExtensionArray))


def columns(x: Any) -> Iterable[tuple[Any, Any]] | None:
    """The columns of a DataFrame; None for anything else."""
    return x.items() if isinstance(x, sys.modules["pandas"].DataFrame) else None


def is_uniform(x: Any) -> bool:
    """True if all elements of a Series or DataFrame have one dtype of NumPy's."""
    kinds = set(x.dtypes) if x.ndim == 2 else {x.dtype}
    return len(kinds) == 1 and _is_number(next(iter(kinds)))


def read(x: Any, name: str) -> Any:
    """The array and labels of a Series or DataFrame; the array alone for an Index."""
    pandas = sys.modules["pandas"]
    if isinstance(x, pandas.Series):
        return Labelled("pandas", _values(x, name), (Label(x.index),), x.name)
    if isinstance(x, pandas.DataFrame):
        return Labelled("pandas", _table(x, name), (Label(x.index), Label(x.columns)))
    return _values(pandas.Series(x), name)


def _table(x: Any, name: str) -> np.ndarray:
    """The columns of a DataFrame as one array, in their common dtype; without a copy if they are one block."""
    import numpy as np

    kinds = set(x.dtypes)
    if len(kinds) == 1 and _is_number(next(iter(kinds))):
        return x.to_numpy()
    parts = [_values(part, f"column {label!r} of {name}", f"{name}[{label!r}]") for label, part in x.items()]
    return np.stack(parts, axis=1) if parts else np.empty(x.shape)


def _is_number(dtype: Any) -> bool:
    return type(dtype).__module__.partition(".")[0] == "numpy" and dtype.kind in "biuf"


def _values(x: Any, name: str, form: str | None = None) -> np.ndarray:
    """The numbers of a Series. Missing values are NaN, so integers become floats, as in pandas."""
    import numpy as np

    dtype, form = x.dtype, form or name
    if isinstance(dtype, np.dtype):
        if dtype.kind in "biuf":
            return x.to_numpy()
        raise dtype_fault(name, dtype.name, form)
    plain = getattr(dtype, "numpy_dtype", None) or getattr(dtype, "subtype", None)  # nullable; sparse
    if not _is_number(plain):
        raise dtype_fault(name, str(dtype), form)
    assert plain is not None
    if not x.isna().any():
        return x.to_numpy(dtype=plain)
    if plain.kind == "b":
        help = f"pass {form}.fillna(False), or True"
        raise DTypeError(f"{name} has missing bools", "dtype.missing", help=help)
    return x.to_numpy(dtype=plain if plain.kind == "f" else np.dtype("float64"), na_value=np.nan)


def differ(a: Label, b: Label) -> tuple[str, str] | None:
    """(difference, help) of two labels of one axis; None if they are equal."""
    if a.index is b.index or a.index.equals(b.index):  # type: ignore[attr-defined]
        return None
    return "indexes", "align them first, {a}, {b} = {a}.align({b}), or pass {b}.to_numpy() to go by position"


def wrap(result: Any, labels: Sequence[Label | None], arguments: Sequence[Labelled]) -> Any:
    """A Series for one labelled axis, a DataFrame for two axes with a label, else the array."""
    pandas, indexes = sys.modules["pandas"], [None if label is None else label.index for label in labels]
    if all(index is None for index in indexes) or type(result).__module__ != "numpy":
        return result
    if len(indexes) == 1:
        return pandas.Series(result, index=indexes[0], name=common_name(list(arguments)), copy=False)
    if len(indexes) == 2:
        return pandas.DataFrame(result, index=indexes[0], columns=indexes[1], copy=False)
    return result
