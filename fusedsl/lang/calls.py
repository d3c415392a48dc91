"""Calls and subscripts of a program: which function a name means, how its arguments bind, and how a body is inlined."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from ..errors import ArgumentError, DTypeError, FusedslError, ShapeError, UnknownNameError, Unsupported, suggest
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim
from ..ir.graph import Node
from ..ir.shapes import require_groups, require_mask
from ..ir.types import BOOL, DTYPES
from . import attention_call, functions, prelude
from .argument_binding import bind_arguments, signature
from .environment import ERROR_VALUE, Environment, ErrorValue, UserFunction
from .error_recovery import EvaluatorBase
from .functions import REQUIRED, ParameterSpec
from .hints import function_hint
from .parameter_kinds import CONSTANT_HELP, dim_of, not_constant, show_value
from .syntax_tree import CallExpr, Expr, Sequence, Subscript

PRELUDE_KINDS = {"axis": "axes", "dtype": "dtype | None", "groups": "extent"}
WIDENED = ("softmax",)  # by the mask that `where=` gives it: all elements stay


def call(ev: EvaluatorBase, node: CallExpr, env: Environment) -> Generator[tuple[Any, Environment], Any, Any]:
    """The value of a call.

    A generator: it yields (expression, environment) and is resumed with that expression's value. The evaluator's loop
    (a trampoline) keeps the suspended generators on a list, so deep inlining does not recurse.
    """
    name = node.function
    defined = env.functions.get(name)
    if defined is ERROR_VALUE:
        raise ErrorValue
    if defined is not None:
        parameters = tuple(
            ParameterSpec(p.name, "any", defined.defaults.get(p.name, REQUIRED)) for p in defined.definition.parameters
        )
        values, expressions = yield from bind_arguments(ev, node, env, parameters)
        return (yield from _inline(ev, node, env, defined, values, expressions))
    if name == "attention":
        return (yield from attention_call.call(ev, node, env))
    hidden = name.startswith("_") and (env.parent is None or env.source == ev.text)
    table = None if hidden else functions.lookup(name)
    if table is not None:
        values, expressions = yield from bind_arguments(ev, node, env, table.parameters)
        _check_mask(ev, name, env, table.parameters, values, expressions)
        blamed = None if table.blame is None else expressions[table.blame]
        with ev.at(env, *_error_position(node, blamed), tuple(expressions)):
            return ev.check_rank(functions.call(ev.builder, table, values))
    composite = None if hidden else prelude_function(ev, name)
    if composite is None:
        for argument in node.arguments:  # their own faults count too
            yield argument.value, env
        raise ev.fault(unknown(name, ev.defined, env.values), env, node, node.function_span[0])
    parameters = signature(composite.definition, composite.defaults)
    values, expressions = yield from bind_arguments(ev, node, env, parameters)
    _check_mask(ev, name, env, parameters, values, expressions)
    if not name.startswith("_"):
        _check_choices(ev, node, env, composite, values, expressions)
        _check_kinds(ev, node, env, composite, values, expressions)
    return (yield from _inline(ev, node, env, composite, values, expressions))


def _error_position(node: CallExpr, blamed: Expr | None) -> tuple[Expr, int]:
    """(expression, caret) that the checks of a call point at: the function's name, or the argument given by `blame`."""
    if blamed is None:
        return node, node.function_span[0]
    if isinstance(blamed, Sequence) and blamed.items:
        return blamed, blamed.items[0].span[0]
    return blamed, blamed.span[0]


def prelude_function(ev: EvaluatorBase, name: str) -> UserFunction | None:
    """A function of the prelude, in an empty environment; None if there is none of this name."""
    definition = prelude.definition(name)
    if definition is None:
        return None
    alone = Environment({})
    defaults = {p.name: ev.evaluate(p.default, alone) for p in definition.parameters if p.default is not None}
    return UserFunction(definition, {}, {}, defaults, prelude.own_source(name))


def _check_choices(
    ev: EvaluatorBase, node: CallExpr, env: Environment, function: UserFunction, values, expressions
) -> None:
    """Check string arguments against the strings that the function compares them with."""
    for p, value, expression in zip(function.definition.parameters, values, expressions):
        if (error := choice_fault(node.function, p.name, value)) is not None:
            raise ev.fault(error, env, expression if expression is not None else node)


def choice_fault(name: str, parameter: str, value: Any) -> ArgumentError | None:
    """The error for a string argument that is none of the choices of a prelude function; else None."""
    choices = prelude.choices(name).get(parameter)
    if choices is None or value in choices:
        return None
    near = suggest(value, choices) if isinstance(value, str) else None
    return ArgumentError(
        f"{parameter} of {name} is {' or '.join(map(repr, choices))}, not {show_value(value)}",
        "argument.choice",
        help=f"did you mean {near!r}?" if near else f"write {parameter}={choices[0]!r}",
    )


def _check_kinds(
    ev: EvaluatorBase, node: CallExpr, env: Environment, function: UserFunction, values, expressions
) -> None:
    """Check the kinds of a prelude function's arguments, as for built-in functions."""
    parameters = tuple(
        ParameterSpec(p.name, _kind(node.function, p.name, function.defaults.get(p.name, REQUIRED)))
        for p in function.definition.parameters
    )
    with ev.at(env, node, node.function_span[0], tuple(expressions)):
        functions.convert_arguments(ev.builder, functions.FunctionSpec(node.function, parameters, _inline), values)
        check_groups(ev.builder, node.function, values)


