"""Expressions of generated files: their types, from those of names that have a value, and what writes them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..numba_backend import ir, types
from .typed import Kinds, Typed, binary, compared, constant, extreme, unary
from .values import Frame, UnsupportedForm, llvm_type


@dataclass(frozen=True)
class Expressions:
    """What names mean in a file, and the types of those that have a value."""

    names: Mapping[str, Any]
    kinds: Kinds

    def condition(self, node: ast.expr) -> Typed:
        tested = self.expression(node)
        if tested.kind == types.boolean:
            return tested
        if not isinstance(tested.kind, types.Integer):
            raise UnsupportedForm("condition")
        return Typed(types.boolean, lambda frame: frame.unit.cast(tested.emit(frame), tested.kind, types.boolean))

    def several(self, nodes: Sequence[ast.expr]) -> tuple[list[types.Type], Callable[[Frame], list[ir.Value]]]:
        """The types of expressions, and what writes them; a starred one counts for its parts."""
        kinds: list[types.Type] = []
        parts: list[tuple[Typed, int]] = []
        for node in nodes:
            part = self.expression(node.value if isinstance(node, ast.Starred) else node)
            held = part.kind
            if isinstance(node, ast.Starred):
                if not isinstance(held, types.BaseTuple):
                    raise UnsupportedForm("star")
                kinds += list(held)
            else:
                kinds.append(held)
            parts.append((part, len(held) if isinstance(node, ast.Starred) else 0))

        def write(frame: Frame) -> list[ir.Value]:
            values = []
            for part, count in parts:
                value = part.emit(frame)
                values += frame.unit.unpack(value, count) if count else [value]
            return values

        return kinds, write

    def expression(self, node: ast.expr) -> Typed:
        match node:
            case ast.Name(id=name) if name in self.kinds:
                kind = self.kinds[name]
                return Typed(kind, lambda frame: frame.get(name, kind))
            case ast.Name(id=name) if isinstance(self.names.get(name), (bool, int, float)):
                return constant(self.names[name])
            case ast.Constant(value=bool() | int() | float() as value):
                return constant(value)
            case ast.Tuple(elts=elements) if elements:
                kinds, write = self.several(elements)
                whole = types.Tuple.from_types(tuple(kinds))
                return Typed(whole, lambda frame: frame.unit.pack(whole, write(frame)))
            case ast.UnaryOp(op=op, operand=operand):
                return unary(op, self.expression(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return binary(op, self.expression(left), self.expression(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return compared(op, self.expression(left), self.expression(right))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name not in self.kinds:
                if name in ("max", "min") and name not in self.names and len(arguments) == 2:
                    return extreme(name, *map(self.expression, arguments))
                return self._called(self.names.get(name), arguments)
        raise UnsupportedForm(ast.dump(node)[:60])

    def _called(self, function: Any, arguments: Sequence[ast.expr]) -> Typed:
        kinds, write = self.several(arguments)
        if isinstance(function, types.Type):
            if len(kinds) != 1:
                raise UnsupportedForm("cast")
            llvm_type(function), llvm_type(kinds[0])
            return Typed(function, lambda frame: frame.unit.cast(write(frame)[0], kinds[0], function))
        rule = getattr(function, "rule", None)
        typed = rule and rule(*kinds)
        if not typed:
            raise UnsupportedForm(f"call of {function}")
        result, emit = typed
        return Typed(result, lambda frame: emit(frame.unit, *write(frame)))
