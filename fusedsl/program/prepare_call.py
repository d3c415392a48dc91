"""Prepares a call with new shapes: chooses, compiles and loads its kernels, and returns a prepared call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..kernel_ir.plan import KernelPlan
from ..runtime import array_copies
from ..runtime.arrays import CPU, Facts
from ..runtime.bound_kernel import BoundKernel
from ..runtime.check_outputs import mark_written
from ..runtime.compile import during_capture
from ..runtime.cublas import cublas_of
from ..runtime.cublas_launch import CublasLaunch
from ..runtime.cuda_streams import stream_reader
from ..runtime.driver import driver
from ..runtime.launch import HostLaunchRecord, LaunchRecord
from ..runtime.launch_records import (
    PayloadLayout,
    blas_launch,
    combo_launch,
    cpu_launch,
    cuda_launch,
    factor_layout,
)
from ..runtime.memory_planning import plan_workspace
from ..runtime.prepared_call import PreparedCall
from .call_arrays import CallArrays, call_arrays, call_memory, require_memory
from .call_outputs import named_outputs
from .call_target import Chooser, array_target
from .library_product import LibraryProduct
from .plans import Plans
from .resolve_call import Members, ResolvedCall, resolve

if TYPE_CHECKING:
    from ..runtime.blas_launch import BlasLaunch


class EmptyRows(Exception):
    """Rows without elements are to be reduced on a device: no kernel runs over nothing, the interpreter does it."""


@dataclass
class Prepared:
    """A prepared call with the arguments of its first run."""

    arrays: CallArrays  # copies among them must live until the call is over
    call: PreparedCall
    outs: Sequence[Any] | None

    @property
    def payloads(self) -> list:
        """Addresses and numbers of the arguments."""
        return self.arrays.payloads

    @property
    def reusable(self) -> bool:
        """Whether the call serves other arguments."""
        return self.arrays.repeatable

    def run(self) -> list:
        """Run the call for the arguments that it was prepared with."""
        results = self.call(self.payloads, self.outs)
        fill_outputs(self.arrays.call.outputs.deferred, results, self.call.library)
        return results


def fill_outputs(deferred: Sequence[tuple[Any, int]], results: list, library: str) -> None:
    """Copy results to outputs (output, result) that no kernel could write; they become the results."""
    for out, k in deferred:
        array_copies.assign(out, results[k], library)
        results[k] = out
        mark_written(out)


def prepare(plans: Plans, facts: Facts, outs: Sequence[Any] | None, choose: Chooser | None = None) -> Prepared:
    """Everything that a call with these arguments needs; raises before anything is written.

    `choose` gives the schedule of each kernel on a CUDA device.
    """
    call = resolve(plans, facts, replace(array_target(plans, facts), choose=choose), named_outputs(outs))
    arrays = call_arrays(call)
    require_memory([arrays])
    size, temporaries = plan_workspace(call.plan, call.extents)
    layout = PayloadLayout(len(facts), len(call.plan.results), size, temporaries, call.extents, plans.names)
    with _device_context(call.device, stream_reader(call.library, call.device)):
        records, spilled = _launch_records(call, layout)
    if spilled and plans.replan_after_spill(call.made, call.facts, call.extents):
        return prepare(plans, facts, outs, choose)
    memory = call_memory(call, arrays.allocators, records, size)
    prepared = PreparedCall(records, layout.numbers, memory, arrays.aliasing, arrays.foreign)
    written = call.outputs.destinations
    return Prepared(arrays, prepared, outs and [o if g is not None else None for g, o in zip(written, outs)])


@contextmanager
def _device_context(device: Any, stream: Callable[[], int]) -> Iterator[None]:
    """Enter a CUDA device's context; under capture of the stream, compiling is an error."""
    with ExitStack() as stack:
        if device != CPU:
            stack.enter_context(driver().on(device[1]))
            if driver().is_capturing(stream()):
                stack.enter_context(during_capture())
        yield


def _launch_records(call: ResolvedCall, layout: PayloadLayout) -> tuple[list[Any], bool]:
    """(the launch records of a call, whether one of its kernels spills)."""
    if call.device == CPU:
        return [cpu_launch_record(call, k, layout) for k, bound in enumerate(call.bounds) if not bound.empty], False
    if any(0 in bound.extents and not bound.empty for bound in call.bounds):
        raise EmptyRows
    records, spilled = list[Any](), False
    for members in call.launches:
        if not members[0][1].empty:
            # of ours, which waits for other calls: a library's own kernel may start before their launches have ended
            follows = any(isinstance(earlier, LaunchRecord) and earlier.geometry.blocks for earlier in records)
            record, spills = _cuda_record(call, members, layout, follows)
            records.append(record)
            spilled |= spills
    return records, spilled


def cublas_record(
    call: ResolvedCall, plan: KernelPlan, bound: BoundKernel, layout: PayloadLayout
) -> CublasLaunch | None:
    """The launch record of one kernel by cuBLAS; None if it is ours."""
    product = call.library_product(plan, bound)
    if not isinstance(product, LibraryProduct):
        return None
    cublas = cublas_of(product.library)
    assert cublas is not None
    factors = factor_layout(plan, bound, product.gemm, layout)
    return CublasLaunch(product.gemm, factors, cublas, call.device[1], product.tf32)


def _cuda_record(
    call: ResolvedCall, members: Members, layout: PayloadLayout, follows: bool
) -> tuple[LaunchRecord | CublasLaunch, bool]:
    """(the record of one launch, which may follow another one, whether it spills)."""
    if (by_library := cublas_record(call, *members[0], layout)) is not None:
        return by_library, False
    built = call.built(members)
    function = load_function(built, call.device[1])
    if len(members) > 1:
        return combo_launch(members, built, function, layout), built.spill_bytes > 0
    return cuda_launch(*members[0], built, function, layout, follows), built.spill_bytes > 0


def cpu_launch_record(call: ResolvedCall, k: int, layout: PayloadLayout) -> HostLaunchRecord | BlasLaunch:
    """The launch record of one kernel: of a library product, or compiled, loaded, and run on the thread pool."""
    from ..runtime import object_loader

    kernel = call.plan.kernels[k]
    product = call.library_product(kernel, call.bounds[k])
    if isinstance(product, LibraryProduct):
        return blas_launch(kernel, call.bounds[k], product.gemm, layout)
    built, bound = call.plans.kernel_compiler.on_cpu(kernel, call.bounds[k], call)
    functions = dict(zip(built.symbols, object_loader.load(built.code, built.symbols)))
    return cpu_launch(kernel, bound, built, functions, layout)


def load_function(built: Any, device: int) -> Any:
    """The function of a compiled CUDA kernel on a device."""
    return driver().loaded(built.code, built.symbols[0], device)
