"""Kernels to machine code: schedule, generated file, the compiler's real figures; kept in memory and in the cache."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .. import config, debug, logs
from ..backends.cpu.processor import Processor, host
from ..backends.cuda.attention.schedule import schedule_attention
from ..backends.cuda.attention.sm90_schedule import Sm90AttentionSchedule, narrower_schedules, tma_boxes, with_columns
from ..backends.cuda.combo import ComboKernel, ComboSchedule, schedule_combo
from ..backends.cuda.matmul.schedule import schedule_matmul
from ..backends.cuda.rows.looped import prefers_looped
from ..backends.cuda.rows_and_columns.schedule import MixedReductionSchedule
from ..backends.cuda.schedule import LaunchConfig, Schedule, choose, launch_config
from ..errors import CompileError, DeviceError, FusedslError, not_installed
from ..hardware import Hardware, facts
from ..kernel_ir.kernel import KernelIR, Operand
from ..kernel_ir.plan import KernelPlan
from ..lru import LRU, shared
from .bind_shapes import Bound
from .cache import cache_key, disk


@dataclass(frozen=True)
class Built:
    """A compiled kernel: what was chosen, what came out, and where its source stands."""

    kernel: Any  # a Kernel, or a Bundle of some
    schedule: Any  # a Schedule on CUDA, the name of the loops on the CPU
    code: bytes
    symbols: tuple[str, ...]
    source: str
    path: str
    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    blocks: int = 0  # that were asked to fit on an SM: fewer than the schedule says where values would have spilled
    columns: int = 0  # of scores at a time, where values spilled with as many as the schedule says
    cached: bool = False
    entry: str = ""  # its key in the cache


_built: LRU[tuple, Built] = shared(LRU(config.cache_size))
_shipped: dict[str, tuple[dict, bytes]] = {}  # by `plain_key`: what came in files that were loaded
_recorder: ContextVar[dict[str, Built] | None] = ContextVar("fusedsl_recorder", default=None)
_capturing: ContextVar[bool] = ContextVar("fusedsl_capturing", default=False)
_locks: dict[tuple, threading.Lock] = {}
_guard = threading.Lock()


def scheduled_cuda(bound: Bound, hardware: Hardware, flexible: bool = True) -> tuple[KernelIR, Schedule]:
    """The kernel that these extents call for (a row that does not fit is streamed), and how it runs.

    Unless `flexible`, nothing of the schedule is left to the launch: so blocks may stand among those of others.
    """
    kernel, schedule = _scheduled(bound, hardware, flexible)
    return (dataclasses.replace(kernel, pdl=True) if bound.chained else kernel), schedule


def _scheduled(bound: Bound, hardware: Hardware, flexible: bool) -> tuple[KernelIR, Schedule]:
    if bound.kernel.attention is not None:
        attending = schedule_attention(bound.kernel, bound.extents, hardware)
        assert attending is not None
        if not isinstance(attending, Sm90AttentionSchedule):
            return shared_parameters(bound.kernel, attending, bound.extents), attending
        return dataclasses.replace(bound.kernel, tma_boxes=tma_boxes(attending, bound.kernel)), attending
    products = schedule_matmul(bound.kernel, bound.extents, hardware)
    if products is not None:
        return bound.kernel, products
    kernel, streamed = bound.across or (bound.kernel, bound.streamed)
    if streamed is not None and 0 in bound.extents:  # a row of nothing has no register to hold it
        kernel = streamed
    extents = bound.extents
    if kernel.column_epilogue is None:  # without rows there is no launch: what is said of it is what one row would take
        extents = (*(max(1, n) for n in extents[: kernel.row_axes]), *extents[kernel.row_axes :])
    if streamed is not None and prefers_looped(streamed, extents, hardware):
        kernel = streamed
    schedule = choose(kernel, extents, hardware, flexible)
    if not getattr(schedule, "resident", True) and streamed is not None and kernel.resident:
        kernel = streamed
        schedule = choose(kernel, extents, hardware)
    return shared_parameters(kernel, schedule, bound.extents), schedule


def shared_parameters(kernel: KernelIR, schedule: Schedule, extents: tuple[int, ...]) -> KernelIR:
    """The kernel with what its blocks share in global memory among its parameters."""
    needs = launch_config(schedule, kernel, extents)
    return dataclasses.replace(kernel, workspace=needs.workspace > 0, semaphores=needs.semaphores > 0)


Chosen = Sequence[tuple[KernelIR, Any]]
"""Kernels with their schedules."""


def scheduled_together(
    members: Sequence[tuple[KernelPlan, Bound]], chosen: Chosen, hardware: Hardware
) -> tuple[ComboKernel, ComboSchedule] | None:
    """Kernels that are to share a launch; None where the blocks of one of them know of each other."""
    chosen = [
        scheduled_cuda(bound, hardware, False) if getattr(schedule, "room", 0) else (kernel, schedule)
        for (kernel, schedule), (_, bound) in zip(chosen, members)
    ]
    needs = (launch_config(schedule, kernel, bound.extents) for (kernel, schedule), (_, bound) in zip(chosen, members))
    if not all(need.independent for need in needs):
        return None
    bundle = ComboKernel(tuple(dataclasses.replace(kernel, is_subkernel=True) for kernel, _ in chosen))
    return bundle, schedule_combo(bundle.kernels, [schedule for _, schedule in chosen], hardware)


def scheduled_cpu(bound: Bound) -> tuple[KernelIR, str]:
    """The kernel of these extents and strides on a CPU, less what matters on CUDA alone, and the name of its loops."""
    from ..backends.cpu import schedule as cpu_schedule

    return plain_kernel(bound.kernel), cpu_schedule.choose(bound.kernel, bound.extents, bound.strides)


def plain_kernel(kernel: KernelIR) -> KernelIR:
    """A kernel without what no loops of the CPU ask for: how wide accesses and offsets may be."""
    operands = tuple(Operand(o.name, o.dtype, o.strides, rank=o.rank) for o in kernel.operands)
    return dataclasses.replace(kernel, operands=operands, index64=False, lengths=(), pdl=False)


def build_cuda(bound: Bound, digest: str, cc: tuple[int, int], hardware: Hardware | None = None) -> Built:
    """The kernel of these extents for one compute capability; compiles where neither memory nor disk has it."""
    return build_scheduled(*scheduled_cuda(bound, hardware or facts(cc)), digest, cc)


def cuda_key(
    kernel: KernelIR | ComboKernel, schedule: Schedule | ComboSchedule, digest: str, cc: tuple[int, int]
) -> tuple:
    """What the machine code of a scheduled kernel depends on."""
    return ("cuda", cc, digest, _unnumbered(kernel.name), _shape_of(kernel), _fields(schedule))


def build_scheduled(kernel: KernelIR | ComboKernel, schedule: Any, digest: str, cc: tuple[int, int]) -> Built:
    """A scheduled kernel, compiled where neither memory nor disk has it."""
    key = cuda_key(kernel, schedule, digest, cc)

    def make() -> Built:
        return _load(key, kernel, schedule) or _compile_cuda(kernel, schedule, cc, key)

    return _once(key, make, kernel, schedule)


def build_cpu(bound: Bound, digest: str) -> Built:
    """The kernel of these extents and strides for this CPU."""
    return build_loops(*scheduled_cpu(bound), digest, host())


def cpu_key(kernel: KernelIR, chosen: str, digest: str, processor: Processor) -> tuple:
    """What the machine code of a kernel and its loops depends on."""
    return ("cpu", processor.tag, digest, _unnumbered(kernel.name), _shape_of(kernel), chosen)


def build_loops(kernel: KernelIR, chosen: str, digest: str, processor: Processor) -> Built:
    """A kernel with its loops as object code for a processor, compiled where neither memory nor disk has it."""
    key = cpu_key(kernel, chosen, digest, processor)

    def make() -> Built:
        return _load(key, kernel, chosen) or _compile_cpu(kernel, chosen, processor, key)

    return _once(key, make, kernel, chosen)


def source_of(kernel: Any, schedule: Any) -> str:
    """The generated file of a scheduled kernel; needs no compiler and no GPU."""
    if isinstance(schedule, str):
        from ..backends.cpu import backend

        return backend.generate(kernel, schedule)[0]
    from ..backends.cuda import compile as cuda

    return cuda.generate(kernel, schedule)


def launch_geometry(built: Built, extents: tuple[int, ...]) -> LaunchConfig:
    """The grid of a CUDA launch, and what its blocks share."""
    return launch_config(built.schedule, built.kernel, extents)


def _unnumbered(name: str) -> str:
    """A kernel's name without its place in the program: kernels that are alike are one binary, under its first name."""
    return name.rstrip("0123456789")


