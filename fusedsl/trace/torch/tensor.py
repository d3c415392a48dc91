"""The tracer of a torch tensor: torch's operators, attributes and methods."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...errors import DTypeError, TraceError
from ...ir import gathers, index_keys
from ...ir.dims import Dim
from ...ir.graph import Node
from .. import views
from ..operators import BINARY, COMPARE
from ..tracer import Tracer, recorder_in
from . import promotion
from .numbers import checked_integer
from .size import TorchSize

OPERATORS = frozenset([*BINARY.values(), *COMPARE.values()])


class Tensor(Tracer):
    """A tracer with torch's semantics. It is no subclass of torch.Tensor: C code would read its memory."""

    @property
    def rebinds(self) -> bool:
        return not self.mutable or self.is_number

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        if self.is_number:
            return {"b": bool, "i": int, "f": float}[self.node.type.dtype.kind]
        return Tensor

    # -- what it is

    @property
    def shape(self) -> TorchSize:
        return TorchSize(super().shape)

    def size(self, dim: int | None = None) -> Any:  # type: ignore[override]
        return self.shape if dim is None else self.shape[int(dim)]

    @property
    def dtype(self) -> Any:
        return getattr(sys.modules["torch"], self.node.type.dtype.name)

    @property
    def device(self) -> Any:
        return self.recorder.example.device

    @property
    def layout(self) -> Any:
        return sys.modules["torch"].strided

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.numel() * self.itemsize

    @property
    def is_cuda(self) -> bool:
        return self.recorder.example.is_cuda

    requires_grad = is_leaf = is_sparse = is_quantized = is_meta = is_nested = False
    grad = grad_fn = None

    @property
    def data(self) -> Tensor:
        return self

    @property
    def H(self) -> Any:
        return self.T

    @property
    def mH(self) -> Any:
        return self.mT

    def numel(self) -> Any:
        return self.recorder.wrap(self.recorder.builder.extent(_product(self.node)))

    def dim(self) -> int:
        return self.ndim

    def get_device(self) -> int:
        return self.recorder.example.get_device()

    def element_size(self) -> int:
        return self.itemsize

    def is_floating_point(self) -> bool:
        return self.node.type.dtype.kind == "f"

    def is_complex(self) -> bool:
        return False

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        if requires_grad:
            raise TraceError("a kernel records no gradient", "trace.grad", help="differentiate outside")
        return self

    def is_contiguous(self, *args: Any, **named: Any) -> bool:
        raise TraceError(
            "strides are not known while tracing",
            "trace.strides",
            help="drop the test: every layout gives the same result",
        )

    stride = storage_offset = data_ptr = is_contiguous

    def numpy(self, *args: Any, **named: Any) -> Any:
        with self.recorder.at_user_line():
            raise TraceError(
                "a traced tensor has no elements yet",
                "trace.array",
                help="stay in torch, whose functions are traced, and convert the result outside",
            )

    # -- operators

    def _from_number(self, value: Node) -> Node:
        return checked_integer(self.recorder, value, self.node.type.dtype) if value.type.weak else value

    def _is_scalar(self, key: tuple) -> bool:
        return False  # torch's subscripts of one element are views

    def _indexed(self, key: tuple) -> Node:
        """Advanced indexing; torch applies integers and 0-d tensors first, unlike NumPy: they separate no indices."""
        b = self.recorder.builder
        full = [part for _, part in index_keys.full_key(b, self.node, key)]
        alone = tuple(part if _is_one(part) else index_keys.FULL_SLICE for part in full if part is not None)
        rest = tuple(part for part in full if not _is_one(part))
        return gathers.index(b, gathers.index(b, self.node, alone), rest)

    def _operate(self, name: str, *operands: Any) -> Any:
        return promotion.operate(self.recorder, name, *operands)

    def _check_cast(self, new: Node, casting: str) -> None:
        to = self.node.type.dtype
        if casting == "same_kind" and not promotion.can_cast(new.type.dtype, to):
            raise DTypeError(f"{new.type.dtype} does not go into {to}", "dtype.write", help="cast it first: x.to")

    def __matmul__(self, other: Any) -> Any:
        return _call(self.recorder, "matmul", (self, other), {})

    def __rmatmul__(self, other: Any) -> Any:
        return _call(self.recorder, "matmul", (other, self), {})

    def __copy__(self) -> Any:
        return self  # a tensor's copy shares its memory

    # -- torch's protocols and methods

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        from .functions import name_of

        recorder = recorder_in((args, kwargs))
        return _call(recorder, name_of(function), args, kwargs or {})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """An operator with a NumPy scalar on the left, which torch treats as a number."""
        if method == "__call__" and isinstance(inputs[0], np.generic) and ufunc.__name__ in OPERATORS and not kwargs:
            return self._operate(ufunc.__name__, inputs[0].item(), self)
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if not self.is_number:
            from .functions import method_name

            if (method := method_name(name)) is not None:
                return lambda *args, **kwargs: _call(self.recorder, method, (self, *args), kwargs)
        elif not name.startswith("__") and hasattr(self.__class__, name):
            return getattr(self._known("a number"), name)
        raise AttributeError(f"a traced tensor has no attribute {name}")

    def sort(self, *args: Any, **named: Any) -> Any:
        return _call(self.recorder, "sort", (self, *args), named)

    def permuted(self, axes: tuple[int, ...] | None) -> Any:
        """A view with permuted axes."""
        return self.viewed(views.transposed(self.recorder.builder, axes))


def _is_one(part: Any) -> bool:
    """True for a subscript part that selects a single index."""
    return isinstance(part, Dim) or (isinstance(part, Node) and not part.type.shape)


def _product(node: Node) -> Any:
    from ...ir.dims import product

    return product(node.type.shape)


def _call(recorder: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    from .functions import call

    return call(recorder, name, args, kwargs)
