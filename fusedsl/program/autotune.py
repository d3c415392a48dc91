"""autotune=True: measures schedules near the chosen one, once, on the call's own shapes; the fastest is used."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..backends.cuda.tuning_space import difference, tuning_space
from ..errors import CompileError, DeviceError
from ..hardware import Hardware, occupancy
from ..kernel_ir.plan import KernelPlan
from ..runtime.arrays import CPU, Facts
from ..runtime.bind_shapes import BoundKernel
from ..runtime.cache import cache_key
from ..runtime.compile import build_scheduled, cuda_key, disk, scheduled_cuda
from ..runtime.driver import driver
from ..runtime.outputs import library_and_device
from ..runtime.run_compilers import CompiledKernel
from ..runtime.timing import Clock
from . import call_steps
from .call_target import ScheduledKernel
from .plans import Plans
from .prepare_call import Prepared, prepare

WORTH = 0.98  # of the first choice's time: a faster schedule must take less
MIN_RESIDENT_SHARE = 0.25  # of the first choice's resident threads on an SM
REPETITIONS = 15


@dataclass(frozen=True)
class Trial:
    """A schedule that was tried: how it differs from the first choice, its seconds, or why it was not run."""

    difference: str
    seconds: float | None
    note: str = ""


@dataclass(frozen=True)
class TuningResult:
    """The result of tuning a kernel: the fastest schedule, the first choice's seconds, and all trials."""

    schedule: Any
    seconds: float
    trials: tuple[Trial, ...]


_results: dict[tuple, TuningResult | None] = {}
_lock = threading.RLock()


