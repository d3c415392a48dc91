"""Rules of a kernel's operands: what each is, its indices, and the axes along which it is read and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..ir.dims import Dim
from ..ir.graph import Parameter, Type
from ..ir.index_rules import IndexRules
from ..ir.verify import require
from .phase import Phase
from .plan import ArrayUse, KernelPlan, ScalarUse

Key = tuple[str, int]
READ, WRITTEN = ("argument", "temporary", "result"), ("temporary", "result")


def verify_kernel(
    kernel: KernelPlan, parameters: Sequence[Parameter], types: Mapping[Key, Type], rules: IndexRules
) -> None:
    """VerifyError if a read or a write is not well formed."""
    rules.known_extents(axes_of(kernel), kernel.name)
    require(0 <= kernel.inputs <= len(kernel.arrays), "a kernel's inputs are among its arrays", kernel.name)
    for k, use in enumerate(kernel.arrays):
        kinds = READ if k < kernel.inputs else WRITTEN
        require(use.kind in kinds and (use.kind, use.index) in types, "an array is there to be read or written", use)
        require(use.dtype is types[use.kind, use.index].dtype, "an array has its dtype", use)
        shape = rules.viewed(types[use.kind, use.index].shape, use.views, use)
        if use.gathered is None:
            _stays_inside(use, shape, kernel, rules)
        else:
            _is_gathered_along_axes(use, k, kernel)
    _inputs_are_loaded_once(kernel)
    _outputs_are_written_at_own_elements(kernel)
    for p in kernel.positions:
        require(0 <= p.axis < len(axes_of(kernel)), "a position is that on an axis", kernel.name, p)
    for s in kernel.scalars:
        _is_a_number(s, kernel, parameters, types, rules)


def axes_of(kernel: KernelPlan) -> tuple[Dim, ...]:
    """Extents of a kernel's iteration axes."""
    return (*kernel.rows, *kernel.columns, *kernel.ranks)


def _stays_inside(use: ArrayUse, shape: tuple[Dim, ...], kernel: KernelPlan, rules: IndexRules) -> None:
    require(len(use.at) == len(shape), "an array has a coordinate for each axis", use)
    axes = axes_of(kernel)
    for c, extent in zip(use.at, shape):
        require(c.axis is None or 0 <= c.axis < len(axes), "a coordinate follows an axis of the kernel", use)
        rules.inside(c.start, c.step, 1 if c.axis is None else axes[c.axis], extent, use)


def _is_gathered_along_axes(use: ArrayUse, k: int, kernel: KernelPlan) -> None:
    assert use.gathered is not None
    merged = any(s.operand == k for phase in kernel.resident for s in phase.scatters)
    require((k < kernel.inputs or merged) and not use.at, "an array whose addresses are computed is read", use)
    require(all(0 <= a < len(axes_of(kernel)) for a in use.gathered), "addresses vary along axes of the kernel", use)


def _inputs_are_loaded_once(kernel: KernelPlan) -> None:
    """Each input is one value, or the address of one array."""
    for loads, gathered in ((kernel.loads, False), (kernel.pointers, True)):
        for load in loads:
            require(0 <= load.operand < kernel.inputs, "what is loaded is an input", kernel.name, load)
            use = kernel.arrays[load.operand]
            require((use.gathered is not None) == gathered, "an address is computed of what is gathered alone", use)
            if not gathered:
                require(load.value.dtype is use.dtype.compute, "a load widens its array's dtype", load, use)
    read = sorted(load.operand for load in (*kernel.loads, *kernel.pointers))
    require(read == list(range(kernel.inputs)), "every input is loaded once", kernel.name, read)


# -- outputs


def _outputs_are_written_at_own_elements(kernel: KernelPlan) -> None:
    """Every output is stored by one phase, with an element for each point of the store's axes.

    With fewer axes, several points would write one element.
    """
    axes = axes_of(kernel)
    outputs = range(kernel.inputs, len(kernel.arrays))
    for way in _ways(kernel):
        require(sorted(k for k, _ in way) == list(outputs), "every output is stored once", kernel.name, way)
        for k, along in way:
            if kernel.arrays[k].gathered is not None:
                continue
            own = [c.axis for c in kernel.arrays[k].at if c.axis is not None]
            require(len(own) == len(set(own)), "an output runs along an axis once", kernel.arrays[k])
            require(all(c.step == 1 for c in kernel.arrays[k].at), "an output is written in order", kernel.arrays[k])
            wide = {a for a in along if axes[a] != 1}
            require(wide == {a for a in own if axes[a] != 1}, "a store is along the axes of its output", kernel.name, k)


Stored = list[tuple[int, frozenset[int]]]  # (output, axes of the store)


def _ways(kernel: KernelPlan) -> list[Stored]:
    """Stores of a kernel for rows in registers, and for looped rows."""
    if kernel.attention is not None:
        rows = frozenset(range(len(kernel.rows)))
        stored = [(store.operand, rows) for store in kernel.attention.row_outputs]
        return [stored + [(s.operand, rows | {e.axis}) for e in kernel.attention.epilogues for s in e.stores]]
    ways = [kernel.resident, kernel.looped] if kernel.looped else [kernel.resident]
    return [_stored(phases, kernel) for phases in ways]


def _stored(phases: Iterable[Phase], kernel: KernelPlan) -> Stored:
    count, more = len(kernel.rows), len(kernel.rows) + len(kernel.columns)
    rows, columns = frozenset(range(count)), frozenset(range(count, more))
    ranks = frozenset(range(more, more + len(kernel.ranks)))
    stored: Stored = []
    for phase in phases:
        for part in (phase, *phase.tile_phases):
            stored += [(store.operand, rows | (ranks if part.ranks else columns)) for store in part.stores]
            stored += [(store.operand, rows) for store in part.stores_of_rows]
            stored += [(scatter.operand, columns) for scatter in part.scatters]
            panels = part.panel_folds
            stored += [(store.operand, rows - {panels.axis} | ranks) for store in panels.stores] if panels else []
    stored += [(store.operand, columns) for store in kernel.column_epilogue.stores] if kernel.column_epilogue else []
    return stored


# -- numbers


def _is_a_number(
    s: ScalarUse, kernel: KernelPlan, parameters: Sequence[Parameter], types: Mapping[Key, Type], rules: IndexRules
) -> None:
    match s.kind:
        case "argument":
            known = 0 <= s.source < len(parameters) and parameters[s.source].scalar
            require(known, "a number is an argument", kernel.name, s)
        case "extent":
            rules.known_extents([s.source], s)
        case "stride":
            array, axis = s.source
            there = 0 <= array < kernel.inputs and kernel.arrays[array].gathered is not None
            require(there, "a stride is that of an array whose addresses are computed", kernel.name, s)
            use = kernel.arrays[array]
            shape = rules.viewed(types[use.kind, use.index].shape, use.views, use)
            require(0 <= axis < len(shape), "a stride is that of an axis", kernel.name, s)
        case "literal":
            require(-(1 << 63) <= s.source < 1 << 63, "the bytes of a literal fit a slot", kernel.name, s)
        case _:
            require(False, "a number is an argument, an extent, a stride or a literal", kernel.name, s)
