"""A traced function without arrays among its arguments returns those of the library whose functions it calls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fused import same

import fusedsl as fd

torch = pytest.importorskip("torch")
WEIGHT = torch.linspace(0.5, 2, 4)


def positions(length, width):
    angles = torch.arange(length)[:, None] * torch.exp(-torch.arange(0, width, 2) * (np.log(1e4) / width))
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


def guarded(n):
    try:
        return torch.arange(n) * 2
    except Exception:
        return None


FUNCTIONS = [
    (lambda n: torch.arange(n), (3,)),
    (lambda n, a: torch.full((n, 2), a), (3, 2.5)),
    (lambda: torch.zeros(3), ()),
    (lambda: (torch.arange(3), np.arange(3)), ()),
    (lambda n: torch.ones(2) * n, (2.5,)),
    (lambda n: torch.ones(2).half() * n, (2.5,)),
    (lambda n: torch.tensor(n), (3,)),
    (lambda n: torch.tensor([[n, 2.5]]), (3,)),
    (lambda n: torch.tensor([n > 2, False]), (3,)),
    (lambda n: torch.tril_indices(n, n), (3,)),
    (lambda a, b: torch.linspace(a, b, 5), (3, 4.5)),
    (lambda n: WEIGHT * n, (2,)),
    (lambda n: n * WEIGHT.half(), (2,)),
    (lambda n: [torch.eye(n), n + 1, {"a": torch.full((), n)}], (2,)),
    (lambda n: np.arange(n) + 0.5, (3,)),
    (lambda s: torch.zeros(2) + s, (np.float32(3),)),
    (positions, (5, 4)),
    (guarded, (3,)),
]


@pytest.mark.parametrize(("function", "values"), FUNCTIONS)
def test_what_is_made_belongs_to_the_library_that_makes_it(function, values):
    fused = fd.fuse(function)
    for _ in range(3):
        same(fused(*values), function(*values))


def test_the_default_dtype_and_device_of_each_call_count():
    fused = fd.fuse(lambda n: torch.ones(n) / 3)
    assert fused(2).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert fused(2).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert fused(2).dtype is torch.float32


@pytest.mark.gpu
def test_the_default_device_of_each_call_counts():
    fused = fd.fuse(lambda n: torch.ones(n) / 3)
    assert fused(2).device.type == "cpu"
    with torch.device("cuda"):
        assert fused(2).device.type == fused(3).device.type == "cuda"
    assert fused(2).device.type == "cpu"
    assert fd.fuse(lambda n: torch.arange(n, device="cuda"))(3).tolist() == [0, 1, 2]


@pytest.mark.gpu
def test_what_cupy_makes_is_cupys():
    cupy = pytest.importorskip("cupy")
    made = fd.fuse(lambda n: cupy.arange(n) * 2)(3)
    assert isinstance(made, cupy.ndarray) and made.tolist() == [0, 2, 4]
    assert isinstance(fd.fuse(lambda n: cupy.ones(3) * n)(2), cupy.ndarray)


def test_each_call_returns_an_array_of_its_own():
    for make in (lambda: np.arange(3), lambda: torch.arange(3)):
        fused = fd.fuse(make)
        first = fused()
        first += 1
        assert fused().tolist() == [0, 1, 2] and fused() is not fused()


@pytest.mark.parametrize("number", [np.float64(2.5), np.float32(2.5), np.int64(2)])
def test_a_scalar_of_numpys_beside_a_tensor_is_a_number(number):
    tensors = (torch.ones(2), torch.ones(2).half(), torch.arange(2))
    for apply in (lambda x: number * x, lambda x: x - number, lambda x: number >= x, lambda x: x * math.pi / number):
        for x in tensors:
            same(fd.fuse(apply)(x), apply(x))
