"""Who computes a case of the suite `products`: fusedsl, the libraries alone, compilers, each without arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch.nn import functional

from products import COMPILED, CUBLAS, TUNED, Array, Product

Call = Callable[[], Any]


def _topk(x: Any, w: Any) -> tuple:
    return tuple(torch.topk(torch.softmax(x @ w, -1), 2))


def _beside(fold: Callable) -> Callable:
    def function(x: Any, w: Any) -> tuple:
        y = x @ w
        return y, fold(y)

    return function


TWINS: dict[str, Callable] = {
    "product": lambda x, w: x @ w,
    "int8": lambda x, w: torch._int_mm(x, w),
    "gelu": lambda x, w, b: functional.gelu(x @ w + b),
    "swiglu": lambda x, g, u: functional.silu(x @ g) * (x @ u),
    "three": lambda x, a, b, c: (x @ a, x @ b, x @ c),
    "row_sums": _beside(lambda y: y.to(torch.promote_types(y.dtype, torch.float32)).sum(-1)),
    "row_maxima": _beside(lambda y: y.abs().amax(-1)),
    "row_logsumexp": _beside(lambda y: y.to(torch.promote_types(y.dtype, torch.float32)).logsumexp(-1)),
    "norm": lambda x, g, w: functional.rms_norm(x, x.shape[-1:], g, 1e-6) @ w,
    "router": _topk,
}


class Peers:
    """The arrays of a case, and what computes it. `build(name)` gives a call, or raises what keeps the peer from it."""

    def __init__(self, case: Product, seed: int = 1):
        self.case = case
        self.arrays = operands(case, seed)

    @property
    def names(self) -> tuple[str, ...]:
        library = (CUBLAS,) if isinstance(self.case.twin, str) and self.case.twin in PRODUCTS else ()
        return ("fusedsl", *library, *self.case.peers)

    @property
    def twin(self) -> Callable:
        return self.case.twin if callable(self.case.twin) else TWINS[self.case.twin]

    def build(self, name: str) -> Call:
        if name in (COMPILED, TUNED):
            return self.compiled("max-autotune-no-cudagraphs" if name == TUNED else None)
        known = {
            "fusedsl": self.fusedsl,
            CUBLAS: self.cublas,
            "torch": lambda: lambda: self.twin(**self.arrays),
            "cublaslt epilogue": self.cublaslt,
            "cublas joined": self.joined,
            "cublas, then fused": self.unfused_swiglu,
            "fused norm, then cublas": self.unfused_norm,
            "product alone": self.alone,
            "triton": self.triton,
            "cupy float16": self.cupy,
            "quack": self.quack,
        }
        return known[name]()

    # -- fusedsl

    @cached_property
    def kernel(self) -> Any:
        """A text's Kernel, or a function fused."""
        import fusedsl as fd

        does = self.case.does
        return fd.kernel(does, **self.case.options) if isinstance(does, str) else fd.fuse(does, **self.case.options)

    def fusedsl(self) -> Call:
        """Into results that hold NaN before the first call, where it is a text; a function allocates its own."""
        if callable(self.case.does):
            return lambda: self.kernel(**self.arrays)
        return into_results(self.kernel, self.arrays)

    def plan(self) -> str:
        """The kernels of the call, with the beginnings of the reasons for their schedules."""
        told = self.kernel.explain(**self.arrays)
        spilled = sum(k.figures.spill_bytes for k in told.kernels if k.figures)
        found = "; ".join(f"{k.name}: {k.schedule.split(':')[0]}" for k in told.kernels)
        return f"{len(told.kernels)} kernels: {found}" + (f"; {spilled} bytes spilled" if spilled else "")

    def alone(self) -> Call:
        """fusedsl's product without what is beside it."""
        import fusedsl as fd

        return into_results(fd.kernel("x @ w", **self.case.options), self.arrays)

    # -- the libraries

    def cublas(self) -> Call:
        """The products alone, one after the other."""
        pairs = [(self.arrays[a], self.arrays[b]) for a, b in PRODUCTS[str(self.case.twin)]]
        if self.case.dtype == "int8":
            return lambda: [torch._int_mm(x, w) for x, w in pairs]
        results = [torch.matmul(x, w) for x, w in pairs]
        tf32 = self.case.options.get("matmul") == "tf32"

        def call() -> Any:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            for (x, w), out in zip(pairs, results):
                torch.matmul(x, w, out=out)
            torch.backends.cuda.matmul.allow_tf32 = False
            return results

        return call

    def cublaslt(self) -> Call:
        """cuBLASLt's own epilogue, whose GELU is the approximation by tanh."""
        x, w, b = (self.arrays[name] for name in "xwb")
        return lambda: torch._addmm_activation(b, x, w, use_gelu=True)

    def joined(self) -> Call:
        """One product of all weights side by side."""
        x, *several = self.arrays.values()
        w = torch.cat(several, 1)
        out = x @ w
        return lambda: torch.matmul(x, w, out=out)

    def unfused_swiglu(self) -> Call:
        import fusedsl as fd

        products, kernel = self.cublas(), fd.kernel("silu(a) * b")
        a, b = products()
        out = kernel(a, b)

        def call() -> Any:
            products()
            return kernel(a, b, out=out)

        return call

    def unfused_norm(self) -> Call:
        import fusedsl as fd

        x, g, w = self.arrays.values()
        kernel = fd.kernel("rms_norm(x, g)")
        normed = kernel(x, g)
        out = normed @ w

        def call() -> Any:
            kernel(x, g, out=normed)
            return torch.matmul(normed, w, out=out)

        return call

    # -- compilers and others

    def compiled(self, mode: str | None) -> Call:
        made = torch.compile(self.twin, dynamic=False, mode=mode)
        tf32 = self.case.options.get("matmul") == "tf32"

        def call() -> Any:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            found = made(**self.arrays)
            torch.backends.cuda.matmul.allow_tf32 = False
            return found

        return call

    def triton(self) -> Call:
        import triton_matmul

        return triton_matmul.prepare(**self.arrays)

    def cupy(self) -> Call:
        """One operation after another. (CuPy multiplies no matrices of bfloat16.)"""
        import cupy

        x, w, *rest = (cupy.asarray(one.half()) for one in self.arrays.values())
        if not rest:
            return lambda: cupy.matmul(x, w)
        from cupyx.scipy.special import erf

        def call() -> Any:
            y = cupy.matmul(x, w) + rest[0]
            return 0.5 * y * (1 + erf(y * cupy.float16(0.7071067811865476)))

        return call

    def quack(self) -> Call:
        """QuACK's product for Hopper; its GELU is the approximation by tanh."""
        from quack.gemm_interface import gemm, gemm_act

        x, w, *bias = self.arrays.values()
        if not bias:
            return lambda: gemm(x, w)
        return lambda: gemm_act(x, w, bias=bias[0], activation="gelu_tanh_approx", store_preact=False)[1]

    # -- what is right

    def reference(self) -> tuple:
        """The results in float64."""
        if self.case.dtype == "int8":  # exact: sums are less than 2^53
            return ((self.arrays["x"].double() @ self.arrays["w"].double()).to(torch.int32),)
        return as_results(self.twin(**{name: one.double() for name, one in self.arrays.items()}))

    def reference_of(self, name: str, results: tuple) -> tuple | None:
        """What a peer's results are compared with; None where it computes products alone, in other arrays."""
        if name in ("cublas joined", "product alone"):
            return None
        return None if name == CUBLAS and self.case.twin not in ("product", "int8") else results


