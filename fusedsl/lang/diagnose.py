"""What went wrong with a text, in words: the message, the column and the form to use instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import FusedslError, ParseError, UnknownNameError, Unsupported
from .syntax import Argument, Binary, Compare, Expr, Name, Program, Span, show

if TYPE_CHECKING:
    from .lexer import Token

CHARACTERS = {
    "\\": "a line continues inside brackets, with no backslash",
    "!": "write `not x` or `a != b`",
    "?": "write `a if c else b`",
    "`": "remove it",
    "$": "names are letters, digits and _",
    "{": "there are no dicts or sets; tuples are (a, b), lists [a, b]",
    "}": "there are no dicts or sets; tuples are (a, b), lists [a, b]",
    "\ufeff": "remove the byte-order mark",
    "\xa0": "this is a no-break space; write a blank",
    "\r": "end lines with \\n",
    "\x0b": "end lines with \\n",
    "\x0c": "end lines with \\n",
    "\u00d7": "write *",  # multiplication sign
    "\u00b7": "write *",  # middle dot
    "\u22c5": "write *",  # dot operator
    "\u2217": "write *",  # asterisk operator
    "\u00f7": "write /",  # division sign
    "\u2212": "write -",  # minus sign
    "\u2013": "write -",  # en dash
    "\u2014": "write -",  # em dash
    "\u2264": "write <=",  # less-than or equal to
    "\u2265": "write >=",  # greater-than or equal to
    "\u2260": "write !=",  # not equal to
    "\u00b2": "write **2",  # superscript two
    "\u00b3": "write **3",  # superscript three
    "\u221a": "write sqrt(x)",  # square root
    "\u03c0": "write pi",  # greek small letter pi
    "\u221e": "write inf",  # infinity
    "\u2211": "write sum(x)",  # n-ary summation
    "\u03a3": "write sum(x)",  # greek capital letter sigma
    "\u201c": 'write "',  # left double quotation mark
    "\u201d": 'write "',  # right double quotation mark
    "\u2018": "write '",  # left single quotation mark
    "\u2019": "write '",  # right single quotation mark
}

OPERATORS = {
    "=>": "write >=",
    ":=": "assign on a line of its own: name = value",
    "->": "write `name = value`",
    "<>": "write !=",
    "=<": "write <=",
    "||": "write | (elementwise), or `or` between bools",
    "&&": "write & (elementwise), or `and` between bools",
    "===": "write ==",
    "!==": "write !=",
    "!": "write `not x`, or `a != b`",
}

# What a statement does not start with, and what it may have been meant for.
STARTS = {
    "|": "write abs(x)",
    "if": "there are no if statements; write `a if c else b`, or where(c, a, b)",
    "else": "there are no if statements; write `a if c else b`, or where(c, a, b)",
    "@": "a text has no decorators; define functions as f(x) = expression",
    "*": "arguments cannot be unpacked; write each one",
    "**": "arguments cannot be unpacked; write each one",
    "return": "write `return a`, or `return a, b`",
    ".": "a number starts with a digit, as in 0.5",
}

WORDS = {
    "import": "every function is already there; nothing is imported",
    "from": "every function is already there; nothing is imported",
    "lambda": "define a function on a line of its own: f(x) = x * x",
    "def": "write f(x) = expression",
    "is": "write ==",
    "in": "compare with ==, and combine with | or any(...)",
    "pass": "a text is expressions and assignments; leave it out",
    "global": "a text assigns its own names only; leave it out",
    "nonlocal": "a text assigns its own names only; leave it out",
    "assert": "check in Python, before or after the call",
    "raise": "check in Python, before or after the call",
    "try": "no value raises; test with isnan, isfinite or where",
    "except": "no value raises; test with isnan, isfinite or where",
    "finally": "no value raises; test with isnan, isfinite or where",
    "with": "options go to kernel(...) or evaluate(...)",
    "class": "define functions: f(x) = expression",
    "yield": "write `return a, b`",
    "break": "write array operations; there are no loops",
    "continue": "write array operations; there are no loops",
    "async": "call the kernel in Python; a text only computes",
    "await": "call the kernel in Python; a text only computes",
    "for": "write array operations; there are no loops",
    "while": "write array operations; there are no loops",
    "elif": "write `a if c else b if d else e`",
    "del": "nothing needs deleting",
}


def foreign_character(text: str, at: int) -> ParseError:
    """The error for a character that no token starts with."""
    character = text[at]
    if character in "'\"":
        return _string(text, at)
    if character.isalpha() and character.isascii():  # a name that a quote follows at once
        help = "strings are plain, with no prefix"
        return ParseError("a string with a prefix", "parse.string", text, (at, at + 1), help=help)
    shown = character if character.isprintable() and not character.isspace() else f"U+{ord(character):04X}"
    if not character.isascii() and character.isprintable():
        shown += f" (U+{ord(character):04X})"
    help = CHARACTERS.get(character) or _named(text, at) or _spelled(character)
    return ParseError(f"the character {shown} has no meaning here", "parse.character", text, (at, at + 1), help=help)


def _named(text: str, at: int) -> str | None:
    """The help for a name that is not ASCII: how to write it, and to pass its array under that name."""
    if not text[at].isidentifier():
        return None
    start = at - len(re.search(r"[A-Za-z0-9_]*$", text[max(at - 64, 0) : at]).group())  # type: ignore[union-attr]
    word = re.match(r"\w+", text[start:]).group()  # type: ignore[union-attr]
    plain = "".join(map(_ascii, word))
    if not plain.isidentifier():
        return f"names are ASCII here: call it otherwise, and pass that name={word}"
    return f"names are ASCII here: write {plain}, and pass {plain}={word}"


def _ascii(character: str) -> str:
    """A letter in ASCII: of a Greek one its name."""
    import unicodedata

    name = unicodedata.name(character, "")
    if name.startswith("GREEK "):
        return name.split(" WITH ")[0].split()[-1].lower()
    forms = (
        unicodedata.normalize("NFKD", c).encode("ascii", "ignore").decode() for c in (character, character.casefold())
    )
    return next(forms) or next(forms)


def _spelled(character: str) -> str:
    import unicodedata

    if character.isascii() or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return "remove it"
    if character.isspace():
        return "write a blank"
    if (digit := unicodedata.digit(character, None)) is not None:
        return f"write {digit}"
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    if plain.isprintable() and len(plain) == 1:
        return f"texts are ASCII; write {plain}"
    return "texts are ASCII, comments too"


def _string(text: str, at: int) -> ParseError:
    end = text.find("\n", at)
    line = text[at : end if end >= 0 else len(text)]
    if line.startswith(line[0] * 2):
        return ParseError("a string of several lines", "parse.string", text, (at, at + 2), help="write one quote")
    if "\\" in line:
        message, help = "a backslash in a string", "strings are plain, with no escapes"
        caret = at + line.index("\\")
    elif line[0] in line[1:]:
        message, help = "a string with a character that is not ASCII", "strings are printable ASCII"
        caret = at
    else:
        message, help = "a string that does not end", f"close it with {line[0]}"
        caret = at
    return ParseError(message, "parse.string", text, (at, max(caret, at) + 1), caret, help=help)


def foreign_operator(text: str, word: str, at: int) -> ParseError:
    """The error for an operator of other languages, or an augmented assignment."""
    help = OPERATORS.get(word)
    if help is None:
        named = re.search(r"([A-Za-z_]\w{0,63})[ \t]*$", text[max(at - 80, 0) : at])
        name = named.group(1) if named else "name"
        help = f"write `{name} = {name} {word[:-1]} value`"
    return ParseError(f"{word} is not an operator", "parse.operator", text, (at, at + len(word)), help=help)


def foreign_word(text: str, word: str, at: int) -> ParseError:
    """The error for a word of Python that the language does not have."""
    help = WORDS.get(word, "it is a word of Python's; use another name")
    if word == "is" and re.match(r"is\s+(not\s+)?None\b", text[at : at + 80]):
        help = "an array is never None: decide in Python which program to run, or leave the argument out"
    return ParseError(f"{word} is not part of the language", "parse.word", text, (at, at + len(word)), help=help)


def malformed_number(text: str, word: str, at: int) -> ParseError:
    """The error for characters that start like a number and are none."""
    lower = word.lower()
    if lower.startswith(("0x", "0o", "0b")):
        digits = {"x": "hexadecimal", "o": "octal", "b": "binary"}[lower[1]]
        help = f"after {word[:2]} come {digits} digits"
    elif lower[-1] in "jl" or lower.endswith("f"):
        help = "there are no complex numbers" if lower[-1] == "j" else "write the number with no suffix"
    elif word.isdigit():
        help = f"write {word.lstrip('0') or '0'}, or 0o{word.lstrip('0')} for octal"
    elif word.count(".") > 1:
        help = "a number has one point"
    elif lower.endswith("e"):
        help = "digits are missing after e"
    elif "_" in word:
        help = "a _ stands between two digits"
    else:
        help = "put an operator between a number and a name"
    return ParseError(f"{word} is not a number", "parse.number", text, (at, at + len(word)), help=help)


def attribute(base: Expr, name: str, span: Span) -> FusedslError:
    """The error for `base.name`; only .T and .mT exist."""
    from .hints import method_hint

    if isinstance(base, Name) and base.name in SUBMODULES:
        return _member(base, name, "")
    help = method_hint(name, _operand(base), ()) or "only .T and .mT exist; everything else is a function"
    if name == "grad":
        return Unsupported("gradients are not there yet", code="unsupported.grad", span=span, help=help)
    return ParseError(f"arrays have no .{name}", "parse.attribute", None, span, help=help)


def method(base: Expr, name: str, span: Span, arguments: tuple[Argument, ...]) -> FusedslError:
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
    """The error for a function by the name of a module that arrays are seldom called by, as in `linalg.norm(x)`."""
    message = f"{base.name} is no value: functions have no module"
    return UnknownNameError(message, "name.module", None, base.span, help=_without_module(member, arguments))


def _without_module(member: str, arguments: str) -> str:
    """What to write for a member of a module."""
    from .hints import function_hint, is_known

    if member in ("normal", "uniform"):
        return f"write {member}(seed, shape): there is no state, so that a seed gives the same numbers again"
    if is_known(member) or member in MEMBERS:
        return f"write {MEMBERS.get(member, member)}{arguments}"
    return function_hint(member) or f"there is no {member} without it either"


def _operand(base: Expr) -> str:
    shown = show(base)
    return shown if len(shown) <= 40 else "x"


MODULES = frozenset(
    ["np", "numpy", "cp", "cupy", "torch", "jnp", "jax", "math", "scipy", "special", "F", "xp", "nn", "tf"]
)
# Parts of these, which arrays may well be called by: refused where a function is called so.
SUBMODULES = frozenset(["linalg", "fft", "random", "functional", "signal", "stats", "ndimage", "lax", "fd", "ne"])
PATH = re.compile(r"[A-Za-z_]\w*(?:[ \t]*\.[ \t]*(?!m?T\b)[A-Za-z_]\w*)+")
CALL = re.compile(r"[ \t]*\([^()\n#]{0,60}\)")
MEMBERS = {"newaxis": "None", "Inf": "inf", "infty": "inf", "NaN": "nan", "e": "exp(1)", "bool_": "bool"}


def module_member(text: str, at: int) -> UnknownNameError | None:
    """The error for a name that stands in a module, as in `np.exp(x)`; None where the name is no module's."""
    path = PATH.match(text, at)
    if path is None:
        return None
    base, member = re.match(r"\w+", path.group()).group(), re.split(r"[ \t]*\.[ \t]*", path.group())[-1]  # type: ignore[union-attr]
    called = CALL.match(text, path.end())
    arguments = called.group().strip() if called else "(...)" if text[path.end() : path.end() + 1] == "(" else ""
    message = f"{base} is no value: functions have no module"
    return UnknownNameError(message, "name.module", text, (at, at + len(base)), help=_without_module(member, arguments))


