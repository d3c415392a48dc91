"""Errors of a traced function name its arguments as its code does."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

X = np.arange(24.0).reshape(4, 6)


class Layer:
    def __init__(self):
        self.weight = np.ones(3)


def scaled(x, scale, *, eps=1e-3):
    centred = x - x.mean()
    return centred * scale / eps


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (scaled, (X, np.ones(5)), "scale"),
        (lambda d: d["p"] + d["q"], ({"p": np.ones(3), "q": np.ones(4)},), "d['p']"),
        (lambda pair: pair[0] + pair[1], ((np.ones(3), np.ones(4)),), "pair[0]"),
        (lambda layer, x: x + layer.weight, (Layer(), X), "layer.weight"),
        (lambda m, x: np.where(m, x, 0), (X[:3] > 2, X), "m"),
    ],
)
def test_a_shape_that_does_not_fit_is_that_of_a_named_argument(function, arguments, name):
    with pytest.raises(fd.ShapeError) as caught:
        fd.fuse(function)(*arguments)
    assert caught.value.help.startswith(f"{name} needs ")


def test_elements_that_are_no_numbers_are_named():
    with pytest.raises(fd.DTypeError, match=r"d\['q'\] has elements of type str(.|\n)*d\['q'\].astype"):
        fd.fuse(lambda d: d["p"] + d["q"])({"p": np.ones(3), "q": np.array(["a"])})


def test_what_the_function_computes_has_a_type_alone():
    with pytest.raises(fd.ShapeError) as caught:
        fd.fuse(lambda x, y: (x + 1) * y)(np.ones(3), np.ones((2, 4)))
    assert caught.value.help == "float64[3] needs 4 elements, or 1"
