"""Operands of matrix products: recomputed for each output tile, unless storing them once is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..hardware import CPU
from ..ir.dims import Dim, expression
from ..ir.graph import Node
from ..ir.ops import OPS
from ..rewrite.scalar_builder import free_axes
from .both_axis_reductions import BOUND
from .contractions import matmul_factors
from .coordinates import Axis, memory_order
from .cost_model import ATTOSECOND, Computation, Prices, computed_nodes, cost, count_of, plus, times
from .fusion_group import Decision, FusionGroup, Partition, in_launch_order
from .graph_products import exceeds_small
from .operand_stores import ExpensiveFactor, store_operand
from .roofline import LATENCY, LAUNCH
from .scalar_program import temporary

KERNEL_OVERHEAD = round((LAUNCH + LATENCY) / ATTOSECOND)  # attoseconds of a kernel without its work
FILLING = 4  # blocks per multiprocessor that hide latency
EXPENSIVE = 20  # instructions per element: more than a cast or a scaling
SCALAR = 8  # times the cost in vector code
TILE = 64  # rows and columns of an output tile, which computes an element once


def _seconds_per_tile(group: FusionGroup, own: Sequence[Axis], instructions: int, prices: Prices) -> Dim:
    """Time to recompute an operand for each output tile, in attoseconds.

    Tiles that do not fill the multiprocessors take as long as a full wave.
    """
    own_tiles = _tiles(a for a in group.rows if a in own)
    other_tiles = _tiles(a for a in group.rows if a not in own)
    issued = times(times(count_of(own), other_tiles), round(instructions / prices.hardware.issue_rate / ATTOSECOND))
    full = prices.hardware.multiprocessors * min(FILLING, prices.hardware.blocks)
    idle = expression("//", full, expression("max", times(own_tiles, other_tiles), 1))
    return times(issued, expression("max", idle, 1))


def _vector_operand(f: Node, free: Mapping[Node, frozenset[Axis]], rows: Iterable[Axis]) -> Node | None:
    """The vector of a matrix-vector product, or None."""
    (x,) = f.args
    if f.op != "fold" or f.attr[0] != "sum" or x.op != "multiply":
        return None
    left, right = (free.get(a, frozenset()) & frozenset(rows) for a in x.args)
    return x.args[0] if left < right else x.args[1] if right < left else None


def _seconds_in_lanes(group: FusionGroup, own: Sequence[Axis], instructions: int, prices: Prices) -> Dim:
    """Time of a CPU to recompute the vector of a matrix-vector product, in attoseconds.

    Matrix rows are in vector lanes; each element of the vector is computed per lane.
    """
    lanes = expression("min", count_of(a for a in group.rows if a not in own), SCALAR)
    each = round(instructions / prices.hardware.issue_rate / ATTOSECOND)
    return times(times(count_of(own), lanes), each)


def _tiles(axes: Iterable[Axis]) -> Dim:
    return expression("//", plus(count_of(axes), TILE - 1), TILE)


def store_factors(
    cut: Partition, prices: Prices, fits: Callable[[Dim, int], bool], pinned: int, every: bool = False
) -> Partition:
    """The partition with expensive operands of matrix products stored by separate kernels, if that is faster.

    With `every`, all computed operands of large products are stored.

    The answer holds for every call for which `fits` gives the same answer about the saving. Cheap operands, such as
    casts and scaled quantised weights, stay in the product. The first `pinned` temporaries belong to the program and
    stay.
    """
    groups, temporaries, decisions = list(cut.groups), list(cut.temporaries), list(cut.decisions)
    factors_of: dict[Node, list[ExpensiveFactor]] = {}
    for factor in [x for k in range(len(groups)) for x in _expensive_factors(groups, k, prices, fits, every)]:
        factors_of.setdefault(factor.value, []).append(factor)
    reason = "storing it once is faster than recomputing it for every tile"
    for value, factors in factors_of.items():
        store_operand(groups, temporaries, factors, pinned, fits)
        what = f"{value.op} before a matrix product"
        decisions += [Decision(False, (what,), reason, factor.saved) for factor in factors]
    return in_launch_order(groups, temporaries, decisions)


def _expensive_factors(
    groups: list[FusionGroup], k: int, prices: Prices, fits: Callable[[Dim, int], bool], every: bool
) -> Iterator[ExpensiveFactor]:
    """Operands of a kernel's products that are worth storing."""
    group = groups[k]
    if not group.folds or group.attention:
        return
    free = free_axes(group.values)
    pairs = [matmul_factors(f, free, group.rows) for f in group.folds]
    values = [v for pair in pairs if pair is not None for v in pair]
    alone = [_vector_operand(f, free, group.rows) for f in group.folds] if prices.hardware is CPU else [None]
    if any(pair is None for pair in pairs):
        if any(v is None for v in alone):
            return
        values = [v for v in alone if v is not None]
    for value in dict.fromkeys(values):
        work = [n for n in computed_nodes([value], frozenset(group.imports)) if n.op not in BOUND]
        inner = [n for n in work if free[n] == free[value]]  # values with fewer axes are computed less often
        each = sum(map(cost, inner))
        large = every and value not in alone and not _is_in_memory(value) and _is_large(group, value, pairs, free, fits)
        special = any(n.op in OPS and OPS[n.op].special for n in inner)
        if not (special or large or each >= EXPENSIVE) or not all(free[n] <= free[value] for n in work):
            continue
        own = memory_order([value], tuple(a for a in (*group.rows, *group.columns) if a in free[value]))
        root = temporary(value, own, 0)
        once = plus(prices.busy(Computation((value,), (root,), frozenset(group.imports))), KERNEL_OVERHEAD)
        recompute = _seconds_in_lanes if value in alone else _seconds_per_tile
        saved = expression("-", recompute(group, own, each, prices), once)
        if large or not fits(saved, 0):
            yield ExpensiveFactor(k, value, own, prices.number(saved))


def _is_in_memory(value: Node) -> bool:
    """Whether an operand is an element of an array, in another dtype at most."""
    while value.op == "convert":
        value = value.args[0]
    return value.op == "load"


def _is_large(
    group: FusionGroup,
    value: Node,
    pairs: Sequence[tuple[Node, Node] | None],
    free: Mapping[Node, frozenset[Axis]],
    fits: Callable[[Dim, int], bool],
) -> bool:
    """Whether an operand is one of a large product."""
    for pair in pairs:
        if pair is not None and value in pair:
            rows, columns = (count_of(a for a in group.rows if a in free[x] - free[y]) for x, y in (pair, pair[::-1]))
            return exceeds_small(rows, columns, count_of(group.columns), fits)
    return False
