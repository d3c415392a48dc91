"""Coordinates through views: an element that is read under a guard is not read where the guard leaves it out."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

A = np.arange(39.0).reshape(13, 3)
DIAGONAL = A.diagonal()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pad(diagonal(a), 3)", np.pad(DIAGONAL, 3)),
        ("pad(diagonal(a) * 2 + 1, (0, 4))", np.pad(DIAGONAL * 2 + 1, (0, 4))),
        ("concat((-diagonal(a), diagonal(a)))", np.concatenate((-DIAGONAL, DIAGONAL))),
        ("pad(flip(diagonal(a)), 2)", np.pad(DIAGONAL[::-1], 2)),
        ("pad(roll(a[:, 1], 2), 1)", np.pad(np.roll(A[:, 1], 2), 1)),
    ],
)
def test_a_guard_holds_for_the_views_below_it(text, expected):
    """The verifier refuses a read at an index outside of its array."""
    np.testing.assert_array_equal(fd.kernel(text, verify=True, fallback=False)(a=A), expected)
