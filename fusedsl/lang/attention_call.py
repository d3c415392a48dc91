"""Calls of attention in a program: binding of operands, quoted score and mask expressions, and the arrays they read."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import ArgumentError, FusedslError, UnknownNameError
from ..ir.graph import Node, value_of
from ..ir.types import BOOL
from .attention_keywords import KEYWORDS, VISIBLE_NAMES, name_of, names_read, quoted_text_help, unread_keyword
from .attention_layout import OPERANDS, Request
from .environment import ERROR_VALUE, Environment, ErrorValue
from .error_recovery import EvaluatorBase
from .lexer import NAMED_NUMBERS
from .parameter_kinds import show_value
from .parse import parse
from .syntax_tree import CallArgument, CallExpr, Literal, Name, ParsedText, Span, free_names

USAGE = "call it as attention(q, k, v, score='...', mask='...', scale=..., lengths=..., bias=bias)"
TEXTS = ("score", "mask")


@dataclass(frozen=True)
class AttentionArguments:
    """The arguments of an attention call by name, with their values."""

    arguments: Mapping[str, CallArgument]
    values: Mapping[str, Any]
    ev: EvaluatorBase
    env: Environment

    def fault(self, name: str, error: FusedslError) -> FusedslError:
        """The error, located at the value of an argument."""
        return self.ev.fault(error, self.env, self.arguments[name].value)


def call(ev: EvaluatorBase, node: CallExpr, env: Environment) -> Generator[tuple[Any, Environment], Any, Any]:
    """Evaluate `attention(q, k, v, score=..., bias=bias, …)`: other keywords name arrays of its expressions."""
    from .attention import attention  # imported here: it imports the evaluator

    given = yield from _bind(ev, node, env)
    texts = {name: _program(given, name) for name in TEXTS}
    arrays = _arrays(given, texts)
    operands = {name: _operand(given, name) for name in OPERANDS}
    request = Request(**operands, **texts, return_lse=_flag(given, "return_lse"), arrays=arrays)  # type: ignore[arg-type]
    expressions = [given.arguments[name].value if name in given.arguments else None for name in OPERANDS]
    with ev.at(env, node, node.function_span[0], tuple(expressions)):
        return attention(ev, request)


def _bind(
    ev: EvaluatorBase, node: CallExpr, env: Environment
) -> Generator[tuple[Any, Environment], Any, AttentionArguments]:
    """Bind the arguments by name, q, k and v included."""
    arguments: dict[str, CallArgument] = {}
    values: dict[str, Any] = {}
    for position, argument in enumerate(node.arguments):
        if argument.keyword is None and position > 2:
            error = ArgumentError("attention takes 3 positional arguments", "argument.surplus", help=USAGE)
            raise ev.fault(error, env, argument.value)
        name = argument.keyword or "qkv"[position]
        if name in arguments:
            error = ArgumentError(f"{name} is given twice", "argument.twice", help="keep one of them")
            raise ev.fault(error, env, argument, argument.span[0])
        arguments[name] = argument
        values[name] = yield argument.value, env
    if any(value is ERROR_VALUE for value in values.values()):
        raise ErrorValue
    missing = [name for name in "qkv" if name not in arguments]
    if missing:
        error = ArgumentError(f"attention is missing {' and '.join(missing)}", "argument.missing", help=USAGE)
        raise ev.fault(error, env, node, node.close)
    return AttentionArguments(arguments, values, ev, env)


# -- kinds of arguments


def _program(given: AttentionArguments, name: str) -> ParsedText | None:
    """The parsed expression of score or mask; None if not given."""
    text = given.values.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        named = isinstance(text, Node) and isinstance(given.arguments[name].value, Name)
        help = quoted_text_help(name, text.type.shape if named else None)  # type: ignore[union-attr]
        message = f"{name} is an expression in quotes, not {show_value(text)}"
        raise given.fault(name, ArgumentError(message, "argument.attention", help=help))
    return parse(text, asdict(given.ev.limits), [n for n in NAMED_NUMBERS if n in given.arguments])


def _arrays(given: AttentionArguments, texts: Mapping[str, ParsedText | None]) -> dict[str, Node]:
    """The arrays of the expressions by name; UnknownNameError for a keyword that neither expression reads."""
    read = {name for program in texts.values() if program is not None for name in names_read(program)}
    arrays: dict[str, Node] = {}
    for keyword, argument in given.arguments.items():
        if keyword in (*"qkv", *KEYWORDS):
            continue
        if keyword in VISIBLE_NAMES:
            message, help = f"{keyword} means something else in score and mask", "give the array another name"
            error: FusedslError = ArgumentError(message, "argument.attention", help=help)
            raise given.ev.fault(error, given.env, argument)
        name = name_of(keyword, read)
        if name not in read:
            message, help = unread_keyword(keyword, read, given.arguments)
            error = UnknownNameError(message, "name.keyword", help=help)
            raise given.ev.fault(error, given.env, argument)
        arrays[name] = _array(given, keyword, given.values[keyword])
    if "lengths" in read and given.values.get("lengths") is not None:
        arrays.setdefault("lengths", _array(given, "lengths", given.values["lengths"]))
    return arrays


def _array(given: AttentionArguments, name: str, value: Any) -> Node:
    if isinstance(value, Node):
        return value
    message = f"{name} is an array, not {show_value(value)}"
    raise given.fault(name, ArgumentError(message, "argument.attention", help=USAGE))


def _operand(given: AttentionArguments, name: str) -> Node | tuple[Node, ...] | None:
    value = given.values.get(name)
    if value is None and name not in "qkv":
        return None
    if name != "offsets":
        return _array(given, name, value)
    if not isinstance(value, tuple) or len(value) != 2:
        help = "offsets=(cu_seqlens_q, cu_seqlens_k)"
        raise given.fault(name, ArgumentError("offsets are two arrays, of q and of k", "argument.attention", help=help))
    return tuple(_array(given, name, part) for part in value)


def _flag(given: AttentionArguments, name: str) -> bool:
    value = given.values.get(name, False)
    known = isinstance(value, Node) and value.op == "const" and value.type.dtype is BOOL
    value = value_of(value) if known else value
    if not isinstance(value, bool):
        message, help = f"{name} is True or False", f"write {name}=True, or leave it out"
        raise given.fault(name, ArgumentError(message, "argument.attention", help=help))
    return value


# -- help for unquoted expressions


def unquoted(call: CallExpr, text: str) -> Iterator[tuple[Span, str]]:
    """(span, help) of a score or mask that a call gives without its quotes."""
    for argument in call.arguments if call.function == "attention" else ():
        if argument.keyword in TEXTS and not isinstance(argument.value, (Literal, Name)):
            start, end = argument.value.span
            yield argument.value.span, f"a {argument.keyword} is quoted: {argument.keyword}='{text[start:end]}'"


def unquoted_help(program: ParsedText, names: Collection[str]) -> str | None:
    """The help if one of these names is read by an unquoted score or mask."""
    calls = (part for part in program.parts if isinstance(part, CallExpr))
    parts = [entry for call in calls for entry in unquoted(call, program.text)]
    read = [part.span[0] for part in program.parts if isinstance(part, Name) and part.name in names]
    return next((help for (start, end), help in parts if any(start <= at < end for at in read)), None)


def read_in_quotes_help(program: ParsedText, name: str) -> str | None:
    """The help for an array passed to a program if only a quoted score or mask reads its name."""
    for part in program.parts:
        for argument in part.arguments if isinstance(part, CallExpr) and part.function == "attention" else ():
            if argument.keyword in TEXTS and isinstance(argument.value, Literal) and _reads(argument.value, name):
                return f"the {argument.keyword} reads it: write {name}={name} inside attention(...)"
    return None


def _reads(text: Literal, name: str) -> bool:
    """True if a quoted expression reads the name; False if it does not parse."""
    try:
        return isinstance(text.value, str) and name in [free for free, _ in free_names(parse(text.value))]
    except FusedslError:
        return False
