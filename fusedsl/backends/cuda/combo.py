"""Several kernels in one launch: each has blocks of its own, and the threads that the largest of them needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...hardware import Hardware, blocks_for
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.launch_config import LaunchConfig
from ...kernel_ir.parameter_layout import KernelParam, kernel_params
from ...kernel_ir.register_pressure import Tiling, required_registers
from .elementwise.schedule import ElementwiseSchedule
from .rows.schedule import WARP, RowSchedule
from .schedule_base import Schedule

LOADS = 32 << 10  # bytes in flight on an SM with which maps run at copy speed
MOST_VECTORS = 4  # of a thread


@dataclass(frozen=True)
class ComboKernel:
    """Kernels that share a launch, all of them subkernels."""

    kernels: tuple[KernelIR, ...]

    @property
    def name(self) -> str:
        """The first kernel's name, and how many others there are."""
        return f"{self.kernels[0].name}_and_{len(self.kernels) - 1}"

    @property
    def header(self) -> tuple[str, ...]:
        """The program that they are of."""
        return self.kernels[0].header

    @property
    def params(self) -> tuple[tuple[int, KernelParam], ...]:
        """(kernel, slot) in the order of the parameter block, as in `kernel.slots`: pointers, numbers, scalars.

        Behind the numbers of all kernels stands, for each but the first, the number of its first block: Slot "first".
        """
        params = [(k, param) for k, kernel in enumerate(self.kernels) for param in kernel_params(kernel)]
        part = {"pointer": 0, "workspace": 0, "semaphores": 0, "scalar": 2}
        first = [(k, KernelParam("first", k)) for k in range(1, len(self.kernels))]
        pointers, numbers, scalars = ([x for x in params if part.get(x[1].kind, 1) == n] for n in range(3))
        return (*pointers, *numbers, *first, *scalars)


@dataclass(frozen=True)
class ComboSchedule(Schedule):
    """Schedules of a combo kernel's members, on blocks of `threads`, of which `blocks` are to fit on an SM."""

    members: tuple[Schedule, ...]
    threads: int
    blocks: int

    @property
    def block_threads(self) -> int:
        return self.threads

    @property
    def compile_key(self) -> tuple:
        return ("bundle", self.threads, self.blocks, *(member.compile_key for member in self.members))


def combo_launch_configs(
    bundle: ComboKernel, schedule: ComboSchedule, extents: Sequence[tuple[int, ...]]
) -> tuple[LaunchConfig, list[LaunchConfig]]:
    """The launch of a bundle over the extents of its kernels, and what each kernel has of it."""
    each = [s.launch(kernel, n) for s, kernel, n in zip(schedule.members, bundle.kernels, extents)]
    blocks, shared = sum(config.blocks for config in each), max(config.shared for config in each)
    return LaunchConfig(
        blocks, schedule.threads, shared, programmatic_launch=any(config.programmatic_launch for config in each)
    ), each


def _widened(kernel: KernelIR, schedule: ElementwiseSchedule, threads: int, blocks: int) -> ElementwiseSchedule:
    """A map's schedule on so many threads a block and blocks an SM."""
    read = [o for o in kernel.operands[: kernel.inputs] if "0" not in o.strides] or kernel.operands[:1]
    vector = schedule.width * sum(o.dtype.itemsize for o in read)
    vectors = schedule.vectors
    while vectors < MOST_VECTORS and blocks * threads * vectors * vector < LOADS:
        vectors *= 2
    if vectors == schedule.vectors:
        return replace(schedule, threads=threads)
    registers = required_registers(kernel, Tiling(schedule.width, vectors))
    return replace(schedule, threads=threads, vectors=vectors, registers=max(registers, schedule.registers))


def _in_whole_warps(schedule: Schedule) -> Schedule:
    """Rows of whole warps: threads of one that are not of a part would part from those that meet in it."""
    if not isinstance(schedule, RowSchedule) or schedule.block_threads % WARP == 0:
        return schedule
    return replace(schedule, rows=max(schedule.block_threads // WARP, 1) * WARP // schedule.threads)


def schedule_combo(kernels: Sequence[KernelIR], schedules: Sequence[Schedule], hardware: Hardware) -> ComboSchedule:
    """The schedules of kernels as they run in one launch.

    Maps take blocks as large as the others'; where another one's registers leave room for few blocks, a thread of
    theirs takes more vectors, so that as many loads are in flight.
    """
    schedules = [_in_whole_warps(s) for s in schedules]
    threads = max(s.most_threads for s in schedules)
    blocks = blocks_for(hardware, max(s.registers for s in schedules), threads)
    members = tuple(
        _widened(kernel, s, threads, blocks) if isinstance(s, ElementwiseSchedule) else s
        for kernel, s in zip(kernels, schedules)
    )
    registers = max(s.registers for s in members)
    blocks = blocks_for(hardware, registers, threads)
    parts = "; ".join(s.reason for s in members)
    reason = f"{len(members)} kernels in one launch, on blocks of {threads} threads: {parts}"
    return ComboSchedule(members, threads, blocks, reason=reason, registers=registers)
