"""Folds: any split in any order, with empty parts, gives what the whole gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedsl.ir.folds import FOLDS
from fusedsl.ir.graph import Type, node, value_of, walk
from fusedsl.ir.ops import OPS
from fusedsl.ir.types import BOOL, FLOAT32, INT32, INT64, numpy_dtype


def run(nodes, known):
    """The values of scalar nodes, given those of their leaves."""
    values = dict(known)
    with np.errstate(all="ignore"):
        for n in walk(nodes):
            if n in values:
                continue
            if n.op == "const":
                values[n] = np.asarray(value_of(n), numpy_dtype(n.type.dtype))
            else:
                values[n] = np.asarray(OPS[n.op].meaning(*(values[a] for a in n.args))).astype(
                    numpy_dtype(n.type.dtype)
                )
    return [values[n] for n in nodes]


class Machine:
    """A fold on NumPy scalars."""

    def __init__(self, name, dtype):
        self.fold, self.dtype = FOLDS[name], dtype
        self.identity = run(self.fold.identity(dtype), {})
        types = [x.type for x in self.fold.identity(dtype)]
        self.a, self.b = (tuple(node("leaf", (), (s, k), t) for k, t in enumerate(types)) for s in "ab")
        self.merged = self.fold.merge(self.a, self.b)

    def lift(self, x, position):
        leaf, place = node("leaf", (), "x", Type(self.dtype)), node("leaf", (), "i", Type(INT64))
        state = self.fold.lift(leaf, place)
        return run(state, {leaf: x, place: np.int64(position)})

    def merge(self, a, b):
        return run(self.merged, dict(zip((*self.a, *self.b), (*a, *b))))

    def whole(self, states):
        total = self.identity
        for s in states:
            total = self.merge(total, s)
        return total

    def split(self, states, cuts):
        """Fold the parts between the cuts, empty ones too, and merge them in pairs."""
        edges = [0, *sorted(cuts), len(states)]
        parts = [self.whole(states[i:j]) for i, j in itertools.pairwise(edges)]
        while len(parts) > 1:
            pairs = [self.merge(*parts[k : k + 2]) if k + 1 < len(parts) else parts[k] for k in range(0, len(parts), 2)]
            parts = pairs
        return parts[0]


SPECIAL = st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5])
NUMBERS = st.lists(st.one_of(SPECIAL, st.floats(-100, 100, width=32)), max_size=12)


@pytest.mark.parametrize("name", FOLDS)
@settings(max_examples=30, deadline=None)
@given(values=NUMBERS, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_any_split_gives_the_whole(name, values, cuts):
    dtype = BOOL if name in ("any", "all") else FLOAT32
    machine = Machine(name, dtype)
    items = np.array(values, np.float32) > 0 if dtype is BOOL else np.array(values, np.float32)
    states = [machine.lift(x, k) for k, x in enumerate(items)]
    whole = machine.whole(states)[machine.fold.finish]
    parts = machine.split(states, [c for c in cuts if c <= len(states)])[machine.fold.finish]
    if dtype is FLOAT32 and name in ("sum", "prod"):
        np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-3, equal_nan=True)
    else:
        np.testing.assert_array_equal(parts, whole)
    if len(items) and name in ("max", "min", "argmax", "argmin", "any", "all"):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(whole, getattr(np, name)(items))


@pytest.mark.parametrize("name", ("sum", "prod", "max", "min", "argmax", "argmin"))
def test_identity_changes_nothing(name):
    for dtype, values in ((FLOAT32, [1.5, -np.inf, np.inf, np.nan]), (INT32, [-(2**31), 2**31 - 1, 0])):
        machine = Machine(name, dtype)
        for x in np.array(values, numpy_dtype(dtype)):
            state = machine.lift(x, 3)
            for merged in (machine.merge(machine.identity, state), machine.merge(state, machine.identity)):
                np.testing.assert_array_equal(merged[machine.fold.finish], state[machine.fold.finish])
