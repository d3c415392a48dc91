"""Groups of products that are finished where they are computed: the kernel that folded and finished them is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..folded_products import Fits, FoldedProduct, grouped_product
from ..grouped_axes import axes_of_groups
from ..held_values import most_held_values
from ..phase import GroupPhases, Store
from ..plan import KernelPlan
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
        joined = _with_groups(kernels[one.products], kernels[number], one, _is_kept(kernels, number, one))
        kernels = tuple(joined if n == one.products else k for n, k in enumerate(kernels) if n != number)
        counts = _without(counts, number)
    return kernels, counts


def _is_kept(kernels: Kernels, number: int, one: FoldedProduct) -> bool:
    """Whether the products are a result, or another kernel than this reader reads them."""
    use = kernels[number].arrays[one.load.operand]
    read = [(u.kind, u.index) for n, k in enumerate(kernels) if n != number for u in k.arrays[: k.inputs]]
    return use.kind == "result" or (use.kind, use.index) in read


def _without(launches: Sequence[int], number: int) -> list[int]:
    """The number of kernels in each launch, without one kernel."""
    counts, first = [], 0
    for count in launches:
        counts.append(count - (first <= number < first + count))
        first += count
    return [count for count in counts if count]


def _with_groups(products: KernelPlan, reader: KernelPlan, one: FoldedProduct, kept: bool) -> KernelPlan:
    """The kernel of the products, which stores what the reader does, and the products only if they are `kept`."""
    (phase,) = products.resident
    moved = MovedPhases(products, reader, one, reader.resident)
    outputs = [k for k in range(products.inputs, len(products.arrays)) if kept or k != one.store.operand]
    arrays = [*products.arrays[: products.inputs], *moved.arrays]
    place = {k: len(arrays) + n for n, k in enumerate(outputs)}
    arrays += [products.arrays[k] for k in outputs]
    phases = []
    for part in reader.resident:
        stores = [Store(moved.name(s.value), len(arrays) + n) for n, s in enumerate(part.stores)]
        arrays += [moved.array(s.operand) for s in part.stores]
        phases.append(replace(moved.phase(part), stores=tuple(stores)))
    row_stores = tuple(replace(s, operand=place[s.operand]) for s in phase.row_stores if s.operand in place)
    axis = one.axes[len(reader.rows)]
    changed = replace(
        products,
        inputs=products.inputs + len(moved.arrays),
        arrays=tuple(arrays),
        loads=(*products.loads, *moved.loads),
        positions=(*products.positions, *moved.positions),
        scalars=(*products.scalars, *moved.scalars),
        looped=(),
    )
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
