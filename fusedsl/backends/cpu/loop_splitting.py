"""Loops in parts: where reads are affine between changes of their conditions, each part reads neighbours.

Conditions and addresses are computed once a part, as they are at its first element. Its loop is left with plain loads,
which become vectors. What is not there is loaded from a line of zeros, or of NaNs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...ir.types import DTYPES
from ...kernel_ir.kernel import KernelIR
from .affine import MOST_PERIOD, Lines, Read
from .source_text import WORD, indented, renamed

LINE = 1 << 12  # bytes of zeros (or NaNs) to each side of where loads of what is not there begin
Innermost = Callable[[list[str], str, str, str], list[str]]  # lines, index, first, end


def loop(
    kernel: KernelIR,
    lines: Sequence[str],
    index: str,
    end: str,
    innermost: Innermost,
    after: Sequence[str] = (),
) -> list[str]:
    """A loop over `index` from 0 up to `end` in parts, or as it is if it reads nothing at affine addresses.

    `lines` are an element's work, `after` what follows it and may carry values from element to element.
    """
    found = _analysed(lines, index, dict(kernel.constant_scalars)) if kernel.pointers else None
    if found is None:
        return innermost([*lines, *after], index, "0", end)
    return _Parts(*found, after, end, innermost).text([*lines, *after])


def _analysed(lines: Sequence[str], index: str, known: Mapping[str, int]) -> tuple[Lines, list[str]] | None:
    """What is affine, and the lines that define nothing; None where that is nothing of use, or lines are no simple
    statements."""
    statements = []
    for line in lines:
        if line.startswith(" ") or line.endswith(":"):
            return None
        (statement,) = ast.parse(line).body
        statements.append((statement, ast.unparse(statement)))
    found = Lines(index, 1, known)
    while True:
        sinks: list[str] = []
        for statement, code in statements:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                if name in found.code:
                    return None
                found.add(name, code, statement.value)
            else:
                sinks.append(code)
        if found.wish == 1:
            break
        too_many = found.wish > MOST_PERIOD
        found = Lines(index, 1 if too_many else found.wish, known, most=1 if too_many else MOST_PERIOD)
    return (found, sinks) if found.reads or _fixed_fetches(found) else None


def _fixed_fetches(found: Lines) -> list[str]:
    return [n for n, code in found.code.items() if f"{n} = fetch_" in code and found.kinds[n] is not None]


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in WORD.findall(text)}


class _Parts:
    """The text of one loop."""

    def __init__(self, found: Lines, sinks: list[str], after: Sequence[str], end: str, innermost: Innermost):
        self.found, self.sinks, self.after = found, sinks, [line.partition("#")[0].rstrip() for line in after]
        self.end, self.innermost, self.period = end, innermost, found.period
        self.once = dict.fromkeys(self._once())
        self.names: dict[tuple[int, bool], dict[str, str]] = {}  # by element of a turn, and whether once a part

    # -- which lines are computed when

    def _once(self) -> list[str]:
        """The names that are computed once a part: what addresses and conditions are made of."""
        found = self.found
        needed = _words(text for read in found.reads.values() for text in (read.base, read.wanted))
        needed |= {*_fixed_fetches(found), *found.conditions}
        for name in reversed(found.code):
            if name in needed:
                needed |= _words([found.code[name], *found.cuts[name], *found.slopes[name]])
        return [name for name in found.code if name in needed]

    def _in_loop(self) -> list[str]:
        """The names that are computed, or read, for each element."""
        needed, names = _words([*self.sinks, *self.after]), []
        for name in reversed(self.found.code):
            if name in needed and not self._stays(name):
                names.append(name)
                needed |= set() if name in self.found.reads else _words([self.found.code[name]])
        return names[::-1]

    def _stays(self, name: str) -> bool:
        kind = self.found.kinds[name]
        return name in self.once and kind is not None and kind.fixed

    # -- names

    def _named(self, texts: Iterable[str], number: int, once: bool) -> list[str]:
        """Lines of element `number` of a turn with its names: as they are once a part, or in the loop."""
        return renamed(texts, self._names(number, once))

    def _names(self, number: int, once: bool) -> dict[str, str]:
        """What stands for each name there."""
        if (number, once) not in self.names:
            own, names = f"_r{number}" if number else "", {}
            for name in self.found.code:
                begin = once or self._stays(name)
                names[name] = f"{name}{own}{'_begin' if begin else ''}"
                names |= {f"{name}_{what}": f"{name}{own}_{what}" for what in ("slope", "base", "wanted")}
            index = self.found.index
            names[index] = (f"(at + {number})" if number else "at") if once else f"{index}{own}"
            self.names[number, once] = names
        return self.names[number, once]

    def _reads(self, number: int) -> dict[str, Read]:
        """The reads of an element of a turn, in terms of what is computed once a part."""
        found = {}
        for name, read in self.found.reads.items():
            base, wanted, slope = self._named([read.base, read.wanted, read.slope.text], number, True)
            (own,) = self._named([name], number, False)
            found[own] = replace(read, base=base, wanted=wanted, slope=replace(read.slope, text=slope))
        return found

    # -- text

    def text(self, plain: list[str]) -> list[str]:
        """The loop; `plain` are its lines as they were."""
        index, period, end = self.found.index, self.period, self.end
        numbers = range(period)
        once, cuts = [], []
        for number in numbers:
            for name in self.once:
                once += self._named([self.found.code[name], *self.found.slopes[name]], number, True)
                cuts += self._named(self.found.cuts[name], number, True)
        reads = {own: read for number in numbers for own, read in self._reads(number).items()}
        for own, read in reads.items():
            once += [f"{own}_base = {read.base}", f"{own}_wanted = {read.wanted}"]
            if not read.is_even(usual=False):
                once.append(f"{own}_stride = select({own}_wanted, int64({read.slope.text}), int64(0))")
        loaded = {own for number in numbers for own in self._named(self._in_loop(), number, False)}
        steps = {own: abs(read.slope.value) for own, read in reads.items() if own in loaded and read.slope.value}
        there = " & ".join(f"{own}_wanted" for own in steps)
        most = [f"select({there}, turns, int64({LINE // max(steps.values())}))"] if steps else []
        limits = [f"turns = smaller(turns, {limit})" for limit in dict.fromkeys([*most, *cuts])]
        left = f"{end} - at" if period == 1 else f"({end} - at) // {period}"
        part = [*once, f"turns = {left}", *limits, *self._loops(reads)]
        if period > 1:
            part.append(f"at = at + turns * {period}")
            rest = self.innermost(plain, index, "at", end)
            return ["at = 0", f"while at + {period} <= {end}:", *indented(part), *rest]
        part.append("at = at + turns")
        return ["at = 0", f"while at < {end}:", *indented(part)]

    def _loops(self, reads: Mapping[str, Read]) -> list[str]:
        """The loop of a part, and where slopes may differ from what they mostly are, one for these too."""
        fast = self._loop(reads, usual=True)
        unsure = dict.fromkeys(
            f"({r.slope.text} == {r.slope.value})"
            for r in reads.values()
            if not r.slope.sure and r.slope.value is not None
        )
        if not unsure:
            return fast
        test = " & ".join(unsure)
        return [f"if {test}:", *indented(fast), "else:", *indented(self._loop(reads, usual=False))]

    def _loop(self, reads: Mapping[str, Read], usual: bool) -> list[str]:
        index, period = self.found.index, self.period
        turn = f"{index} - at" if period == 1 else "turn"
        lines = [] if period == 1 else [f"{index} = at + turn * {period}"]
        lines += [f"{index}_r{number} = {index} + {number}" for number in range(1, period)]
        names = self._in_loop()
        for number in range(period):
            for name in names:
                (own,) = self._named([name], number, False)
                if own in reads:
                    lines.append(_element(own, reads[own], turn, usual))
                else:
                    lines += self._named([self.found.code[name]], number, False)
        for part in (self.sinks, self.after):
            for number in range(period):
                lines += self._named(part, number, False)
        if period == 1:
            return self.innermost(lines, index, "at", "at + turns")
        return self.innermost(lines, "turn", "0", "turns")


def _element(own: str, read: Read, turn: str, usual: bool) -> str:
    """The line that loads an element of a part."""
    if read.is_even(usual):
        step = (read.slope.value or 0) // DTYPES[read.dtype].itemsize
        return f"{own} = element_{read.dtype}({own}_base, {turn if step == 1 else f'({turn}) * {step}'})"
    return f"{own} = element_{read.dtype}({own}_base + ({turn}) * {own}_stride, 0)"
