"""Folded products: kernels that fold what a kernel of matrix products stores, along one of its axes.

Some only fold it. Others fold short groups, and store elements that are computed from the folds: those of a
normalisation, or of a softmax. One tile has all of such a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..ir.dims import Dim, expression
from .kernel import Load
from .phase import PANEL_COLUMNS, Phase, Store
from .plan import ArrayUse, KernelPlan


@dataclass(frozen=True)
class FoldedProduct:
    """A kernel of products, by its number, and one that folds what it stores in a temporary.

    `axes` are the row axes of the products, by axis of the reader. The reader loads the value as `load`, the products'
    kernel stores it from `store`.
    """

    products: int
    reader: int
    load: Load
    store: Store
    axes: dict[int, int]


Fits = Callable[[Dim, int], bool]
WIDEST_GROUP = 256  # columns of a tile


def folded_products(kernels: Sequence[KernelPlan]) -> list[FoldedProduct]:
    """The kernels of products whose stored values another kernel only folds, along one axis."""
    folded = (folded_product(kernels, k) for k in range(len(kernels)))
    return [one for one in folded if one is not None]


def folded_product(kernels: Sequence[KernelPlan], number: int) -> FoldedProduct | None:
    return _read_product(kernels, number, panel_phases(kernels[number])) if _only_folds(kernels[number]) else None


def grouped_product(kernels: Sequence[KernelPlan], number: int, fits: Fits) -> FoldedProduct | None:
    """The product whose groups a kernel folds and finishes, if tiles can have whole groups of them."""
    reader = kernels[number]
    if not _finishes_groups(reader):
        return None
    (size,) = reader.columns
    if not fits(size, WIDEST_GROUP) or not fits(expression("%", size, PANEL_COLUMNS), 0) or fits(size, 0):
        return None
    return _read_product(kernels, number, reader.resident)


def grouped_products(kernels: Sequence[KernelPlan], fits: Fits) -> list[FoldedProduct]:
    """The kernels of products whose stored values another kernel folds in groups and finishes."""
    grouped = (grouped_product(kernels, k, fits) for k in range(len(kernels)))
    return [one for one in grouped if one is not None]


def is_read_elsewhere(kernels: Sequence[KernelPlan], one: FoldedProduct) -> bool:
    """Whether the products are a result, or another kernel than the reader reads them."""
    use = kernels[one.reader].arrays[one.load.operand]
    read = {(u.kind, u.index) for n, k in enumerate(kernels) if n != one.reader for u in k.arrays[: k.inputs]}
    return use.kind == "result" or (use.kind, use.index) in read


def _finishes_groups(reader: KernelPlan) -> bool:
    """Whether a kernel does nothing but fold a row, and store elements that are computed from its folds."""
    if reader.attention or reader.column_epilogue or reader.ranks or reader.pointers or len(reader.columns) != 1:
        return False
    phases = reader.resident
    plain = not any(p.row_stores or p.scans or p.sort or p.column_reductions or p.scatters for p in phases)
    plain = plain and not any(p.products or p.tile_phases or p.panel_folds or p.groups for p in phases)
    kinds = {v.dtype.kind for p in phases for use in p.folds for v in use.accumulators}
    folds, stores = (any(getattr(p, part) for p in phases) for part in ("folds", "stores"))
    along = any(p.axis == len(reader.rows) for p in reader.positions)
    return plain and folds and stores and "b" not in kinds and not along


def _read_product(kernels: Sequence[KernelPlan], number: int, phases: Sequence[Phase]) -> FoldedProduct | None:
    """The kernel of products that stores what a kernel's phases read, if these can run where it is computed."""
    reader, elements = kernels[number], names_read_of(phases)
    for load in reader.loads:
        use = reader.arrays[load.operand]
        if use.kind == "argument" or load.value.name not in elements:
            continue
        writers = _writers(kernels, use)
        others = [x for x in reader.arrays[: reader.inputs] if (x.kind, x.index) == (use.kind, use.index)]
        if len(writers) != 1 or len(others) != 1 or not _computes_products(kernels[writers[0]]):
            continue
        one = _joined(kernels, (writers[0], number), load, elements)
        if one is not None:
            return one
    return None


