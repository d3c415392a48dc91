"""Which values of a map are looked up in byte tables on a CPU: those that take longer to compute than a lookup."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...kernel_ir.byte_tables import tables_of
from ...kernel_ir.kernel import KernelIR
from .core_time import LOOKUP, chain_seconds

TABLE_ELEMENTS = 16384  # elements of a map that is to fill tables


def with_byte_tables(kernel: KernelIR, schedule: str, extents: tuple[int, ...]) -> KernelIR:
    """The kernel with the tables that are worth it for these extents: those of a map that is long enough."""
    if not schedule.startswith(("map", "tiles")) or prod(extents) < TABLE_ELEMENTS:
        return kernel
    (phase,) = kernel.phases
    return replace(kernel, tables=tables_of(kernel, phase.element, lambda chain, _: chain_seconds(chain) > LOOKUP))
