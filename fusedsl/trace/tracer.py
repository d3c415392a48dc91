"""The tracer of an array or number: NumPy's methods, attributes and dispatch protocols."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..errors import TraceError, Unsupported
from ..ir import index_keys
from ..ir.gathers import advanced_index
from ..ir.graph import Node
from ..ir.types import numpy_dtype
from ..lang.misspellings import meant_by
from ..lang.parameter_kinds import dim_of
from . import views
from .mask_indexing import has_mask, is_mask, select_by_mask, write_by_mask, write_by_partial_mask
from .number_conversions import NumberConversions
from .scattered_writes import written
from .subscripts import positions
from .unsupported import refusal

OWN_ATTRIBUTES = frozenset(
    ["recorder", "mutable", "captured", "writes", "compares", "_node", "_base", "_view", "_version_read"]
)


class MissingAttribute(TraceError, AttributeError):
    """An attribute that no array has."""


class Tracer(NumberConversions):
    """A node of the graph under construction, or a view of another tracer, which sees writes to its base."""

    __array_priority__ = 1000

    # -- type and shape

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        """The class of the run-time value, for `isinstance` and singledispatch in the user's function."""
        t = self.node.type
        if self.is_number:
            return {"b": bool, "i": int, "f": float}[t.dtype.kind]
        if self.rebinds and not self.captured and not t.shape and self.recorder.array_class is np.ndarray:
            return self.dtype.type
        return self.recorder.array_class

    @property
    def shape(self) -> tuple[Any, ...]:
        b = self.recorder.builder
        return tuple(d if isinstance(d, int) else self._new(b.extent(d)) for d in self.node.type.shape)

    @property
    def ndim(self) -> int:
        return self.node.type.rank

    @property
    def size(self) -> Any:
        count = self.recorder.apply("size", self)
        extent = dim_of(count.node)
        return extent if isinstance(extent, int) else count

    @property
    def dtype(self) -> np.dtype:
        return numpy_dtype(self.node.type.dtype)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize

    @property
    def T(self) -> Any:
        return self.viewed(views.transposed(self.recorder.builder, None))

    @property
    def mT(self) -> Any:
        if self.ndim < 2:
            self.recorder.apply("matrix_transpose", self)  # refuses
        axes = (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)
        return self.viewed(views.transposed(self.recorder.builder, axes))

    @property
    def real(self) -> Tracer:
        return self

    @property
    def imag(self) -> Any:
        return self.recorder.apply("zeros_like", self)

    def conj(self, out: Any = None) -> Any:
        from .numpy.out import write_out

        return write_out(self.recorder, out, self)

    conjugate = conj

    def __repr__(self) -> str:
        if self.is_number:
            return repr(self._known("a number"))
        return f"<traced {self.recorder.builder.describe(self.node.type)}>"

    def __format__(self, form: str) -> str:
        if form or self.is_number:
            return format(self._known("the digits of an array", "format it outside of the function"), form)
        return repr(self)

    def __str__(self) -> str:
        return format(self)

    def __len__(self) -> int:
        if not self.node.type.shape:
            raise TypeError("len() of a number")
        return int(self.shape[0])

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def item(self, *index: int) -> Any:
        return self._known(
            "the item of an array",
            "leave .item() out, x * y.max() computes the same; or return the array, and take the item outside",
        )

    def tolist(self) -> Any:
        return self._known("the items of an array", "return the array, and take them outside")

    def __array__(self, *args: Any, **kwargs: Any):
        if self.is_number:
            return np.asarray(self._known("a number"), *args)
        with self.recorder.at_user_line():
            raise TraceError(
                "a traced array has no elements yet",
                "trace.array",
                help="use operators, methods and functions that NumPy dispatches; x.astype(dtype) converts",
            )

    # -- subscripts

    def __getitem__(self, key: Any) -> Any:
        if is_mask(key):
            return select_by_mask(self, key)
        with self.recorder.at_user_line():
            ready = positions(self.recorder, key)
            if any(isinstance(part, Node) for part in ready):
                return self._new(self._indexed(ready))
        if self._is_scalar(ready):
            with self.recorder.at_user_line():
                return self._new(index_keys.index(self.recorder.builder, self.node, ready))
        return self.viewed(views.indexed(self.recorder.builder, ready))

    def _indexed(self, key: tuple) -> Node:
        """The elements at indices from arrays."""
        return advanced_index(self.recorder.builder, self.node, key)

    def _is_scalar(self, key: tuple) -> bool:
        """True if a subscript selects one element, which NumPy copies."""
        return Ellipsis not in key and len(key) == self.ndim and not any(k is None or isinstance(k, slice) for k in key)

    def __setitem__(self, key: Any, value: Any) -> None:
        with self.recorder.at_user_line():
            if is_mask(key):
                write_by_mask(self, key, value)
                return
            if has_mask(key) and not self.recorder.node(value).type.shape:
                write_by_partial_mask(self, key, self.recorder.node(value))
                return
            ready = positions(self.recorder, key)
            b = self.recorder.builder
            if any(isinstance(part, Node) for part in ready):
                value = self._from_number(self.recorder.node(value))
                self._write(written(b, self.node, ready, value), "unsafe")
                return
            target = type(self)(self.recorder, None, base=self, view=views.indexed(b, ready))
            target._write(target._assignable(self.recorder.node(value)), "unsafe")

    def fill(self, value: Any) -> None:
        self[...] = value

    # -- NumPy's protocols

    @property
    def device(self) -> Any:
        """The device of the arguments, as their library names it."""
        return getattr(self.recorder.example, "device", "cpu")

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        if device != self.device:
            raise TraceError(
                f"a move to {device} inside a traced function", "trace.device", help="move it before the call"
            )
        return self

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """The array API namespace of the arguments' library."""
        from .proxies import ModuleProxy

        library = "numpy" if self.recorder.array_class is np.ndarray else "cupy"
        return ModuleProxy(sys.modules[library], library, self.recorder)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from .numpy.functions import call_ufunc

        return call_ufunc(self.recorder, ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        from .numpy.functions import QUALIFIED, call_function

        module = function.__module__.rpartition(".")[2]
        return call_function(self.recorder, QUALIFIED.get((module, name := function.__name__), name), args, kwargs)

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        from .numpy.functions import call_elementwise

        name = kernel.name.removeprefix("cupy_").removeprefix("cupyx_scipy_special_").removeprefix("cupyx_")
        return call_elementwise(self.recorder, name, args, kwargs)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        recorder_in((args, kwargs)).discover_library("torch")
        raise Unsupported(
            f"torch.{getattr(function, '__name__', function)} of an array that is not torch's",
            "unsupported.torch",
            help="pass tensors",
        )

    def sort(self, axis: int = -1, **named: Any) -> None:
        """Sort in place."""
        from .numpy.functions import call_function

        result = call_function(self.recorder, "sort", (self, axis), named)
        with self.recorder.at_user_line():
            self._write(result.node, "same_kind")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a tracer's own attribute; Unsupported for attributes of arrays."""
        if name not in OWN_ATTRIBUTES and hasattr(self.recorder.array_class, name):
            with self.recorder.at_user_line():
                raise Unsupported(
                    f"setting .{name} of an array is not supported",
                    "unsupported.trace",
                    help="x[...] = values writes elements, and x = x.reshape(shape) is the array in another shape",
                )
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """A method: NumPy's function of that name, with this array first."""
        from .numpy.functions import METHODS, call_function

        if name in METHODS:
            return lambda *args, **kwargs: call_function(self.recorder, name, (self, *args), kwargs)
        if not name.startswith("_") and self.is_number and hasattr(self.__class__, name):
            return getattr(self._known("a number"), name)
        if not name.startswith("_") and not self.is_number and hasattr(self.recorder.array_class, name):
            raise refusal(name, f"{name} of an array cannot be traced")
        if name.startswith("_"):
            raise AttributeError(f"a traced array has no attribute {name}")
        near = " or ".join(meant_by(name, {*METHODS, *dir(self.recorder.array_class)}))
        raise MissingAttribute(
            f"an array has no attribute {name}",
            "trace.attribute",
            help=f"did you mean {near}?" if near else "attributes and methods are those of the library's arrays",
        )

    def __copy__(self) -> Any:
        return self.recorder.apply("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.recorder.apply("copy", self)


def recorder_in(value: Any) -> Any:
    """The recorder of the first tracer among arguments."""
    if isinstance(value, Tracer):
        return value.recorder
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return next((recorder for part in parts if (recorder := recorder_in(part)) is not None), None)
