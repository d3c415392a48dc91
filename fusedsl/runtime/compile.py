"""Kernels to machine code: schedule, generated file, compiler, cache in memory and on disk."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from .. import compile_hooks, config, debug, metric_counts
from ..backends.cpu.processor import Processor, host
from ..backends.cuda.attention.schedule import schedule_attention
from ..backends.cuda.attention.sm90_schedule import Sm90AttentionSchedule, with_columns
from ..backends.cuda.combo import ComboKernel, ComboSchedule, schedule_combo
from ..backends.cuda.matmul.schedule import schedule_matmul
from ..backends.cuda.rows.looped import prefers_looped
from ..backends.cuda.schedule import Schedule, choose_with_tables
from ..context_values import inside
from ..errors import DeviceError
from ..hardware import Hardware
from ..kernel_ir.kernel import AttentionKernel, KernelIR, Operand, RowColumnKernel
from ..kernel_ir.plan import KernelPlan
from ..lru import LRU, shared
from .bind_shapes import BoundKernel
from .cache import cache_key, disk
from .interruptible_compile import run_in_background
from .kernel_keys import kernel_key, unnumbered
from .run_compilers import CompiledKernel, architecture, compile_source, file_name, run_compiler, timed

_compiled_kernels: LRU[tuple, CompiledKernel] = shared(LRU(config.cache_size))
_preloaded: dict[str, tuple[dict, bytes]] = {}  # by `unversioned_key`: kernels of loaded files
_recorder: ContextVar[dict[str, CompiledKernel] | None] = ContextVar("fusedsl_recorder", default=None)
_capturing: ContextVar[bool] = ContextVar("fusedsl_capturing", default=False)
_locks: dict[tuple, threading.Lock] = {}
_guard = threading.Lock()


def scheduled_cuda(bound: BoundKernel, hardware: Hardware, flexible: bool = True) -> tuple[KernelIR, Schedule]:
    """(kernel, schedule) for these extents; a row that does not fit on chip takes the looped kernel.

    Unless `flexible`, no parameter of the schedule is left to the launch: the kernel can be part of a combo kernel.
    """
    kernel, schedule = _scheduled(bound, hardware, flexible)
    return (dataclasses.replace(kernel, pdl=True, given=bound.given) if bound.chained else kernel), schedule


def _scheduled(bound: BoundKernel, hardware: Hardware, flexible: bool) -> tuple[KernelIR, Schedule]:
    if isinstance(bound.kernel, AttentionKernel):
        attending = schedule_attention(bound.kernel, bound.extents, hardware)
        assert attending is not None
        return attending.with_parameters(bound.kernel, bound.extents), attending
    products = schedule_matmul(bound.kernel, bound.extents, hardware)
    if products is not None:
        return products.with_parameters(bound.kernel, bound.extents), products
    kernel, looped = bound.transposed or (bound.kernel, bound.looped)
    if looped is not None and 0 in bound.extents:  # an empty row is not held in registers
        kernel = looped
    extents = bound.extents
    if not isinstance(kernel, RowColumnKernel):  # without rows there is no launch: schedule one row
        extents = (*(max(1, n) for n in extents[: kernel.row_axes]), *extents[kernel.row_axes :])
    if looped is not None and prefers_looped(looped, extents, hardware):
        kernel = looped
    kernel, schedule = choose_with_tables(kernel, extents, hardware, flexible)
    if looped is not None and kernel.resident and not schedule.resident:
        kernel = looped
        kernel, schedule = choose_with_tables(kernel, extents, hardware)
    return schedule.with_parameters(kernel, bound.extents), schedule


ScheduledKernels = Sequence[tuple[KernelIR, Any]]
"""Kernels with their schedules."""


def scheduled_combo(
    members: Sequence[tuple[KernelPlan, BoundKernel]], chosen: ScheduledKernels, hardware: Hardware
) -> tuple[ComboKernel, ComboSchedule] | None:
    """Kernels that are to share a launch; None if the blocks of one of them depend on each other."""
    chosen = [
        scheduled_cuda(bound, hardware, False) if schedule.max_threads else (kernel, schedule)
        for (kernel, schedule), (_, bound) in zip(chosen, members)
    ]
    needs = (schedule.launch(kernel, bound.extents) for (kernel, schedule), (_, bound) in zip(chosen, members))
    if not all(need.independent for need in needs):
        return None
    bundle = ComboKernel(tuple(dataclasses.replace(kernel, is_subkernel=True) for kernel, _ in chosen))
    return bundle, schedule_combo(bundle.kernels, [schedule for _, schedule in chosen], hardware)


def scheduled_cpu(bound: BoundKernel) -> tuple[KernelIR, str]:
    """(kernel, name of its loops) for these extents and strides on a CPU, without the facts for CUDA."""
    from ..backends.cpu import byte_tables
    from ..backends.cpu import schedule as cpu_schedule

    chosen = cpu_schedule.choose(bound.kernel, bound.extents, bound.strides)
    return byte_tables.with_byte_tables(plain_kernel(bound.kernel), chosen, bound.extents), chosen


def plain_kernel(kernel: KernelIR) -> KernelIR:
    """A kernel without the facts that only CUDA schedules read: access widths and offset widths."""
    operands = tuple(Operand(o.name, o.dtype, o.strides, rank=o.rank) for o in kernel.operands)
    bare = dataclasses.replace(kernel, aligned_scalars=(), short_extents=(), short_strides=(), neighbour_rows=False)
    return dataclasses.replace(bare, operands=operands, index64=False, lengths=(), pdl=False, given=())


def cuda_key(kernel: KernelIR | ComboKernel, schedule: Schedule, digest: str, cc: tuple[int, int]) -> tuple:
    """The key of everything that the machine code of a scheduled kernel depends on."""
    return ("cuda", cc, digest, unnumbered(kernel.name), kernel_key(kernel, schedule), schedule.compile_key)


def build_scheduled(kernel: KernelIR | ComboKernel, schedule: Any, digest: str, cc: tuple[int, int]) -> CompiledKernel:
    """A scheduled kernel, compiled if neither memory nor disk has it."""
    key = cuda_key(kernel, schedule, digest, cc)

    def make() -> CompiledKernel:
        return _load(key, kernel, schedule) or run_in_background(key, compiled)

    def compiled() -> CompiledKernel:
        _require_no_capture(kernel)
        return timed(kernel, architecture(cc), lambda: _compile_cuda(kernel, schedule, cc, key))

    return _compile_once(key, make, kernel, schedule)


def build_cpu(bound: BoundKernel, digest: str) -> CompiledKernel:
    """The kernel of these extents and strides for this CPU."""
    return build_loops(*scheduled_cpu(bound), digest, host())


def cpu_key(kernel: KernelIR, chosen: str, digest: str, processor: Processor) -> tuple:
    """The key of everything that the machine code of a kernel and its loops depends on."""
    return ("cpu", processor.tag, digest, unnumbered(kernel.name), kernel_key(kernel, None), chosen)


def build_loops(kernel: KernelIR, chosen: str, digest: str, processor: Processor) -> CompiledKernel:
    """A kernel with its loops as object code for a processor, compiled if neither memory nor disk has it."""
    key = cpu_key(kernel, chosen, digest, processor)

    def make() -> CompiledKernel:
        return _load(key, kernel, chosen) or run_in_background(key, compiled)

    def compiled() -> CompiledKernel:
        return timed(kernel, "cpu", lambda: _compile_cpu(kernel, chosen, processor, key))

    return _compile_once(key, make, kernel, chosen)


def source_of(kernel: Any, schedule: Any) -> str:
    """The generated file of a scheduled kernel; needs no compiler and no GPU."""
    if isinstance(schedule, str):
        from ..backends.cpu import backend

        return backend.generate(kernel, schedule)[0]
    from ..backends.cuda import compile as cuda

    return cuda.generate(kernel, schedule)


def _compile_once(key: tuple, make, kernel: Any, schedule: Any) -> CompiledKernel:
    """The compiled kernel of this key; threads that need it at the same time wait for one compilation."""
    compiled, is_new = _compiled_kernels.get(key), False
    if compiled is None:
        with _guard:
            lock = _locks.setdefault(key, threading.Lock())
        try:
            with lock:
                compiled = _compiled_kernels.get(key)
                if is_new := compiled is None:
                    built = dataclasses.replace(make(), cache_key=cache_key(kernel=repr(key)))
                    compiled = _compiled_kernels.put(key, built)
        finally:
            _locks.pop(key, None)
        if is_new:
            why = schedule if isinstance(schedule, str) else schedule.reason
            debug.say(debug.KERNELS, f"kernel {kernel.name} for {key[0]}", why)
            debug.say(debug.SOURCES, compiled.path, compiled.source)
            _report(key, compiled)
    if not is_new:
        metric_counts.count("fusedsl_kernel_loads", source="memory")
    if (recording := _recorder.get()) is not None:
        recording[unversioned_key(key)] = compiled
    if compiled.columns:
        kernel, schedule = with_columns(kernel, schedule, compiled.columns)
    return dataclasses.replace(compiled, kernel=kernel, schedule=schedule)


def recorded() -> AbstractContextManager[dict[str, CompiledKernel]]:
    """Records every kernel that is compiled or found compiled in the block, in this thread, by `unversioned_key`."""
    return inside(_recorder, {})


def during_capture() -> AbstractContextManager[bool]:
    """Inside the block, compiling for CUDA is a DeviceError: the graph under capture would not contain it."""
    return inside(_capturing, True)


def unversioned_key(key: tuple) -> str:
    """A digest of a key without the versions of the compilers."""
    return hashlib.sha256(repr(key).encode()).hexdigest()


# -- kernels of saved files, and of the cache


def is_preloaded(key: tuple) -> bool:
    """Whether the machine code of this key was loaded from a saved file."""
    return bool(_preloaded) and unversioned_key(key) in _preloaded


def preload(key: str, facts: dict, code: bytes) -> None:
    """Register machine code of a saved file: it is used instead of compiling."""
    _preloaded[key] = (facts, code)


def compiled_facts(built: CompiledKernel) -> dict[str, Any]:
    """The facts of a compiled kernel that are stored beside its machine code, as JSON."""
    figures = [built.registers, built.spill_bytes, built.shared_bytes, built.blocks, built.columns]
    return {"symbols": list(built.symbols), "source": built.source, "path": built.path, "figures": figures}


def _load(key: tuple, kernel: Any, schedule: Any) -> CompiledKernel | None:
    entry = _preloaded.get(unversioned_key(key)) or disk().get(cache_key(kernel=repr(key)))
    return None if entry is None else compiled_from_facts(entry, kernel, schedule)


def compiled_from_facts(entry: tuple[Mapping[str, Any], bytes], kernel: Any, schedule: Any) -> CompiledKernel | None:
    """The compiled kernel of `compiled_facts` and machine code; None if they are malformed."""
    facts, code = entry
    try:
        symbols, source, path = tuple(facts["symbols"]), facts["source"], facts["path"]
        registers, spills, shared, blocks, columns = facts["figures"]
        figures = (registers, spills, shared, blocks, columns)
        return CompiledKernel(kernel, schedule, code, symbols, source, path, *figures, cached=True)
    except (KeyError, TypeError, ValueError):
        return None


def _store(key: tuple, built: CompiledKernel) -> CompiledKernel:
    disk().put(cache_key(kernel=repr(key)), compiled_facts(built), built.code)
    return built


# -- compilers


def _require_no_capture(kernel: KernelIR | ComboKernel) -> None:
    """DeviceError if a kernel has to be compiled while a CUDA graph is captured."""
    if _capturing.get():
        help = "call it once before the capture, or Kernel.compile(...), with arrays of these shapes"
        raise DeviceError(f"{kernel.name} is not compiled yet, and a CUDA graph is being captured", "device.capture",
                          help=help)  # fmt: skip


def _report(key: tuple, compiled: CompiledKernel) -> None:
    """Log and count a kernel that was compiled or loaded; call the hooks of compilations."""
    if compiled.cached:
        metric_counts.count("fusedsl_kernel_loads", source="file")
        return
    target = "cpu" if key[0] == "cpu" else architecture(key[1])
    figures = (None, None) if target == "cpu" else (compiled.registers, compiled.spill_bytes)
    compile_hooks.report(
        compile_hooks.Compilation(compiled.kernel.name, target, compiled.seconds, compiled.path, *figures)
    )


def _compile_cuda(kernel: Any, schedule: Any, cc: tuple[int, int], key: tuple) -> CompiledKernel:
    built = compile_source(kernel, schedule, cc, file_name(key))
    for number, (narrower, less) in enumerate(schedule.lower_pressure(kernel)):
        if not built.spill_bytes:
            break
        columns = less.columns if isinstance(less, Sm90AttentionSchedule) else 0
        other = compile_source(narrower, less, cc, f"{file_name(key)}_{columns or number}")
        if other.spill_bytes < built.spill_bytes:
            built = dataclasses.replace(other, columns=columns)
    return _store(key, built)


def _compile_cpu(kernel: KernelIR, chosen: str, processor: Processor, key: tuple) -> CompiledKernel:
    from ..backends.cpu import backend

    source, _ = backend.generate(kernel, chosen, processor)
    path = disk().write_source(file_name(key), source)
    compiled = run_compiler(lambda c: backend.compile_source(source, kernel, c, processor), chosen, path)
    return _store(key, CompiledKernel(kernel, chosen, compiled.object_bytes, compiled.symbols, source, path))