def _only_folds(reader: KernelPlan) -> bool:
    """Whether a kernel does nothing but fold one axis in one pass, and finish its rows."""
    if reader.attention or reader.column_epilogue or reader.ranks or reader.pointers or len(reader.looped) != 1:
        return False
    (phase,) = reader.looped
    parts = (phase, *phase.tile_phases)
    alone = not any(p.stores or p.scans or p.sort or p.column_reductions or p.scatters for p in parts)
    alone = alone and not any(p.row_stores for p in phase.tile_phases) and not any(p.products for p in reader.resident)
    kinds = {v.dtype.kind for use in phase.folds for v in use.accumulators}
    return bool(phase.folds) and alone and len(reader.columns) == 1 and "b" not in kinds


def _computes_products(kernel: KernelPlan) -> bool:
    """Whether a kernel sums products, and stores what it makes of them."""
    return (
        len(kernel.resident) == 1
        and bool(kernel.resident[0].products)
        and not kernel.resident[0].stores
        and kernel.attention is None
        and kernel.column_epilogue is None
        and kernel.resident[0].groups is None
        and not kernel.pointers
    )


def _joined(
    kernels: Sequence[KernelPlan], pair: tuple[int, int], load: Load, elements: set[str]
) -> FoldedProduct | None:
    """The writer and the reader, if this reads each element that the writer stores once, and what else its `elements`
    are computed from was there."""
    writer, number = pair
    products, reader, use = kernels[writer], kernels[number], kernels[number].arrays[load.operand]
    store = next((s for s in products.resident[0].row_stores if _is(products.arrays[s.operand], use)), None)
    if store is None or writer >= number:
        return None
    out = products.arrays[store.operand]
    own, along = _plain_axes(use), _plain_axes(out)
    everyone = range(len(reader.rows) + len(reader.columns))
    if own is None or along is None or sorted(own) != list(everyone) or sorted(along) != [*range(len(products.rows))]:
        return None
    axes = dict(zip(own, along))
    if products.resident[0].panel_folds and products.resident[0].panel_folds.axis != axes[len(reader.rows)]:
        return None
    if load.value.dtype is not _dtype(products, store.value):
        return None
    for other in reader.loads:
        x = reader.arrays[other.operand]
        late = any(w >= writer for w in _writers(kernels, x))
        if other is not load and other.value.name in elements and (x.gathered is not None or late):
            return None
    if any(s.kind == "stride" for s in reader.scalars):
        return None
    return FoldedProduct(writer, number, load, store, axes)


def _is(out: ArrayUse, use: ArrayUse) -> bool:
    return (out.kind, out.index) == (use.kind, use.index) and not out.views and not use.views


def _plain_axes(use: ArrayUse) -> list[int] | None:
    """The axis that each axis of an array follows from its start on; None if one does not."""
    axes = [c.axis for c in use.at if c.axis is not None and c.start == 0 and c.step == 1]
    return axes if len(axes) == len(use.at) and len(set(axes)) == len(axes) else None


def _writers(kernels: Sequence[KernelPlan], array: ArrayUse) -> list[int]:
    return [k for k, kernel in enumerate(kernels) if any(_writes(kernel, array))]


def _writes(kernel: KernelPlan, array: ArrayUse) -> Iterator[bool]:
    return ((use.kind, use.index) == (array.kind, array.index) for use in kernel.arrays[kernel.inputs :])


def _dtype(kernel: KernelPlan, name: str) -> object:
    """The dtype of a row value."""
    (phase,) = kernel.resident
    values = [v for use in phase.folds for v in use.accumulators] + [*(phase.row.results if phase.row else ())]
    return next((v.dtype for v in values if v.name == name), None)


def panel_phases(reader: KernelPlan) -> tuple[Phase, ...]:
    """The phases that run on each panel of a row, as if it were a row."""
    (phase,) = reader.looped
    return phase.tile_phases or (Phase(phase.element, folds=phase.folds),)


def names_read_of(phases: Iterable[Phase]) -> set[str]:
    phases = tuple(phases)
    stored = {store.value for phase in phases for store in phase.stores}
    return stored.union(*(phase.names_read for phase in phases))