def _shape_of(kernel: KernelIR | ComboKernel) -> tuple:
    """What of a kernel its digest does not say: axes, stride letters, accesses, and its phases' kind."""
    if isinstance(kernel, ComboKernel):
        return tuple(map(_shape_of, kernel.kernels))
    operands = tuple((o.dtype.name, o.strides, o.access, o.rank) for o in kernel.operands)
    positions = tuple(p.axis for p in kernel.positions)
    flags = (kernel.resident, kernel.index64, kernel.row_vector_width, kernel.workspace, kernel.semaphores)
    shared = (kernel.is_subkernel, kernel.batched, kernel.constant_scalars, kernel.lengths, kernel.tma_boxes, kernel.pdl)
    return (kernel.row_axes, kernel.column_axes, operands, positions, *flags, *shared)


def _fields(schedule: Any) -> tuple:
    """A schedule as it enters a key: everything but its reason and its estimate."""
    if isinstance(schedule, ComboSchedule):
        return ("bundle", schedule.threads, schedule.blocks, *map(_fields, schedule.members))
    schedule = getattr(schedule, "binary", schedule)
    return (type(schedule).__name__,) + tuple(
        getattr(schedule, f.name) for f in dataclasses.fields(schedule) if f.compare
    )


def _once(key: tuple, make, kernel: Any, schedule: Any) -> Built:
    """The built kernel of this key; threads that ask at once wait for one compilation."""
    found = _built.get(key)
    if found is None:
        with _guard:
            lock = _locks.setdefault(key, threading.Lock())
        with lock:
            found = _built.get(key)
            if found is None:
                found = _built.put(key, dataclasses.replace(make(), entry=cache_key(kernel=repr(key))))
                debug.say(
                    debug.KERNELS, f"kernel {kernel.name} for {key[0]}", getattr(schedule, "reason", str(schedule))
                )
                debug.say(debug.SOURCES, found.path, found.source)
        _locks.pop(key, None)
    if (kept := _recorder.get()) is not None:
        kept[plain_key(key)] = found
    if found.columns:
        kernel, schedule = with_columns(kernel, schedule, found.columns)
    return dataclasses.replace(found, kernel=kernel, schedule=schedule)


