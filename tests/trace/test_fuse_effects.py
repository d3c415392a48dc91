"""A function that changes Python state which it reads runs again at each call, as the undecorated one does."""

from __future__ import annotations

import numpy as np

import fusedsl as fd

X = np.arange(6.0)
CALLS = 0
MODE = 0


class Counter:
    def __init__(self, array: bool):
        self.n, self.log = 0, []
        if array:
            self.w = np.ones(6)

    @fd.fuse
    def count(self, x):
        self.n += 1
        return x * self.n

    @fd.fuse
    def note(self, x):
        self.log.append(len(self.log))
        return x * len(self.log)


def test_attributes_of_objects():
    for array in (True, False):
        a, b = Counter(array), Counter(array)
        found = [o.count(X) for o in (a, b, a, a, b)]
        np.testing.assert_array_equal(found, [X, X, X * 2, X * 3, X * 2])
        assert (a.n, b.n) == (3, 2)


def test_lists_of_objects():
    for array in (True, False):
        a, b = Counter(array), Counter(array)
        found = [o.note(X) for o in (a, a, b, a)]
        np.testing.assert_array_equal(found, [X, X * 2, X, X * 3])
        assert (a.log, b.log) == ([0, 1, 2], [0])


def test_lists_among_defaults():
    @fd.fuse
    def f(x, seen=[], *, more={}):  # noqa: B006
        seen.append(1)
        more[len(seen)] = 0
        return x * len(seen) + len(more)

    np.testing.assert_array_equal([f(X), f(X), f(X)], [X + 1, X * 2 + 2, X * 3 + 3])


def test_names_outside():
    @fd.fuse
    def count(x):
        global CALLS
        CALLS += 1
        return x * CALLS

    @fd.fuse
    def switch(x):
        global MODE
        MODE = 7
        return x + 1

    np.testing.assert_array_equal([count(X) for _ in range(3)], [X, X * 2, X * 3])
    global MODE
    for _ in range(3):
        MODE = 0  # what the function read at its first call
        switch(X)
        assert MODE == 7


def test_names_of_enclosing_functions():
    n = 0

    @fd.fuse
    def f(x):
        nonlocal n
        n += 1
        return x * n

    np.testing.assert_array_equal([f(X) for _ in range(3)], [X, X * 2, X * 3])


def test_a_function_without_effects_is_traced_once():
    traced = []

    @fd.fuse
    def f(x, o):
        traced.append(1)
        return x * o.n

    o = Counter(True)
    o.n, found = 2, []
    for _ in range(3):
        found.append(f.prepared((X, o), {}).trace)
    assert len(traced) == 3  # a list outside that it changes is an effect, too

    @fd.fuse
    def g(x, o):
        return x * o.n

    assert len({id(g.prepared((X, o), {}).trace) for _ in range(3)}) == 1


def test_an_index_computed_from_elements_and_numbers():
    @fd.fuse(fallback=False)
    def f(x, least):
        last = (x > least).sum() - 1
        return x[last], x[[last, 0]], (x * least)[last - 1]

    for least in (1.0, 2.5):
        for found, right in zip(f(X, least), f.function(X, least)):
            np.testing.assert_array_equal(found, right)
