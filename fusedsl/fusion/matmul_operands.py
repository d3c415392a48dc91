"""Factors of products of matrices: a tile computes its elements of them anew, unless it is faster to do that once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..hardware import CPU
from ..ir.dims import Dim, expression
from ..ir.graph import Node, walk
from ..ir.ops import OPS
from ..rewrite.scalar_builder import free_axes
from .both_axis_reductions import BOUND
from .contractions import matmul_factors
from .coordinates import Axis, memory_order
from .cost_model import ATTOSECOND, Computation, Prices, computed_nodes, cost, count_of, plus, times
from .fusion_group import Decision, FusionGroup, Partition, in_launch_order, load_of
from .recompute_or_store import temporary
from .roofline import LATENCY, LAUNCH

ALONE = round((LAUNCH + LATENCY) / ATTOSECOND)  # what a kernel takes beside its work
FILLING = 4  # blocks on a multiprocessor, whose threads wait for each other's instructions
EXPENSIVE = 20  # instructions of an element, more than those of a cast or of scaling
SCALAR = 8  # times what vector code takes for an element
TILE = 64  # rows and columns of a product for which an element of a factor is computed once


@dataclass(frozen=True)
class ExpensiveFactor:
    """A factor of a kernel's product, the axes that it varies along, and the seconds that storing it saves."""

    group: int
    value: Node
    axes: tuple[Axis, ...]
    saved: float


def _seconds_per_tile(group: FusionGroup, own: Sequence[Axis], instructions: int, prices: Prices) -> Dim:
    """How long a product takes to compute a factor for each tile, in attoseconds: as many tiles as do not fill the
    multiprocessors take as long as those that do."""
    mine = _tiles(a for a in group.rows if a in own)
    others = _tiles(a for a in group.rows if a not in own)
    issued = times(times(count_of(own), others), round(instructions / prices.hardware.issue_rate / ATTOSECOND))
    full = prices.hardware.multiprocessors * min(FILLING, prices.hardware.blocks)
    idle = expression("//", full, expression("max", times(mine, others), 1))
    return times(issued, expression("max", idle, 1))


def _of_a_matrix(f: Node, free: Mapping[Node, frozenset[Axis]], rows: Iterable[Axis]) -> Node | None:
    """What a fold sums the products of with a matrix, if it is a vector beside it."""
    (x,) = f.args
    if f.op != "fold" or f.attr[0] != "sum" or x.op != "multiply":
        return None
    left, right = (free.get(a, frozenset()) & frozenset(rows) for a in x.args)
    return x.args[0] if left < right else x.args[1] if right < left else None


def _in_lanes(group: FusionGroup, own: Sequence[Axis], instructions: int, prices: Prices) -> Dim:
    """How long a CPU takes for a vector beside a matrix, whose rows lie in vector lanes: each element is computed by
    itself, for all of them."""
    lanes = expression("min", count_of(a for a in group.rows if a not in own), SCALAR)
    each = round(instructions / prices.hardware.issue_rate / ATTOSECOND)
    return times(times(count_of(own), lanes), each)


def _tiles(axes: Iterable[Axis]) -> Dim:
    return expression("//", plus(count_of(axes), TILE - 1), TILE)


def store_factors(cut: Partition, prices: Prices, fits: Callable[[Dim, int], bool], kept: int) -> Partition:
    """The partition with factors that are dear to compute stored by kernels of their own, where that is faster: for
    every call for which `fits` says the same of what is saved.

    What takes no function worth keeping, as a cast or the scaling of quantised weights, stays in the product. The first
    `kept` temporaries are the program's own: they stay.
    """
    groups, temporaries, decisions = list(cut.groups), list(cut.temporaries), list(cut.decisions)
    for dear in [found for k in range(len(groups)) for found in _expensive_factors(groups, k, prices, fits)]:
        if not _store_by_producer(groups, temporaries, dear, kept):
            _store_by_own_kernel(groups, temporaries, dear)
        what = f"{dear.value.op} before a product of matrices"
        reason = "to store it once is faster than to compute it for every tile"
        decisions.append(Decision(False, (what,), reason, dear.saved))
    return in_launch_order(groups, temporaries, decisions)


def _store_by_own_kernel(groups: list[FusionGroup], temporaries: list, dear: ExpensiveFactor) -> None:
    """A kernel of its own stores the factor."""
    user = groups[dear.group]
    root = temporary(dear.value, dear.axes, len(temporaries))
    temporaries.append((root.type, root.shape))
    below = set(walk([dear.value]))
    imports = {f: load for f, load in user.imports.items() if f in below}
    groups.append(FusionGroup((), dear.axes, stores=[root], imports=imports, waits_for=set(user.waits_for)))
    user.imports[dear.value] = load_of(root)
    user.waits_for.add(len(groups) - 1)


def _store_by_producer(groups: list[FusionGroup], temporaries: list, dear: ExpensiveFactor, kept: int) -> bool:
    """Whether the kernel that folds what the factor is computed from, for it alone, stores the factor instead."""
    user, below = groups[dear.group], set(walk([dear.value]))
    needed = [f for f in user.imports if f in below]
    home = next((g for g in groups if needed and needed[0] in g.folds and not g.attention), None)
    if len(needed) != 1 or home is None or set(home.rows) != set(dear.axes):
        return False
    (f,) = needed
    stored = next((r for r in home.row_stores if r.value is f and r.kind == "temporary"), None)
    elsewhere = any(f in g.imports for g in groups if g is not user)
    without = computed_nodes(user.values, frozenset((*user.imports, dear.value)) - {f})
    if stored is None or stored.index < kept or elsewhere or f in without:
        return False
    root = temporary(dear.value, home.rows, stored.index)
    home.row_stores[home.row_stores.index(stored)] = root
    temporaries[stored.index] = (root.type, root.shape)
    del user.imports[f]
    user.imports[dear.value] = load_of(root)
    return True


def _expensive_factors(
    groups: list[FusionGroup], k: int, prices: Prices, fits: Callable[[Dim, int], bool]
) -> Iterator[ExpensiveFactor]:
    """The factors of a kernel that are worth storing."""
    group = groups[k]
    if not group.folds or group.attention:
        return
    free = free_axes(group.values)
    pairs = [matmul_factors(f, free, group.rows) for f in group.folds]
    values = [v for pair in pairs if pair is not None for v in pair]
    alone = [_of_a_matrix(f, free, group.rows) for f in group.folds] if prices.hardware is CPU else [None]
    if any(pair is None for pair in pairs):
        if any(v is None for v in alone):
            return
        values = [v for v in alone if v is not None]
    for value in dict.fromkeys(values):
        work = [n for n in computed_nodes([value], frozenset(group.imports)) if n.op not in BOUND]
        inner = [n for n in work if free[n] == free[value]]  # what varies along fewer axes is computed less often
        each = sum(map(cost, inner))
        special = any(n.op in OPS and OPS[n.op].special for n in inner)
        if not (special or each >= EXPENSIVE) or not all(free[n] <= free[value] for n in work):
            continue
        own = memory_order([value], tuple(a for a in (*group.rows, *group.columns) if a in free[value]))
        root = temporary(value, own, 0)
        once = plus(prices.busy(Computation((value,), (root,), frozenset(group.imports))), ALONE)
        anew = _in_lanes if value in alone else _seconds_per_tile
        saved = expression("-", anew(group, own, each, prices), once)
        if not fits(saved, 0):
            yield ExpensiveFactor(k, value, own, prices.number(saved))
