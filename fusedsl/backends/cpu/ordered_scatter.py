"""Scatters whose indices do not decrease: runs of one index are folded in registers, and written once.

Blocks of elements at fixed positions whose first and last index are equal are folded by vectors; their other indices
are not computed. A unit has the runs that begin among its elements. So neither the order in which a run is folded nor
what is written depends on the number of units.
"""

from __future__ import annotations

from ...kernel_ir.instruction import needed
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Scatter
from .scatter import line_addresses
from .source_text import header, indented, load_line, parameters, stride, times

BLOCKS = (64, 16, 4)  # elements of a block, powers of two: the largest that begins here is tried first
WORDS = {"max": "maximum", "min": "minimum"}


def emit(kernel: KernelIR, units: int) -> str:
    """The source of an ordered scatter."""
    (scatter,) = kernel.scatters
    each = max(BLOCKS)
    lines = [
        *parameters(kernel),
        *line_addresses(kernel, 0),
        f"each = ((n0 + {units - 1}) // {units} + {each - 1}) // {each} * {each}",
        "for unit in range(begin, end):",
        *indented(_unit(kernel, scatter)),
    ]
    title = header(kernel, f"ordered scatter, {units} units")
    return "\n".join([*title, "", "", "def kernel(slots, begin, end):", *indented(lines), ""])


def _unit(kernel: KernelIR, scatter: Scatter) -> list[str]:
    """The runs that begin among the elements of a unit."""
    d = kernel.operands[scatter.operand].dtype.compute
    return [
        "i = smaller(unit * each, n0)",
        "high = smaller(i + each, n0)",
        "current = int64(-1)",
        f"total = {d}(0)",
        *_skipped(kernel, scatter),
        "more = i < high",
        "while more:",
        *indented(_index(kernel, scatter, "i")),
        f"    mine = {scatter.flat_index}",
        "    count = 1",
        *indented(_block_sizes(kernel, scatter)),
        "    more = (i < high) | ((mine == current) & (current >= 0))",
        "    if more:",
        *indented(_value(kernel, scatter, "i"), 2),
        f"        part = {scatter.value}",
        "        if count > 1:",
        *indented(_folded_block(kernel, scatter), 3),
        "        if mine == current:",
        f"            total = {_merged(scatter, 'total', 'part')}",
        "        else:",
        *indented(_written(scatter), 3),
        "            current = mine",
        "            total = part",
        "        i = i + count",
        "        more = i < n0",
        *_written(scatter),
    ]


def _skipped(kernel: KernelIR, scatter: Scatter) -> list[str]:
    """Go on to the first run that begins in this unit: the one before has the run that it is in."""
    block = max(BLOCKS)
    return [
        "if (i > 0) & (i < high):",
        *indented(_index(kernel, scatter, "i - 1")),
        f"    before = {scatter.flat_index}",
        "    more = before >= 0",
        "    while more:",
        f"        last = smaller(i + {block - 1}, high - 1)",
        *indented(_index(kernel, scatter, "last"), 2),
        f"        if {scatter.flat_index} == before:",
        "            i = last + 1",
        "            more = i < high",
        "        else:",
        *indented(_index(kernel, scatter, "i"), 3),
        f"            more = {scatter.flat_index} == before",
        "            if more:",
        "                i = i + 1",
    ]


def _block_sizes(kernel: KernelIR, scatter: Scatter) -> list[str]:
    """`count` is the size of the largest block that begins here and is all of this index."""
    lines: list[str] = []
    for size in BLOCKS:
        test = [*_index(kernel, scatter, f"i + {size - 1}"), f"if {scatter.flat_index} == mine:", f"    count = {size}"]
        lines += [f"if (count == 1) & (i & {size - 1} == 0) & (i + {size} <= n0) & (mine >= 0):", *indented(test)]
    return lines


def _folded_block(kernel: KernelIR, scatter: Scatter) -> list[str]:
    """`part` is the fold of a block."""
    d = kernel.operands[scatter.operand].dtype.compute
    begin = [f"part = {d}(0)"] if scatter.fold == "sum" else []
    together = "accumulate_add(part, {})" if scatter.fold == "sum" else WORDS[scatter.fold] + "(part, {})"
    loops = []
    for size in BLOCKS:
        body = [*_value(kernel, scatter, "j"), f"part = {together.format(scatter.value)}"]
        loops += [f"if count == {size}:", f"    for j in range(i, i + {size}):", *indented(body, 2)]
    return [*begin, *loops]


def _merged(scatter: Scatter, first: str, second: str) -> str:
    word = WORDS.get(scatter.fold)
    return f"{word}({first}, {second})" if word else f"{first} + {second}"


def _written(scatter: Scatter) -> list[str]:
    """Merge the run that ends here into its index."""
    k = scatter.operand
    after = _merged(scatter, f"load{k}(p{k}, current)", "total")
    return ["if current >= 0:", f"    store{k}(p{k}, current, {after})"]


def _index(kernel: KernelIR, scatter: Scatter, index: str) -> list[str]:
    return _computed(kernel, scatter.flat_index, index)


def _value(kernel: KernelIR, scatter: Scatter, index: str) -> list[str]:
    return _computed(kernel, scatter.value, index)


def _computed(kernel: KernelIR, name: str, index: str) -> list[str]:
    """The lines that compute a value of one element, and no others."""
    body = kernel.phases[0].element
    wanted = needed(body.instructions, [name])
    index = f"({index})" if " " in index else index
    lines = []
    for load in kernel.loads:
        if load.value.name in wanted:
            lines.append(load_line(load, f"a{load.operand}", times(index, stride(kernel, load.operand, 0))))
    lines += [f"{p.value.name} = {p.value.dtype}({index})" for p in kernel.positions if p.value.name in wanted]
    return lines + [str(i) for i in body.instructions if i.target in wanted]
