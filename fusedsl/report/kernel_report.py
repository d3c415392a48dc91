"""The facts of one launch as data: reads, writes, instructions, schedule, resources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..backends.cuda.combo import combo_launch_configs
from ..backends.cuda.rows.smem import SmemRowSchedule, smem_copied_operands
from ..errors import singular
from ..fusion.roofline import LAUNCH, seconds
from ..hardware import Hardware, occupancy, registers_for
from ..ir.dims import evaluate
from ..kernel_ir.kernel import AttentionKernel, KernelIR
from ..kernel_ir.plan import KernelPlan
from ..program.autotune import Trial, TuningResult, tuning_result
from ..program.kernel_launch import KernelLaunch
from ..program.kernel_work import instruction_totals, kernel_work
from ..program.library_product import LibraryProduct
from ..program.resolve_call import Members, ResolvedCall
from ..runtime.bound_kernel import BoundKernel
from ..runtime.compile import scheduled_cuda
from ..runtime.run_compilers import CompiledKernel
from .kernel_formulas import array_name, kernel_formulas
from .units import plural

CPU_LOOPS = {
    "map": "one loop over elements, in chunks that threads share",
    "tiles": "blocks of two axes, because an array runs across the others",
    "rows": "row by row, every phase over a row that stays in the cache",
    "rows and columns": "parts of the rows, each with a state for every column; then the parts merged",
    "sorted": "rows that NumPy sorts in memory: a loop stores them, another reads their ranks",
    "split": "few long rows, cut into parts that threads share",
    "scatter": "values merged at computed places, in order",
    "runs": "places that do not decrease: blocks of one place are folded in vector lanes, and each place written once",
    "scan": "few long rows, cut into parts that threads share: their states first, then their prefixes",
    "matmul": "matrix product: blocks of both factors packed in the cache, tiles of sums in vector registers",
    "attention": "rows in vector lanes, a tile of scores after the other; no score is stored",
    "short": "rows in vector lanes, a row's few elements one after another",
    "strips": "neighbouring rows side by side in vector lanes",
}


@dataclass(frozen=True)
class Access:
    """An array that a kernel reads or writes, and the bytes that move: each element once a pass.

    `kind` is argument, result or temporary, `index` its number among those; `array` is its name.
    """

    array: str
    kind: str
    index: int
    type: str
    bytes: int
    passes: int = 1


@dataclass(frozen=True)
class Figures:
    """The compiler's figures of a CUDA kernel; `occupancy` is the share of an SM's threads."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    blocks_per_sm: int
    occupancy: float
    limiter: str


@dataclass(frozen=True)
class KernelReport:
    """One launch. Registers and, but for a product by a library, `seconds` are None on the CPU; `figures` also if
    nothing was compiled.

    `measured_seconds` is None unless it is measured. For a tuned kernel, `tried` are the schedules that were tried
    beside the first choice, which took `untuned_seconds`.
    """

    name: str
    members: tuple[str, ...]
    iteration: str
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    bytes: int
    instructions: int
    schedule: str
    blocks: int | None = None
    threads: int | None = None
    seconds: float | None = None
    predicted_registers: int | None = None
    figures: Figures | None = None
    measured_seconds: float | None = None
    untuned_seconds: float | None = None
    tried: tuple[Trial, ...] = ()


def report_launch(
    call: ResolvedCall, members: Members, built: CompiledKernel | None, measured: float | None = None
) -> KernelReport:
    """The facts of one launch; `built` adds the compiler's figures, `measured` its seconds."""
    if len(members) == 1:
        return _report_kernel(call, *members[0], built, measured)
    hardware, reports = call.target.hardware, [_report_kernel(call, plan, bound, None) for plan, bound in members]
    together = call.combo(members)
    assert hardware is not None and together is not None
    launch, _ = combo_launch_configs(*together, [bound.extents for _, bound in members])
    why, registers = _schedule_reason(together[1], launch.threads, built, hardware)
    return KernelReport(
        " and ".join(report.name for report in reports),
        tuple(member for report in reports for member in report.members),
        " and ".join(report.iteration for report in reports),
        tuple(access for report in reports for access in report.reads),
        tuple(access for report in reports for access in report.writes),
        sum(report.bytes for report in reports),
        sum(report.instructions for report in reports),
        why,
        launch.blocks,
        launch.threads,
        LAUNCH + sum((report.seconds or LAUNCH) - LAUNCH for report in reports),
        registers,
        None if built is None else figures_of(call, members, built),
        measured,
    )