def stray_equals(span: Span) -> ParseError:
    """The error for a = in brackets that gives no argument a name."""
    help = "write == to compare, name=value for an argument"
    return ParseError("an = here names no argument", "parse.argument", None, span, help=help)


LONG = 80  # characters of a chain of comparisons that its error shows again


def check_chains(program: Program) -> None:
    """ParseError where an operand between two comparisons is an & or | with no brackets: masks seldom mean that."""
    for chain in (part for part in program.parts if isinstance(part, Compare)):
        for k, middle in enumerate(chain.operands[1:-1], 1):
            bracketed = program.text[: middle.span[0]].rstrip().endswith("(")
            if isinstance(middle, Binary) and middle.op in ("&", "|") and not bracketed:
                raise _loose_chain(program.text, chain, k, middle)


def _loose_chain(text: str, chain: Compare, k: int, middle: Binary) -> ParseError:
    ops, shown = chain.ops, [show(part) for part in chain.operands]
    sides = (f"({show(side)})" if isinstance(side, Binary) else show(side) for side in (middle.left, middle.right))
    pieces = [*shown[:k], f"({f' {middle.op} '.join(sides)})", *shown[k + 1 :]]
    read = " ".join(part for pair in zip(pieces, [*ops, ""]) for part in pair).strip()
    left = " ".join(part for pair in zip(shown[:k], ops) for part in pair) + f" {show(middle.left)}"
    right = show(middle.right) + "".join(f" {op} {part}" for op, part in zip(ops[k:], shown[k + 1 :]))
    message, help = f"{middle.op} binds more tightly than {ops[k - 1]}", "put comparisons in brackets"
    if len(read) <= LONG:
        message, help = f"{message}: this reads {read}", f"{help}: ({left}) {middle.op} ({right})"
    return ParseError(message, "parse.chain", text, middle.span, middle.at, help=help)


