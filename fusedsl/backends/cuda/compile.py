"""Compilation of a kernel: its generated source file, and from that machine code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...generated_code import syntax_tree
from ...hardware import Hardware, hardware_facts, registers_for
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.parameter_layout import kernel_params
from .attention.mma_emit import emit_mma
from .attention.mma_schedule import MmaAttentionSchedule
from .attention.sm90_emit import emit_sm90
from .attention.sm90_schedule import Sm90AttentionSchedule
from .batched_emit import emit_batched
from .columns.emit import emit_columns
from .columns.layout import ColumnSchedule, LoopedColumnSchedule
from .combo import ComboKernel, ComboSchedule
from .combo_emit import emit_combo
from .compiler.cuda_binary import CudaBinary
from .compiler.wrapping_integers import wrapping
from .elementwise.broadcast_schedule import BroadcastSchedule
from .elementwise.emit import emit_elementwise
from .elementwise.flat_emit import emit_flat
from .elementwise.schedule import ElementwiseSchedule, FlatSchedule
from .elementwise.transpose_emit import emit_transpose
from .elementwise.transpose_schedule import TransposeSchedule
from .matmul.emit import emit_matmul
from .matmul.mma_emit import emit_mma_matmul
from .matmul.mma_schedule import MmaMatmulSchedule
from .matmul.schedule import MatmulSchedule
from .matmul.sm90.emit import emit_sm90 as emit_sm90_matmul
from .matmul.sm90.layout import Sm90MatmulSchedule
from .radix_select.emit import emit_selection
from .radix_select.schedule import SelectSchedule
from .rows.cooperative import CooperativeSchedule
from .rows.emit import emit_rows
from .rows.emit_cooperative import emit_cooperative, emit_two_pass_scan
from .rows.emit_persistent import emit_persistent
from .rows.persistent_cluster import PersistentClusterSchedule
from .rows.schedule import LoopedRowSchedule, ResidentRowSchedule
from .rows.smem import SmemRowSchedule
from .rows_and_columns.emit import emit_rows_and_columns
from .rows_and_columns.schedule import RowColumnSchedule
from .scan.schedule import LookbackSchedule, TwoPassScanSchedule
from .scatter.emit import emit_ordered_scatter, emit_private_scatter, emit_private_sums, emit_scatter
from .scatter.schedule import OrderedScatterSchedule, PrivateScatterSchedule, PrivateSumSchedule, ScatterSchedule
from .schedule_base import Schedule
from .skinny.emit import emit_skinny
from .skinny.schedule import SkinnySchedule
from .small_matmul.emit import emit_small
from .small_matmul.schedule import SmallMatmulSchedule
from .sort.onesweep_emit import emit_radix_sort
from .sort.onesweep_schedule import RadixSortSchedule
from .sort.schedule import SortSchedule
from .sort.split_topk_emit import emit_split_topk
from .sort.split_topk_schedule import SplitTopKSchedule

EMITTERS: dict[type, Callable[[Any, Any], str]] = {
    ElementwiseSchedule: emit_elementwise,
    FlatSchedule: emit_flat,
    BroadcastSchedule: emit_elementwise,
    TransposeSchedule: emit_transpose,
    **dict.fromkeys((ResidentRowSchedule, SmemRowSchedule, LoopedRowSchedule), emit_rows),
    **dict.fromkeys((LookbackSchedule, SortSchedule), emit_rows),
    TwoPassScanSchedule: emit_two_pass_scan,
    RadixSortSchedule: emit_radix_sort,
    SelectSchedule: emit_selection,
    ScatterSchedule: emit_scatter,
    OrderedScatterSchedule: emit_ordered_scatter,
    PrivateScatterSchedule: emit_private_scatter,
    PrivateSumSchedule: emit_private_sums,
    SplitTopKSchedule: emit_split_topk,
    PersistentClusterSchedule: emit_persistent,
    CooperativeSchedule: emit_cooperative,
    **dict.fromkeys((ColumnSchedule, LoopedColumnSchedule), emit_columns),
    RowColumnSchedule: emit_rows_and_columns,
    MatmulSchedule: emit_matmul,
    MmaMatmulSchedule: emit_mma_matmul,
    Sm90MatmulSchedule: emit_sm90_matmul,
    SkinnySchedule: emit_skinny,
    SmallMatmulSchedule: emit_small,
    Sm90AttentionSchedule: emit_sm90,
    MmaAttentionSchedule: emit_mma,
}


@dataclass(frozen=True)
class Compiled(CudaBinary):
    """Machine code of a generated file, with the blocks that fit on an SM."""

    blocks: int  # that were asked to fit on an SM


def generate(kernel: KernelIR | ComboKernel, schedule: Schedule) -> str:
    """The source text of a kernel's file; it needs no Numba."""
    if isinstance(kernel, ComboKernel):
        assert isinstance(schedule, ComboSchedule)
        parts = [generate(part, member) for part, member in zip(kernel.kernels, schedule.members)]
        return emit_combo(parts, kernel, schedule)
    source = EMITTERS[type(schedule)](kernel, schedule)
    return emit_batched(source, kernel) if kernel.batched is not None else source


