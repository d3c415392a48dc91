"""Lexer: text to tokens, with line continuation, indentation checks, and limits on length and nesting."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator, Mapping

from ..errors import LimitError, ParseError
from .lexer_errors import MODULES, foreign_character, foreign_operator, foreign_word, malformed_number, module_member

LIMITS = {"text": 65536, "nesting": 256, "literal": 32, "operations": 4096}
NAME_LENGTH = 64

WORDS = {"return": "RETURN", "if": "IF", "else": "ELSE", "or": "OR", "and": "AND", "not": "NOT"}
CONSTANTS = {"True": True, "False": False, "None": None, "inf": float("inf"), "nan": float("nan")}
CONSTANTS["pi"] = 3.141592653589793
NAMED_NUMBERS = ("inf", "nan", "pi")  # constants that an argument of the same name may shadow
REFUSED = frozenset(keyword.kwlist) - WORDS.keys() - CONSTANTS.keys()

TERMINALS = {
    "COMPARE": "< <= > >= == !=",
    "BITOR": "|",
    "BITXOR": "^",
    "BITAND": "&",
    "SHIFT": "<< >>",
    "ADD": "+ -",
    "MUL": "* / // % @",
    "POW": "**",
    "INVERT": "~",
    "ASSIGN": "=",
    "DOT": ".",
    "COMMA": ",",
    "COLON": ":",
    "SEP": ";",
    "ELLIPSIS": "...",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
}
SYMBOLS = {symbol: terminal for terminal, symbols in TERMINALS.items() for symbol in symbols.split()}
CLOSES = {")": "(", "]": "["}
OPERATORS = frozenset(list(TERMINALS)[:9]) | {"OR", "AND", "NOT", "IF", "LSQB"}  # each is one operation

TOKEN = re.compile(
    r"""
    (?P<blank> [ \t]+ | \#[\t -~]* )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* (?!['"]) )
  | (?P<number>
      (?: 0[xX](?:_?[0-9A-Fa-f])+ | 0[oO](?:_?[0-7])+ | 0[bB](?:_?[01])+
        | (?: [0-9](?:_?[0-9])*\.(?:[0-9](?:_?[0-9])*)? | \.[0-9](?:_?[0-9])* ) (?:[eE][+-]?[0-9](?:_?[0-9])*)?
        | [0-9](?:_?[0-9])*[eE][+-]?[0-9](?:_?[0-9])*
        | 0(?:_?0)* | [1-9](?:_?[0-9])* )
      (?![\w.]) )
  | (?P<malformed> \.?[0-9](?:[eE][+-]?[0-9]|[\w.])* )
  | (?P<foreign> =< | (?:\*\*|//|<<|>>|[-+*/%@&|^])=(?!=) | => | := | -> | <> | \|\| | && | ===|!== | !(?!=) )
  | (?P<symbol> \*\* | // | << | >> | <= | >= | == | != | \.\.\. | [-+*/%@&|^~<>=.,:;()\[\]] )
  | (?P<newline> \r?\n )
  | (?P<string> "[ !\#-\[\]-~]*"(?!") | '[ -&(-\[\]-~]*'(?!') )
    """,
    re.VERBOSE | re.ASCII,
)


class Token:
    """A terminal of the grammar, with its text and offsets."""

    __slots__ = ("end", "start", "type", "value")

    def __init__(self, type: str, value: str, start: int, end: int) -> None:
        self.type, self.value, self.start, self.end = type, value, start, end

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


def tokenize(text: str, limits: Mapping[str, int] | None = None, shadowed: Collection[str] = ()) -> Iterator[Token]:
    """Yield the tokens of `text`, without newlines inside brackets and without empty statements.

    `shadowed` are NAMED_NUMBERS that are ordinary names here. Raises ParseError at the first invalid character, and
    LimitError at the first excess.
    """
    most = {**LIMITS, **(limits or {})}
    if len(text) > most["text"]:
        raise LimitError(
            f"the program has {len(text):,} characters; the limit is {most['text']:,}",
            "limit.text",
            help="pass data as arrays, or raise limits={'text': ...}",
        )
    return _tokens(text, most, shadowed)


def _tokens(text: str, most: Mapping[str, int], shadowed: Collection[str]) -> Iterator[Token]:
    match, length = TOKEN.match, len(text)
    brackets: list[Token] = []
    position = operations = signs = 0
    separated: Token | None = None  # a separator, emitted before the next statement
    previous = ""  # the type of the last token; empty at the start of a statement
    margin: str | None = None  # the lines' common indentation, once known
    above: str | None = None  # the indentation of the last line that started a statement
    while position < length:
        matched = match(text, position)
        if matched is None:
            raise foreign_character(text, position)
        kind = matched.lastgroup
        if kind == "blank":
            position = matched.end()
            continue
        if kind == "newline":
            if not brackets and previous:
                separated = separated or Token("SEP", "\n", position, matched.end())
            position = matched.end()
            continue
        token = _token(text, matched, most, previous, shadowed)
        position = token.end
        type = token.type
        if type == "SEP" and not brackets:
            if previous:
                separated = separated or token
            continue
        if separated:
            yield separated
            separated, previous = None, ""
        if not previous and (blank := _indentation(text, token.start)) is not None:
            margin, above = _margin(text, token, blank, margin, above), blank
        signs = signs + 1 if type in ("ADD", "INVERT", "NOT") else 0
        if type in OPERATORS or (type == "LPAR" and previous == "NAME"):
            operations += 1
            if operations > most["operations"]:
                _excess(text, token, "operations", most)
        if type in ("LPAR", "LSQB"):
            brackets.append(token)
        elif type in ("RPAR", "RSQB"):
            _close(text, token, brackets)
        if len(brackets) + signs > most["nesting"]:
            _excess(text, token, "nesting", most)
        previous = type
        yield token


def _token(
    text: str, matched: re.Match[str], most: Mapping[str, int], previous: str, shadowed: Collection[str]
) -> Token:
    """The token of a match; raises the error for a match that is no token."""
    kind, word, (start, end) = matched.lastgroup, matched.group(), matched.span()
    if kind == "symbol":
        return Token(SYMBOLS[word], word, start, end)
    if kind == "name":
        if word in WORDS:
            return Token(WORDS[word], word, start, end)
        if word in CONSTANTS and word not in shadowed:
            return Token("LITERAL", word, start, end)
        if word in REFUSED:
            raise foreign_word(text, word, start)
        if word in MODULES and previous != "DOT" and (error := module_member(text, start)) is not None:
            raise error
        if len(word) > NAME_LENGTH:
            message = f"a name of {len(word)} characters; the limit is {NAME_LENGTH}"
            raise ParseError(message, "parse.name", text, (start, end), help="use a shorter name")
        return Token("NAME", word, start, end)
    if kind in ("number", "malformed"):
        if len(word) > most["literal"]:
            message = f"a number of {len(word):,} characters; the limit is {most['literal']}"
            help = "write fewer digits, or pass it as an argument"
            raise LimitError(message, "limit.literal", text, (start, end), help=help)
        if kind == "malformed":
            raise malformed_number(text, word, start)
        return Token("LITERAL", word, start, end)
    if kind == "string":
        return Token("LITERAL", word, start, end)
    raise foreign_operator(text, word, start)


def _indentation(text: str, at: int) -> str | None:
    """The indentation of a line, if the token is its first; else None."""
    blank = text[text.rfind("\n", 0, at) + 1 : at]
    return blank if not blank.strip(" \t") else None


def _margin(text: str, token: Token, blank: str, margin: str | None, above: str | None) -> str | None:
    """Check a line that starts with `token`, indented by `blank`; return the common indentation of the program.

    The first line does not count, as in a docstring. A line that looks like a continuation is an error.
    """
    if above is not None and (token.value == "+" or (token.value == "-" and len(blank) > len(above))):
        message, help = "a line starts with an operator", "put an expression of several lines in brackets"
        raise ParseError(message, "parse.line", text, token.span, help=help)
    if margin is not None and blank != margin:
        message = "this line is indented differently"
        help = "align it, or put an expression of several lines in brackets"
        raise ParseError(message, "parse.indent", text, token.span, help=help)
    return blank if "\n" in text[: token.start] else None


def _close(text: str, token: Token, brackets: list[Token]) -> None:
    if not brackets:
        message = f"this {token.value} closes nothing"
        raise ParseError(message, "parse.bracket", text, token.span, help=f"remove it, or open a {CLOSES[token.value]}")
    opened = brackets.pop()
    if opened.value != CLOSES[token.value]:
        wanted = ")" if opened.value == "(" else "]"
        message = f"this {token.value} does not close the {opened.value} of column {_column(text, opened.start)}"
        raise ParseError(message, "parse.bracket", text, token.span, help=f"close it with {wanted}")


def _column(text: str, offset: int) -> int:
    return offset - text.rfind("\n", 0, offset)


def _excess(text: str, token: Token, what: str, most: Mapping[str, int]) -> None:
    message = {
        "nesting": f"more than {most['nesting']} brackets or signs inside each other",
        "operations": f"more than {most['operations']:,} operations",
    }[what]
    raise LimitError(
        message, f"limit.{what}", text, token.span, help=f"assign parts to names, or raise limits={{'{what}': ...}}"
    )