def unexpected(text: str, tokens: list[Token], expected: Iterable[str]) -> ParseError:
    """The error for the last of `tokens`, where the grammar allows only `expected`."""
    token = tokens[-1]
    before = tokens[-2] if len(tokens) > 1 else None
    if before is None and token.type == "$END":
        return ParseError("the text is empty", "parse.empty", text, token.span, help="write an expression")
    if token.type == "$END" and all(t.type not in ("NAME", "LITERAL") for t in tokens):
        token = tokens[0]
        start = STARTS.get(token.value, f"a value stands before {token.value}")
        return ParseError(f"{token.value} has nothing to work on", "parse.syntax", text, token.span, help=start)
    if token.type in ("$END", "SEP"):
        return _stopped(text, tokens, set(expected))
    if token.type == "ASSIGN" and _opened(tokens[:-1]) is not None:
        return stray_equals(token.span)
    message, help = _surprise(tokens, set(expected))
    return ParseError(message, "parse.syntax", text, token.span, help=help)


def _stopped(text: str, tokens: list[Token], expected: set[str]) -> ParseError:
    """The text, or its line, ends too early."""
    token, before = tokens[-1], tokens[-2]
    place = (token.start, token.start + 1)
    opened = _opened(tokens[:-1])
    if opened is not None and token.type == "SEP":
        return ParseError("a ; inside brackets", "parse.bracket", text, place, help=f"close the {opened.value} first")
    if opened is not None:
        closer = ")" if opened.value == "(" else "]"
        help = f"close it with {closer}"
        return ParseError(f"the {opened.value} is never closed", "parse.bracket", text, place, help=help)
    if before.type == "COMMA":
        message, help = "a result is missing after the comma", "remove the comma"
        return ParseError(message, "parse.syntax", text, before.span, help=help)
    doubled = tokens[-3] if len(tokens) > 2 else None
    if doubled is not None and doubled.value == before.value and before.value in "+-" and doubled.end == before.start:
        message, help = f"{before.value * 2} is not an operator", f"write name = name {before.value} 1"
        return ParseError(message, "parse.operator", text, (doubled.start, before.end), help=help)
    what = "the text" if token.type == "$END" else "the line"
    if "ELSE" in expected and "LPAR" not in expected:
        return ParseError(f"{what} ends without else", "parse.syntax", text, place, help="write `a if c else b`")
    help = f"{before.value} needs a value on its right"
    if token.type == "SEP":
        help += "; put an expression of several lines in brackets"
    return ParseError(f"{what} ends too early", "parse.end", text, place, help=help)


