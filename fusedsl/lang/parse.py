"""Program to syntax tree: the actions of grammar.lark, and the loop that feeds it tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from ..errors import FusedslError, ParseError, not_installed
from .lexer import Token, tokenize
from .parse_actions import Actions, Results
from .parser_errors import check_chains, unexpected
from .syntax_tree import Assign, Definition, ParsedText


def parse(text: str, limits: Mapping[str, int] | None = None, shadowed: Collection[str] = ()) -> ParsedText:
    """The syntax tree of a program, or ParseError, UnknownNameError (a module's name) or LimitError with the place.

    `limits` overrides the sizes in `scan.LIMITS`: text, nesting, literal, operations. `shadowed` are constants (pi,
    inf, nan) whose names stand for values of the caller's.

    >>> parse("y = 2*a; y + b").results[0].op
    '+'
    """
    return _program(text, _statements(text, limits, shadowed))


def parse_definitions(text: str) -> tuple[Definition, ...]:
    """The function definitions of a program that has nothing else, such as the prelude."""
    definitions = []
    for statement in _statements(text, None, ()):
        if not isinstance(statement, Definition):
            raise ParseError(
                "only function definitions belong here",
                "parse.definition",
                text,
                statement.span,
                help="write name(x) = expression",
            )
        definitions.append(statement)
    return tuple(definitions)


@cache
def _parser():
    """Lark's LALR parser, imported and built at the first text (measured: about 55 ms). CompileError without Lark."""
    try:
        from lark import Lark
        from lark.lexer import Lexer
    except ImportError as missing:
        raise not_installed(missing) from None

    class NoLexer(Lexer):
        """A pass-through lexer for Lark: `tokenize` makes the tokens."""

        def __init__(self, _): ...
        def lex(self, *_): ...

    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="ascii")
    return Lark(grammar, start="program", parser="lalr", lexer=NoLexer, transformer=Actions(), keep_all_tokens=True)


def _statements(
    text: str, limits: Mapping[str, int] | None, shadowed: Collection[str]
) -> list[Assign | Definition | Results]:
    try:
        return _parsed(text, limits, shadowed)
    except FusedslError as error:
        error.text = text
        raise


def _parsed(
    text: str, limits: Mapping[str, int] | None, shadowed: Collection[str]
) -> list[Assign | Definition | Results]:
    state = _parser().parse_interactive().parser_state
    from lark.exceptions import UnexpectedToken

    tokens: list[Token] = []
    try:
        for token in tokenize(text, limits, shadowed):
            tokens.append(token)
            state.feed_token(token)
        tokens.append(Token("$END", "", len(text), len(text)))
        return state.feed_token(tokens[-1], True)
    except UnexpectedToken as error:
        raise unexpected(text, tokens, error.expected) from None


def _program(text: str, statements: list[Assign | Definition | Results]) -> ParsedText:
    last = statements[-1]
    if not isinstance(last, Results):
        message = "nothing is returned"
        help = "end with an expression, or with `return ...`"
        if isinstance(last, Assign):
            names = ", ".join(target.name for target in last.targets)
            help = f"leave `{names} =` out, or end with `return {names}`"
        raise ParseError(message, "parse.result", text, last.span, last.at, help=help)
    definitions_and_assignments = []
    for statement in statements[:-1]:
        if not isinstance(statement, Results):
            definitions_and_assignments.append(statement)
            continue
        if statement.returned:
            message, help = "nothing may follow the line that returns", "make `return` the last line"
        else:
            message = "nothing uses this expression; only the last line is the result"
            help = "assign it to a name, or put an expression of several lines in brackets"
        raise ParseError(message, "parse.result", text, statement.span, help=help)
    program = ParsedText(text, tuple(definitions_and_assignments), last.items)
    check_chains(program)
    return program
