"""Row reductions: a loop over rows; each phase is a loop over columns, in segments that are reduced in vector lanes."""

from __future__ import annotations

from ...kernel_ir.kernel import KernelIR, Load
from . import common_arguments, extrema, loop_splitting, reduce, row_products, scan, sort
from .reduce import LANES, LEVELS
from .roles import ScratchArray, ValueRoles, is_float_extremum
from .schedule import SEGMENT
from .scratch import allocate, free
from .source_text import (
    address,
    header,
    increment,
    indented,
    load_line,
    parameters,
    store_line,
    stride,
    times,
    unravel_index,
)


def emit(kernel: KernelIR) -> tuple[str, list[ScratchArray]]:
    """The source of a row kernel, and its scratch arrays."""
    roles = ValueRoles(kernel)
    arrays = [ScratchArray(value.name, value.dtype, "columns") for _, value in roles.scratch_values] + fold_arrays(
        kernel, range(len(kernel.phases))
    )
    arrays += sort.arrays(kernel)
    products = row_products.operands(kernel)
    if products is not None:
        arrays = row_products.scratch_arrays(kernel.phases[0].folds[0].accumulators[0])
        loop = row_blocks(roles, *products)
    else:
        body = [*row_bases(roles)]
        for p in range(len(kernel.phases)):
            body += ["", f"# phase {p}", *column_loop(roles, p, "0", "segments"), *row_epilogue(roles, p)]
        loop = ["for row in range(begin, end):", *indented([*body, *increment(kernel.row_axes)])]
    lines = [*parameters(kernel), *extents(kernel), *allocate(arrays), *row_index(roles, "begin"), *loop, *free(arrays)]
    return "\n".join([*header(kernel, "rows"), "", "def kernel(slots, begin, end):", *indented(lines), ""]), arrays


def row_blocks(roles: ValueRoles, a: Load, b: Load) -> list[str]:
    """Sums of products by the microkernel, for blocks of rows along the last row axis; then the row body of each."""
    kernel, (fold,) = roles.kernel, roles.kernel.phases[0].folds
    last, (state,) = kernel.row_axes - 1, fold.accumulators
    each = [*row_bases(roles), f"{state.name} = {reduce.get(f'{state.name}_rows', 'number')}"]
    each += [*row_epilogue(roles, 0), f"i{last} = i{last} + 1"]
    carry = increment(kernel.row_axes)[1:]  # all but the step itself
    block = [f"rows = smaller(smaller({row_products.BLOCK}, end - row), n{last} - i{last})", *row_bases(roles)]
    block += row_products.block_sums(kernel, state, a, b)
    block += ["for number in range(rows):", *indented(each), *carry, "row = row + rows"]
    return ["row = begin", "while row < end:", *indented(block)]


def fold_arrays(kernel: KernelIR, phases) -> list[ScratchArray]:
    """Scratch arrays of the folds: lanes and trees."""
    arrays = []
    for p in phases:
        folds = kernel.phases[p].folds
        arrays += reduce.state_arrays(folds, "tree", str(LEVELS))
        arrays += scan.arrays(kernel.phases[p]) + extrema.arrays(ValueRoles(kernel), p)
        if ValueRoles(kernel).accumulates_in_memory(p):
            arrays += reduce.state_arrays(folds, "lane", str(LANES))
    return arrays


def extents(kernel: KernelIR) -> list[str]:
    """Define columns, chunks (of the last axis), and segments: (index of the outer column axes, chunk)."""
    last = kernel.axes - 1
    names = [f"n{axis}" for axis in range(kernel.row_axes, last)]
    outer = " * ".join(names)
    return [
        f"columns = {' * '.join([*names, f'n{last}'])}",
        f"chunks = (n{last} + {SEGMENT - 1}) // {SEGMENT}",
        f"segments = {outer} * chunks" if outer else "segments = chunks",
    ]


def row_prologue(roles: ValueRoles, row: str) -> list[str]:
    """Row indices, base pointers of the operands, and row loads."""
    return [*row_index(roles, row), *row_bases(roles)]


def row_index(roles: ValueRoles, row: str) -> list[str]:
    """The indices of a row on its axes, from its number."""
    axes = range(roles.kernel.row_axes)
    return [f"left = {row}", *unravel_index("left", axes, {axis: f"i{axis}" for axis in axes})] if axes else []


