"""The arrays of a call that runs: its arguments as kernels take them, and what allocates the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..ir.types import UINT8
from ..runtime import array_copies
from ..runtime.argument_keys import owned_address
from ..runtime.arrays import CPU, ArrayFacts, Weak, describe
from ..runtime.counters import BlockCounters
from ..runtime.cuda_streams import stream_reader
from ..runtime.free_memory import require
from ..runtime.host_device_copies import device_empty
from ..runtime.launch import LaunchRecord
from ..runtime.memory_overlap import interleave, same_elements, span
from ..runtime.memory_planning import TEMPORARY_ALIGNMENT, plan_workspace
from ..runtime.outputs import Allocator, allocator
from ..runtime.prepared_call import Aliasing, CallMemory
from .call_layouts import result_order
from .call_outputs import in_place
from .resolve_call import ResolvedCall


@dataclass(frozen=True)
class CallArrays:
    """The arrays of a resolved call."""

    call: ResolvedCall
    arguments: list[ArrayFacts | Weak]  # of copies, if a view of the plan needs them
    allocators: list[Callable[[], Any]]  # of the results

    @property
    def repeatable(self) -> bool:
        """Whether the prepared call serves other arguments: no array is copied."""
        copies = any(isinstance(a, ArrayFacts) and a.copied for a in self.arguments)
        return not (self.call.copied or self.call.outputs.deferred or copies)

    @property
    def payloads(self) -> list:
        """Addresses and numbers of the arguments."""
        return [owned_address(a) if isinstance(a, ArrayFacts) and not a.by_value else a.value for a in self.arguments]

    @property
    def foreign(self) -> tuple[tuple[int, ...], int]:
        """The arguments on a device that are known through a protocol alone, and the device."""
        known = [k for k, a in enumerate(self.arguments) if isinstance(a, ArrayFacts) and a.library in PROTOCOLS]
        return (tuple(known), self.call.device[1]) if self.call.device != CPU else ((), 0)

    @property
    def aliasing(self) -> Aliasing:
        """Which memory arguments and outputs take, and may share."""
        arrays = [(k, a) for k, a in enumerate(self.arguments) if isinstance(a, ArrayFacts)]
        outputs = [(r, out) for r, out in enumerate(self.call.outputs.destinations) if out is not None]
        same = [
            (k, r) for k, a in arrays for r, out in outputs if same_elements(a, out) and in_place(self.call.plan, k, r)
        ]
        pairs = [(r, out, k, a) for r, out in outputs for k, a in arrays if not a.by_value]
        pairs += [(r, out, ~q, earlier) for r, out in outputs for q, earlier in outputs if q < r]
        return Aliasing(
            [span(a) if isinstance(a, ArrayFacts) and not a.by_value else None for a in self.arguments],
            [span(out) if out is not None else None for out in self.call.outputs.destinations],
            frozenset(same),
            frozenset((r, k, out.pointer - a.pointer) for r, out, k, a in pairs if interleave(out, a)),
        )


PROTOCOLS = ("dlpack", "interface")


def call_arrays(call: ResolvedCall) -> CallArrays:
    """The arrays of a call; copies those that must be contiguous."""
    arguments = call.facts
    for k in call.copied:
        a = arguments[k]
        assert isinstance(a, ArrayFacts)
        if a.device == CPU:
            require(prod(a.shape) * a.dtype.itemsize, f"a contiguous copy of {a.dtype}{list(a.shape)}")
        arguments[k] = describe(array_copies.packed(a.owner, call.library))
    allocators = []
    for k, t in enumerate(call.plan.results):
        order = result_order(call.plan, k, call.layouts, call.extents) if call.outputs.destinations[k] is None else None
        allocators.append(_allocator(call, call.layouts["result", k].shape, t.dtype, order))
    return CallArrays(call, arguments, allocators)


def _allocator(call: ResolvedCall, shape: Sequence[int], dtype: Any, order: Any = None) -> Callable[[], Any]:
    """The allocator of a result; for NumPy arrays computed on a device, of device memory."""
    if call.library == "numpy" and call.device != CPU:
        return lambda: device_empty(shape, dtype, call.device[1], order)
    return allocator(call.library, call.device, shape, dtype, order)


def call_memory(
    call: ResolvedCall, allocators: Sequence[Any], records: Sequence[Any], temporary_bytes: int
) -> CallMemory:
    """What these launches need: results, counters, and one workspace, of temporaries and what a launch takes itself."""
    launched = [record.geometry for record in records if isinstance(record, LaunchRecord)]
    size = temporary_bytes + max((g.workspace for g in launched), default=0)  # launches run one after another
    count = max((g.semaphores for g in launched), default=0)
    workspace = _allocator(call, (size + TEMPORARY_ALIGNMENT,), UINT8) if size else None
    counters = BlockCounters(count, call.device[1]) if count else None
    return CallMemory(allocators, workspace, counters, stream_reader(call.library, call.device), call.library)


def require_memory(calls: Sequence[CallArrays]) -> None:
    """MemoryLimitError if the new results and temporaries of calls exceed the CPU's free memory."""
    on_cpu = [arrays for arrays in calls if arrays.call.device == CPU]
    pairs = [pair for arrays in on_cpu for pair in zip(arrays.allocators, arrays.call.outputs.destinations)]
    new = [make for make, destination in pairs if destination is None and isinstance(make, Allocator)]
    workspace_bytes = sum(plan_workspace(arrays.call.plan, arrays.call.extents).size for arrays in on_cpu)
    names = (
        [make.description for make in new[:3]] + ["others"] * (len(new) > 3) + ["temporaries"] * (workspace_bytes > 0)
    )
    require(sum(make.size for make in new) + workspace_bytes, " and ".join(names))
