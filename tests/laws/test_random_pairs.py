"""Random programs of pairs keep the laws of every program on each target."""

from __future__ import annotations

import pytest
from draw_pairs import draw_pairs
from laws import Case, hold

CHUNK = 2  # programs of a test


def some(count: int, first: int = 0) -> list:
    return list(range(first, first + count, CHUNK))


@pytest.mark.parametrize("first", some(2))
def test_random_pairs_on_the_cpu(first):
    for seed in range(first, first + CHUNK):
        hold(Case(draw_pairs(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("first", some(198, 2))
def test_more_random_pairs_on_the_cpu(first):
    test_random_pairs_on_the_cpu(first)


@pytest.mark.gpu
@pytest.mark.parametrize("first", some(200))
def test_random_pairs_on_a_card(first):
    import devices

    for seed in range(first, first + CHUNK):
        hold(Case(draw_pairs(seed)), devices.card)


def emulated(first: int, cc: tuple[int, int]) -> None:
    pytest.importorskip("numba_cuda")
    import devices
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4, cc=cc):
        for seed in range(first, first + CHUNK):
            hold(Case(draw_pairs(seed)), devices.on(devices.Emulated()))


def test_random_pairs_by_the_interpreter_of_ptx():
    emulated(0, (9, 0))


@pytest.mark.slow
@pytest.mark.parametrize("cc", [(8, 0), (9, 0)])
@pytest.mark.parametrize("first", some(198, 2))
def test_more_random_pairs_by_the_interpreter_of_ptx(first, cc):
    emulated(first, cc)
