"""Arrays in the arena that behave as CuPy's do, as far as fusedsl and its tests look at them."""

from __future__ import annotations

import importlib.machinery
import types
from typing import Any

import numpy as np

from .memory import WRITTEN, Arena


class Allocation:
    """Bytes of an arena, freed with this object. The first `skip` of them are those of something else."""

    def __init__(self, arena: Arena, size: int, skip: int = 0) -> None:
        self.arena = arena
        self.address = arena.allocate(size + skip)
        self.skip = skip
        if skip:
            arena.write(self.address, b"\xff" * skip)

    @property
    def intact(self) -> bool:
        """Whether nobody has written before the array."""
        return bool((self.arena.place(self.address, self.skip) == 0xFF).all())

    def __del__(self) -> None:
        if hasattr(self, "address"):  # else there was no room
            self.arena.free(self.address)


class Pointer:
    """What CuPy calls `data`."""

    device_id = 0

    def __init__(self, ptr: int, owner: Allocation) -> None:
        self.ptr, self.owner = ptr, owner


class ndarray:
    """An array in the arena: `host` is NumPy's view of its bytes. Views of it are arrays as well."""

    def __init__(
        self,
        shape: Any,
        dtype: Any = np.float32,
        memptr: Pointer | None = None,
        strides: Any = None,
        *,
        owner: Allocation | None = None,
        host: Any = None,
    ) -> None:
        dtype = np.dtype(dtype)
        if memptr is not None:
            owner = memptr.owner
            host = np.ndarray(shape, dtype, owner.arena.bytes, memptr.ptr - owner.arena.base, strides)
        if owner is None:
            shape = (shape,) if isinstance(shape, int) else tuple(shape)
            owner = Allocation(current(), dtype.itemsize * int(np.prod(shape)))
            host = np.ndarray(shape, dtype, owner.arena.bytes, owner.address - owner.arena.base)
        self.owner, self.host = owner, host
        self.shape, self.dtype, self.strides, self.ndim = host.shape, host.dtype, host.strides, host.ndim
        self.size, self.nbytes = host.size, host.nbytes
        first = owner.arena.bytes.__array_interface__["data"][0]
        self.data = Pointer(owner.arena.base + host.__array_interface__["data"][0] - first, owner)
        self.flags = host.flags

    def __getitem__(self, index: Any) -> ndarray:
        return self._view(self.host[index if index is Ellipsis else (*_tuple(index), Ellipsis)])

    def _view(self, host: np.ndarray) -> ndarray:
        return ndarray(host.shape, host.dtype, owner=self.owner, host=host)

    def __eq__(self, other: Any) -> Any:
        return self.get() == (other.get() if isinstance(other, ndarray) else other)

    __hash__ = None  # type: ignore[assignment]

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index]._fill(np.asarray(value.get() if isinstance(value, ndarray) else value))

    def get(self) -> np.ndarray:
        """A copy for the host; AssertionError where an element was never written."""
        assert (self._states() == WRITTEN).all(), "elements that nobody has written"
        assert self.owner.intact, "bytes before the array were written"
        return self.host.copy()

    def set(self, value: np.ndarray) -> None:
        assert value.shape == self.shape and (self.flags.c_contiguous or self.flags.f_contiguous), "as CuPy asks for"
        self._fill(value)

    def _fill(self, value: np.ndarray) -> None:
        self.host[...] = value
        states = self._states()
        states[...] = WRITTEN

    def _states(self) -> np.ndarray:
        """The states of the array's bytes."""
        strides = (*self.strides, 1)
        return np.ndarray((*self.shape, self.dtype.itemsize), np.uint8, self.owner.arena.state,
                          self.data.ptr - self.owner.arena.base, strides)  # fmt: skip

    def transpose(self, *axes: Any) -> ndarray:
        return self._view(self.host.transpose(*axes))

    def view(self, dtype: Any) -> ndarray:
        return self._view(self.host.view(dtype))

    def reshape(self, *shape: Any) -> ndarray:
        return self._view(self.host.reshape(*shape))

    def copy(self) -> ndarray:
        assert self.flags.aligned, "CuPy's kernels fault where elements are not aligned"
        return asarray(self.get())

    @property
    def T(self) -> ndarray:
        return self.transpose()


def _tuple(index: Any) -> tuple:
    return index if isinstance(index, tuple) else (index,)


_arenas: list[Arena] = []


def current() -> Arena:
    """The arena of the emulated device that is in use."""
    return _arenas[-1]


def asarray(x: Any, dtype: Any = None, skip: int = 0) -> ndarray:
    """A NumPy array's elements on the device in the same memory order, `skip` bytes from an aligned address."""
    if isinstance(x, ndarray):
        return x
    x = np.asarray(x, dtype)
    order = sorted(range(x.ndim), key=lambda axis: (-abs(x.strides[axis]), axis))
    packed = np.ascontiguousarray(x.transpose(order))
    owner = Allocation(current(), packed.nbytes, skip)
    host = np.ndarray(packed.shape, packed.dtype, owner.arena.bytes, owner.address - owner.arena.base + skip)
    back = host.transpose([order.index(axis) for axis in range(x.ndim)]).reshape(x.shape)
    made = ndarray(x.shape, x.dtype, owner=owner, host=back)
    made._fill(x)
    return made


class _Device:
    def __init__(self, number: int = 0) -> None:
        self.id = number

    def __enter__(self) -> _Device:
        return self

    def __exit__(self, *raised: Any) -> None:
        pass


def module() -> types.ModuleType:
    """What stands in for the module `cupy`."""
    made: Any = types.ModuleType("cupy")
    made.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    made.ndarray, made.asarray, made.array = ndarray, asarray, asarray
    made.asfortranarray = lambda x: asarray(np.asfortranarray(x.get()))
    made.ascontiguousarray = lambda x: asarray(np.ascontiguousarray(x.get()))
    for name in ("zeros", "ones", "empty", "arange", "repeat", "concatenate", "zeros_like"):
        setattr(made, name, _on_host(getattr(np, name)))
    stream = types.SimpleNamespace(ptr=0, synchronize=lambda: None)
    made.cuda = types.SimpleNamespace(
        is_available=lambda: True,
        get_current_stream=lambda device=0: stream,
        Device=_Device,
        runtime=types.SimpleNamespace(getDeviceCount=lambda: 1, deviceSynchronize=lambda: None),
    )
    return made


def _on_host(function: Any) -> Any:
    """NumPy's function, from device arrays to device arrays."""

    def fetched(x: Any) -> Any:
        if isinstance(x, ndarray):
            return x.get()
        return [fetched(part) for part in x] if isinstance(x, list | tuple) else x

    return lambda *given, **named: asarray(function(*map(fetched, given), **named))


cupy = module()
