"""Many calls of one kernel in one launch (foreach): parameter tables, and the prepared call over lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..kernel_ir.batched_calls import BLOCK_WORDS, SMALL_WORDS, BatchedCalls, choose_batched_calls
from ..kernel_ir.launch_config import LaunchConfig
from ..kernel_ir.parameter_layout import kernel_params
from ..kernel_ir.plan import KernelPlan
from .argument_keys import addresses_of
from .bound_kernel import BoundKernel
from .launch import LaunchRecord
from .launch_records import PayloadLayout, block_template, pointer_slots, scalar_slots
from .parameter_packing import BlockLayout, PointerSlot, ScalarSlot
from .prepared_call import PreparedCall
from .run_compilers import CompiledKernel

MAX_GRID_BLOCKS = (1 << 31) - 1  # blocks of a launch
LARGE_PARAMETERS = 12_010  # the CUDA version from which on a kernel takes 32 KB of parameters


@dataclass(frozen=True)
class BatchedPayloads(PayloadLayout):
    """The payload indices of one call of many: arguments by `argument_indices`, results list after list."""

    argument_indices: tuple[int, ...] = ()
    call: int = 0
    calls: int = 1

    def argument(self, k: int) -> int:
        return self.argument_indices[k]

    def result(self, k: int) -> int:
        return super().result(k * self.calls + self.call)


@dataclass(frozen=True)
class BatchMember:
    """One call's use of a kernel: its plan, its bound shapes, and its payload indices."""

    plan: KernelPlan
    bound: BoundKernel
    geometry: LaunchConfig
    payload_layout: BatchedPayloads


def max_table_words(cuda: int) -> int:
    """Words of a parameter block under this version of CUDA, as the driver counts (12010 is 12.1)."""
    return BLOCK_WORDS[-1] if cuda >= LARGE_PARAMETERS else SMALL_WORDS


def parameter_table(plan: KernelPlan, built_for: Any, calls: int, shared: Iterable[int], largest: int) -> BatchedCalls:
    """The table of `calls` calls of a kernel; `shared` are the arguments that are the same for all calls."""
    kinds = [slot.kind for slot in kernel_params(built_for)]
    common = set(shared)
    alike = [use.kind == "argument" and use.source in common for use in plan.scalars]
    own = tuple(k for k, same in enumerate(alike) if not same)
    fixed = sum(kind in ("extent", "stride", "magic") for kind in kinds)
    return choose_batched_calls(
        calls, kinds.count("pointer"), fixed, own, tuple(k for k, same in enumerate(alike) if same), largest
    )


def chunks(members: Sequence[BatchMember], capacity: int) -> Iterator[list[BatchMember]]:
    """The members of each launch: as many as the table's capacity and the grid limit allow."""
    chunk: list[BatchMember] = []
    blocks = 0
    for member in members:
        if chunk and (len(chunk) == capacity or blocks + member.geometry.blocks > MAX_GRID_BLOCKS):
            yield chunk
            chunk, blocks = [], 0
        chunk.append(member)
        blocks += member.geometry.blocks
    yield chunk


def batched_launch(driver: Any, function: Any, built: CompiledKernel, members: Sequence[BatchMember]) -> LaunchRecord:
    """The launch record of a kernel over a table: one launch for all members."""
    table = built.kernel.batched
    assert table is not None
    words = np.zeros(table.words, np.int64)
    halves = words.view(np.int32)
    pointers: list[PointerSlot] = []
    scalars: list[ScalarSlot] = []
    first = 0
    for call, member in enumerate(members):
        divided = built.schedule.magic_divisors(built.kernel, member.bound.extents)
        filled = np.frombuffer(block_template(built.kernel, member.bound, divided), np.int64)
        at = table.fixed_at + call * table.fixed
        words[at : at + table.fixed] = filled[table.pointers : table.pointers + table.fixed]
        halves[2 * table.starts_at + call] = first
        first += member.geometry.blocks
        shift = 8 * call * table.pointers
        call_pointers = pointer_slots(member.plan, member.bound, built.kernel, member.payload_layout)
        pointers += [slot._replace(offset=slot.offset + shift) for slot in call_pointers]
        call_scalars = scalar_slots(member.plan, member.bound, built.kernel, member.payload_layout)
        own = [call_scalars[k] for k in table.own]
        begin = table.own_at(call)
        scalars[:0] = [slot._replace(offset=8 * (begin + k)) for k, slot in enumerate(own)]
        if call == 0:
            last = [call_scalars[k] for k in table.shared]
            scalars += [slot._replace(offset=8 * (table.shared_at + k)) for k, slot in enumerate(last)]
    words[table.count_at] = len(members)
    shared = max(member.geometry.shared for member in members)
    geometry = replace(members[0].geometry, blocks=first, shared=shared)
    layout = BlockLayout(words.tobytes(), pointers, scalars, members[0].payload_layout.names)
    return LaunchRecord(driver, function, geometry, layout)


