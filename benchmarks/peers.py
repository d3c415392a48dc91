"""Who computes a workload on the GPU: fusedsl, and its peers, each as a function without arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fusedsl.bench.workloads import Workload

Call = Callable[[], Any]


class Peers:
    """The peers of one case. `build(peer)` gives the call, or raises what keeps the peer from it."""

    def __init__(self, workload: Workload, shape: tuple[int, int], tensors: dict[str, torch.Tensor]):
        self.workload = workload
        self.shape = shape
        self.tensors = tensors
        self.scalars = dict(workload.scalars)
        self.outs: tuple[torch.Tensor, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        common = ("cupy", "cupy.fuse", "torch", "torch.compile")
        more = {"map": ("cupy.ElementwiseKernel",), "rows": ()}[self.workload.suite]
        return (*common, *more, "triton") if self.workload.name == "softmax" else (*common, *more)

    def build(self, peer: str) -> Call:
        return {
            "fusedsl": self.fusedsl,
            "cupy": self.cupy,
            "cupy.fuse": self.cupy_fuse,
            "cupy.ElementwiseKernel": self.cupy_elementwise,
            "torch": self.torch,
            "torch.compile": self.torch_compile,
            "triton": self.triton,
        }[peer]()

    def fusedsl(self) -> Call:
        """One kernel from the text, into results that hold NaN before the first call."""
        import fusedsl as fd

        kernel = fd.kernel(self.workload.text)
        like = next(t for t in self.tensors.values() if tuple(t.shape) == self.shape)
        self.outs = tuple(torch.full_like(like, float("nan")) for _ in range(self.workload.results))
        named = {**self.scalars, **self.tensors}
        arguments = [named[p] for p in kernel.params]
        out = self.outs[0] if len(self.outs) == 1 else self.outs
        return lambda: kernel(*arguments, out=out)

    # -- torch

    def reference(self) -> tuple[torch.Tensor, ...]:
        """The results in float64."""
        function = self.workload.torch(torch)
        value = function(*self.scalars.values(), *(t.double() for t in self.tensors.values()))
        return tuple(value) if isinstance(value, tuple) else (value,)

    def _torch_function(self) -> Callable:
        function, numbers = self.workload.torch(torch), tuple(self.scalars.values())
        return lambda *arrays: function(*numbers, *arrays)

    def torch(self) -> Call:
        function, arrays = self._torch_function(), tuple(self.tensors.values())
        return lambda: function(*arrays)

    def torch_compile(self) -> Call:
        """Compiled for these shapes alone: dynamic shapes would cost it speed."""
        import torch._dynamo as dynamo

        dynamo.reset()
        function, arrays = torch.compile(self._torch_function(), dynamic=False), tuple(self.tensors.values())
        return lambda: function(*arrays)

    def triton(self) -> Call:
        import triton_softmax

        x = self.tensors["x"]
        return triton_softmax.prepare(x, torch.empty_like(x))

    # -- CuPy

    def _arrays(self) -> list[Any]:
        return [to_cupy(t) for t in self.tensors.values()]

    def _plain(self) -> Callable:
        import cupy

        erf = None
        if self.workload.name == "black_scholes":
            from cupyx.scipy.special import erf
        return self.workload.plain(cupy, erf)

    def cupy(self) -> Call:
        function, numbers, arrays = self._plain(), tuple(self.scalars.values()), self._arrays()
        return lambda: function(*numbers, *arrays)

    def cupy_fuse(self) -> Call:
        import cupy

        fuse = cupy.fuse(kernel_name=f"fused_{self.workload.name}")  # a lambda's own name is none in C
        function, numbers, arrays = fuse(self._plain()), tuple(self.scalars.values()), self._arrays()
        return lambda: function(*numbers, *arrays)

    def cupy_elementwise(self) -> Call:
        """The loop body in CUDA C, computed in float32 and stored once."""
        import cupy

        w = self.workload
        declared = [f"float32 {name}" for name in self.scalars] + [f"T {one.name}_" for one in w.inputs]
        stored = [f"T out{k}" for k in range(w.results)]
        loads = "".join(f"float {one.name} = (float){one.name}_; " for one in w.inputs)
        results = "float " + ", ".join(f"r{k}" for k in range(w.results)) + "; "
        stores = "".join(f" out{k} = (T)r{k};" for k in range(w.results))
        body = loads + results + (w.c or "") + stores
        kernel = cupy.ElementwiseKernel(", ".join(declared), ", ".join(stored), body, f"peer_{w.name}")
        numbers, arrays = tuple(self.scalars.values()), self._arrays()
        outs = [cupy.empty(self.shape, arrays[0].dtype) for _ in range(w.results)]
        return lambda: kernel(*numbers, *arrays, *outs)


def to_cupy(t: torch.Tensor) -> Any:
    """The tensor's memory as a CuPy array; bfloat16 through ml_dtypes, where this CuPy takes it."""
    import cupy

    if t.dtype != torch.bfloat16:
        return cupy.asarray(t)
    import ml_dtypes

    return cupy.asarray(t.view(torch.int16)).view(ml_dtypes.bfloat16)


def to_torch(value: Any) -> tuple[torch.Tensor, ...]:
    """A peer's result or results as tensors."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return tuple(v if isinstance(v, torch.Tensor) else _from_cupy(v) for v in values)


def _from_cupy(a: Any) -> torch.Tensor:
    if a.dtype.name == "bfloat16":
        return torch.as_tensor(a.view("int16"), device="cuda").view(torch.bfloat16)
    return torch.as_tensor(a, device="cuda")