def row_bases(roles: ValueRoles) -> list[str]:
    """Base pointers of a row in each operand, and row loads."""
    kernel = roles.kernel
    names = {axis: f"i{axis}" for axis in range(kernel.row_axes)}
    lines = [address(kernel, k, f"r{k}", f"p{k}", names) for k in range(len(kernel.operands))]
    lines += [load_line(load, f"r{load.operand}", "0") for load in roles.row_loads]
    return lines + [f"{p.value.name} = {p.value.dtype}(i{p.axis})" for p in roles.row_positions]


def column_loop(roles: ValueRoles, p: int, low: str, high: str, base: str = "", origin: str = "") -> list[str]:
    """The element loop of a phase over segments [low, high), and the sort of what it stores (see `unsorted_loop`)."""
    phase = roles.kernel.phases[p]
    if phase.ranks:
        return sort.rank_loop(roles, phase)
    loop = unsorted_loop(roles, p, low, high, base, origin)
    return [*loop, *sort.sort_row(phase)] if loop else loop


def unsorted_loop(roles: ValueRoles, p: int, low: str, high: str, base: str = "", origin: str = "") -> list[str]:
    """The element loop of a phase over segments [low, high), reduced to its states; scratch values start at `base`.

    Scans begin from the part `origin` of their states, if it is given.
    """
    phase = roles.kernel.phases[p]
    if not (phase.stores or phase.folds or phase.scans or phase.column_reductions or phase.sort or roles.scratch_of(p)):
        return []
    number = "segment" if low == "0" else f"segment - {low}"
    if scan.is_reverse(phase):
        number = f"{high} - 1 - segment"
    lines = [*segment_prologue(roles, p, base), *scan.init_segment(phase), *elements(roles, p)]
    lines += scan.finish_segment(phase, number, origin)
    total = "segments" if low == "0" else f"({high} - {low})"
    opening, joined = [*sort.init_top_k(phase), *scan.init_row(phase, origin)], []
    if phase.scans and scan.in_log_steps(phase):
        opening += scan.init_log_steps(phase)
    if phase.folds:  # a single segment needs no tree
        opening += [line for f in phase.folds for line in reduce.identity(f)]
    if folds := tuple(f for f in phase.folds if f not in roles.positional(p)):
        lines += [f"if {total} != 1:", *indented(reduce.push_to_tree(folds, number))]
        joined = [f"if {total} != 1:", *indented(reduce.reduce_tree(folds, total))]
    return [*opening, *scan.directed_loop(phase, "segment", low, high, lines), *joined]


def elements(roles: ValueRoles, p: int) -> list[str]:
    """The loop over a segment, reduced in registers or in lanes in memory; scans run by blocks of LANES."""
    phase, lanes = roles.kernel.phases[p], roles.accumulates_in_memory(p)
    if lanes:
        start = reduce.reset_lanes(phase.folds, str(LANES))
        folding = [line for f in phase.folds for line in reduce.accumulate(f, "lane", "lane")]
    else:
        start = [line for f in phase.folds for line in reduce.identity(f)]
        folding = [line for f in phase.folds for line in reduce.accumulate_register(f)]
    if not lanes and not phase.scans:
        return segment_loop(roles, p)
    column = "count - 1 - start - lane" if scan.is_reverse(phase) else "start + lane"
    inner = [f"j = {column}", *element(roles, p, "j")]
    block = [f"start = block * {LANES}", f"within = smaller({LANES}, count - start)", *scan.init_block(phase)]
    if phase.scans and scan.in_log_steps(phase):
        block += scan.reset_log_steps(phase)
        store = [line for use in phase.scan_uses for line in scan.to_log_steps(use)]
        block += common_arguments.counted_loop([f"j = {column}", *inputs(roles, p, "j"), *store], "lane", "0", "within")
        inner = [f"j = {column}", *element(roles, p, "j", scan.from_log_steps)]
        block += [*scan.log_steps(phase), *common_arguments.counted_loop([*inner, *folding], "lane", "0", "within")]
    elif phase.scans:
        block += common_arguments.counted_loop([*inner, *folding], "lane", "0", "within")
    else:
        block += loop_splitting.loop(roles.kernel, inner, "lane", "within", reduction_loop(roles.kernel), folding)
    block += scan.finish_block(phase)
    loop = [f"for block in range((count + {LANES - 1}) // {LANES}):", *indented(block)]
    return [*start, *loop, *(reduce.reduce_lanes(phase.folds) if lanes else [])]


