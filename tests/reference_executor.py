"""Reference executor of online reductions on NumPy: splits the axis anywhere and combines the parts in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fusedsl.ir.folds import FOLDS
from fusedsl.ir.graph import Node, Type, node, resolve, search, value_of
from fusedsl.ir.ops import CASTS, OPS
from fusedsl.ir.types import INT64, numpy_dtype
from fusedsl.rewrite.online.online_reduction import OnlineReduction, TileReduction

Values = dict[Node, np.ndarray]
Leaves = Callable[[Node, slice], np.ndarray]


def scalars(roots: Sequence[Node], known: Mapping[Node, np.ndarray]) -> list[np.ndarray]:
    """Values of scalar nodes for arrays of elements, in compute dtypes; `known` holds the values of leaves."""
    values: Values = {}

    def value(n: Node) -> np.ndarray:
        return known[n] if n in known else _computed(n, [values[a] for a in n.args])

    return [resolve(values, n, lambda n: () if n in known else n.args, value) for n in roots]


def _computed(n: Node, args: list[np.ndarray]) -> np.ndarray:
    if n.op == "const":
        value = np.asarray(value_of(n))
    else:
        value = args[0] if n.op in CASTS else np.asarray(OPS[n.op].meaning(*args))
    return value.astype(numpy_dtype(n.type.dtype.compute))


def execute(
    reduction: OnlineReduction,
    leaves: Leaves,
    rows: Mapping[Node, np.ndarray],
    parts: Sequence[slice],
    order: Sequence[int],
) -> Values:
    """Results of an online reduction whose axis is cut into `parts`, combined pairwise in the given order.

    `leaves(node, part)` returns the elements of a load, a position or an inner contraction, along axis 1 of (rows,
    elements, axes of components). `rows` holds row values from outside the pass. `order` gives, for each step, the left
    one of the two neighbours to combine.
    """
    with np.errstate(all="ignore"):
        states = [_lifted(reduction, leaves, rows, part) for part in parts]
        for left in order:
            states[left : left + 2] = [_merged(reduction, *states[left : left + 2])]
        (total,) = states
        known = dict(rows) | dict(zip(reduction.state(), total))
        for f, value in reduction.finish:
            (known[f],) = scalars([value], known)
    return {f: known[f] for f, _ in reduction.finish}


def _lifted(reduction: OnlineReduction, leaves: Leaves, rows, part: slice) -> list[np.ndarray]:
    """State of one part."""
    first, points, second, state = reduction.lift()
    known: Values = dict(rows)
    for lift in (*first, *second):
        known |= {n: leaves(n, part) for n in _leaves(lift.value, known)}
    count = part.stop - part.start
    position = node("position", (), reduction.axes[0], Type(INT64))
    known.setdefault(position, np.arange(part.start, part.stop)[None])
    for lift in first:
        _fold(lift, known, count, position)
    known |= dict(zip(points, scalars(points, known)))
    for lift in second:
        _fold(lift, known, count, position)
    return scalars(state, known)


def _leaves(root: Node, known: Values) -> list[Node]:
    """Loads, indices and inner contractions that a value is computed from."""
    ends = ("load", "position", "fold")
    below = search([root], lambda n: () if n in known or n.op in ends else n.args)
    return [n for n in below if n not in known and n.op in ends]


def _fold(lift: TileReduction, known: Values, count: int, position: Node) -> None:
    """Reduce the elements of a part pairwise into the slots."""
    fold = FOLDS[lift.fold]
    dtype = lift.value.type.dtype.compute
    lifted = scalars(fold.lift(lift.value, position if fold.positional else None), known)
    identity = scalars(fold.identity(dtype), {})
    if count:
        state = list(np.broadcast_arrays(*lifted, np.empty((1, count) + (1,) * (max(x.ndim for x in lifted) - 2))))[:-1]
    else:
        state = [np.asarray(x).reshape(1, 1) for x in identity]
    names = [[node("side", (), (side, k), Type(x.type.dtype)) for k, x in enumerate(lift.slots)] for side in "ab"]
    merge = fold.merge(tuple(names[0]), tuple(names[1]))
    while state[0].shape[1] > 1:
        half = state[0].shape[1] // 2
        a, b, rest = ([x[:, s] for x in state] for s in (slice(0, half), slice(half, 2 * half), slice(2 * half, None)))
        merged = scalars(merge, dict(zip(names[0] + names[1], a + b)))
        state = [np.concatenate([np.broadcast_to(m, x.shape), r], 1) for m, x, r in zip(merged, a, rest)]
    known |= dict(zip(lift.slots, state))


def _merged(reduction: OnlineReduction, a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    return scalars(reduction.combine(), dict(zip((*reduction.state("a"), *reduction.state("b")), (*a, *b))))
