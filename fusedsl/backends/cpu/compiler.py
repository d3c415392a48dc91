"""Compiler: generated Python to relocatable object code; Numba types and lowers it, LLVM optimises and vectorises it.

LLVM's loop vectoriser runs in `optimise`; it chooses the width up to `prefer-vector-width` of `export`. `interleave`
sets the interleave counts of long dependency chains.
"""

from __future__ import annotations

from functools import cache
from types import BuiltinFunctionType

import llvmlite.binding as llvm
from llvmlite import ir
from llvmlite.binding.ffi import ObjectRef
from llvmlite.binding.newpassmanagers import ModulePassManager, NewPassManager
from numba.core import codegen, cpu, types, typing
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.errors import CompilerError
from numba.core.typed_passes import AnnotateTypes, IRLegalization, NativeLowering, NopythonTypeInference
from numba.core.typing.templates import AbstractTemplate, signature
from numba.core.untyped_passes import FixupArgs, IRProcessing, TranslateByteCode

from ...ir.types import BOOL, DTYPES, DType
from .interleave import interleave
from .llvm_values import LLVMValue
from .math import half
from .processor import Processor, host
from .vocabulary import OPERATORS, POINTER, Word

NUMBA: dict[DType | str | None, types.Type] = {
    d: getattr(types, d.name) for d in DTYPES.values() if d is not BOOL and d.compute is d
}
NUMBA[BOOL] = types.boolean
NUMBA[POINTER] = types.voidptr
NUMBA[None] = types.none
DTYPE = {numba_type: d for d, numba_type in NUMBA.items()}
C_SIGNATURE = (types.voidptr, types.int64, types.int64)


def call_signature(word: Word, args):
    """The Numba signature of a word for these argument types; None if it does not take them."""
    kinds = [DTYPE.get(types.unliteral(a)) for a in args]
    if None in kinds or (result := word.result(*kinds)) is NotImplemented:
        return None
    return signature(NUMBA[result], *(types.unliteral(a) for a in args))


# llvmlite 0.50 leaks pass managers, 30 kB each: ObjectRef's empty _dispose hides the one that frees them
LEAKS = hasattr(NewPassManager, "_dispose") and ModulePassManager._dispose is ObjectRef._dispose


@cache
def callable_type(word: Word) -> types.Function:
    """The Numba type of a word in the namespace of generated code."""

    class Template(AbstractTemplate):
        key = word

        def generic(self, args, kws):
            return call_signature(word, args)

    return types.Function(Template)


class ScalarTyping(typing.Context):
    """Exact typing of scalar operators: int8 + int8 is int8."""

    def load_additional_registries(self):
        pass

    def resolve_value_type(self, value):
        if isinstance(value, BuiltinFunctionType):
            value = OPERATORS.get(value, value)
        return callable_type(value) if isinstance(value, Word) else super().resolve_value_type(value)


class ScalarTarget(cpu.CPUContext):
    """Lowers words and operators by their `emit`; of Numba's library only ranges and branches are used."""

    def init(self):
        self.is32bit = False
        self._internal_codegen = ScalarCodegen("fusedsl", "host")  # type: ignore[assignment]

    def load_additional_registries(self):
        from numba.cpython import builtins, numbers, rangeobj, tupleobj  # noqa: F401

    def get_function(self, fn, sig, _firstcall=True):
        word = getattr(fn.templates[0], "key", None) if isinstance(fn, types.Function) else None
        if not isinstance(word, Word):
            return super().get_function(fn, sig, _firstcall)
        kinds = [DTYPE[types.unliteral(a)] for a in sig.args]

        def emit(builder, values, loc=None):
            args = [LLVMValue(builder, k, v) if isinstance(k, DType) else v for k, v in zip(kinds, values)]
            result = word.emit(builder, *args)
            if result is None:
                return self.get_dummy_value()
            return result.value if isinstance(result, LLVMValue) else result

        return emit

    def get_constant_generic(self, builder, ty, val):
        """A dummy value for words; Numba would cache a constant for each, without bound."""
        if isinstance(ty, types.Function):
            return self.get_dummy_value()
        return super().get_constant_generic(builder, ty, val)