def segment_loop(roles: ValueRoles, p: int) -> list[str]:
    """The loop over a segment without scans, reduced in registers."""
    start: list[str] = []
    folding: list[str] = []
    finish: list[str] = []
    for fold in roles.kernel.phases[p].folds:
        if fold in roles.positional(p):
            finish += extrema.first_better(roles, p, fold)
        elif is_float_extremum(fold):
            start += extrema.start(fold, fold.identity[0])
            folding += extrema.accumulate(fold, fold.inputs[0].name)
            finish += extrema.finish(fold)
        else:
            start += reduce.identity(fold)
            folding += reduce.accumulate_register(fold)
    lines = element(roles, p, "j") + extrema.store_searched(roles, p)
    innermost = reduction_loop(roles.kernel)
    return [*start, *loop_splitting.loop(roles.kernel, lines, "j", "count", innermost, folding), *finish]


def reduction_loop(kernel: KernelIR) -> loop_splitting.Innermost:
    """The innermost loop of a phase without scans, in two versions by the range of arguments where that pays."""
    loaded = common_arguments.floats(kernel)
    return lambda lines, index, first, end: common_arguments.short_loop(lines, loaded, index, first, end)


def segment_prologue(roles: ValueRoles, p: int, base: str) -> list[str]:
    """The first column of a segment, its length, base pointers, and loads that are invariant in it."""
    kernel, last = roles.kernel, roles.kernel.axes - 1
    names = {axis: f"i{axis}" for axis in range(kernel.row_axes, last)}
    lines = (
        ["outer = segment // chunks", f"first = (segment - outer * chunks) * {SEGMENT}"]
        if names
        else [f"first = segment * {SEGMENT}"]
    )
    lines.append(f"count = smaller({SEGMENT}, n{last} - first)")
    lines.append(f"flat = {base}outer * n{last} + first" if names else f"flat = {base}first")
    lines += unravel_index("outer", range(kernel.row_axes, last), names) if names else []
    touched = [load.operand for load in roles.loads_of(p)] + [store.operand for store in kernel.phases[p].stores]
    lines += [address(kernel, k, f"c{k}", f"r{k}", {**names, last: "first"}) for k in dict.fromkeys(touched)]
    lines += [load_line(x, f"c{x.operand}", "0") for x in roles.loads_of(p) if stride(kernel, x.operand, last) == "0"]
    used = roles.used(kernel.phases[p])
    return lines + [
        f"{q.value.name} = {q.value.dtype}(i{q.axis})"
        for q in roles.column_positions
        if q.axis != last and q.value.name in used
    ]


def inputs(roles: ValueRoles, p: int, index: str) -> list[str]:
    """Loads, scratch values and indices of one element."""
    kernel, last = roles.kernel, roles.kernel.axes - 1
    used = roles.used(kernel.phases[p])
    lines = []
    for load in roles.loads_of(p):
        if (distance := stride(kernel, load.operand, last)) != "0":
            lines.append(load_line(load, f"c{load.operand}", times(index, distance)))
    lines += [f"{name} = {reduce.get(name, f'flat + {index}')}" for name in roles.scratch_before(p) if name in used]
    for q in roles.column_positions:
        if q.axis == last and q.value.name in used:
            lines.append(f"{q.value.name} = {q.value.dtype}(first + {index})")
    return lines


def element(roles: ValueRoles, p: int, index: str, scan_step=scan.in_row) -> list[str]:
    """Loads, body, scans, stores and scratch values of one element."""
    kernel, last = roles.kernel, roles.kernel.axes - 1
    phase = kernel.phases[p]
    lines = [*inputs(roles, p, index), *phase.element.lines, *scan.element_lines(phase, scan_step)]
    lines += [store_line(x, f"c{x.operand}", times(index, stride(kernel, x.operand, last))) for x in phase.stores]
    lines += sort.store_element(phase, f"flat + {index}")
    lines += [reduce.put(value.name, f"flat + {index}", value.name) for value in roles.scratch_of(p)]
    return lines + [
        line for f in phase.column_reductions for line in reduce.accumulate(f, "line", f"base + flat + {index}")
    ]


def row_epilogue(roles: ValueRoles, p: int) -> list[str]:
    """The row body of a phase and its stores."""
    phase = roles.kernel.phases[p]
    lines = phase.row.lines if phase.row else []
    return lines + [store_line(store, f"r{store.operand}", "0") for store in phase.row_stores]