# -- calls


@dataclass(frozen=True)
class AddressRange:
    """The byte range from `low` to `high` of an array: argument `index`, or with `output`, output `index`."""

    low: int
    high: int
    index: int
    output: bool


def overlapping_ranges(stretches: Iterable[AddressRange]) -> Iterator[tuple[AddressRange, AddressRange]]:
    """The pairs of ranges that overlap and of which at least one is an output."""
    live: list[AddressRange] = []
    for current in sorted(stretches, key=lambda s: s.low):
        if current.low == current.high:
            continue
        live = [other for other in live if other.high > current.low]
        for other in live:
            if current.output or other.output:
                yield other, current
        live.append(current)


class BatchedCall(PreparedCall):
    """A prepared call over lists: its arguments and results are those of all calls, list after list."""

    _known_disjoint: tuple[list, list] | None = None  # payloads and output addresses that passed may_write

    def __call__(self, payloads: list, outs: Sequence[Any] | None = None) -> list:
        """Run for these arguments' payloads. `outs` are arrays to write, or None for new ones. Returns the results."""
        return self.run(payloads, outs, [] if outs is None else addresses_of(outs))

    def run(self, payloads: list, outs: Sequence[Any] | None, addresses: list[int]) -> list:
        """`__call__` if the addresses of `outs` are known, 0 for None."""
        if self.is_long:
            return self.run_long(payloads, outs)
        if outs is None:
            results = [make() for make in self.allocators]
            addresses = addresses_of(results)
        elif 0 in addresses:  # to be allocated, or of an empty array
            results = [make() if given is None else given for make, given in zip(self.allocators, outs)]
            addresses = addresses_of(results)
        else:
            results = list(outs)
        self._launch([*payloads, *addresses], outs)
        return results

    def mark_disjoint(self, payloads: Sequence[Any], addresses: list[int]) -> None:
        """Cache that these outputs overlap nothing that they may not."""
        self._known_disjoint = (list(payloads), addresses)

    def may_write(self, payloads: Sequence[Any], outs: Sequence[Any]) -> bool:
        """Whether these outputs overlap nothing except the arguments that they may replace in place."""
        return self.may_write_at(payloads, outs, addresses_of(outs))

    def may_write_at(self, payloads: Sequence[Any], outs: Sequence[Any], addresses: list[int]) -> bool:
        """`may_write` if the addresses of `outs` are known, 0 for None."""
        if self.library == "numpy" and not all(out is None or out.flags.writeable for out in outs):
            return False
        if self._known_disjoint == (payloads, addresses):
            return True
        same = {k for k, r in self.in_place if payloads[k] == addresses[r]}
        stretches = [
            AddressRange(payloads[k] + a, payloads[k] + b, k, False) for k, a, b in self.spans if k not in same
        ]
        for r, (address, span) in enumerate(zip(addresses, self.out_spans)):
            if address and span is not None:
                stretches.append(AddressRange(address + span[0], address + span[1], r, True))
        if next(overlapping_ranges(stretches), None) is not None:
            return False
        self.mark_disjoint(payloads, addresses)
        return True
