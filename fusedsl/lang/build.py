"""Syntax tree to typed graph: parameters of a program, errors for undefined names, and the graph for argument types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..config import Options
from ..errors import FusedslError, UnknownNameError
from ..ir import graph as ir
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, Symbol
from ..ir.types import DTYPES
from . import attention_call, calls
from .evaluate import TextEvaluator
from .faults import MOST_FAULTS
from .hints import value_hint
from .syntax import (
    Assign,
    Attribute,
    BinaryOp,
    CallExpr,
    Compare,
    Conditional,
    Definition,
    Expr,
    Name,
    ParsedText,
    Subscript,
    UnaryOp,
    free_names,
    postorder,
)


def parameter_names(program: ParsedText, shadowed: Collection[str] = ()) -> tuple[str, ...]:
    """The parameters of a program in order of first appearance; a dtype name used as an argument is none, unless
    `shadowed`."""
    names = [name for name, _ in free_names(program)]
    if not any(name in DTYPES for name in names):
        return tuple(names)
    children = (child for part in program.parts for child in _operands(part))
    operands = {child.name for child in children if isinstance(child, Name) and child.name in DTYPES}
    return tuple(name for name in names if name not in DTYPES or name in operands or name in shadowed)


def undefined(
    program: ParsedText, missing: Collection[str], given: Collection[str], hints: Mapping[str, str] | None = None
) -> UnknownNameError:
    """The error for names without a value, located at the first read of each, and for unknown functions.

    `given` are the names that the call gives, `hints` the help for some missing ones.
    """
    faults: list[FusedslError] = []
    calls_of_text = (part for part in program.parts if isinstance(part, CallExpr))
    unquoted = [part for call in calls_of_text for part in attention_call.unquoted(call, program.text)]
    defined = [definition.name for definition in program.functions]
    for name, span in free_names(program):
        if name in missing and len(faults) < MOST_FAULTS:
            within = next((help for (start, end), help in unquoted if start <= span[0] < end), None)
            hint = (hints or {}).get(name) or within or value_hint(name, given, defined) or f"pass {name}=..."
            faults.append(UnknownNameError(f"name {name!r} is not defined", "name.value", span=span, help=hint))
    above: set[str] = set()
    for statement in (*program.statements, *program.results):
        for part in postorder(_root(statement)):
            if not isinstance(part, CallExpr) or part.function in above or calls.exists(part.function):
                continue
            if len(faults) < MOST_FAULTS:
                fault = calls.unknown(part.function, defined, given)
                fault.span, fault.caret = part.span, part.function_span[0]
                faults.append(fault)
        above.update([statement.name] if isinstance(statement, Definition) else ())
    for fault in faults:
        fault.text = program.text
    faults[0].others = tuple(sorted(faults[1:], key=lambda fault: fault.caret or 0))
    return faults[0]  # type: ignore[return-value]


def _root(statement: Assign | Definition | Expr) -> Expr:
    if isinstance(statement, Definition):
        return statement.body
    return statement.value if isinstance(statement, Assign) else statement


def _operands(part) -> tuple:
    """The children of an expression that must be values, unlike arguments."""
    match part:
        case BinaryOp():
            return (part.left, part.right)
        case Compare():
            return part.operands
        case UnaryOp():
            return (part.operand,)
        case Subscript() | Attribute():
            return (part.value,)
        case Conditional():
            return (part.then, part.condition, part.otherwise)
    return ()


def build(
    program: ParsedText,
    parameters: tuple[ir.Parameter, ...],
    extents: Mapping[Symbol, int],
    options: Options,
    constants: Mapping[str, Any] | None = None,
) -> tuple[ir.Graph, dict[Dim, bool]]:
    """The graph of a program for arguments of these types, and the guards of its plan.

    `extents` are those of the current call: they decide which computed extents are 1 (the guards), and error messages
    show them. `constants` are names bound to literals. Raises the first error of the program, with the errors of other
    statements in `.others`.
    """
    builder, results = built(program, parameters, extents, options, constants or {})
    return builder.finish(results), builder.guards


def built(program: ParsedText, parameters, extents, options: Options, constants) -> tuple[GraphBuilder, list[ir.Node]]:
    """The builder of a program's graph, and its results: `build` for more than the graph alone."""
    builder = GraphBuilder(parameters, extents, options.rounding)
    return builder, TextEvaluator(builder, program.text, options.limits).program(program, constants)
