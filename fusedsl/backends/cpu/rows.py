"""Row kernels, one row after another: each phase is a loop over the columns, in segments that are folded in lanes."""

from __future__ import annotations

from ...kernel_ir.kernel import KernelIR
from . import loop_splitting, reduce, scan, sort
from .reduce import LANES, LEVELS
from .roles import Array, Roles
from .schedule import SEGMENT
from .source_text import address, decode, header, indented, load_line, parameters, step, store_line, times


def emit(kernel: KernelIR) -> tuple[str, list[Array]]:
    """The source of a row kernel, and the working memory that it names."""
    roles = Roles(kernel)
    arrays = [Array(value.name, value.dtype, "columns") for _, value in roles.held] + fold_arrays(
        kernel, range(len(kernel.phases))
    )
    arrays += sort.arrays(kernel)
    body = [*row_bases(roles)]
    for p in range(len(kernel.phases)):
        body += ["", f"# phase {p}", *columns(roles, p, "0", "segments"), *row_part(roles, p)]
    lines = [
        *parameters(kernel),
        *extents(kernel),
        *claim(arrays),
        *row_index(roles, "begin"),
        "for row in range(begin, end):",
        *indented([*body, *next_row(kernel)]),
        *unclaim(arrays),
    ]
    return "\n".join([*header(kernel, "rows"), "", "def kernel(slots, begin, end):", *indented(lines), ""]), arrays


def fold_arrays(kernel: KernelIR, phases) -> list[Array]:
    """Lanes and trees of the folds."""
    found = []
    for p in phases:
        folds = kernel.phases[p].folds
        found += reduce.state_arrays(folds, "tree", str(LEVELS))
        found += scan.arrays(kernel.phases[p])
        if Roles(kernel).folds_in_lanes(p):
            found += reduce.state_arrays(folds, "lane", str(LANES))
    return found


def extents(kernel: KernelIR) -> list[str]:
    """columns, chunks of the last axis, and segments: (index of the outer column axes, chunk)."""
    last = kernel.axes - 1
    names = [f"n{axis}" for axis in range(kernel.row_axes, last)]
    outer = " * ".join(names)
    return [
        f"columns = {' * '.join([*names, f'n{last}'])}",
        f"chunks = (n{last} + {SEGMENT - 1}) // {SEGMENT}",
        f"segments = {outer} * chunks" if outer else "segments = chunks",
    ]


def claim(arrays: list[Array]) -> list[str]:
    """Allocate the working memory in one piece."""
    if not arrays:
        return []
    lines = ["size = 0"]
    for array in arrays:
        lines += [f"{array.label}_from = size", f"size = size + {array.bytes}"]
    return [*lines, "memory = allocate(size)", *(f"{a.label}_at = offset(memory, {a.label}_from)" for a in arrays)]


def unclaim(arrays: list[Array]) -> list[str]:
    return ["release(memory)"] if arrays else []


def row_start(roles: Roles, row: str) -> list[str]:
    """The indices of a row, where it starts in each operand, and what is loaded once a row."""
    return [*row_index(roles, row), *row_bases(roles)]


def row_index(roles: Roles, row: str) -> list[str]:
    """The indices of a row on its axes, from its number."""
    axes = range(roles.kernel.row_axes)
    return [f"left = {row}", *decode("left", axes, {axis: f"i{axis}" for axis in axes})] if axes else []


def next_row(kernel: KernelIR) -> list[str]:
    """The indices of the next row, without a division: the last axis is the fastest."""
    lines: list[str] = []
    for axis in range(kernel.row_axes):
        carry = [f"if i{axis} == n{axis}:", f"    i{axis} = 0", *indented(lines)] if axis else []
        lines = [f"i{axis} = i{axis} + 1", *carry]
    return lines


def row_bases(roles: Roles) -> list[str]:
    """Where a row starts in each operand, and what is loaded once a row."""
    kernel = roles.kernel
    names = {axis: f"i{axis}" for axis in range(kernel.row_axes)}
    lines = [address(kernel, k, f"r{k}", f"p{k}", names) for k in range(len(kernel.operands))]
    lines += [load_line(load, f"r{load.operand}", "0") for load in roles.row_loads]
    return lines + [f"{p.value.name} = {p.value.dtype}(i{p.axis})" for p in roles.row_positions]


def columns(roles: Roles, p: int, low: str, high: str, base: str = "") -> list[str]:
    """The element part of a phase over segments [low, high), folded into its states; held values start at `base`."""
    phase = roles.kernel.phases[p]
    if phase.ranks:
        return sort.ranks(roles, phase)
    if not (phase.stores or phase.folds or phase.column_reductions or phase.select or roles.held_by(p)):
        return []
    number = "segment" if low == "0" else f"segment - {low}"
    if scan.is_reverse(phase):
        number = f"{high} - 1 - segment"
    lines = [*segment_start(roles, p, base), *scan.segment_starts(phase), *elements(roles, p)]
    lines += scan.segment_ends(phase, number)
    total = "segments" if low == "0" else f"({high} - {low})"
    opening, joined = [*sort.starts(phase), *scan.starts(phase)], []
    if phase.folds:  # the state of a single segment is that of the row
        opening += [line for f in phase.folds for line in reduce.identity(f)]
        lines += [f"if {total} != 1:", *indented(reduce.push(phase.folds, number))]
        joined = [f"if {total} != 1:", *indented(reduce.join_tree(phase.folds, total))]
    return [*opening, *scan.counted(phase, "segment", low, high, lines), *joined, *sort.sort(phase)]