class CapturedLibrary(codegen.CPUCodeLibrary):
    """Captures the lowered module, unoptimised."""

    lowered: ir.Module | None = None

    def add_ir_module(self, ir_module):
        self.lowered = ir_module


class ScalarCodegen(codegen.AOTCPUCodegen):
    _library_class = CapturedLibrary  # type: ignore[assignment]


PASSES: tuple[type, ...] = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    NopythonTypeInference,
    IRLegalization,
    AnnotateTypes,
    NativeLowering,
)


class ScalarPipeline(CompilerBase):
    """The Numba passes that loops over scalars need."""

    def define_pipelines(self):
        passes = PassManager("fusedsl")
        for each in PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


@cache
def contexts() -> tuple[ScalarTyping, ScalarTarget]:
    scalar_typing = ScalarTyping()
    target = ScalarTarget(scalar_typing)
    target.refresh()
    return scalar_typing, target


@cache
def machine(processor: Processor) -> llvm.TargetMachine:
    """LLVM's target machine for a processor."""
    triple = llvm.get_process_triple()
    if processor.architecture == host().architecture:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        triple = f"{processor.architecture}-unknown-linux-gnu"
    target = llvm.Target.from_triple(triple)
    cpu = {"cpu": processor.name, "features": processor.features}
    return target.create_target_machine(**cpu, opt=3, reloc="pic", codemodel="default")


def lower(function, symbol: str, processor: Processor | None = None) -> ir.Module:
    """The LLVM module of one generated function, exported as C `void symbol(int64 *slots, int64 begin, int64 end)`."""
    scalar_typing, target = contexts()
    flags = Flags()
    for name in ("no_compile", "no_cpython_wrapper", "no_cfunc_wrapper", "no_rewrites"):
        setattr(flags, name, True)
    library = target.codegen().create_library(symbol)
    pipeline = ScalarPipeline(scalar_typing, target, library, C_SIGNATURE, types.none, flags, {})
    try:
        pipeline.compile_extra(function)
    except CompilerError:  # the pipeline stops once the module is lowered, without a result
        if library.lowered is None:
            raise
    module = library.lowered
    module.name = symbol
    interleave(module)
    export(module, next(f for f in module.functions if not f.is_declaration), symbol)
    half.define(module, (processor or host()).converts_float16)
    return module


def export(module: ir.Module, inner: ir.Function, symbol: str) -> None:
    """Add a C wrapper: Numba's calling convention has a result pointer, an exception pointer and a status."""
    inner.linkage = "internal"
    inner.attributes.add("alwaysinline")
    pointer, word = ir.IntType(8).as_pointer(), ir.IntType(64)
    outer = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, word, word]), symbol)
    outer.args[0].add_attribute("noalias")
    set.add(outer.attributes, '"prefer-vector-width"="512"')  # a string attribute: llvmlite lists only enumerated ones
    builder = ir.IRBuilder(outer.append_basic_block())
    spare = [builder.alloca(kind.pointee) for kind in inner.function_type.args[:2]]
    builder.call(inner, [*spare, *outer.args])
    builder.ret_void()


def optimise(modules: list[ir.Module], target: llvm.TargetMachine | None = None) -> llvm.ModuleRef:
    """Link all functions into one module and optimise it for a target; by default this machine."""
    target = target or machine(host())
    linked, *others = (llvm.parse_assembly(str(module)) for module in modules)
    for other in others:
        linked.link_in(other)
    linked.triple = target.triple
    linked.data_layout = str(target.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.loop_interleaving = True
    tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(target, tuning)
    first = llvm.create_new_module_pass_manager()
    first.add_always_inliner_pass()
    first.add_sroa_pass()
    first.add_simplify_cfg_pass()
    first.add_instruction_combine_pass()
    first.add_loop_rotate_pass()
    for passes in (first, builder.getModulePassManager()):
        passes.run(linked, builder)
        if LEAKS:
            NewPassManager._dispose(passes)
    return linked


def object_code(functions: dict[str, object], processor: Processor) -> bytes:
    """Relocatable object code for a processor that exports each function under its symbol."""
    with global_compiler_lock:
        try:
            target = machine(processor)
            modules = [lower(function, symbol, processor) for symbol, function in functions.items()]
            return target.emit_object(optimise(modules, target))
        finally:
            callable_type.cache_clear()  # types of words that only this file has
