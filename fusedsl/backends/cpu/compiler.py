"""Compiler: generated Python to relocatable object code, by the front end and by LLVM, which vectorises it.

LLVM's loop vectoriser runs in `optimise`; it chooses the width up to `prefer-vector-width` of functions. `interleave`
sets the interleave counts of long dependency chains.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from llvmlite.binding.ffi import ObjectRef
from llvmlite.binding.newpassmanagers import ModulePassManager, NewPassManager

from .frontend import lowered
from .interleave import interleave
from .math import half
from .processor import Processor, host
from .target_machine import machine

# llvmlite 0.50 leaks pass managers, 30 kB each: ObjectRef's empty _dispose hides the one that frees them
LEAKS = hasattr(NewPassManager, "_dispose") and ModulePassManager._dispose is ObjectRef._dispose


def lower(
    node: ast.FunctionDef, names: Mapping[str, Any], symbol: str, processor: Processor | None = None
) -> ir.Module:
    """The LLVM module of one generated function: of its front end, with interleave counts and what it calls."""
    module = lowered(node, names, symbol)
    interleave(module)
    _reserve_data(module)
    half.define(module, (processor or host()).converts_float16)
    return module


def _reserve_data(module: ir.Module) -> None:
    """A word of data: llvmlite 0.50 maps pages for data only where an object has some, and a call of the C library
    makes LLVM's loader put a global offset table there."""
    room = ir.GlobalVariable(module, ir.IntType(64), "fusedsl_data")
    room.linkage, room.initializer = "common", ir.IntType(64)(0)


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


def object_code(functions: Mapping[str, ast.FunctionDef], names: Mapping[str, Any], processor: Processor) -> bytes:
    """Relocatable object code for a processor that exports each function of a file under its name."""
    target = machine(processor)
    return target.emit_object(
        optimise([lower(node, names, symbol, processor) for symbol, node in functions.items()], target)
    )
