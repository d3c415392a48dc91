"""Where the operand of a matrix product is stored: by a kernel that reduces its rows, or by a map of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..ir.dims import Dim
from ..ir.graph import Node, walk
from ..rewrite.scalar_builder import free_axes
from .contractions import matmul_factors
from .coordinates import Axis
from .cost_model import computed_nodes, cost, count_of
from .fusion_group import FusionGroup, depends_on, load_of
from .kernel_limits import MOST_OPERATIONS
from .partition import LONG_ROW
from .scalar_program import ScalarStore, temporary

Fits = Callable[[Dim, int], bool]


@dataclass(frozen=True)
class ExpensiveFactor:
    """Operand of a matrix product that is worth storing, its axes, and the seconds that this saves."""

    group: int
    value: Node
    axes: tuple[Axis, ...]
    saved: float


def store_operand(
    groups: list[FusionGroup], temporaries: list, factors: Sequence[ExpensiveFactor], pinned: int, fits: Fits
) -> None:
    """Let a kernel store an operand, and let its products load it; `factors` are in launch order."""
    first, users = factors[0], [groups[factor.group] for factor in factors]
    inside = computed_nodes([first.value], frozenset(users[0].imports))
    if not _store_by_producer(groups, temporaries, first, pinned):
        rows = _row_kernel(groups, first, inside, fits)
        if rows is None:
            _store_by_own_kernel(groups, temporaries, first)
        else:
            groups[rows].waits_for |= _writers(groups, inside)
            _store_by_row_kernel(groups, temporaries, first, users, groups[rows], pinned)
    stored = [(k, r) for k, g in enumerate(groups) for r in g.all_stores]
    producer, root = next((k, r) for k, r in stored if r.value is first.value and r.keeps_value)
    for user in users:
        _load(user, root, producer)


def _load(user: FusionGroup, root: ScalarStore, producer: int) -> None:
    """Let a product load an operand, and only those folds that it still reads."""
    user.imports[root.value] = load_of(root)
    user.waits_for.add(producer)
    read = _read(user, frozenset(user.imports))
    user.imports = {f: load for f, load in user.imports.items() if f in read}


def _read(g: FusionGroup, loads: frozenset[Node]) -> set[Node]:
    """Values that a kernel computes once it loads these: what it folds, stores, or reads for another value."""
    return {*g.values, *(a for n in computed_nodes(g.values, loads) for a in n.args)}


def _store_by_own_kernel(groups: list[FusionGroup], temporaries: list, factor: ExpensiveFactor) -> None:
    """Add a map that stores the operand."""
    user = groups[factor.group]
    root = temporary(factor.value, factor.axes, len(temporaries))
    temporaries.append(root.type)
    subgraph = set(walk([factor.value]))
    imports = {f: load for f, load in user.imports.items() if f in subgraph}
    groups.append(FusionGroup((), factor.axes, stores=[root], imports=imports, waits_for=set(user.waits_for)))
    user.imports[factor.value] = load_of(root)
    user.waits_for.add(len(groups) - 1)


def _store_by_producer(groups: list[FusionGroup], temporaries: list, factor: ExpensiveFactor, pinned: int) -> bool:
    """Whether the kernel that reduces the operand's only input stores the operand instead."""
    user, subgraph = groups[factor.group], set(walk([factor.value]))
    needed = [f for f in user.imports if f in subgraph]
    producer = next((g for g in groups if needed and needed[0] in g.folds and not g.attention), None)
    if len(needed) != 1 or producer is None or set(producer.rows) != set(factor.axes):
        return False
    (f,) = needed
    stored = next((r for r in producer.row_stores if r.value is f and r.keeps_value), None)
    elsewhere = any(f in g.imports for g in groups if g is not user)
    without = computed_nodes(user.values, frozenset((*user.imports, factor.value)) - {f})
    if stored is None or stored.index < pinned or elsewhere or f in without:
        return False
    root = temporary(factor.value, producer.rows, stored.index)
    producer.row_stores[producer.row_stores.index(stored)] = root
    temporaries[stored.index] = root.type
    del user.imports[f]
    user.imports[factor.value] = load_of(root)
    return True


def _row_kernel(groups: list[FusionGroup], factor: ExpensiveFactor, inside: Sequence[Node], fits: Fits) -> int | None:
    """The kernel that folds the rows of an operand and can store its elements, as those of a normalised row.

    It holds a row on the chip, and waits for no kernel that waits for it. `inside` are the nodes of an element.
    """
    imports = groups[factor.group].imports
    folds = {a for n in inside for a in n.args if a in imports}
    for k, g in enumerate(groups):
        if folds.isdisjoint(g.folds) or not folds <= {*g.folds, *g.imports}:
            continue
        axes, writers = {*g.rows, *g.columns}, _writers(groups, inside)
        late = any(w == k or depends_on(groups, w, k) for w in writers)
        if g.rows and g.is_plain and axes == set(factor.axes) and not late and _holds_rows(g, fits):
            computed = {*inside, *computed_nodes(g.values, frozenset(g.imports))}
            return k if sum(map(cost, computed)) <= MOST_OPERATIONS else None
    return None


def _holds_rows(g: FusionGroup, fits: Fits) -> bool:
    """Whether a kernel holds its rows on the chip: it multiplies no matrices, and they are not too long."""
    free = free_axes(g.values)
    if any(matmul_factors(f, free, g.rows) for f in g.folds):
        return False
    loads = (n for n in (*walk(g.folds), *g.imports.values()) if n.op == "load")
    size = max((n.attr[0].stored_dtype(n.type.dtype).itemsize for n in loads), default=1)
    return fits(count_of(g.columns), LONG_ROW // size)


def _writers(groups: list[FusionGroup], nodes: Iterable[Node]) -> set[int]:
    """Kernels of this segment whose temporaries these nodes load."""
    read = {n.attr[0].index for n in nodes if n.op in ("load", "pointer") and n.attr[0].kind == "temporary"}
    return {k for k, g in enumerate(groups) for r in g.all_stores if r.kind == "temporary" and r.index in read}


def _store_by_row_kernel(
    groups: list[FusionGroup],
    temporaries: list,
    factor: ExpensiveFactor,
    users: Sequence[FusionGroup],
    producer: FusionGroup,
    pinned: int,
) -> None:
    """Let the kernel that folds the rows store the operand, in place of a fold that no other kernel loads."""
    still_read = {f for g in groups if g not in users for f in g.imports}
    still_read = still_read.union(*(_read(user, frozenset((*user.imports, factor.value))) for user in users))
    own = [r for r in producer.row_stores if r.kind == "temporary" and r.index >= pinned]
    unread = [r for r in own if r.value in producer.folds and r.value not in still_read]
    index = unread[0].index if unread else len(temporaries)
    root = temporary(factor.value, factor.axes, index)
    temporaries[index : index + 1] = [root.type]
    producer.row_stores = [r for r in producer.row_stores if r not in unread]
    producer.stores.append(root)
