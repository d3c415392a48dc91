"""Errors of the parser: the message, the column and what to write instead, for a token or form that does not fit."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import FusedslError, ParseError, UnknownNameError
from . import c_names
from .lexer import Token
from .lexer_errors import without_module
from .printer import show
from .syntax_tree import BinaryOp, CallArgument, Compare, Expr, Name, ParsedText, Span

# Tokens that cannot start a statement, with help for each.
STARTS = {
    "|": "write abs(x)",
    "if": "there are no if statements; write `a if c else b`, or where(c, a, b)",
    "else": "there are no if statements; write `a if c else b`, or where(c, a, b)",
    "@": "a program has no decorators; define functions as f(x) = expression",
    "*": "arguments cannot be unpacked; write each one",
    "**": "arguments cannot be unpacked; write each one",
    "return": "write `return a`, or `return a, b`",
    ".": "a number starts with a digit, as in 0.5",
}

# Submodules: names that arrays may have too, so they are refused only before a member access.
SUBMODULES = frozenset(["linalg", "fft", "random", "functional", "signal", "stats", "ndimage", "lax", "fd", "ne"])


def attribute(base: Expr, name: str, span: Span) -> FusedslError:
    """The error for `base.name`; only .T and .mT exist."""
    from .hints import method_hint

    if isinstance(base, Name) and base.name in SUBMODULES:
        return _member(base, name, "")
    if isinstance(base, Name) and (help := c_names.value_help(base.name)) is not None:
        return UnknownNameError(f"name {base.name!r} is not defined", "name.value", None, base.span, help=help)
    help = method_hint(name, _operand(base), ()) or "only .T and .mT exist; everything else is a function"
    return ParseError(f"arrays have no .{name}", "parse.attribute", None, span, help=help)


def method(base: Expr, name: str, span: Span, arguments: tuple[CallArgument, ...]) -> FusedslError:
    """The error for `base.name(arguments)`."""
    from .hints import method_hint

    if isinstance(base, Name) and base.name in SUBMODULES:
        return _member(base, name, f"({', '.join(map(show, arguments))})")
    if name in ("T", "mT"):
        return ParseError(f".{name} takes no arguments", "parse.attribute", None, span, help=f"write .{name}")
    shown = [show(argument) for argument in arguments]
    help = method_hint(name, _operand(base), shown) or "there are no methods; the functions are NumPy's, called f(x)"
    return ParseError(f"arrays have no method .{name}", "parse.attribute", None, span, help=help)


def _member(base: Name, member: str, arguments: str) -> UnknownNameError:
    """The error for a member of a submodule, as in `linalg.norm(x)`."""
    message = f"{base.name} is no value: functions have no module"
    return UnknownNameError(message, "name.module", None, base.span, help=without_module(member, arguments))


def _operand(base: Expr) -> str:
    shown = show(base)
    return shown if len(shown) <= 40 else "x"


def stray_equals(span: Span) -> ParseError:
    """The error for a = in brackets that is no keyword argument."""
    help = "write == to compare, name=value for an argument"
    return ParseError("an = here names no argument", "parse.argument", None, span, help=help)


MOST_SHOWN = 80  # characters of a comparison chain that its error repeats


def check_chains(program: ParsedText) -> None:
    """ParseError if an operand between two comparisons is an unbracketed & or |, which binds tighter than expected."""
    for chain in (part for part in program.parts if isinstance(part, Compare)):
        for k, middle in enumerate(chain.operands[1:-1], 1):
            bracketed = program.text[: middle.span[0]].rstrip().endswith("(")
            if isinstance(middle, BinaryOp) and middle.op in ("&", "|") and not bracketed:
                raise _ambiguous_chain(program.text, chain, k, middle)


def _ambiguous_chain(text: str, chain: Compare, k: int, middle: BinaryOp) -> ParseError:
    ops, shown = chain.ops, [show(part) for part in chain.operands]
    sides = (f"({show(side)})" if isinstance(side, BinaryOp) else show(side) for side in (middle.left, middle.right))
    pieces = [*shown[:k], f"({f' {middle.op} '.join(sides)})", *shown[k + 1 :]]
    read = " ".join(part for pair in zip(pieces, [*ops, ""]) for part in pair).strip()
    left = " ".join(part for pair in zip(shown[:k], ops) for part in pair) + f" {show(middle.left)}"
    right = show(middle.right) + "".join(f" {op} {part}" for op, part in zip(ops[k:], shown[k + 1 :]))
    message, help = f"{middle.op} binds more tightly than {ops[k - 1]}", "put comparisons in brackets"
    if len(read) <= MOST_SHOWN:
        message, help = f"{message}: this reads {read}", f"{help}: ({left}) {middle.op} ({right})"
    return ParseError(message, "parse.chain", text, middle.span, middle.at, help=help)


def unexpected(text: str, tokens: list[Token], expected: Iterable[str]) -> ParseError:
    """The error for the last of `tokens`, given the terminals that the grammar expects."""
    token = tokens[-1]
    before = tokens[-2] if len(tokens) > 1 else None
    if before is None and token.type == "$END":
        return ParseError("the program is empty", "parse.empty", text, token.span, help="write an expression")
    if token.type == "$END" and all(t.type not in ("NAME", "LITERAL") for t in tokens):
        token = tokens[0]
        start = STARTS.get(token.value, f"a value stands before {token.value}")
        return ParseError(f"{token.value} has nothing to work on", "parse.syntax", text, token.span, help=start)
    if token.type in ("$END", "SEP"):
        return _ends_too_early(text, tokens, set(expected))
    if token.type == "ASSIGN" and _open_bracket(tokens[:-1]) is not None:
        return stray_equals(token.span)
    message, help = _wrong_token(tokens, set(expected))
    return ParseError(message, "parse.syntax", text, token.span, help=help)


def _ends_too_early(text: str, tokens: list[Token], expected: set[str]) -> ParseError:
    """The error for a program or line that ends too early."""
    token, before = tokens[-1], tokens[-2]
    span = (token.start, token.start + 1)
    opened = _open_bracket(tokens[:-1])
    if opened is not None and token.type == "SEP":
        return ParseError("a ; inside brackets", "parse.bracket", text, span, help=f"close the {opened.value} first")
    if opened is not None:
        closer = ")" if opened.value == "(" else "]"
        help = f"close it with {closer}"
        return ParseError(f"the {opened.value} is never closed", "parse.bracket", text, span, help=help)
    if before.type == "COMMA":
        message, help = "a result is missing after the comma", "remove the comma"
        return ParseError(message, "parse.syntax", text, before.span, help=help)
    doubled = tokens[-3] if len(tokens) > 2 else None
    if doubled is not None and doubled.value == before.value and before.value in "+-" and doubled.end == before.start:
        message, help = f"{before.value * 2} is not an operator", f"write name = name {before.value} 1"
        return ParseError(message, "parse.operator", text, (doubled.start, before.end), help=help)
    what = "the program" if token.type == "$END" else "the line"
    if "ELSE" in expected and "LPAR" not in expected:
        return ParseError(f"{what} ends without else", "parse.syntax", text, span, help="write `a if c else b`")
    help = f"{before.value} needs a value on its right"
    if token.type == "SEP":
        help += "; put an expression of several lines in brackets"
    return ParseError(f"{what} ends too early", "parse.end", text, span, help=help)


def _open_bracket(tokens: list[Token]) -> Token | None:
    stack: list[Token] = []
    for token in tokens:
        if token.type in ("LPAR", "LSQB"):
            stack.append(token)
        elif token.type in ("RPAR", "RSQB"):
            stack.pop()
    return stack[-1] if stack else None


def _wrong_token(tokens: list[Token], expected: set[str]) -> tuple[str, str | None]:
    """(message, help) for a token that cannot follow the one before it."""
    token, before = tokens[-1], tokens[-2] if len(tokens) > 1 else None
    value_needed = "NAME" in expected
    opened = _open_bracket(tokens[:-1])
    if token.type == "ASSIGN" and opened is None and not value_needed:
        return "a second = in one statement", "assign one name a line; write == to compare"
    if token.type == "RETURN":
        return "return starts a line of its own", "end the line before it, or write ;"
    if token.type == "COLON":
        return "a : outside of a subscript", "slices stand in x[start:stop:step]"
    if token.type == "ELLIPSIS":
        return "an ... outside of a subscript", "it stands for the other axes: x[..., 0]"
    if token.type == "DOT":
        return "a . with nothing before it", STARTS["."]
    if before is not None and before.type == "DOT":
        return f"{token.value} is no attribute", "only .T and .mT exist"
    if value_needed and before is not None:
        if before.type == "ASSIGN" and token.type in ("RPAR", "COMMA"):
            return "the argument has no value", f"write {tokens[-3].value}=value"
        if before.type == "LSQB" and token.type == "RSQB":
            return "an index is missing", "write x[i], x[:] or x[..., 0]"
        if token.value in ("*", "**") and before.type in ("LPAR", "COMMA"):
            return "arguments cannot be unpacked", "write each one"
        if before.value == "/" and token.value in ("*", "**"):
            return "/* is no comment", "a comment begins with #"
        if token.value == "@":
            return "names have no prefix", "names are looked up where evaluate is called: leave the @ out"
        return f"a value is missing between {before.value} and {token.value}", "write one, or take one of the two away"
    if value_needed:
        return f"{token.value} has nothing to work on", STARTS.get(token.value, f"a value stands before {token.value}")
    if before is not None and token.type in ("NAME", "LITERAL", "LPAR", "NOT"):
        return _missing_operator(tokens)
    if token.type == "ELSE":
        return "else without if", "write `a if c else b`"
    if opened is not None and token.type in ("RPAR", "RSQB", "COMMA") and "ELSE" in expected:
        return "if without else", "write `a if c else b`"
    return f"{token.value} cannot stand here", "look at the brackets and operators before it"


def _missing_operator(tokens: list[Token]) -> tuple[str, str | None]:
    """(message, help) for a value directly behind another one."""
    before, token = tokens[-2:]
    line = _line(tokens)
    if any(earlier.value == "//" for earlier in line):
        return f"two values side by side: {before.value} {token.value}", "// is floor division; a comment begins with #"
    words = [earlier.value for earlier in line]
    dtype = c_names.declared_dtype(words) or c_names.declared_dtype(words[:-1])
    if dtype is not None and token.type == "NAME":
        help = f"names have no type: write name = value, and cast with {dtype}(value)"
        return f"{' '.join(words)} is a declaration of C", help
    if token.type == "NOT":
        return f"an operator is missing between {before.value} and not", "write a != b for what is not equal"
    if token.type == "LPAR":
        if before.type == "LITERAL":
            return f"{before.value} is no function", f"write {before.value} * (...)"
        return "only a name can be called", "write * to multiply"
    if before.type == "NAME" and token.type in ("NAME", "LITERAL"):
        shown = f"{before.value} {token.value}"
        return f"two values side by side: {shown}", f"write {before.value}({token.value}), or an operator between"
    return f"an operator is missing between {before.value} and {token.value}", "write * to multiply"


def _line(tokens: list[Token]) -> list[Token]:
    """The last of these tokens, and those before it in its statement."""
    begin = max((k for k, token in enumerate(tokens) if token.type == "SEP"), default=-1)
    return tokens[begin + 1 :]
