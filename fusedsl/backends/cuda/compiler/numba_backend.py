"""Numba CUDA and nvJitLink behind one interface: intrinsics, inlined scalar functions, linked binaries."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import numba_cuda  # noqa: F401  (redirects numba.cuda)
from llvmlite import ir
from numba import cuda
from numba.core import types
from numba.cuda.compiler import CUDAFlags
from numba.cuda.cudadrv import nvvm
from numba.cuda.datamodel import models
from numba.cuda.extending import intrinsic as numba_intrinsic
from numba.cuda.extending import register_model

from ....context_values import inside
from .cuda_binary import architecture

__all__ = [
    *("CudaBinary", "Emitter", "ScalarFunction", "UnlinkableError", "Words"),
    *("intrinsic", "ir", "link", "lower", "types"),
]

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64, VOID = ir.FloatType(), ir.DoubleType(), ir.VoidType()
GLOBAL, SHARED = 1, 3  # NVVM address spaces
VERIFIES = False  # whether NVVM looks for faults of a module first, as in tests: that takes it 30 ms
_TARGET: ContextVar[tuple[int, int]] = ContextVar("compute capability that is being lowered for")


class Emitter:
    """What an intrinsic writes its code with: LLVM's builder and Numba's representation of tuples and calls."""

    def __init__(self, context: Any, builder: ir.IRBuilder):
        self.context = context
        self.builder = builder

    @property
    def cc(self) -> tuple[int, int]:
        return _TARGET.get()

    def at(self, line: int) -> None:
        """The line of the generated file that what follows belongs to; Numba keeps track itself."""

    def unpack(self, value: ir.Value, count: int) -> list[ir.Value]:
        return [self.builder.extract_value(value, k) for k in range(count)]

    def pack(self, kind: types.Type, values: Sequence[ir.Value]) -> ir.Value:
        """Values as a tuple of this type; as itself where the type is not a tuple."""
        if not isinstance(kind, types.BaseTuple):
            return values[0]
        return self.context.make_tuple(self.builder, kind, list(values))

    def cast(self, value: ir.Value, source: types.Type, target: types.Type) -> ir.Value:
        return value if source == target else self.context.cast(self.builder, value, source, target)

    def asm(self, result: ir.Type, text: str, constraints: str, values: Sequence[ir.Value], side_effect: bool = False):
        """One piece of PTX; `side_effect` keeps it where it stands. It is otherwise pure: CSE may merge it."""
        function_type = ir.FunctionType(result, [v.type for v in values])
        attributes = () if side_effect else ("nounwind", "readnone")
        piece = ir.InlineAsm(function_type, text, constraints, side_effect=side_effect)
        return self.builder.call(piece, list(values), attrs=attributes)

    def call(self, result: ir.Type, name: str, values: Sequence[ir.Value]) -> ir.Value:
        """A call of an NVVM intrinsic or a libdevice function."""
        module, function_type = self.builder.module, ir.FunctionType(result, [v.type for v in values])
        function = module.globals.get(name) or ir.Function(module, function_type, name)
        return self.builder.call(function, list(values))

    def phi(self, *arrivals: tuple[Sequence[ir.Value], ir.Block]) -> list[ir.Value]:
        """Phi nodes, one for each value, with an incoming edge from each of these blocks."""
        phis = [self.builder.phi(value.type) for value in arrivals[0][0]]
        for values, block in arrivals:
            for phi, value in zip(phis, values):
                phi.add_incoming(value, block)
        return phis

    def if_else(self, condition: ir.Value, *branches: Callable[[], Sequence[ir.Value]]) -> list[ir.Value]:
        """What the first of two functions computes where a condition holds, and the second where not."""
        arrivals = []
        with self.builder.if_else(condition) as blocks:
            for block, branch in zip(blocks, branches):
                with block:
                    arrivals.append((branch(), self.builder.block))
        return self.phi(*arrivals)

    def unlikely(
        self, condition: ir.Value, values: Sequence[ir.Value], other: Callable[[], Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """Values, but where a condition holds, which is rare, what a function computes."""
        before = self.builder.block
        with self.builder.if_then(condition, likely=False):
            arrival = other(), self.builder.block
        return self.phi((values, before), arrival)

    def special_register(self, name: str) -> ir.Value:
        return self.call(I32, f"llvm.nvvm.read.ptx.sreg.{name}", [])

    def shared_array(self, element: ir.Type, count: int) -> ir.Value:
        """A fresh static array in shared memory; its first element's address."""
        module, kind = self.builder.module, ir.ArrayType(element, count)
        array = ir.GlobalVariable(module, kind, module.get_unique_name("shared"), addrspace=SHARED)
        array.linkage, array.align = "internal", 16
        array.initializer = ir.Constant(kind, ir.Undefined)
        return self.builder.gep(array, [I32(0), I32(0)])

    def dynamic_shared(self, alignment: int = 16) -> ir.Value:
        """The 32-bit address of the shared memory whose size the launch gives."""
        module, name = self.builder.module, "dynamic_shared"
        array = module.globals.get(name)
        if array is None:
            array = ir.GlobalVariable(module, ir.ArrayType(I8, 0), name, addrspace=SHARED)
            array.linkage, array.align = "external", alignment
        return self.builder.ptrtoint(array, I32)

    def barrier(self) -> None:
        self.call(VOID, "llvm.nvvm.barrier0", [])

    def inlined(self, scalar: ScalarFunction, values: Sequence[ir.Value]) -> list[ir.Value]:
        """The results of a scalar function, which becomes a part of the code here."""
        signature = scalar.result(*scalar.arguments)
        if scalar.descriptor is None:
            flags = CUDAFlags()
            flags.error_model, flags.forceinline = "numpy", True
            flags.compute_capability = self.cc
            # compile_internal would be wrong here: its cache compares bytecode and ignores globals.
            compiled = self.context.compile_subroutine(
                self.builder, scalar.function, signature, flags=flags, caching=False
            )
            scalar.descriptor = compiled.fndesc
        _, value = self.context.call_internal_no_propagate(self.builder, scalar.descriptor, signature, list(values))
        return [value] if len(scalar.results) == 1 else self.unpack(value, len(scalar.results))