def lowered(source: str, path: str, kernel: Any, schedule: Schedule, cc: tuple[int, int], blocks: int = 0) -> bytes:
    """LTO-IR of a generated file; `path` is where the source was written, for tracebacks."""
    from .compiler import frontend, numba_backend
    from .compiler.namespace import namespace
    from .math.fastmath import approximated, approximations

    names: dict[str, Any] = {"__builtins__": {}, "__name__": "fusedsl.generated", **namespace()}
    tree = wrapping(syntax_tree(source, path))
    if kernel.kernels[0].fastmath if isinstance(kernel, ComboKernel) else kernel.fastmath:
        tree, names = approximated(tree), names | approximations()
    exec(compile(tree, path, "exec"), names)
    param_types = [numba_backend.types.int64] * len(
        kernel.params if isinstance(kernel, ComboKernel) else kernel_params(kernel)
    )
    if isinstance(kernel, KernelIR) and kernel.batched is not None:
        param_types = [numba_backend.Words(kernel.batched.words)]
    launch_bounds = (schedule.most_threads, blocks or schedule.blocks)
    with contextlib.suppress(frontend.UnsupportedForm):
        return frontend.lowered(tree, names, param_types, cc, launch_bounds)
    return numba_backend.lower(names["kernel"], param_types, cc, launch_bounds, frontend.wants_lineinfo())


def _lower_occupancy(hardware: Hardware, blocks: int, threads: int, spilled: int) -> int:
    """The next lower number of blocks per SM that frees half of the spilled registers per thread, or more."""
    now = registers_for(hardware, blocks, threads)
    least = now + max(1, min(spilled // 8, hardware.thread_registers - now))
    return next((b for b in range(blocks - 1, 0, -1) if registers_for(hardware, b, threads) >= least), 1)


def compile_source(source: str, path: str, kernel: Any, schedule: Schedule, cc: tuple[int, int]) -> Compiled:
    """Machine code of a generated file, for this compute capability; needs no GPU.

    If values spill at the blocks per SM of the schedule, fewer are used; but not with grid_sync, as all blocks have to
    be resident.
    """
    from .compiler import linker

    blocks, threads = schedule.blocks, schedule.most_threads
    while True:
        linked = linker.link(lowered(source, path, kernel, schedule, cc, blocks), cc)
        if not linked.spill_bytes or blocks == 1 or schedule.grid_sync:
            return Compiled(**vars(linked), blocks=blocks)
        blocks = _lower_occupancy(hardware_facts(cc), blocks, threads, linked.spill_bytes)


def ptx(source: str, path: str, kernel: Any, schedule: Schedule, cc: tuple[int, int]) -> str:
    """The PTX of a generated file, to look at."""
    from .compiler import linker

    return linker.ptx(lowered(source, path, kernel, schedule, cc), cc)


def ptx_and_cubin(
    source: str, path: str, kernel: Any, schedule: Schedule, cc: tuple[int, int], blocks: int
) -> tuple[str, bytes]:
    """(PTX, machine code) of a generated file with the file's lines, to look at; `blocks` as in `lowered`."""
    from .compiler import frontend, linker

    with frontend.source_lines():
        ltoir = lowered(source, path, kernel, schedule, cc, blocks)
    return linker.ptx_and_cubin(ltoir, cc)
