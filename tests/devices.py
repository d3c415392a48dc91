"""Random programs on a CUDA device, a real or an emulated one: every argument and output with its layout and its guards
in the device's memory."""

from __future__ import annotations

import numpy as np
from laws import Case, Run, cpu
from memory import root

from fusedsl.ir.types import DType, numpy_dtype
from fusedsl.runtime.array_copies import to_host


class Emulated:
    """Memory of tests/ptx; any dtype, any strides. New float8 results come as bytes, which fill no float8 output."""

    bytes_alone = True

    def there(self, x: np.ndarray):
        from ptx.device import Allocation, current, ndarray
        from ptx.memory import WRITTEN

        whole, start = _bytes(x)
        owner = Allocation(current(), whole.size)
        first = owner.address - owner.arena.base
        owner.arena.bytes[first : first + whole.size] = whole
        owner.arena.state[first : first + whole.size] = WRITTEN
        return ndarray(
            x.shape,
            x.dtype,
            owner=owner,
            host=np.ndarray(x.shape, x.dtype, owner.arena.bytes, first + start, x.strides),
        )

    def back(self, made, x: np.ndarray) -> np.ndarray:
        owner = made.owner
        first = owner.address - owner.arena.base
        return owner.arena.bytes[first : first + root(x).nbytes]


class Cupy:
    """CuPy's memory; any strides, and the dtypes that NumPy has itself."""

    def there(self, x: np.ndarray):
        import cupy

        whole, start = _bytes(x)
        memory = cupy.asarray(whole)
        return cupy.ndarray(x.shape, x.dtype, memory.data + start, x.strides)

    def back(self, made, x: np.ndarray) -> np.ndarray:
        import cupy

        memory = cupy.ndarray((root(x).nbytes,), np.uint8, cupy.cuda.MemoryPointer(made.data.mem, 0))
        return memory.get()


class Torch:
    """torch's memory; strides of whole elements that are not negative."""

    def there(self, x: np.ndarray):
        import torch

        whole, start = _bytes(x)
        size = x.dtype.itemsize
        whole = np.concatenate([whole, np.zeros(-whole.size % 16 or 16, np.uint8)])
        memory = torch.from_numpy(whole).cuda().view(getattr(torch, x.dtype.name))
        return memory.as_strided(x.shape, [s // size for s in x.strides], start // size)

    def back(self, made, x: np.ndarray) -> np.ndarray:
        import torch

        whole = torch.empty(0, dtype=torch.uint8, device=made.device)
        return whole.set_(made.untyped_storage(), 0, (root(x).nbytes,), (1,)).cpu().numpy()

    @staticmethod
    def takes(x: np.ndarray) -> bool:
        """Whether torch can see an array as it lies."""
        size = x.dtype.itemsize
        return all(s >= 0 and s % size == 0 for s in x.strides) and _bytes(x)[1] % size == 0


def _bytes(x: np.ndarray) -> tuple[np.ndarray, int]:
    """All memory that a view is part of, and where in it its first element lies."""
    whole = root(x)
    start = x.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return np.frombuffer(whole.tobytes(order="A"), np.uint8).copy(), start


def on(memory):
    """The target that runs programs on a device with this memory. Programs without arrays stay on the CPU."""

    def target(case: Case) -> Run:
        arguments = [_native(a, memory) for a in case.arguments]
        if not any(isinstance(a, np.ndarray) and a.ndim for a in arguments):
            return cpu(case)
        there = [memory.there(a) if isinstance(a, np.ndarray) and a.ndim else a for a in arguments]

        def run(outs: list | None = None) -> list:
            new = [x for x in outs or () if isinstance(x, np.ndarray)]
            written = [arguments[x] if isinstance(x, int) else x for x in outs or () if x is not None]
            if getattr(memory, "bytes_alone", False) and any("float8" in x.dtype.name for x in written):
                found = run()
                for x, made in zip(new, found):
                    x[...] = made
                return new or found
            given = [memory.there(_native(x, memory)) if isinstance(x, np.ndarray) else x for x in outs or ()]
            given = [there[x] if isinstance(x, int) else x for x in given]
            found = case.kernel(*there, out=tuple(given) if len(given) > 1 else given[0] if given else None)
            made = list(found) if isinstance(found, tuple) else [found]
            assert all(a is b for a, b in zip(made, given) if b is not None), "out= is not what is returned"
            for a, x in zip(there, arguments):
                if isinstance(x, np.ndarray) and x.ndim and not any(a is b for b in given):
                    assert memory.back(a, x).tobytes() == root(x).tobytes(order="A"), "an argument has changed"
            if not new:
                return [_typed(_ordered(x), r.type.dtype) for x, r in zip(made, case.graph.results)]
            for device, x in zip(given, new):
                whole = root(x)
                if whole.dtype == np.uint8 and _native(x, memory) is x:
                    whole[...] = memory.back(device, x)
                else:
                    x[...] = to_host(device)
            return new

        return run

    return target


def _ordered(made) -> np.ndarray:
    """A result on the host, in the memory order that it has on the device."""
    x = np.asarray(to_host(made))
    strides = made.stride() if callable(getattr(made, "stride", None)) else made.strides
    order = sorted(range(x.ndim), key=lambda axis: -strides[axis])
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order)) if x.ndim else x


def _typed(x: np.ndarray, d: DType) -> np.ndarray:
    """CuPy has no narrow floats but float16: it holds their bits."""
    return x.view(numpy_dtype(d)) if d.kind == "f" and x.dtype.kind == "u" else x


def _native(x, memory):
    """What a device can hold: native byte order, and the layouts that its library has."""
    if not isinstance(x, np.ndarray):
        return x
    if not x.dtype.isnative:
        return x.astype(x.dtype.newbyteorder("="))
    return np.array(x, order="C") if x.ndim and not getattr(memory, "takes", lambda x: True)(x) else x


def card(case: Case) -> Run:
    """A real card, through CuPy, or through torch where there are dtypes that only it has."""
    types = [a.dtype for a in case.arguments if hasattr(a, "dtype")] + [v.type.dtype.name for v in case.graph.results]
    only_torch = any(str(t).startswith(("bfloat16", "float8")) for t in types)
    return on(Torch() if only_torch else Cupy())(case)