@contextlib.contextmanager
def recorded() -> Iterator[dict[str, Built]]:
    """Every kernel that is built, or found built, inside the block in this thread or task, by `plain_key`."""
    kept: dict[str, Built] = {}
    token = _recorder.set(kept)
    try:
        yield kept
    finally:
        _recorder.reset(token)


@contextlib.contextmanager
def during_capture() -> Iterator[None]:
    """Inside the block it is a DeviceError if something must be compiled for CUDA, which no graph would hold."""
    token = _capturing.set(True)
    try:
        yield
    finally:
        _capturing.reset(token)


def plain_key(key: tuple) -> str:
    """A digest of what the machine code of a kernel depends on, but for the versions that made it."""
    return hashlib.sha256(repr(key).encode()).hexdigest()


# -- what was compiled elsewhere, or before


def shipped(key: tuple) -> bool:
    """Whether the machine code of this key came in a file."""
    return bool(_shipped) and plain_key(key) in _shipped


def ship(plain: str, told: dict, code: bytes) -> None:
    """Machine code that came in a file: found where the kernel would be compiled."""
    _shipped[plain] = (told, code)


def facts_of(built: Built) -> dict[str, Any]:
    """What is kept of a compiled kernel beside its machine code, as JSON can hold it."""
    figures = [built.registers, built.spill_bytes, built.shared_bytes, built.blocks, built.columns]
    return {"symbols": list(built.symbols), "source": built.source, "path": built.path, "figures": figures}


