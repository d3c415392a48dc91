"""Generated files to LLVM without Numba's frontend: types go forwards through the tree, then code is written once.

Numba types and lowers a kernel of five hundred lines in seconds: bytecode, its control flow, overloads of every
operator. Generated files need little of that. They are assignments, calls of intrinsics and loops over a few kinds of
numbers, and an intrinsic says itself of what type it is. What is here means what Numba makes of it (integers widen to
64 bits, float64 literals, …); any other form is `Unsuited`, and left to Numba.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import numba_backend
from ..numba_backend import VOID, Emitter, ScalarFunction, ir, types
from .scope import Scope
from .typed import Unsuited, converted, llvm_type

__all__ = ["Scope", "Unit", "Unsuited", "lowered"]


def lowered(
    tree: ast.Module, names: dict[str, Any], words: Sequence[types.Type], cc: tuple[int, int], bounds: tuple[int, int]
) -> bytes:
    """LTO-IR of a file's kernel, over parameters of these types; `names` are what the file has defined.

    Raises Unsuited.
    """
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    starts = [node.decorator_list[0].lineno if node.decorator_list else node.lineno for node in functions]
    definitions = {(node.name, line): node for node, line in zip(functions, starts)}
    module = numba_backend.module()
    kernel = ir.Function(module, ir.FunctionType(VOID, [llvm_type(kind) for kind in words]), "fusedsl_kernel")
    (node,) = (node for node in functions if node.name == "kernel")
    with _no_collection(), numba_backend.lowering_for(cc):
        Unit(module, definitions).write(kernel, node, words, names)
        return numba_backend.assemble(kernel, cc, bounds)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Inside the block nobody looks for garbage: a module's hundred thousand objects make Python look again and again,
    and all of them are in use."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Unit(Emitter):
    """A module, and the scalar functions of a generated file in it: each is written once, and inlined where it is
    called."""

    def __init__(self, module: ir.Module, definitions: dict[tuple[str, int], ast.FunctionDef]):
        self.module, self.definitions = module, definitions
        self.functions: dict[ScalarFunction, ir.Function] = {}
        self.packed: dict[ir.Value, list[ir.Value]] = {}
        self.structs: dict[ir.LiteralStructType, ir.IdentifiedStructType] = {}
        super().__init__(None, ir.IRBuilder())

    def asm(self, result: ir.Type, text: str, constraints: str, values: Sequence[ir.Value], effect: bool = False):
        if isinstance(result, ir.LiteralStructType):
            result = self._named(result)
        return super().asm(result, text, constraints, values, effect)

    def _named(self, result: ir.LiteralStructType) -> ir.IdentifiedStructType:
        """The same by a name: it stands in the text wherever one of its hundred parts is taken out."""
        found = self.structs.get(result)
        if found is None:
            found = self.structs[result] = self.module.context.get_identified_type(f"results_{len(self.structs)}")
            found.set_body(*result.elements)
        return found

    def pack(self, kind: types.Type, values: Sequence[ir.Value]) -> ir.Value:
        if not isinstance(kind, types.BaseTuple):
            return values[0]
        made = ir.Constant(llvm_type(kind), ir.Undefined)
        for k, value in enumerate(values):
            made = self.builder.insert_value(made, value, k)
        self.packed[made] = list(values)
        return made

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
        found = self.builder.call(function, list(values))
        return [found] if len(scalar.results) == 1 else self.unpack(found, len(scalar.results))

    def _written(self, scalar: ScalarFunction) -> ir.Function:
        code = scalar.function.__code__
        node = self.definitions.get((code.co_name, code.co_firstlineno))
        if node is None:
            raise Unsuited(f"{code.co_name} is not of this file")
        form = ir.FunctionType(llvm_type(scalar.result), [llvm_type(kind) for kind in scalar.arguments])
        function = ir.Function(self.module, form, self.module.get_unique_name(code.co_name))
        function.linkage = "internal"
        function.attributes.add("alwaysinline")
        self.write(function, node, scalar.arguments, scalar.function.__globals__, scalar.results)
        return function

    def write(
        self,
        function: ir.Function,
        node: ast.FunctionDef,
        kinds: Sequence[types.Type],
        names: dict[str, Any],
        results: Sequence[types.Type] = (),
    ) -> None:
        """The body of a function of this file, whose arguments are of these types; `results` are what it returns."""
        arguments = [a.arg for a in node.args.args]
        step = Scope(names, dict(zip(arguments, kinds))).block(node.body, results)
        before, self.builder = self.builder, ir.IRBuilder(function.append_basic_block("entry"))
        try:
            step(Frame(self, dict(zip(arguments, function.args))))
            if not results:
                self.builder.ret_void()
        finally:
            self.builder = before


class Frame:
    """A function that is being written: its variables have places on a stack, which LLVM makes registers of."""

    def __init__(self, unit: Unit, known: dict[str, ir.Value]):
        self.unit, self.known = unit, known
        self.places: dict[tuple[str, types.Type], ir.Value] = {}

    @property
    def builder(self) -> ir.IRBuilder:
        return self.unit.builder

    def _place(self, name: str, kind: types.Type) -> ir.Value:
        place = self.places.get((name, kind))
        if place is None:
            with self.builder.goto_entry_block():
                place = self.places[name, kind] = self.builder.alloca(llvm_type(kind))
        return place

    def put(self, name: str, kind: types.Type, value: ir.Value) -> None:
        self.builder.store(value, self._place(name, kind))
        self.known[name] = value

    def get(self, name: str, kind: types.Type) -> ir.Value:
        """A variable's value: that which is known here, or what its place has."""
        found = self.known.get(name)
        return self.builder.load(self._place(name, kind)) if found is None else found

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.known.pop(name, None)