def elements(roles: Roles, p: int) -> list[str]:
    """The elements of a segment, folded into its states: in registers, or in lanes in memory; scans go by blocks."""
    phase, lanes = roles.kernel.phases[p], roles.folds_in_lanes(p)
    if lanes:
        start = reduce.reset_lanes(phase.folds, str(LANES))
        folding = [line for f in phase.folds for line in reduce.in_lane(f, "lane")]
    else:
        start = [line for f in phase.folds for line in reduce.identity(f)]
        folding = [line for f in phase.folds for line in reduce.in_register(f)]
    if not lanes and not phase.scans:
        return [*start, *loop_splitting.loop(roles.kernel, element(roles, p, "j"), "j", "count", counted, folding)]
    place = "count - 1 - start - lane" if scan.is_reverse(phase) else "start + lane"
    inner = [f"j = {place}", *element(roles, p, "j")]
    block = [f"start = block * {LANES}", f"within = smaller({LANES}, count - start)", *scan.block_starts(phase)]
    if phase.scans:
        block += counted([*inner, *folding], "lane", "0", "within")
    else:
        block += loop_splitting.loop(roles.kernel, inner, "lane", "within", counted, folding)
    block += scan.block_ends(phase)
    loop = [f"for block in range((count + {LANES - 1}) // {LANES}):", *indented(block)]
    return [*start, *loop, *(reduce.join_lanes(phase.folds) if lanes else [])]


def counted(lines: list[str], index: str, first: str, end: str) -> list[str]:
    """The innermost loop."""
    span = end if first == "0" else f"{first}, {end}"
    return [f"for {index} in range({span}):", *indented(lines)]


def segment_start(roles: Roles, p: int, base: str) -> list[str]:
    """Where a segment starts: its first column, how many, the operands' addresses, loads that do not vary in it."""
    kernel, last = roles.kernel, roles.kernel.axes - 1
    names = {axis: f"i{axis}" for axis in range(kernel.row_axes, last)}
    lines = (
        ["outer = segment // chunks", f"first = (segment - outer * chunks) * {SEGMENT}"]
        if names
        else [f"first = segment * {SEGMENT}"]
    )
    lines.append(f"count = smaller({SEGMENT}, n{last} - first)")
    lines.append(f"flat = {base}outer * n{last} + first" if names else f"flat = {base}first")
    lines += decode("outer", range(kernel.row_axes, last), names) if names else []
    touched = [load.operand for load in roles.loads_of(p)] + [store.operand for store in kernel.phases[p].stores]
    lines += [address(kernel, k, f"c{k}", f"r{k}", {**names, last: "first"}) for k in dict.fromkeys(touched)]
    lines += [load_line(x, f"c{x.operand}", "0") for x in roles.loads_of(p) if step(kernel, x.operand, last) == "0"]
    used = roles.used(kernel.phases[p])
    return lines + [
        f"{q.value.name} = {q.value.dtype}(i{q.axis})"
        for q in roles.column_positions
        if q.axis != last and q.value.name in used
    ]


def element(roles: Roles, p: int, index: str) -> list[str]:
    """Loads, body, stores and held values of one element."""
    kernel, last = roles.kernel, roles.kernel.axes - 1
    phase, used = kernel.phases[p], roles.used(kernel.phases[p])
    lines = []
    for load in roles.loads_of(p):
        if (stride := step(kernel, load.operand, last)) != "0":
            lines.append(load_line(load, f"c{load.operand}", times(index, stride)))
    lines += [f"{name} = {reduce.get(name, f'flat + {index}')}" for name in roles.held_before(p) if name in used]
    for q in roles.column_positions:
        if q.axis == last and q.value.name in used:
            lines.append(f"{q.value.name} = {q.value.dtype}(first + {index})")
    lines += [*phase.element.instructions, *scan.lines(phase, scan.in_row)]
    lines += [store_line(x, f"c{x.operand}", times(index, step(kernel, x.operand, last))) for x in phase.stores]
    lines += sort.keep(phase, f"flat + {index}")
    lines += [reduce.put(value.name, f"flat + {index}", value.name) for value in roles.held_by(p)]
    return lines + [line for f in phase.column_reductions for line in reduce.in_line(f, f"base + flat + {index}")]


def row_part(roles: Roles, p: int) -> list[str]:
    """The row body of a phase and its stores."""
    phase = roles.kernel.phases[p]
    lines = list(phase.row.instructions) if phase.row else []
    return lines + [store_line(store, f"r{store.operand}", "0") for store in phase.row_stores]
