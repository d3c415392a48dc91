"""Loop versioning by argument range: blocks whose arguments are all common use functions without the rare cases.

Sines of angles near zero need no table of π, powers of positive normal numbers no special cases, remainders of common
quotients no library call. A first loop over a block evaluates the range test; LLVM removes the rest of its body. Blocks
are short enough for the hardware prefetcher to load the next one meanwhile.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from ...kernel_ir.kernel import KernelIR
from .source_text import indented
from .statements import code_of, names_in, parsed, target_of

BEYOND = {"sin": "beyond", "cos": "beyond", "tan": "beyond", "power": "power_beyond", "fmod": "fmod_beyond"}
BLOCK = 256  # elements of a block


def counted_loop(lines: list[str], index: str, first: str, end: str) -> list[str]:
    """The loop in one version."""
    span = end if first == "0" else f"{first}, {end}"
    return [f"for {index} in range({span}):", *indented(lines)]


def loop(
    lines: list[str], loaded: Collection[str], index: str = "i", first: str = "0", end: str = "count"
) -> list[str]:
    """The loop over a chunk, or a part of it; `loaded` are the names of floats that are loads or scalars."""
    code = list(map(code_of, lines))
    calls = [_calls(line, loaded) for line in code]
    if not any(calls):
        return counted_loop(lines, index, first, end)
    near = list(map(_near, code, calls))
    look = [line for line in near if not line.startswith("store")]
    look += dict.fromkeys(f"far = far | {_test(call)}" for line in calls for call in line)
    begin, span = ("", end) if first == "0" else (f"{first} + ", f"{end} - {first}")
    block = [f"start = {begin}block * {BLOCK}", f"stop = smaller(start + {BLOCK}, {end})", "far = False"]
    block += _each(look, index)
    block += ["if far:", *indented(_each(lines, index)), "else:", *indented(_each(near, index))]
    return [f"for block in range(({span} + {BLOCK - 1}) // {BLOCK}):", *indented(block)]


def short_loop(lines: list[str], loaded: Collection[str], index: str, first: str, end: str) -> list[str]:
    """A loop over few elements that may carry values from one to the next, as reductions do: tested as a whole."""
    code = list(map(code_of, lines))
    calls = [_calls(line, loaded) for line in code]
    if not any(calls):
        return counted_loop(lines, index, first, end)
    tests = list(dict.fromkeys(f"far = far | {_test(call)}" for line in calls for call in line))
    near = list(map(_near, code, calls))
    look = counted_loop([*_computing(near, tests), *tests], index, first, end)
    near, far = (counted_loop(body, index, first, end) for body in (near, lines))
    return ["far = False", *look, "if far:", *indented(far), "else:", *indented(near)]


def _computing(lines: list[str], tests: list[str]) -> list[str]:
    """The lines that compute what the tests read, in order."""
    needed, computing = names_in(tests), []
    for line in reversed(lines):
        if target_of(line) in needed:
            computing.append(line)
            needed |= names_in([line])
    return computing[::-1]


def floats(kernel: KernelIR) -> set[str]:
    """The names of floats that are loads or scalars."""
    values = [load.value for load in kernel.loads] + list(kernel.scalars)
    return {value.name for value in values if value.dtype.kind == "f"}


def _each(lines: list[str], index: str) -> list[str]:
    return [f"for {index} in range(start, stop):", *indented(lines)]


def _calls(line: str, loaded: Collection[str]) -> list[ast.Call]:
    """The calls of a statement that have a fast version, in order."""
    statement = parsed(line)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement else []
    return sorted((call for call in calls if _has_near_form(call, loaded)), key=lambda call: call.col_offset)


def _has_near_form(call: ast.Call, loaded: Collection[str]) -> bool:
    """True if a call has a fast version: not powers of computed values, which the range test would compute twice."""
    name = _function(call)
    return name in BEYOND and (name != "power" or all(_is_literal(a) or ast.unparse(a) in loaded for a in call.args))


def _is_literal(x: ast.expr) -> bool:
    return isinstance(x, ast.Call) and _function(x) in ("float32", "float64")


def _function(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _test(call: ast.Call) -> str:
    return f"{BEYOND[_function(call)]}({', '.join(map(ast.unparse, call.args))})"


def _near(line: str, calls: list[ast.Call]) -> str:
    for call in reversed(calls):
        end = call.func.end_col_offset
        line = f"{line[:end]}_near{line[end:]}"
    return line
