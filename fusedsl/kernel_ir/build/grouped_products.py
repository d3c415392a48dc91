"""Groups of products that are finished where they are computed: the kernel that folded and finished them is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..folded_products import Fits, FoldedProduct, grouped_product, is_read_elsewhere
from ..grouped_axes import axes_of_groups
from ..held_values import most_held_values
from ..phase import GroupPhases, Store
from ..plan import KernelPlan, remaining_launches
from .build_plan import digest_of
from .moved_phases import MovedPhases
from .shared_values import share_values

Kernels = tuple[KernelPlan, ...]


def finish_groups(kernels: Kernels, launches: Sequence[int], fits: Fits) -> tuple[Kernels, list[int]]:
    """The kernels with such groups in the kernels of the products, and the number of kernels in each launch."""
    number, counts = 0, list(launches)
    while number < len(kernels):
        one = grouped_product(kernels, number, fits)
        if one is None:
            number += 1
            continue
        joined = _with_groups(kernels[one.products], kernels[number], one, is_read_elsewhere(kernels, one))
        counts = remaining_launches(counts, (n != number for n in range(len(kernels))))
        kernels = tuple(joined if n == one.products else k for n, k in enumerate(kernels) if n != number)
    return kernels, counts


def _with_groups(products: KernelPlan, reader: KernelPlan, one: FoldedProduct, read_elsewhere: bool) -> KernelPlan:
    """The kernel of the products, which stores what the reader does, and the products if they are `read_elsewhere`."""
    (phase,) = products.resident
    moved = MovedPhases(products, reader, one, reader.resident)
    arrays, new_operand = moved.operands(read_elsewhere)
    phases = []
    for part in reader.resident:
        stores = [Store(moved.name(s.value), len(arrays) + n) for n, s in enumerate(part.stores)]
        arrays += [moved.array(s.operand) for s in part.stores]
        phases.append(replace(moved.phase(part), stores=tuple(stores)))
    row_stores = tuple(replace(s, operand=new_operand[s.operand]) for s in phase.row_stores if s.operand in new_operand)
    axis = one.axes[len(reader.rows)]
    changed = moved.joined(arrays)
    groups = GroupPhases(axis, tuple(phases), periodic_operands(changed, axis))
    plain = replace(phase, row_stores=row_stores, groups=groups)
    shared = replace(plain, groups=replace(groups, phases=share_values(groups.phases, moved.used)))
    best = min((shared, plain), key=most_held_values)
    changed = replace(changed, resident=(best,))
    return replace(changed, digest=digest_of(changed))


def periodic_operands(kernel: KernelPlan, axis: int) -> tuple[int, ...]:
    """Operands that are the same for each group along an axis: they vary along it, and along none outside of it."""
    outer = axes_of_groups(kernel, axis)
    along = [{c.axis for c in use.at} for use in kernel.arrays]
    return tuple(k for k, axes in enumerate(along) if outer and axis in axes and axes.isdisjoint(outer))
