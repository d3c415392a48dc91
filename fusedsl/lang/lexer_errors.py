"""Errors of the lexer: characters, operators, words and numbers that are not of the language, and their replacement."""

from __future__ import annotations

import re

from ..errors import ParseError, UnknownNameError

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

WORDS = {
    "import": "every function is already there; nothing is imported",
    "from": "every function is already there; nothing is imported",
    "lambda": "define a function on a line of its own: f(x) = x * x",
    "def": "write f(x) = expression",
    "is": "write ==",
    "in": "compare with ==, and combine with | or any(...)",
    "pass": "a program is expressions and assignments; leave it out",
    "global": "a program assigns its own names only; leave it out",
    "nonlocal": "a program assigns its own names only; leave it out",
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
    "async": "call the kernel in Python; a program only computes",
    "await": "call the kernel in Python; a program only computes",
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
    if character.isalpha() and character.isascii():  # a name directly before a quote
        help = "strings are plain, with no prefix"
        return ParseError("a string with a prefix", "parse.string", text, (at, at + 1), help=help)
    shown = character if character.isprintable() and not character.isspace() else f"U+{ord(character):04X}"
    if not character.isascii() and character.isprintable():
        shown += f" (U+{ord(character):04X})"
    help = CHARACTERS.get(character) or _ascii_name_help(text, at) or _replacement(character)
    return ParseError(f"the character {shown} has no meaning here", "parse.character", text, (at, at + 1), help=help)


def _ascii_name_help(text: str, at: int) -> str | None:
    """The help for a non-ASCII name: an ASCII name to use in the program and for the argument."""
    if not text[at].isidentifier():
        return None
    start = at - len(re.search(r"[A-Za-z0-9_]*$", text[max(at - 64, 0) : at]).group())  # type: ignore[union-attr]
    word = re.match(r"\w+", text[start:]).group()  # type: ignore[union-attr]
    plain = "".join(map(_ascii, word))
    if not plain.isidentifier():
        return f"names are ASCII here: call it otherwise, and pass that name={word}"
    return f"names are ASCII here: write {plain}, and pass {plain}={word}"


def _ascii(character: str) -> str:
    """A letter in ASCII; for a Greek letter its name."""
    import unicodedata

    name = unicodedata.name(character, "")
    if name.startswith("GREEK "):
        return name.split(" WITH ")[0].split()[-1].lower()
    forms = (
        unicodedata.normalize("NFKD", c).encode("ascii", "ignore").decode() for c in (character, character.casefold())
    )
    return next(forms) or next(forms)


def _replacement(character: str) -> str:
    import unicodedata

    if character.isascii() or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return "remove it"
    if character.isspace():
        return "write a blank"
    if (digit := unicodedata.digit(character, None)) is not None:
        return f"write {digit}"
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    if plain.isprintable() and len(plain) == 1:
        return f"programs are ASCII; write {plain}"
    return "programs are ASCII, comments too"


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
    """The error for a keyword of Python that the language does not have."""
    help = WORDS.get(word, "it is a word of Python's; use another name")
    if word == "is" and re.match(r"is\s+(not\s+)?None\b", text[at : at + 80]):
        help = "an array is never None: decide in Python which program to run, or leave the argument out"
    return ParseError(f"{word} is not part of the language", "parse.word", text, (at, at + len(word)), help=help)


def malformed_number(text: str, word: str, at: int) -> ParseError:
    """The error for characters that start like a number but are none."""
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


MODULES = frozenset(
    [
        "np",
        "numpy",
        "cp",
        "cupy",
        "torch",
        "jnp",
        "jax",
        "math",
        "scipy",
        "special",
        "F",
        "xp",
        "nn",
        "tf",
        "tl",
        "libdevice",
        "mx",
        "ti",
    ]
)
PATH = re.compile(r"[A-Za-z_]\w*(?:[ \t]*\.[ \t]*(?!m?T\b)[A-Za-z_]\w*)+")
CALL = re.compile(r"[ \t]*\([^()\n#]{0,60}\)")
MEMBERS = {"newaxis": "None", "Inf": "inf", "infty": "inf", "NaN": "nan", "e": "exp(1)", "bool_": "bool"}


def module_member(text: str, at: int) -> UnknownNameError | None:
    """The error for a member of a module, as in `np.exp(x)`; None if there is no member access."""
    path = PATH.match(text, at)
    if path is None:
        return None
    base, member = re.match(r"\w+", path.group()).group(), re.split(r"[ \t]*\.[ \t]*", path.group())[-1]  # type: ignore[union-attr]
    called = CALL.match(text, path.end())
    arguments = called.group().strip() if called else "(...)" if text[path.end() : path.end() + 1] == "(" else ""
    message = f"{base} is no value: functions have no module"
    return UnknownNameError(message, "name.module", text, (at, at + len(base)), help=without_module(member, arguments))


def without_module(member: str, arguments: str) -> str:
    """The help for a member of a module: what to write without the module."""
    from .hints import function_hint, is_known

    if member in ("normal", "uniform"):
        return f"write {member}(seed, shape): there is no state, so that a seed gives the same numbers again"
    if is_known(member) or member in MEMBERS:
        return f"write {MEMBERS.get(member, member)}{arguments}"
    return function_hint(member) or f"there is no {member} without it either"
