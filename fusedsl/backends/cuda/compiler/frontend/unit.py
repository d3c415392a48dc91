"""A module of LLVM that a generated file becomes: its kernel, and its scalar functions in it."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..numba_backend import VOID, Emitter, ScalarFunction, ir, types
from .scope import Scope
from .source_lines import SourceLines
from .values import Frame, UnsupportedForm, converted, llvm_type


class Unit(Emitter):
    """A module, and the scalar functions of a generated file in it: each is written once, and inlined where it is
    called. A result is stored where the first argument points. With `lines`, instructions know their lines."""

    def __init__(
        self,
        module: ir.Module,
        definitions: dict[tuple[str, int], ast.FunctionDef],
        lines: SourceLines | None = None,
    ):
        self.module, self.definitions, self.lines = module, definitions, lines
        self.scope: ir.DIValue | None = None  # of the function that is being written
        self.functions: dict[ScalarFunction, ir.Function] = {}
        self.packed: dict[ir.Value, list[ir.Value]] = {}
        self.structs: dict[ir.LiteralStructType, ir.IdentifiedStructType] = {}
        super().__init__(None, ir.IRBuilder())

    def at(self, line: int) -> None:
        """The line of the generated file that what is written next belongs to."""
        if self.lines is not None and line:
            self.builder.debug_metadata = self.lines.location(self.scope, line)

    def asm(self, result: ir.Type, text: str, constraints: str, values: Sequence[ir.Value], side_effect: bool = False):
        if isinstance(result, ir.LiteralStructType):
            result = self._named(result)
        return super().asm(result, text, constraints, values, side_effect)

    def _named(self, result: ir.LiteralStructType) -> ir.IdentifiedStructType:
        """The same by a name: it stands in the text wherever one of its hundred parts is taken out."""
        struct = self.structs.get(result)
        if struct is None:
            struct = self.structs[result] = self.module.context.get_identified_type(f"results_{len(self.structs)}")
            struct.set_body(*result.elements)
        return struct

    def pack(self, kind: types.Type, values: Sequence[ir.Value]) -> ir.Value:
        if not isinstance(kind, types.BaseTuple):
            return values[0]
        packed = ir.Constant(llvm_type(kind), ir.Undefined)
        for k, value in enumerate(values):
            packed = self.builder.insert_value(packed, value, k)
        self.packed[packed] = list(values)
        return packed

    def unpack(self, value: ir.Value, count: int) -> list[ir.Value]:
        """Parts that are known of a tuple that was packed here are not taken out of it."""
        known = self.packed.get(value)
        return super().unpack(value, count) if known is None else known[:count]

    def cast(self, value: ir.Value, source: types.Type, target: types.Type) -> ir.Value:
        return value if source == target else converted(self.builder, value, source, target)

    def inlined(self, scalar: ScalarFunction, values: Sequence[ir.Value]) -> list[ir.Value]:
        function = self.functions.get(scalar)
        if function is None:
            function = self.functions[scalar] = self._written(scalar)
        value = self._called(scalar, function, values)
        return [value] if len(scalar.results) == 1 else self.unpack(value, len(scalar.results))

    def _called(self, scalar: ScalarFunction, function: ir.Function, values: Sequence[ir.Value]) -> ir.Value:
        if scalar.result == types.void:
            return self.builder.call(function, list(values))
        with self.builder.goto_entry_block():
            slot = self.builder.alloca(llvm_type(scalar.result))
        self.builder.call(function, [slot, *values])
        return self.builder.load(slot)

    def _written(self, scalar: ScalarFunction) -> ir.Function:
        code = scalar.function.__code__
        node = self.definitions.get((code.co_name, code.co_firstlineno))
        if node is None:
            raise UnsupportedForm(f"{code.co_name} is not of this file")
        results = () if scalar.result == types.void else scalar.results
        function = ir.Function(self.module, self._function_type(scalar), self.module.get_unique_name(code.co_name))
        function.linkage = "internal"
        function.attributes.add("alwaysinline")
        self.write(function, node, scalar.arguments, _names_of(scalar.function), results)
        return function

    def _function_type(self, scalar: ScalarFunction) -> ir.FunctionType:
        result_pointers = [] if scalar.result == types.void else [llvm_type(scalar.result).as_pointer()]
        return ir.FunctionType(VOID, [*result_pointers, *map(llvm_type, scalar.arguments)])

    def write(
        self,
        function: ir.Function,
        node: ast.FunctionDef,
        kinds: Sequence[types.Type],
        names: Mapping[str, Any],
        results: Sequence[types.Type] = (),
    ) -> None:
        """The body of a function of this file, whose arguments are of these types; `results` are what it returns."""
        arguments = [a.arg for a in node.args.args]
        scope = Scope(names, dict(zip(arguments, kinds)), results)
        step = scope.block(node.body)
        if results and not scope.returned:
            raise UnsupportedForm("no return")
        before = (self.builder, self.scope)
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.scope = None if self.lines is None else self.lines.function(function, node.lineno)
        self.at(node.lineno)
        try:
            step(Frame(self, dict(zip(arguments, function.args[len(function.args) - len(arguments) :]))))
            if not scope.returned:
                self.builder.ret_void()
        finally:
            self.builder, self.scope = before


def _names_of(function: Callable) -> Mapping[str, Any]:
    """What a function's names mean: a part of a combo kernel has names of its own."""
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    return ChainMap(dict(zip(function.__code__.co_freevars, cells)), function.__globals__)