def _load(key: tuple, kernel: Any, schedule: Any) -> Built | None:
    entry = _shipped.get(plain_key(key)) or disk().get(cache_key(kernel=repr(key)))
    return None if entry is None else stored_build(entry, kernel, schedule)


def stored_build(entry: tuple[Mapping[str, Any], bytes], kernel: Any, schedule: Any) -> Built | None:
    """A kernel as `facts_of` and its machine code tell of it; None where they do not."""
    told, code = entry
    try:
        symbols, source, path = tuple(told["symbols"]), told["source"], told["path"]
        registers, spills, shared, blocks, columns = told["figures"]
        figures = (registers, spills, shared, blocks, columns)
        return Built(kernel, schedule, code, symbols, source, path, *figures, cached=True)
    except (KeyError, TypeError, ValueError):
        return None


def _keep(key: tuple, built: Built) -> Built:
    disk().put(cache_key(kernel=repr(key)), facts_of(built), built.code)
    return built


def _file_name(key: tuple) -> str:
    return f"{key[3]}_{key[0]}_{cache_key(kernel=repr(key))[:12]}"


# -- compilers


def _compile_cuda(kernel: Any, schedule: Any, cc: tuple[int, int], key: tuple) -> Built:
    if _capturing.get():
        help = "call it once before the capture, or Kernel.compile(...), with arrays of these shapes"
        raise DeviceError(f"{kernel.name} is not compiled yet, and a CUDA graph is being captured", "device.capture",
                          help=help)  # fmt: skip
    logs.compiling(kernel.name, f"sm_{cc[0]}{cc[1]}")
    built = _compiled(kernel, schedule, cc, _file_name(key))
    for number, (less, columns) in enumerate(_lighter(kernel, schedule)):
        if not built.spill_bytes:
            break
        other = _compiled(*less, cc, f"{_file_name(key)}_{columns or number}")
        if other.spill_bytes < built.spill_bytes:
            built = dataclasses.replace(other, columns=columns)
    return _keep(key, built)


def _lighter(kernel: Any, schedule: Any) -> Iterator[tuple[tuple[Any, Any], int]]:
    """What holds fewer values in registers, for a kernel that spills: the kernel with its schedule, and the scores that
    it takes at a time, if these are fewer. All else of a launch is the same."""
    if isinstance(schedule, Sm90AttentionSchedule):
        for less in narrower_schedules(kernel, schedule):
            yield less, less[1].columns
    if isinstance(schedule, MixedReductionSchedule) and schedule.hoisted:
        yield (kernel, dataclasses.replace(schedule, hoisted=())), 0


def _compiled(kernel: Any, schedule: Any, cc: tuple[int, int], name: str) -> Built:
    """A kernel's generated file, which is put on disk under this name, and its machine code."""
    from ..backends.cuda import compile as cuda

    source = cuda.generate(kernel, schedule)
    path = disk().write_source(name, source)
    compiled = _attempt(lambda chosen: cuda.compile_source(source, path, kernel, chosen, cc), schedule, path)
    figures = (compiled.registers, compiled.spill_bytes, compiled.shared_bytes, compiled.blocks)
    return Built(kernel, schedule, compiled.code, (compiled.function,), source, path, *figures)


def _compile_cpu(kernel: KernelIR, chosen: str, processor: Processor, key: tuple) -> Built:
    from ..backends.cpu import backend

    logs.compiling(kernel.name, "the CPU")
    source, _ = backend.generate(kernel, chosen, processor)
    path = disk().write_source(_file_name(key), source)
    compiled = _attempt(lambda c: backend.compile_source(source, path, kernel, c, processor), chosen, path)
    return _keep(key, Built(kernel, chosen, compiled.object_bytes, compiled.symbols, source, path))


def _attempt(compiler, chosen: Any, path: str):
    """Run a compiler; whatever it raises becomes a CompileError that names the generated file, or what is missing."""
    try:
        with logs.silenced():
            return compiler(chosen)
    except FusedslError:
        raise
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from None
    except Exception as fault:
        help = f"the generated source is {path}; please report it with the text of the kernel"
        raise CompileError(f"the generated kernel does not compile: {fault}", "compile.kernel", help=help) from fault
