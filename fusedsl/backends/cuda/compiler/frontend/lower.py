"""A generated file's kernel to LTO-IR: one module, written while nobody collects garbage."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from .....garbage import no_collection
from .. import numba_backend
from ..numba_backend import VOID, ir, types
from .source_lines import SourceLines, wants_lineinfo
from .unit import Unit
from .values import llvm_type


def lowered(
    tree: ast.Module, names: dict[str, Any], words: Sequence[types.Type], cc: tuple[int, int], bounds: tuple[int, int]
) -> bytes:
    """LTO-IR of a file's kernel, over parameters of these types; `names` are what the file has defined.

    Raises UnsupportedForm.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    starts = [node.decorator_list[0].lineno if node.decorator_list else node.lineno for node in functions]
    definitions = {(node.name, line): node for node, line in zip(functions, starts)}
    module = numba_backend.module()
    kernel = ir.Function(module, ir.FunctionType(VOID, [llvm_type(kind) for kind in words]), "fusedsl_kernel")
    node = next(node for node in functions if node.name == "kernel")
    with no_collection(), numba_backend.lowering_for(cc):
        lines = SourceLines(module) if wants_lineinfo() else None
        Unit(module, definitions, lines).write(kernel, node, words, names)
        return numba_backend.assemble(kernel, cc, bounds)
