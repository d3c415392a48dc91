"""Line numbers of a generated file as debug locations of LLVM, for listings that join a line with its instructions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

from .....context_values import inside
from ..numba_backend import ir

LEVELS = (("Dwarf Version", 4), ("Debug Info Version", 3))
WARNS = 2  # what LLVM does where modules differ
_WANTED: ContextVar[bool] = ContextVar("whether instructions know their lines", default=False)


def source_lines() -> AbstractContextManager[bool]:
    """Instructions that are lowered inside the block know their lines of the generated file."""
    return inside(_WANTED, True)


def wants_lineinfo() -> bool:
    """Whether instructions are to know their lines."""
    return _WANTED.get()


class SourceLines:
    """The debug locations of one module: they become `.loc` directives, and change no instruction."""

    def __init__(self, module: ir.Module):
        self.module = module
        self.file = module.add_debug_info("DIFile", {"directory": "generated", "filename": "kernel.py"})
        unit = {"language": ir.DIToken("DW_LANG_C_plus_plus"), "file": self.file, "producer": "fusedsl"}
        unit |= {"runtimeVersion": 0, "isOptimized": True, "emissionKind": ir.DIToken("DebugDirectivesOnly")}
        self.unit = module.add_debug_info("DICompileUnit", unit, is_distinct=True)
        self.kind = module.add_debug_info("DISubroutineType", {"types": module.add_metadata([])})
        module.add_named_metadata("llvm.dbg.cu", self.unit)
        flags = module.add_named_metadata("llvm.module.flags")
        for name, level in LEVELS:
            flags.add(
                module.add_metadata([ir.Constant(ir.IntType(32), WARNS), name, ir.Constant(ir.IntType(32), level)])
            )

    def function(self, function: ir.Function, line: int) -> ir.DIValue:
        """The scope of a function's lines, which begins here."""
        about = {"name": function.name, "linkageName": function.name, "scope": self.file, "file": self.file}
        about |= {"line": line, "scopeLine": line, "type": self.kind, "unit": self.unit}
        about |= {"isLocal": False, "isDefinition": True, "isOptimized": True}
        scope = self.module.add_debug_info("DISubprogram", about, is_distinct=True)
        function.set_metadata("dbg", scope)
        return scope

    def location(self, scope: ir.DIValue, line: int) -> ir.DIValue:
        """A line of a function."""
        return self.module.add_debug_info("DILocation", {"line": line, "column": 1, "scope": scope})