PRODUCTS: dict[str, Sequence[tuple[str, str]]] = {
    **dict.fromkeys(("product", "int8", "gelu", "row_sums", "row_maxima", "row_logsumexp"), (("x", "w"),)),
    **dict.fromkeys(("norm", "router"), (("x", "w"),)),
    "swiglu": (("x", "g"), ("x", "u")),
    "three": (("x", "a"), ("x", "b"), ("x", "c")),
}


def into_results(kernel: Any, arrays: dict) -> Call:
    """Calls of a Kernel, the later ones into the results of the first, which are filled with NaN before."""
    given = [arrays[name] for name in kernel.params]
    outs: list = []

    def call() -> Any:
        if not outs:
            outs.append(kernel(*given))
            for one in as_results(outs[0]):
                one.fill_(float("nan") if one.is_floating_point() else 0)
        return kernel(*given, out=outs[0])

    return call


def as_results(made: Any) -> tuple:
    """Results as tensors."""
    results = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    return tuple(r if isinstance(r, torch.Tensor) else torch.as_tensor(r, device="cuda") for r in results)


def operands(case: Product, seed: int) -> dict[str, torch.Tensor]:
    """Random arrays on the GPU."""
    draw = torch.Generator(device="cuda").manual_seed(seed)
    return {name: _random(one, draw) for name, one in case.arrays.items()}


def _random(one: Array, draw: torch.Generator) -> torch.Tensor:
    shape = (*one.shape[:-2], *one.shape[:-3:-1]) if one.turned else one.shape
    if one.dtype == "int8":
        made = torch.randint(-128, 128, shape, device="cuda", generator=draw, dtype=torch.int8)
    else:
        kind = getattr(torch, one.dtype)
        made = torch.randn(shape, device="cuda", generator=draw, dtype=torch.promote_types(kind, torch.float32))
        made = made.mul_(one.scale).to(kind)
    return made.mT if one.turned else made
