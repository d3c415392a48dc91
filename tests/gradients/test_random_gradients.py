"""Gradients of random programs: those of central differences, and the same on every target."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from draw_gradients import draw_gradient, losses
from laws import Case, hold
from oracle import evaluate

from fusedsl.ir.types import FLOAT32

STEPS = (1e-5, 3e-6, 1e-6)
PROGRAMS = 60


def judged(seed: int) -> str:
    """What central differences along a random direction say of the gradients of a program, or why it says nothing."""
    program = draw_gradient(seed)
    if program is None:
        return "no floats"
    text, wrt = losses(program)
    numbers = np.random.default_rng(seed)
    arrays = {n: numbers.standard_normal(x.shape) if n in wrt else x for n, x in program.arrays.items()}  # no ties
    along = {n: numbers.standard_normal(arrays[n].shape) for n in wrt}
    found = evaluate(program.text, **arrays)
    shares = [float((g * along[n]).sum()) for g, n in zip(found if isinstance(found, tuple) else (found,), wrt)]

    def loss(step: float) -> float:
        return float(evaluate(text, **{**arrays, **{n: arrays[n] + step * along[n] for n in wrt}}))

    quotients = [(loss(h) - loss(-h)) / (2 * h) for h in STEPS]
    scale = abs(quotients[1]) + sum(map(abs, shares)) + 1e-2
    if not np.isfinite([*quotients, loss(0.0)]).all():
        return "not finite"
    if np.ptp(quotients) > 1e-4 * scale:
        return "kink"
    if not np.isfinite(shares).all():  # 0 / 0, as of sqrt at 0: torch's is NaN too
        return "nan"
    return (
        "ok" if abs(quotients[1] - sum(shares)) <= 1e-3 * scale else f"wrong: {quotients} {sum(shares)}\n{program.text}"
    )


def compare(seeds: range) -> None:
    found = Counter(judged(seed) for seed in seeds)
    assert not [told for told in found if told.startswith("wrong")], found
    assert found["ok"] >= 0.85 * len(seeds) and found["nan"] <= 0.02 * len(seeds) + 1, found


def test_gradients_are_those_of_central_differences():
    compare(range(PROGRAMS))


@pytest.mark.slow
def test_gradients_of_more_programs_are_those_of_central_differences():
    compare(range(1000, 3000))


def on_targets(seeds, target=None) -> None:
    programs = [program for program in (draw_gradient(seed, FLOAT32) for seed in seeds) if program is not None]
    assert len(programs) >= 0.8 * len(seeds)
    for program in programs:
        hold(Case(program), *([] if target is None else [target]))


def test_gradients_agree_on_the_cpu():
    on_targets(range(4))


@pytest.mark.slow
def test_gradients_of_more_programs_agree_on_the_cpu():
    on_targets(range(100, 200))


def emulated(seeds, cc: tuple[int, int]) -> None:
    pytest.importorskip("numba_cuda")
    import devices
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4, cc=cc):
        on_targets(seeds, devices.on(devices.Emulated()))


@pytest.mark.parametrize("cc", [(8, 0), (9, 0)])
def test_gradients_agree_on_the_interpreter_of_ptx(cc):
    emulated(range(10 + cc[0], 12 + cc[0]), cc)


@pytest.mark.slow
def test_gradients_of_more_programs_agree_on_the_interpreter_of_ptx():
    emulated(range(200, 240), (9, 0))
