"""Loop versioning by argument range: blocks whose arguments are all common use functions without the rare cases.

Sines of angles near zero need no table of π, powers of positive normal numbers no special cases, remainders of common
quotients no library call. A first loop over a block evaluates the range test; LLVM removes the rest of its body. Blocks
are short enough for the hardware prefetcher to load the next one meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .source_text import indented

ARGUMENT = r"\w+(?:\([^()]*\))?"  # a name, or a typed literal
CALL = re.compile(rf"\b(sin|cos|tan|power|fmod)\(({ARGUMENT}(?:, {ARGUMENT})?)\)")
BEYOND = {"sin": "beyond", "cos": "beyond", "tan": "beyond", "power": "power_beyond", "fmod": "fmod_beyond"}
BLOCK = 256  # elements of a block
LITERAL = re.compile(r"float(32|64)\(")


def loop(
    lines: list[str], loaded: Collection[str], index: str = "i", first: str = "0", end: str = "count"
) -> list[str]:
    """The loop over a chunk, or a part of it; `loaded` are the names of floats that are loads or scalars."""
    code = [line.partition("#")[0] for line in lines]  # comments repeat the text
    calls = [call for line in code for call in CALL.finditer(line) if _has_near_form(call, loaded)]
    if not calls:
        span = end if first == "0" else f"{first}, {end}"
        return [f"for {index} in range({span}):", *indented(lines)]
    near = [CALL.sub(lambda call: _near(call, loaded), line) for line in code]
    look = [line for line in near if not line.startswith("store")]
    look += [f"far = far | {test}" for test in dict.fromkeys(f"{BEYOND[call[1]]}({call[2]})" for call in calls)]
    begin, span = ("", end) if first == "0" else (f"{first} + ", f"{end} - {first}")
    block = [f"start = {begin}block * {BLOCK}", f"stop = smaller(start + {BLOCK}, {end})", "far = False"]
    block += _each(look, index)
    block += ["if far:", *indented(_each(lines, index)), "else:", *indented(_each(near, index))]
    return [f"for block in range(({span} + {BLOCK - 1}) // {BLOCK}):", *indented(block)]


def _each(lines: list[str], index: str) -> list[str]:
    return [f"for {index} in range(start, stop):", *indented(lines)]


def _has_near_form(call: re.Match, loaded: Collection[str]) -> bool:
    """True if a call has a fast version: not powers of computed values, which the range test would compute twice."""
    names = call[2].split(", ")
    return call[1] != "power" or all(name in loaded or LITERAL.match(name) for name in names)


def _near(call: re.Match, loaded: Collection[str]) -> str:
    return f"{call[1]}_near({call[2]})" if _has_near_form(call, loaded) else call[0]