def _opened(tokens: list[Token]) -> Token | None:
    stack: list[Token] = []
    for token in tokens:
        if token.type in ("LPAR", "LSQB"):
            stack.append(token)
        elif token.type in ("RPAR", "RSQB"):
            stack.pop()
    return stack[-1] if stack else None


def _surprise(tokens: list[Token], expected: set[str]) -> tuple[str, str | None]:
    """The message and the help line for a token that cannot stand after the one before it."""
    token, before = tokens[-1], tokens[-2] if len(tokens) > 1 else None
    value_needed = "NAME" in expected
    opened = _opened(tokens[:-1])
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
        return f"a value is missing between {before.value} and {token.value}", "write one, or take one of the two away"
    if value_needed:
        return f"{token.value} has nothing to work on", STARTS.get(token.value, f"a value stands before {token.value}")
    if before is not None and token.type in ("NAME", "LITERAL", "LPAR", "NOT"):
        return _side_by_side(before, token)
    if token.type == "ELSE":
        return "else without if", "write `a if c else b`"
    if opened is not None and token.type in ("RPAR", "RSQB", "COMMA") and "ELSE" in expected:
        return "if without else", "write `a if c else b`"
    return f"{token.value} cannot stand here", "look at the brackets and operators before it"


def _side_by_side(before: Token, token: Token) -> tuple[str, str | None]:
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
