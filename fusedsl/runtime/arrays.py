"""Arguments of any library as plain facts: dtype, shape, strides, address, device; or an error with the form to pass.

Libraries are looked up by type among the imported modules; none is ever imported here.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError, DeviceError, FusedslError
from ..ir.types import BOOL, DTYPES, FLOAT64, INT64, DType, numpy_dtype
from . import array_protocols
from .argument_errors import DISPLAY_NAME, conversion_expression, dtype_fault, library_of, type_name

CPU = ("cpu", 0)


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """One array argument as schedules and launches see it.

    `library` is numpy, torch or cupy, or dlpack or interface for arrays known through those protocols alone. `strides`
    count elements. `owner` keeps the memory alive: the argument itself, or with `copied` a plain copy of it (of
    byte-swapped, misaligned or lazily negated memory) that is used instead.
    """

    library: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int
    device: tuple[str, int]
    readonly: bool
    owner: Any
    copied: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def by_value(self) -> bool:
        """Whether this is a rank-0 host value: its dtype is strong, it is passed as a number, and fits any device."""
        return not self.shape and self.device == CPU

    @property
    def value(self) -> bool | int | float:
        """The number of a rank-0 host array."""
        return self.owner.item()

    @property
    def where(self) -> str:
        """Library and device in words, for messages."""
        kind, index = self.device
        return f"{DISPLAY_NAME[self.library]} on {'the CPU' if kind == 'cpu' else f'{kind}:{index}'}"


@dataclass(frozen=True, slots=True)
class Weak:
    """A Python number: it takes the dtype of the array that it is combined with."""

    kind: str  # "b" bool, "i" int, "f" float
    value: bool | int | float

    @property
    def dtype(self) -> DType:
        """The dtype of an output that depends on weak values alone."""
        return {"b": BOOL, "i": INT64, "f": FLOAT64}[self.kind]


Facts = Mapping[str, "ArrayFacts | Weak"]
"""The arguments of a call by name, as far as plans and launches depend on them."""


def describe(argument: Any, name: str = "argument") -> ArrayFacts | Weak:
    """The facts of one argument; an ArgumentError, DTypeError or DeviceError names it and the form to use."""
    try:
        return _describe(argument, name)
    except (FusedslError, MemoryError):
        raise
    except Exception as error:  # any exception of another library's attributes
        message = f"{name}, a {type_name(type(argument))}, cannot be read: {error}"
        help = f"pass {name} as a plain NumPy, CuPy or torch array"
        raise ArgumentError(message, "argument.type", help=help) from error


def describe_all(names: Sequence[str], values: Sequence[Any]) -> dict[str, ArrayFacts | Weak]:
    """The facts of the arguments, by name."""
    return {name: describe(v, name) for name, v in zip(names, values)}


def _describe(argument: Any, name: str) -> ArrayFacts | Weak:
    library = library_of(argument)
    if library is None:
        return _describe_number(argument, name)
    if library == "numpy":
        return _describe_numpy(argument, name)
    if library == "torch":
        return _describe_torch(argument, name)
    if library == "cupy":
        return _describe_cupy(argument, name)
    facts = array_protocols.read_dlpack if library == "dlpack" else array_protocols.read_interface
    dtype_name, shape, strides, pointer, device, readonly, owner = facts(argument, name)
    dtype = DTYPES.get(dtype_name)
    if dtype is None:
        raise dtype_fault(name, dtype_name)
    plain = ArrayFacts(library, dtype, shape, strides, pointer, device, readonly, owner)
    return _as_numpy_scalar(plain) if device == CPU and not shape else plain


def _as_numpy_scalar(array: ArrayFacts) -> ArrayFacts:
    """A rank-0 CPU array of another library as a NumPy array, whose number can be read."""
    import numpy as np

    data = ctypes.string_at(array.pointer, array.dtype.itemsize)
    copy = np.frombuffer(data, numpy_dtype(array.dtype)).reshape(())
    return ArrayFacts("numpy", array.dtype, (), (), copy.ctypes.data, CPU, True, copy)


# ---- arguments that are not arrays


def _describe_number(argument: Any, name: str) -> Weak:
    if isinstance(argument, bool):
        return Weak("b", argument)
    if isinstance(argument, int):
        return Weak("i", int(argument))
    if isinstance(argument, float):
        return Weak("f", float(argument))
    if isinstance(argument, complex):
        raise dtype_fault(name, "complex")
    kind = type(argument)
    help = f"pass {conversion_expression(argument, name) or 'a NumPy, CuPy or torch array, or a number'}"
    if kind.__name__ == "Spec":
        help = "pass an array; explain, source, resources, compile, report and save take specs"
    shown = "None" if argument is None else f"a {type_name(kind)}"
    raise ArgumentError(f"{name} is {shown}", "argument.type", help=help)


# ---- NumPy


def _describe_numpy(argument: Any, name: str) -> ArrayFacts:
    np = sys.modules["numpy"]
    if isinstance(argument, np.generic):
        argument = np.asarray(argument)
    elif type(argument) not in (np.ndarray, np.memmap):
        _refuse_numpy_subclass(argument, name)
    dtype = DTYPES.get(argument.dtype.name)
    if dtype is None:
        raise dtype_fault(name, argument.dtype.name)
    plain = argument if _is_plain(argument) else np.array(argument, argument.dtype.newbyteorder("="), order="K")
    strides = tuple(s // dtype.itemsize for s in plain.strides)
    pointer = plain.ctypes.data
    readonly = not argument.flags.writeable
    return ArrayFacts("numpy", dtype, plain.shape, strides, pointer, CPU, readonly, plain, plain is not argument)


def _is_plain(x: Any) -> bool:
    """Whether kernels can read the memory as it is: native byte order, whole elements apart, aligned."""
    size = x.dtype.itemsize
    steps = all(s % size == 0 for s, n in zip(x.strides, x.shape) if n > 1)
    return x.dtype.isnative and x.flags.aligned and steps


def _refuse_numpy_subclass(argument: Any, name: str) -> None:
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    form = f"{name}.filled(0), or its parts {name}.data and {name}.mask" if isinstance(argument, masked) else None
    kind = type_name(type(argument))
    help = f"pass {form or f'numpy.asarray({name})'}"
    raise ArgumentError(f"{name} is a {kind}, whose own rules a kernel would drop", "argument.type", help=help)


# ---- torch


def _describe_torch(x: Any, name: str) -> ArrayFacts:
    torch = sys.modules["torch"]
    _check_tensor(torch, x, name)
    dtype = DTYPES.get(str(x.dtype).removeprefix("torch."))
    if dtype is None:
        raise dtype_fault(name, str(x.dtype).removeprefix("torch."))
    kind, index = x.device.type, x.device.index
    if kind not in ("cpu", "cuda"):
        help = f"pass {name}.cpu() or {name}.cuda()"
        if kind == "meta":
            help = f"it has no elements; explain() takes fusedsl.spec({name}.shape, {name}.dtype) in its place"
        raise DeviceError(f"{name} is a torch tensor on {x.device}", "device.unknown", help=help)
    plain = x.resolve_neg() if x.is_neg() else x
    try:
        pointer = plain.data_ptr()
    except RuntimeError as fault:  # fake, functional and batched tensors
        help = f"{name} has no memory of its own (vmap, fake or functional tensors): call outside of the transform"
        raise ArgumentError(f"the memory of {name} cannot be read: {fault}", "argument.memory", help=help) from None
    device = (kind, index or 0)
    return ArrayFacts("torch", dtype, tuple(x.shape), plain.stride(), pointer, device, False, plain, plain is not x)


def _check_tensor(torch: Any, x: Any, name: str) -> None:
    if type(x) is not torch.Tensor and type(x) is not torch.nn.Parameter:
        help = f"pass {name}.as_subclass(torch.Tensor)"
        raise ArgumentError(
            f"{name} is a {type_name(type(x))}, whose own rules a kernel would drop", "argument.type", help=help
        )
    if x.layout is not torch.strided:
        help = f"pass {name}.to_dense()"
        raise ArgumentError(f"{name} is a sparse tensor ({x.layout})", "argument.sparse", help=help)
    if x.requires_grad and torch.is_grad_enabled() and not recorded.get():
        raise gradient_fault(name)


recorded: ContextVar[bool] = ContextVar("recorded", default=False)  # whether the call records its gradients itself


def gradient_fault(name: str) -> ArgumentError:
    """The error for a tensor that requires grad."""
    help = f"pass {name}.detach(), or call under torch.no_grad()"
    return ArgumentError(f"{name} requires grad, and this call records no gradient", "argument.grad", help=help)


# ---- CuPy


def _aligned(cupy: Any, x: Any, size: int) -> Any:
    """A copy of misaligned elements, byte by byte: CuPy's own kernels fault on them, and the context is lost."""
    octets = cupy.ndarray((*x.shape, size), "uint8", x.data, (*x.strides, 1))
    return octets.copy().view(x.dtype).reshape(x.shape)


def _describe_cupy(x: Any, name: str) -> ArrayFacts:
    cupy = sys.modules["cupy"]
    if type(x) is not cupy.ndarray:
        kind = type_name(type(x))
        help = f"pass cupy.asarray({name})"
        raise ArgumentError(f"{name} is a {kind}, whose own rules a kernel would drop", "argument.type", help=help)
    dtype = DTYPES.get(x.dtype.name)
    if dtype is None:
        raise dtype_fault(name, x.dtype.name)
    size = dtype.itemsize
    steps = all(s % size == 0 for s, n in zip(x.strides, x.shape) if n > 1)
    plain = x if steps and x.data.ptr % size == 0 else _aligned(cupy, x, size)
    strides = tuple(s // size for s in plain.strides)
    device = ("cuda", plain.data.device_id)
    return ArrayFacts("cupy", dtype, plain.shape, strides, plain.data.ptr, device, False, plain, plain is not x)
