"""Actions of the parser: the children of a grammar rule to a node of the syntax tree, or an error at its place."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import LimitError, ParseError
from .lexer import CONSTANTS, NAMED_NUMBERS, Token
from .parser_errors import attribute, method, stray_equals
from .syntax_tree import (
    Assign,
    Attribute,
    BinaryOp,
    CallArgument,
    CallExpr,
    Compare,
    Conditional,
    Definition,
    Expr,
    FormalParameter,
    Literal,
    Name,
    Sequence,
    Slice,
    Span,
    Subscript,
    UnaryOp,
)


@dataclass(frozen=True, eq=False)
class Results:
    """`return a, b` or a bare `a, b`, during parsing; ParsedText has the expressions only."""

    span: Span
    items: tuple[Expr, ...]
    returned: bool


@dataclass(frozen=True, eq=False)
class Parenthesized:
    """An expression in brackets, during parsing, with the span of the brackets."""

    span: Span
    inner: Expr


@dataclass(frozen=True, eq=False)
class Keyword:
    """`name=value`, during parsing, until it is known to be an argument."""

    span: Span
    name: Token
    equals: Token
    value: Expr


def _fault(message: str, code: str, span: Span, caret: int | None = None, help: str | None = None) -> ParseError:
    return ParseError(message, f"parse.{code}", None, span, caret, help=help)


def _inner(part):
    return part.inner if type(part) is Parenthesized else part


def _value(part) -> Expr:
    """The expression in `part`; ParseError for a tuple, list or string, which are no values."""
    if type(part) is Parenthesized:
        part = part.inner
    if type(part) is Sequence:
        forms = {"tuple": "write bare results as `return a, b`", "list": "join arrays: stack([x, y]) or concat([x, y])"}
        help = forms[part.kind]
        raise _fault(f"a {part.kind} may only be an argument or an index", "sequence", part.span, help=help)
    if type(part) is Literal and type(part.value) is str:
        help = "strings name dtypes, einsum subscripts and choices"
        raise _fault("a string may only be an argument", "string", part.span, help=help)
    return part


class Actions:
    """Parser actions, one method for each rule or alias of the grammar: children → node."""

    def first(self, parts):
        return [parts[0]]

    def more(self, parts):
        items, _, part = parts
        items.append(part)
        return items

    # statements

    def bare(self, parts):
        return self._results(parts[0], None)

    def result(self, parts):
        return self._results(parts[1], parts[0])

    def _results(self, items, word: Token | None) -> Results:
        span = (word.start if word else items[0].span[0], items[-1].span[1])
        if len(items) == 1 and type(items[0]) is Sequence and items[0].kind == "tuple" and items[0].items:
            items = items[0].items
        return Results(span, tuple(_value(item) for item in items), word is not None)

    def assign(self, parts):
        left, equals, right = parts
        span = (left[0].span[0], right[-1].span[1])
        defines = len(left) == 1 and type(left[0]) is CallExpr
        if defines and (len(right) > 1 or type(right[0]) is Sequence):
            span_of_all = (right[0].span[0], right[-1].span[1])
            raise _fault("a function has one result", "definition", span_of_all, help="define one function for each")
        if len(right) > 1:
            span_of_all = (right[0].span[0], right[-1].span[1])
            raise _fault("one value for each assignment", "assign", span_of_all, help="assign each on its own line")
        value = _value(right[0])
        if defines:
            call = left[0]
            return Definition(span, call.function, _parameters(call), value, equals.start)
        if len(left) == 1 and type(left[0]) is Sequence:
            left = left[0].items
        targets = [_target(part) for part in left]
        for number, target in enumerate(targets):
            if target.name in {other.name for other in targets[:number]}:
                raise _fault(
                    f"{target.name} is assigned twice at once", "assign", target.span, help="give each result a name"
                )
        return Assign(span, tuple(targets), value, equals.start)

    # operators

    def binary(self, parts):
        left, token, right = parts
        span = (left.span[0], right.span[1])
        return BinaryOp(span, token.value, token.start, _value(left), _value(right))

    def unary(self, parts):
        token, operand = parts
        return UnaryOp((token.start, operand.span[1]), token.value, token.start, _value(operand))

    def compare(self, parts):
        tokens, operands = parts[1::2], parts[::2]
        span = (operands[0].span[0], operands[-1].span[1])
        ops = tuple(token.value for token in tokens)
        equal = len(ops) == 1 and ops[0] in ("==", "!=")  # the one operator that strings have
        values = tuple(map(_inner if equal else _value, operands))
        return Compare(span, ops, tuple(token.start for token in tokens), values)

    def conditional(self, parts):
        then, word, condition, _, otherwise = parts
        span = (then.span[0], otherwise.span[1])
        return Conditional(span, word.start, _value(condition), _value(then), _value(otherwise))

    # atoms, subscripts, attributes and calls

    def name(self, parts):
        return Name((parts[0].start, parts[0].end), parts[0].value)

    def literal(self, parts):
        token = parts[0]
        return Literal((token.start, token.end), _literal(token.value, token.start), token.value)

    def brackets(self, parts):
        opened, (elements, comma), closed = parts
        span = (opened.start, closed.end)
        items = tuple(map(_inner, elements))
        for item in items:
            if type(item) is Keyword:
                raise stray_equals(item.equals.span)
        if opened.value == "(" and len(items) == 1 and not comma:
            return Parenthesized(span, items[0])
        return Sequence(span, "tuple" if opened.value == "(" else "list", items)

    def elements(self, parts):
        return (parts[0] if parts else [], len(parts) == 2)

    def subscript(self, parts):
        base, opened, indices, closed = parts
        return Subscript((base.span[0], closed.end), _value(base), indices, opened.start)

    def indices(self, parts):
        items = tuple(map(_inner, parts[0]))
        if len(parts) == 1 and len(items) == 1 and type(items[0]) is Sequence and items[0].kind == "tuple":
            return items[0].items or (Literal(items[0].span, ..., "..."),)
        return items

    def slice(self, parts):
        bounds = parts[::2] + [None] * (5 - len(parts[::2]))
        start = bounds[0].span[0] if bounds[0] else parts[1].start
        end = next(p.end if type(p) is Token else p.span[1] for p in reversed(parts) if p is not None)
        return Slice((start, end), *(part and _value(part) for part in bounds[:3]))

    def bound(self, parts):
        return parts[0] if parts else None

    def attribute(self, parts):
        base, _, name = parts
        if name.value not in ("T", "mT"):
            raise attribute(_inner(base), name.value, name.span)
        return Attribute((base.span[0], name.end), _value(base), name.value, name.start)

    def method(self, parts):
        base, _, name, _, (elements, _), _ = parts
        raise method(_inner(base), name.value, name.span, _arguments(elements))

    def call(self, parts):
        name, _, (elements, _), closed = parts
        return CallExpr((name.start, closed.end), name.value, name.span, _arguments(elements, name.value), closed.start)

    def keyword(self, parts):
        name, equals, value = parts
        return Keyword((name.start, value.span[1]), name, equals, _inner(value))


def _arguments(elements, function: str = "") -> tuple[CallArgument, ...]:
    arguments: list[CallArgument] = []
    seen: set[str] = set()
    for part in elements:
        if type(part) is not Keyword:
            if seen:
                message = "a positional argument may not follow a keyword"
                raise _fault(message, "argument", part.span, help="put it first, or name it too")
            arguments.append(CallArgument(part.span, None, _inner(part)))
            continue
        name = part.name
        named = NAMED_NUMBERS if function == "attention" else ("nan",)  # its arrays; nan_to_num(x, nan=0) is NumPy's
        if name.type == "LITERAL" and name.value not in named:
            raise stray_equals(part.equals.span)
        if name.value in seen:
            raise _fault(f"{name.value} is given twice", "argument", name.span, help="keep one")
        seen.add(name.value)
        arguments.append(CallArgument(part.span, name.value, part.value))
    return tuple(arguments)


def _literal(source: str, start: int):
    if source in CONSTANTS:
        return CONSTANTS[source]
    if source == "...":
        return ...
    if source[0] in "'\"":
        return source[1:-1]
    if source[:2].lower() in ("0x", "0o", "0b"):
        return int(source, 0)
    if not source.replace("_", "").isdigit():
        return float(source)
    try:
        return int(source)
    except ValueError as error:  # more digits than sys.set_int_max_str_digits allows
        raise LimitError(
            "a number with too many digits",
            "limit.literal",
            None,
            (start, start + len(source)),
            help="write fewer digits, or pass it as an argument",
        ) from error


def _target(part) -> Name:
    if type(part) is Name:
        return part
    if type(part) is Subscript:
        help = "a program writes nothing; build the result with where(condition, new, old)"
        raise _fault("cannot assign to part of an array", "assign", part.span, help=help)
    if type(part) is Literal and part.source in CONSTANTS:
        raise _fault(f"{part.source} is a constant", "assign", part.span, help="use another name")
    raise _fault("only names can be assigned", "assign", part.span, help="write == to compare")


def _parameters(call: CallExpr) -> tuple[FormalParameter, ...]:
    """The parameters of a definition, which the grammar parses as a call."""
    parameters: list[FormalParameter] = []
    for argument in call.arguments:
        if argument.keyword is not None:
            parameters.append(FormalParameter(argument.span, argument.keyword, argument.value))
        elif type(argument.value) is Name:
            parameters.append(FormalParameter(argument.span, argument.value.name, None))
        else:
            help = "write f(x, y=1) = ... with names and defaults"
            raise _fault("a parameter must be a name", "definition", argument.span, help=help)
        if parameters[-1].name in {parameter.name for parameter in parameters[:-1]}:
            raise _fault(
                f"the parameter {parameters[-1].name} occurs twice", "definition", argument.span, help="name each once"
            )
    return tuple(parameters)
