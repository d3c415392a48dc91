"""LLVM's target machine for a processor: what emits object code."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from .processor import Processor, host


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