def intrinsic(arity: int) -> Callable:
    """Make `rule(*types) -> (result type, emit(emitter, *values)) or None` callable from kernel code."""

    def wrap(rule: Callable) -> Callable:
        def typer(context, *arguments):
            typed = rule(*arguments)
            if typed is None:
                return None
            result, emit = typed

            def codegen(context, builder, signature, values):
                value = emit(Emitter(context, builder), *values)
                return context.get_dummy_value() if signature.return_type == types.void else value

            return result(*arguments), codegen

        names = ["context", *(f"a{k}" for k in range(arity))]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        typer.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])  # type: ignore[attr-defined]
        typer.__name__ = rule.__name__
        wrapped = numba_intrinsic(typer)
        wrapped.rule = rule
        return wrapped

    return wrap


def emitted(result: types.Type | Callable[..., Any], arity: int | Callable[..., int] | None = None) -> Callable:
    """Make `emit(emitter, *values)` callable from kernel code: an intrinsic whose result has this type.

    Keyword-only parameters are constants: a function that has some, or a method, makes the intrinsic for given ones.
    `kinds` is none of them: it gets the types of the values. `result` and `arity`, the number of values, may be
    functions of constants, `self` and `kinds`, by name. Values in a list are packed.
    """

    def wrap(emit: Callable) -> Callable:
        parameters = inspect.signature(emit).parameters.values()
        constants = [p for p in parameters if p.name == "self" or (p.kind is p.KEYWORD_ONLY and p.name != "kinds")]
        signature = inspect.Signature([p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in constants])
        count = arity or sum(p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self" for p in parameters) - 1

        @functools.wraps(emit)
        def make(*arguments: Any, **named: Any) -> Callable:
            bound = signature.bind(*arguments, **named)
            bound.apply_defaults()
            return intrinsic(_by_name(count, bound.arguments))(_rule(emit, result, bound.arguments))

        make.__signature__ = signature  # type: ignore[attr-defined]
        return make if constants else make()

    return wrap


def _rule(emit: Callable, result: Any, constants: dict[str, Any]) -> Callable:
    """The rule of an intrinsic (see `intrinsic`) whose code `emit` writes with these constants."""
    typed = "kinds" in inspect.signature(emit).parameters
    owner = [constants["self"]] if "self" in constants else []
    emit = functools.partial(emit, *owner, **{name: value for name, value in constants.items() if name != "self"})

    def rule(*kinds):
        kind = _by_name(result, {**constants, "kinds": kinds})

        def code(e, *values):
            return _packed(e, kind, emit(e, *values, **({"kinds": kinds} if typed else {})))

        return None if kind is None else (kind, code)

    return rule


def _packed(e: Emitter, kind: types.Type, value: Any) -> Any:
    """Values in a list, which may hold lists, as one value of this type."""
    if not isinstance(value, list):
        return value
    parts = kind if isinstance(kind, types.BaseTuple) else [kind]
    return e.pack(kind, [_packed(e, part, one) for part, one in zip(parts, value, strict=True)])


def _by_name(value: Any, arguments: dict[str, Any]) -> Any:
    """A value, or what a function of some of these arguments makes of them."""
    if isinstance(value, (types.Type, int)):
        return value
    return value(**{name: arguments[name] for name in inspect.signature(value).parameters})


class ScalarFunction:
    """A generated scalar function: typed and lowered once in a kernel, however often it is called there."""

    def __init__(self, function: Callable, arguments: Sequence[types.Type], results: Sequence[types.Type]):
        self.function = function
        self.arguments = tuple(arguments)
        self.results = tuple(results)
        single = len(self.results) == 1
        self.result = self.results[0] if single else types.Tuple.from_types(self.results)
        self.descriptor: Any = None  # Numba's, once it has typed the function

    def emit(self, emitter: Emitter, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Call it; its results."""
        return emitter.inlined(self, values)


def numba_type(name: str) -> types.Type:
    """Numba's type of a body's dtype."""
    return types.boolean if name == "bool" else getattr(types, name)


class Words(types.Type):
    """A kernel's one parameter: 8-byte words that stay where the driver puts them, to be read by their number."""

    def __init__(self, count: int):
        self.count = count
        super().__init__(f"Words({count})")


@register_model(Words)
class _WordsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Words):
        super().__init__(manager, kind, ir.ArrayType(I64, kind.count))


def lower(
    kernel: Callable,
    arguments: Sequence[types.Type],
    cc: tuple[int, int],
    launch_bounds: tuple[int, int],
    lines: bool = False,
) -> bytes:
    """A kernel over arguments of these types, as LTO-IR; with `lines`, instructions know those of the file."""
    target = (*cc, "a") if cc[0] >= 9 else cc
    with lowering_for(cc):
        how = {"cc": target, "device": False, "abi": "numba", "output": "ltoir", "lineinfo": lines}
        code, _ = cuda.compile(kernel, tuple(arguments), launch_bounds=launch_bounds, **how)
    return bytes(code)


def module() -> ir.Module:
    """An empty module, as NVVM wants it."""
    empty = ir.Module("kernel", context=ir.Context())
    empty.triple, empty.data_layout = "nvptx64-nvidia-cuda", nvvm.NVVM().data_layout
    nvvm.add_ir_version(empty)
    return empty


def assemble(kernel: ir.Function, cc: tuple[int, int], launch_bounds: tuple[int, int]) -> bytes:
    """The module of a kernel as LTO-IR."""
    nvvm.set_cuda_kernel(kernel)
    nvvm.set_launch_bounds(kernel, launch_bounds)
    unit = nvvm.CompilationUnit({"opt": 3, "gen-lto": None, "arch": f"compute_{architecture(cc)[3:]}"})
    unit.add_module(str(kernel.module).encode())
    if VERIFIES:
        unit.verify()
    unit.lazy_add_module(nvvm.LibDevice().get())
    return unit.compile()


def lowering_for(cc: tuple[int, int]) -> AbstractContextManager[Any]:
    """Intrinsics inside the block are written for this compute capability."""
    return inside(_TARGET, cc)