def _report_kernel(
    call: ResolvedCall,
    plan: KernelPlan,
    bound: BoundKernel,
    built: CompiledKernel | None,
    measured: float | None = None,
) -> KernelReport:
    """The facts of one kernel; `built` adds the compiler's figures, `measured` the seconds of a launch."""
    kernel, schedule = call.scheduled(plan, bound)
    in_smem = smem_copied_operands(kernel) if isinstance(schedule, SmemRowSchedule) else []
    passes = [1 if kernel.resident or k in in_smem else _passes(kernel, k) for k in range(plan.inputs)]
    reads = _accesses(call, plan, bound, kernel, range(plan.inputs), passes)
    writes = _accesses(call, plan, bound, kernel, range(plan.inputs, len(plan.arrays)))
    moved = sum(a.bytes for a in (*reads, *writes))
    issued = round(instruction_totals(kernel, bound)[0])
    common = (plan.name, kernel_formulas(call, plan), _iteration(bound, kernel), reads, writes, moved)
    hardware = call.target.hardware
    by_library = call.library_product(plan, bound)
    if isinstance(by_library, LibraryProduct):
        why = f"by the library ({by_library.name}): {by_library.reason}"
        return KernelReport(*common, issued, why, seconds=by_library.seconds, measured_seconds=measured)
    if hardware is None:
        loops = CPU_LOOPS.get(schedule.partition(":")[0]) or schedule
        return KernelReport(*common, issued, loops + _mask_note(kernel), measured_seconds=measured)
    priced = KernelLaunch(kernel, schedule, bound)
    launch = priced.config
    read, written = [(a.bytes, a.passes) for a in reads], sum(a.bytes for a in writes)
    numbers = {use.value.name: evaluate(use.source, call.extents) for use in plan.scalars if use.kind == "extent"}
    work = kernel_work(priced, hardware, read, written, numbers)
    issued = round(work.instructions) if isinstance(kernel, AttentionKernel) else issued  # tensor cores do the rest
    time = 0.0 if bound.empty else seconds(work, hardware)
    figures = None if built is None else figures_of(call, [(plan, bound)], built)
    why, registers = _schedule_reason(schedule, launch.threads, built, hardware)
    why += _mask_note(kernel) + _unknown_note(kernel)
    tuned = _tuned(call, plan, bound)
    tried = (None, ()) if tuned is None else (tuned.seconds, tuned.trials)
    return KernelReport(*common, issued, why, launch.blocks, launch.threads, time, registers, figures, measured, *tried)


def _mask_note(kernel: KernelIR) -> str:
    """The note on how the block mask is evaluated."""
    summary = kernel.attention.mask_summary if isinstance(kernel, AttentionKernel) else ""
    return f"; {summary}" if summary else ""


def _unknown_note(kernel: KernelIR) -> str:
    """The note on what the time model does not know."""
    mask = kernel.attention.block_mask if isinstance(kernel, AttentionKernel) else None
    if mask is None or not mask.bounds:
        return ""
    return "; which ones arrays leave out is not known here: the time is that of all the others"


def _schedule_reason(schedule: Any, threads: int, built: CompiledKernel | None, hardware: Hardware) -> tuple[str, int]:
    """(the schedule's reason, registers at most); after a spill, with the smaller launch bound or columns."""
    why = singular(schedule.reason)
    if built is not None and built.columns:
        return f"{why}; so many spilled, and {built.columns} are taken at a time", schedule.registers
    if built is None or not 0 < built.blocks < schedule.blocks:
        return why, schedule.registers
    fewer = f"; so many spilled, and {plural(built.blocks, 'block')} an SM are asked for"
    return why + fewer, registers_for(hardware, built.blocks, threads)


