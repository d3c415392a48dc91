"""Index-set splitting: a loop is cut into parts in which all conditions are invariant and all addresses affine.

Conditions and addresses are hoisted: they are computed once a part, for its first element. The loop of a part is left
with plain loads, which LLVM vectorises. A masked load reads from an array of zeros, or of NaNs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...ir.types import DTYPES
from ...kernel_ir.kernel import KernelIR
from .affine import MAX_PERIOD, AffineRead, LoopAnalysis
from .source_text import indented
from .statements import code_of, names_in, parsed, renamed

CONSTANT_BYTES = 1 << 12  # bytes of zeros (or NaNs) on each side of the address of masked loads
Innermost = Callable[[list[str], str, str, str], list[str]]  # lines, index, first, end


def loop(
    kernel: KernelIR, lines: Sequence[str], index: str, end: str, innermost: Innermost, after: Sequence[str] = ()
) -> list[str]:
    """A loop over `index` from 0 to `end` in parts, or a plain loop if it has no loads at affine addresses.

    `lines` are the body of an element; `after` follows it and may carry values from element to element.
    """
    analysis = _analyse(lines, index, dict(kernel.constant_scalars)) if kernel.pointers else None
    if analysis is None:
        return innermost([*lines, *after], index, "0", end)
    return _SplitLoop(*analysis, after, end, innermost).text([*lines, *after])


def _analyse(lines: Sequence[str], index: str, constants: Mapping[str, int]) -> tuple[LoopAnalysis, list[str]] | None:
    """(analysis, lines without a result); None if no load is affine, or a line is not a simple statement."""
    statements = []
    for line in lines:
        statement = parsed(code_of(line))
        if statement is None:
            return None
        statements.append((statement, ast.unparse(statement)))
    analysis = LoopAnalysis(index, 1, constants)
    while True:
        sinks: list[str] = []
        for statement, code in statements:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                if name in analysis.code:
                    return None
                analysis.add(name, code, statement.value)
            else:
                sinks.append(code)
        if analysis.preferred_period == 1:
            break
        too_many = analysis.preferred_period > MAX_PERIOD
        analysis = LoopAnalysis(
            index, 1 if too_many else analysis.preferred_period, constants, max_period=1 if too_many else MAX_PERIOD
        )
    return (analysis, sinks) if analysis.reads or analysis.invariant_fetches else None


class _SplitLoop:
    """Emits one loop in parts."""

    def __init__(self, analysis: LoopAnalysis, sinks: list[str], after: Sequence[str], end: str, innermost: Innermost):
        self.analysis, self.sinks, self.after = analysis, sinks, list(map(code_of, after))
        self.end, self.innermost, self.period = end, innermost, analysis.period
        self.once = dict.fromkeys(self._once())
        self.names: dict[tuple[int, bool], dict[str, str]] = {}  # by (element of the unrolled body, whether hoisted)

    # -- hoisting

    def _once(self) -> list[str]:
        """The names that are hoisted, in order: addresses, conditions, and all that they depend on."""
        analysis = self.analysis
        needed = names_in(text for read in analysis.reads.values() for text in (read.base, read.wanted))
        needed |= analysis.invariant_fetches | analysis.conditions
        for name in reversed(analysis.code):
            if name in needed:
                needed |= names_in([analysis.code[name], *analysis.split_points[name], *analysis.slopes[name]])
        return [name for name in analysis.code if name in needed]

    def _in_loop(self) -> list[str]:
        """The names that are computed, or loaded, for each element, in order."""
        needed, names = names_in([*self.sinks, *self.after]), []
        for name in reversed(self.analysis.code):
            if name in needed and not self._is_hoisted(name):
                names.append(name)
                needed |= set() if name in self.analysis.reads else names_in([self.analysis.code[name]])
        return names[::-1]

    def _is_hoisted(self, name: str) -> bool:
        kind = self.analysis.values[name]
        return name in self.once and kind is not None and kind.is_invariant

    # -- names

    def _named(self, texts: Iterable[str], number: int, once: bool) -> list[str]:
        """Lines with the names of element `number` of the unrolled body: hoisted, or in the loop."""
        return renamed(texts, self._names(number, once))

    def _names(self, number: int, once: bool) -> dict[str, str]:
        """The replacement of each name there."""
        if (number, once) not in self.names:
            suffix, names = f"_r{number}" if number else "", {}
            for name in self.analysis.code:
                begin = once or self._is_hoisted(name)
                names[name] = f"{name}{suffix}{'_begin' if begin else ''}"
                names |= {f"{name}_{what}": f"{name}{suffix}_{what}" for what in ("slope", "base", "wanted")}
            index = self.analysis.index
            names[index] = (f"(at + {number})" if number else "at") if once else f"{index}{suffix}"
            self.names[number, once] = names
        return self.names[number, once]

    def _reads(self, number: int) -> dict[str, AffineRead]:
        """The reads of an element of the unrolled body, in terms of hoisted names."""
        reads = {}
        for name, read in self.analysis.reads.items():
            base, wanted, slope = self._named([read.base, read.wanted, read.slope.text], number, True)
            (local,) = self._named([name], number, False)
            reads[local] = replace(read, base=base, wanted=wanted, slope=replace(read.slope, text=slope))
        return reads

    # -- text

    def text(self, plain: list[str]) -> list[str]:
        """The lines of the loop; `plain` is its original body, for the elements that are left over."""
        index, period, end = self.analysis.index, self.period, self.end
        numbers = range(period)
        once, cuts = [], []
        for number in numbers:
            for name in self.once:
                once += self._named([self.analysis.code[name], *self.analysis.slopes[name]], number, True)
                cuts += self._named(self.analysis.split_points[name], number, True)
        reads = {local: read for number in numbers for local, read in self._reads(number).items()}
        for local, read in reads.items():
            once += [f"{local}_base = {read.base}", f"{local}_wanted = {read.wanted}"]
            if not read.is_contiguous(usual=False):
                once.append(f"{local}_stride = select({local}_wanted, int64({read.slope.text}), int64(0))")
        loaded = {local for number in numbers for local in self._named(self._in_loop(), number, False)}
        steps = {local: abs(read.slope.value) for local, read in reads.items() if local in loaded and read.slope.value}
        there = " & ".join(f"{local}_wanted" for local in steps)
        most = [f"select({there}, turns, int64({CONSTANT_BYTES // max(steps.values())}))"] if steps else []
        limits = [f"turns = smaller(turns, {limit})" for limit in dict.fromkeys([*most, *cuts])]
        left = f"{end} - at" if period == 1 else f"({end} - at) // {period}"
        part = [*once, f"turns = {left}", *limits, *self._loops(reads)]
        if period > 1:
            part.append(f"at = at + turns * {period}")
            remainder = self.innermost(plain, index, "at", end)
            return ["at = 0", f"while at + {period} <= {end}:", *indented(part), *remainder]
        part.append("at = at + turns")
        return ["at = 0", f"while at < {end}:", *indented(part)]

    def _loops(self, reads: Mapping[str, AffineRead]) -> list[str]:
        """The loop of a part; two versions if slopes may differ from the usual ones."""
        fast = self._loop(reads, usual=True)
        unsure = dict.fromkeys(
            f"({r.slope.text} == {r.slope.value})"
            for r in reads.values()
            if not r.slope.is_exact and r.slope.value is not None
        )
        if not unsure:
            return fast
        test = " & ".join(unsure)
        return [f"if {test}:", *indented(fast), "else:", *indented(self._loop(reads, usual=False))]

    def _loop(self, reads: Mapping[str, AffineRead], usual: bool) -> list[str]:
        index, period = self.analysis.index, self.period
        turn = f"{index} - at" if period == 1 else "turn"
        lines = [] if period == 1 else [f"{index} = at + turn * {period}"]
        lines += [f"{index}_r{number} = {index} + {number}" for number in range(1, period)]
        names = self._in_loop()
        for number in range(period):
            for name in names:
                (local,) = self._named([name], number, False)
                if local in reads:
                    lines.append(_element(local, reads[local], turn, usual))
                else:
                    lines += self._named([self.analysis.code[name]], number, False)
        for part in (self.sinks, self.after):
            for number in range(period):
                lines += self._named(part, number, False)
        if period == 1:
            return self.innermost(lines, index, "at", "at + turns")
        return self.innermost(lines, "turn", "0", "turns")


def _element(name: str, read: AffineRead, turn: str, usual: bool) -> str:
    """The load of one element."""
    if read.is_contiguous(usual):
        step = (read.slope.value or 0) // DTYPES[read.dtype].itemsize
        return f"{name} = element_{read.dtype}({name}_base, {turn if step == 1 else f'({turn}) * {step}'})"
    return f"{name} = element_{read.dtype}({name}_base + ({turn}) * {name}_stride, 0)"