def prepare_tuned(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> Prepared:
    """`prepare` with tuned schedules; kernels that were never tuned are tuned now.

    Nothing is tried on the CPU, or during a capture. Trials write to memory of their own.
    """
    _, device = library_and_device(facts)
    if device == CPU:
        return prepare(plans, facts, outs)
    with _lock:
        tuning = _Tuning(plans, facts, device)
        if tuning.missing and not driver().is_capturing(tuning.stream):
            tuning.run()
    return prepare(plans, facts, outs)


def tuned_choice(plan: KernelPlan, bound: BoundKernel, hardware: Hardware) -> ScheduledKernel:
    """The kernel with its tuned schedule; the first choice if it was never tuned."""
    kernel, base = scheduled_cuda(bound, hardware, False)
    tuned = tuning_result(plan, kernel, base, hardware)
    return kernel, base if tuned is None else tuned.schedule


def tuning_result(plan: KernelPlan, kernel: Any, base: Any, hardware: Hardware) -> TuningResult | None:
    """The tuning result of a kernel whose first choice is `base`, from this process or from disk."""
    key = _key(plan, kernel, base, hardware)
    if _results.get(key) is None:
        _results[key] = _read(key, base)
    result = _results[key]
    if result is None:
        return None
    own = {f.name: getattr(base, f.name) for f in dataclasses.fields(base) if not f.compare and f.name != "registers"}
    return dataclasses.replace(result, schedule=dataclasses.replace(result.schedule, **own))


def _key(plan: KernelPlan, kernel: Any, base: Any, hardware: Hardware) -> tuple:
    return ("tuned", hardware.multiprocessors, *cuda_key(kernel, base, plan.digest, hardware.cc))


def _read(key: tuple, base: Any) -> TuningResult | None:
    entry = disk().get(cache_key(tuned=repr(key)))
    if entry is None:
        return None
    try:
        record = entry[0]
        schedule = dataclasses.replace(base, **record["schedule"])
        return TuningResult(schedule, float(record["seconds"]), tuple(Trial(*trial) for trial in record["trials"]))
    except (KeyError, TypeError, ValueError):
        return None


def _save(key: tuple, base: Any, tuned: TuningResult) -> None:
    fields = {f.name: getattr(tuned.schedule, f.name) for f in dataclasses.fields(base)}
    changed = {name: value for name, value in fields.items() if value != getattr(base, name)}
    trials = [dataclasses.astuple(trial) for trial in tuned.trials]
    disk().put(cache_key(tuned=repr(key)), {"schedule": changed, "seconds": tuned.seconds, "trials": trials})
    _results[key] = tuned


class _Tuning:
    """One call whose kernels are tuned, one at a time."""

    def __init__(self, plans: Plans, facts: Facts, device: tuple[str, int]):
        self.plans, self.facts, self.device = plans, facts, device
        self.hardware = call_steps.hardware_of(driver().facts(device[1]))
        first = prepare(plans, facts, None)
        self.stream = first.call.stream()
        self.allocators = first.call.allocators
        call = first.arrays.call
        launched = [one for one in call.kernels if not one[1].empty and not call.is_by_library([one])]
        self.extents = {plan.name: bound.extents for plan, bound in launched}
        chosen = [(plan, *scheduled_cuda(bound, self.hardware, False)) for plan, bound in launched]
        self.missing = [scheduled for scheduled in chosen if tuning_result(*scheduled, self.hardware) is None]

    def run(self) -> None:
        """Try the neighbours of every kernel that was not tuned before, and store the results."""
        self.results = [make() for make in self.allocators]
        clock = Clock(self.device, self.stream)
        for plan, kernel, base in self.missing:
            _save(_key(plan, kernel, base, self.hardware), base, self._tune(clock, plan, kernel, base))

    def _tune(self, clock: Clock, plan: KernelPlan, kernel: Any, base: Any) -> TuningResult:
        def seconds(*schedules: Any) -> list[float]:
            fires = [self._fire(plan, kernel, schedule) for schedule in schedules]
            return clock.seconds(fires, REPETITIONS)

        (chosen,) = seconds(base)
        trials, best, least = [], base, chosen
        threads = self._threads_of(build_scheduled(kernel, base, plan.digest, self.hardware.cc), plan)
        for other in self._others(plan, kernel, base):
            try:
                built = build_scheduled(kernel, other, plan.digest, self.hardware.cc)
                note = self._refused(built, plan, threads)
                duration = None if note else seconds(other)[0]
            except (CompileError, DeviceError) as fault:
                note, duration = f"does not run: {fault.message}", None
            trials.append(Trial(difference(base, other), duration, note))
            if duration is not None and duration < least:
                best, least = other, duration
        if best is not base:
            chosen, least = seconds(base, best)
        return TuningResult(best if least < WORTH * chosen else base, chosen, tuple(trials))

    def _others(self, plan: KernelPlan, kernel: Any, base: Any) -> tuple[Any, ...]:
        """The schedules to try: none if blocks wait for each other, as their number follows from the schedule."""
        waiting = base.launch(kernel, self.extents[plan.name]).cooperative
        return () if waiting else tuning_space(base, kernel, self.hardware)

    def _refused(self, built: CompiledKernel, plan: KernelPlan, threads: int) -> str:
        """Why a schedule is not worth a run, by the compiler's report; empty if it is."""
        if built.spill_bytes or 0 < built.blocks < built.schedule.blocks:
            return "values would spill"
        if self._threads_of(built, plan) < MIN_RESIDENT_SHARE * threads:
            return "too few threads fit on an SM"
        return ""

    def _threads_of(self, built: CompiledKernel, plan: KernelPlan) -> int:
        """Threads that are resident on an SM."""
        launch = built.schedule.launch(built.kernel, self.extents[plan.name])
        shared = built.shared_bytes + launch.shared
        return occupancy(self.hardware, built.registers, launch.threads, shared).blocks * launch.threads

    def _fire(self, tuned: KernelPlan, kernel: Any, schedule: Any) -> Any:
        """A launch of one kernel with a schedule; the whole call has run before, so that its inputs are there."""

        def fixed(plan: KernelPlan, bound: BoundKernel, hardware: Hardware) -> ScheduledKernel:
            return (kernel, schedule) if plan.name == tuned.name else tuned_choice(plan, bound, hardware)

        prepared = prepare(self.plans, self.facts, None, fixed)
        fires, _ = prepared.call.repeatable(prepared.payloads, self.results)
        for fire in fires:
            fire()
        launches = [launch for launch in prepared.arrays.call.launches if not launch[0][1].empty]
        return next(f for f, launch in zip(fires, launches) if any(plan.name == tuned.name for plan, _ in launch))
