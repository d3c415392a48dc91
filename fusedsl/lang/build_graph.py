"""Builds the graph of a program for argument types: its parameters, undefined names, and the evaluated syntax tree."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..config import Options
from ..errors import FusedslError, UnknownNameError, suggest
from ..ir import graph as ir
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, Symbol
from ..ir.types import DTYPES
from ..source_caret import line_and_column, line_start
from . import attention_call, calls
from .error_recovery import MOST_FAULTS
from .evaluate import TextEvaluator
from .hints import value_hint
from .syntax_tree import (
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
    Span,
    Subscript,
    UnaryOp,
    free_names,
    postorder,
)

POSITIONS = ("i", "j", "k", "idx", "tid")  # names of a loop's index in other languages


def parameter_names(program: ParsedText, shadowed: Collection[str] = ()) -> tuple[str, ...]:
    """The parameters of a program in order of first appearance; a dtype name used as an argument is none, unless
    `shadowed`."""
    names = [name for name, _ in free_names(program)]
    if not any(name in DTYPES for name in names):
        return tuple(names)
    children = (child for node in program.parts for child in _operands(node))
    operands = {child.name for child in children if isinstance(child, Name) and child.name in DTYPES}
    return tuple(name for name in names if name not in DTYPES or name in operands or name in shadowed)


def undefined(
    program: ParsedText,
    missing: Collection[str],
    argument_names: Collection[str],
    hints: Mapping[str, str] | None = None,
) -> FusedslError:
    """The error for names without a value, located at the first read of each, and for unknown functions.

    `argument_names` are the names that the call gives, `hints` the help for some missing ones.
    """
    faults: list[FusedslError] = []
    calls_of_text = (node for node in program.parts if isinstance(node, CallExpr))
    unquoted = [entry for call in calls_of_text for entry in attention_call.unquoted(call, program.text)]
    for name, span in free_names(program):
        if name in missing and len(faults) < MOST_FAULTS:
            within = next((help for (start, end), help in unquoted if start <= span[0] < end), None)
            hint = (hints or {}).get(name) or within or _missing_help(program, name, span, argument_names)
            faults.append(UnknownNameError(f"name {name!r} is not defined", "name.value", span=span, help=hint))
    return _first((faults + unknown_functions(program, argument_names))[:MOST_FAULTS], program.text)


def unknown_functions(program: ParsedText, argument_names: Collection[str]) -> list[FusedslError]:
    """The errors for functions that nothing defines, of a call that gives these names."""
    faults: list[FusedslError] = []
    defined = [definition.name for definition in program.functions]
    defined_so_far: set[str] = set()
    for statement in (*program.statements, *program.results):
        for node in postorder(_root(statement)):
            if not isinstance(node, CallExpr) or node.function in defined_so_far or calls.exists(node.function):
                continue
            if len(faults) < MOST_FAULTS:
                fault = calls.unknown(node.function, defined, argument_names)
                fault.span, fault.caret = node.span, node.function_span[0]
                faults.append(fault)
        defined_so_far.update([statement.name] if isinstance(statement, Definition) else ())
    return faults


def unknown_function(program: ParsedText, argument_names: Collection[str]) -> FusedslError | None:
    """The error for the functions that nothing defines, if there are some."""
    faults = unknown_functions(program, argument_names)
    return _first(faults, program.text) if faults else None


def _first(faults: list[FusedslError], text: str) -> FusedslError:
    """The first of these errors, with the others in `.others`."""
    for fault in faults:
        fault.text = text
    faults[0].others = tuple(sorted(faults[1:], key=lambda fault: fault.caret or 0))
    return faults[0]


def _missing_help(program: ParsedText, name: str, span: Span, argument_names: Collection[str]) -> str:
    """The help for a name that is read at `span` and has no value: one that is alike, or that the call may pass it."""
    assigned = assigned_above(program, span)
    hint = value_hint(name, (*argument_names, *assigned), [definition.name for definition in program.functions])
    if hint is not None:
        return hint
    if program.text[line_start(program.text, span[0]) : span[0]].rstrip().endswith("//"):
        return f"pass {name}=...; // is floor division, and a comment begins with #"
    return f"pass {name}=..., or write iota(x, axis) for a position" if name in POSITIONS else f"pass {name}=..."


def assigned_above(program: ParsedText, span: Span) -> list[str]:
    """The names that have a value of the program at `span`."""
    statements = (s for s in program.statements if isinstance(s, Assign) and s.span[1] <= span[0])
    return [target.name for statement in statements for target in statement.targets]


def misspelt(program: ParsedText, names: Collection[str]) -> str | None:
    """The help for parameters that may be misspelt names of values of the program; None if none are."""
    for name, span in free_names(program):
        near = suggest(name, assigned_above(program, span)) if name in names else None
        if near is not None:
            line, column = line_and_column(program.text, span[0])
            return f"{name} is read in line {line}, column {column}: did you mean {near}?"
    return None


def _root(statement: Assign | Definition | Expr) -> Expr:
    if isinstance(statement, Definition):
        return statement.body
    return statement.value if isinstance(statement, Assign) else statement


def _operands(node) -> tuple:
    """The children of an expression that must be values, unlike arguments."""
    match node:
        case BinaryOp():
            return (node.left, node.right)
        case Compare():
            return node.operands
        case UnaryOp():
            return (node.operand,)
        case Subscript() | Attribute():
            return (node.value,)
        case Conditional():
            return (node.then, node.condition, node.otherwise)
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
