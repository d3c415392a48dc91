"""Arguments of a call to the parameters of a function: by position or keyword, variadic ones packed; and errors."""

from __future__ import annotations

from ..errors import ArgumentError, FusedslError, UnknownNameError
from .environment import ERROR_VALUE, Environment, ErrorValue
from .error_recovery import EvaluatorBase
from .functions import REQUIRED, ParameterSpec
from .hints import keyword_hint
from .printer import show
from .syntax_tree import CallArgument, CallExpr, Definition, Expr, Literal, Sequence, UnaryOp

SURPLUS = {
    "normal": "it takes a seed and a shape: mean + deviation * normal(seed, shape); stream=1 gives further numbers",
    "uniform": "it takes a seed and a shape: low + (high - low) * uniform(seed, shape); stream=1 gives further numbers",
}


def signature(definition: Definition, defaults) -> tuple[ParameterSpec, ...]:
    """The parameters of a prelude function; private functions take all arguments by position."""
    private = definition.name.startswith("_")
    return tuple(
        ParameterSpec(p.name, "any", defaults.get(p.name, REQUIRED), not private and p.name in NAMED_ONLY)
        for p in definition.parameters
    )


def bind_arguments(ev: EvaluatorBase, node: CallExpr, env: Environment, parameters: tuple[ParameterSpec, ...]):
    """(values, expressions) of all parameters; the expression is None for a default."""
    numbers = {p.name: k for k, p in enumerate(parameters)}
    slots: list[Expr | None] = [None] * len(parameters)
    arguments = _pack_variadic(node, parameters)
    for k, argument in enumerate(arguments):
        if argument.keyword is None:
            number = k
            if k >= len(parameters) or parameters[k].named:
                raise ev.fault(_surplus(node, parameters, k), env, argument.value)
        else:
            keyword = argument.keyword if argument.keyword in numbers else SPELLINGS.get(argument.keyword, "")
            number = numbers.get(keyword, -1)
            if number < 0:
                raise ev.fault(_unknown_keyword(node.function, argument.keyword, parameters), env, argument)
            if slots[number] is not None:
                error = ArgumentError(f"{keyword} is given twice", "argument.twice", help="keep one of them")
                raise ev.fault(error, env, argument, argument.span[0])
        slots[number] = argument.value
    missing = [p.name for p, s in zip(parameters, slots) if s is None and p.default is REQUIRED]
    if missing:
        error = ArgumentError(
            f"{node.function} is missing {' and '.join(missing)}",
            "argument.missing",
            help=f"call it as {show_signature(node.function, parameters)}",
        )
        raise ev.fault(error, env, node, node.close)
    values = []
    for p, s in zip(parameters, slots):
        values.append(p.default if s is None else (yield s, env))
    if any(value is ERROR_VALUE for value in values):
        raise ErrorValue
    return values, slots


def _pack_variadic(node: CallExpr, parameters: tuple[ParameterSpec, ...]) -> tuple[CallArgument, ...]:
    """The arguments, with those of a variadic parameter packed into one list."""
    variadic = next((k for k, p in enumerate(parameters) if p.many), None)
    if variadic is None:
        return node.arguments
    positional = [a for a in node.arguments if a.keyword is None]
    named = [a for a in node.arguments if a.keyword is not None]
    values = tuple(a.value for a in positional[variadic:])
    span = (values[0].span[0], values[-1].span[1]) if values else (node.close, node.close)
    listed = CallArgument(span, None, Sequence(span, "list", values))
    return (*positional[:variadic], *([listed] if len(positional) >= variadic else []), *named)


def show_signature(name: str, parameters: tuple[ParameterSpec, ...]) -> str:
    """name(x, axis=..., *, keepdims=...)"""
    shown: list[str] = []
    for p in parameters:
        if p.named and "*" not in shown:
            shown.append("*")
        shown.append("*" * p.many + p.name if p.default is REQUIRED else f"{p.name}=...")
    return f"{name}({', '.join(shown)})"


def _surplus(node: CallExpr, parameters: tuple[ParameterSpec, ...], k: int) -> FusedslError:
    name = node.function
    positional = sum(not p.named for p in parameters)
    if name in POINTLESS:
        value = node.arguments[k].value
        second = value.source if isinstance(value, Literal) else "y"
        axis = value.source if isinstance(value, Literal) and isinstance(value.value, int) else "..."
        help = f"{POINTLESS[name]}(x, {second}), or axis={axis}?"
    elif (tupled := _as_tuple(node, parameters, positional)) is not None:
        help = f"give them as one tuple: {tupled}"
    elif name in SURPLUS:
        help = SURPLUS[name]
    elif positional < len(parameters):
        keywords = ", ".join(f"{p.name}=" for p in parameters if p.named)
        help = f"arrays and axis go by position, the rest by keyword: {keywords}"
    else:
        help = f"call it as {show_signature(name, parameters)}"
    few = f"{positional} positional argument{'s' * (positional != 1)}"
    return ArgumentError(f"{name} takes {few}", "argument.surplus", help=help)


def _as_tuple(node: CallExpr, parameters: tuple[ParameterSpec, ...], positional: int) -> str | None:
    """The call with trailing integer arguments as one tuple, f(x, 2, 3) as f(x, (2, 3)); None if it does not apply."""
    given = [argument.value for argument in node.arguments if argument.keyword is None]
    trailing = given[positional - 1 :]
    if not positional or parameters[positional - 1].kind not in ("shape", "axes", "ints", "extents"):
        return None
    if not all(isinstance(part, (Literal, UnaryOp)) and show(part).lstrip("-").isdigit() for part in trailing):
        return None
    before = [show(part) for part in given[: positional - 1]]
    return f"{node.function}({', '.join([*before, '(' + ', '.join(map(show, trailing)) + ')'])})"


def _unknown_keyword(name: str, keyword: str, parameters: tuple[ParameterSpec, ...]) -> UnknownNameError:
    hint = keyword_hint(keyword, [p.name for p in parameters]) or f"call it as {show_signature(name, parameters)}"
    return UnknownNameError(f"{name} has no parameter {keyword}", "name.keyword", help=hint)


# Parameters of prelude functions that are neither arrays nor axes.
NAMED_ONLY = frozenset(["dtype", "keepdims", "where", "ddof", "mean", "initial", "eps", "rtol", "atol", "equal_nan"])
# NumPy's, the array API's and torch's other names of a parameter.
SPELLINGS = {
    "correction": "ddof", "keepdim": "keepdims", "dim": "axis", "a_min": "min", "a_max": "max", "reps": "repetitions",
}  # fmt: skip
POINTLESS = {"max": "maximum", "min": "minimum"}