def check_groups(b: GraphBuilder, name: str, values: Iterable[Any]) -> None:
    """Check that the channels of group_norm divide into groups, which its definition cannot express."""
    if name == "group_norm":
        x, groups, *_ = values
        extent = dim_of(groups)
        if isinstance(x, Node) and extent is not None:
            require_groups(b, x, extent)


def _check_mask(ev: EvaluatorBase, name: str, env: Environment, parameters, values, expressions) -> None:
    """Check that the mask of a reduction (where=) fits its array."""
    for p, value, expression in zip(parameters, values, expressions):
        if p.name == "where" and expression is not None and all(isinstance(v, Node) for v in (value, values[0])):
            with ev.at(env, expression, expression.span[0], (expressions[0], expression)):
                require_mask(ev.builder, values[0], value, widens=name in WIDENED)


def _kind(name: str, parameter: str, default: Any) -> str:
    """The kind of a prelude function's parameter."""
    if parameter in prelude.choices(name):
        return "any"
    if isinstance(default, Node) and default.op == "const" and default.type.dtype is BOOL:
        return "flag"
    return PRELUDE_KINDS.get(parameter, "array | None" if default is None else "array")


def _inline(
    ev: EvaluatorBase, node: CallExpr, env: Environment, function: UserFunction, values, expressions
) -> Generator[tuple[Any, Environment], Any, Any]:
    """Inline a function: evaluate its body with bound parameters; errors in it are located at the call."""
    names = [p.name for p in function.definition.parameters]
    inner = Environment(
        {**function.values, **dict(zip(names, values))},
        function.functions,
        env,
        node,
        {n: e for n, e in zip(names, expressions) if e is not None},
        function.values,
        function.source,
    )
    return (yield function.definition.body, inner)


# -- arguments


def check_known(ev: EvaluatorBase, node: CallExpr, env: Environment) -> None:
    """Raise if a function's body calls an unknown function: at its definition, called or not."""
    name = node.function
    if name not in env.functions and not exists(name):
        raise ev.fault(unknown(name, ev.defined, env.values), env, node, node.function_span[0])


def exists(name: str) -> bool:
    """True if a program may call this function without defining it."""
    known = functions.lookup(name) is not None or prelude.definition(name) is not None
    return name == "attention" or (not name.startswith("_") and known)


def unknown(name: str, defined: Iterable[str], values: Iterable[str]) -> FusedslError:
    """The error for an unknown function, in a program with these functions and values."""
    if name in functions.UNSUPPORTED:
        family = functions.UNSUPPORTED[name]
        help = function_hint(name, ())
        return Unsupported(f"{name} is not supported ({family})", "unsupported.function", help=help)
    if name.startswith("complex"):
        help = "pass the parts of complex numbers as two arrays"
        return DTypeError("there are no complex numbers", "dtype.unknown", help=help)
    if name in ("longdouble", "datetime64", "timedelta64"):
        return DTypeError(f"there is no dtype {name}", "dtype.unknown", help=f"the dtypes are {', '.join(DTYPES)}")
    if name in values:
        return UnknownNameError(
            f"{name} is a value, not a function", "name.function", help=f"write {name}*(...) to multiply"
        )
    help = function_hint(name, defined) or f"define it, {name}(x) = ..., or compute it outside and pass the result"
    if len(name) <= 2 and help.startswith("define it"):
        help = f"if {name} is an array, write {name} * (...), or {name}[...]"
    return UnknownNameError(f"there is no function {name}", "name.function", help=help)


# -- subscripts


def bound(ev: EvaluatorBase, value: Any, expression: Expr, env: Environment) -> Dim | None:
    """A slice bound: an integer known at the call, from literals and sizes."""
    if value is ERROR_VALUE:
        raise ErrorValue
    if value is None:
        return None
    dim = dim_of(value)
    if dim is None:
        error = ArgumentError(
            f"a slice bound is an integer, not {show_value(value)}", "argument.slice", help=CONSTANT_HELP
        )
        raise ev.fault(not_constant(error, value), env, expression)
    return dim


def position(ev: EvaluatorBase, value: Any, expression: Expr, env: Environment) -> Dim | Node | None:
    """An index: an integer known at the call, an integer array, or None for a new axis."""
    if value is ERROR_VALUE:
        raise ErrorValue
    if value is None:
        return None
    dim = dim_of(value)
    if dim is not None:
        return dim
    if isinstance(value, Node):
        return value
    raise ev.fault(not_a_position(value), env, expression)


def not_a_position(value: Any) -> FusedslError:
    """The error for a value that is no index."""
    if isinstance(value, tuple):
        return Unsupported("indexing with a list is not supported", "unsupported.gather", help="pass it as an array")
    return ArgumentError(
        f"an index is an integer or a slice, not {show_value(value)}",
        "argument.index",
        help="an integer, a slice, None, ..., or an array of integers",
    )


def tuple_item(ev: EvaluatorBase, value: tuple, key: list, node: Subscript, env: Environment) -> Any:
    """An item of a tuple, as in `shape(x)[0]`."""
    try:
        if len(key) == 1 and isinstance(key[0], (int, slice)):
            return value[key[0]]
    except (IndexError, TypeError):
        pass
    error = ShapeError(
        f"a tuple of {len(value)} has no such item", "shape.index", help=f"give an integer below {len(value)}"
    )
    raise ev.fault(error, env, node.indices[0])