def _tuned(call: ResolvedCall, plan: KernelPlan, bound: BoundKernel) -> TuningResult | None:
    """The tuning result of a kernel, if the program is tuned and this kernel has been."""
    hardware = call.target.hardware
    if hardware is None or not call.plans.options.tunes:
        return None
    return tuning_result(plan, *scheduled_cuda(bound, hardware, False), hardware)


def figures_of(call: ResolvedCall, members: Members, built: CompiledKernel) -> Figures:
    """Registers, spills, shared memory and occupancy of a compiled CUDA launch."""
    assert call.target.hardware is not None
    extents = [bound.extents for _, bound in members]
    if len(extents) > 1:
        launch, _ = combo_launch_configs(built.kernel, built.schedule, extents)
    else:
        launch = built.schedule.launch(built.kernel, extents[0])
    shared = built.shared_bytes + launch.shared
    fits = occupancy(call.target.hardware, built.registers, launch.threads, shared)
    return Figures(built.registers, built.spill_bytes, shared, fits.blocks, round(fits.share, 4), fits.limiter)


# -- arrays


def _accesses(
    call: ResolvedCall,
    plan: KernelPlan,
    bound: BoundKernel,
    kernel: KernelIR,
    operands: Iterable[int],
    passes: Sequence[int] = (),
) -> tuple[Access, ...]:
    """The arrays of these operands, each once, whatever views read it."""
    operands_of: dict[tuple[str, int], list[int]] = {}
    for k in operands:
        operands_of.setdefault((plan.arrays[k].kind, plan.arrays[k].index), []).append(k)
    return tuple(_access(call, plan, bound, kernel, views, passes) for views in operands_of.values())


def _access(
    call: ResolvedCall,
    plan: KernelPlan,
    bound: BoundKernel,
    kernel: KernelIR,
    views: Sequence[int],
    passes: Sequence[int],
) -> Access:
    """The bytes of an array that is read by these views: no more than all its elements, once a pass."""
    use = plan.arrays[views[0]]
    shape = list(call.shape_of(use))
    times = [passes[k] if passes else 1 for k in views]
    seen = [0 if bound.empty else _elements(call, plan, bound, kernel, k) for k in views]
    moved = sum(count * each for count, each in zip(seen, times))
    if len(views) > 1:
        moved = min(moved, prod(shape) * max(times))
    kind = f"{use.dtype}{shape}"
    return Access(array_name(call, use), use.kind, use.index, kind, moved * use.dtype.itemsize, max(times))


def _elements(call: ResolvedCall, plan: KernelPlan, bound: BoundKernel, kernel: KernelIR, k: int) -> int:
    """How many elements of an operand a kernel reads or writes."""
    use = plan.arrays[k]
    if use.gathered is not None:
        axes = (*plan.rows, *plan.columns, *plan.ranks)
        return min(prod(evaluate(axes[a], call.extents) for a in use.gathered), prod(call.shape_of(use)))
    if bound.images and (image := bound.images[k]) is not None:
        return prod(image.extents)
    elements = prod(n for n, stride in zip(bound.extents, bound.strides[k]) if stride)
    ranks = prod(evaluate(d, call.extents) for d in plan.ranks)
    return elements * ranks if kernel.operands[k].rank else elements


def _passes(kernel: KernelIR, operand: int) -> int:
    """How often a looped row is read."""
    names = {load.value.name for load in kernel.loads if load.operand == operand}
    reads = [any(v.name in names for part in phase.passes for v in part.element.args) for phase in kernel.phases]
    return sum(reads) or 1


# -- work


def _iteration(bound: BoundKernel, kernel: KernelIR) -> str:
    rows, columns = prod(bound.extents[: kernel.row_axes]), prod(bound.extents[kernel.row_axes :])
    if isinstance(kernel, AttentionKernel):
        columns, wide = bound.extents[kernel.row_axes], sorted({s.axis for s in kernel.attention.scores})
        products = " and ".join(f"{bound.extents[axis]:,}" for axis in wide)
        return f"{rows:,} rows × {columns:,} scores of {products} products"
    if kernel.phases[-1].folds or kernel.row_axes or bound.looped is not None:
        return f"{rows:,} row{'s' * (rows != 1)} × {columns:,} columns"
    return f"{columns:,} element{'s' * (columns != 1)}"
