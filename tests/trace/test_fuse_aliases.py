"""Views and what is written through them: random programs mean in a trace what they mean outside, or are refused."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fused import same, traced

from fusedsl.errors import Unsupported

COMMON = """
    {v}[1:]; {v}.T; {v}[0]; {v}[:, 1]; {v}[None]; {v}[..., ::2]; {v}.squeeze(); {v}[1:, ::2]; {v}[-1]; {v}[0, 1]
    {v}[I]; {v}[:, I % 2]; {v} + 1; {v}.reshape(-1); {v}.ravel(); {v}.reshape({v}.shape); {v}.diagonal()
"""
NUMPY = """
    {v}[::-1]; {v}.swapaxes(0, -1); np.expand_dims({v}, 0); {v}[()]; {v}.copy(); np.moveaxis({v}, 0, -1); np.flip({v})
    np.roll({v}, 1); np.asarray({v}); {v}.astype({v}.dtype); {v}.real; np.broadcast_to({v}, (2, *{v}.shape))
    np.atleast_2d({v}); np.split({v}, [1])[0]; np.ascontiguousarray({v}); np.rot90({v}); np.nan_to_num({v}, copy=False)
"""
TORCH = """
    {v}.flip(0); {v}.transpose(0, -1); {v}.unsqueeze(0); {v}.clone(); {v}.view(-1); {v}.flatten(); {v}.movedim(0, -1)
    {v}.contiguous(); {v}.to({v}.dtype); {v}.detach(); {v}.float(); {v}.expand(2, *{v}.shape); {v}.chunk(2)[0]
    {v}.unbind(0)[0]; {v}.narrow(0, 0, 1); {v}.select(0, 0); {v}.relu(); {v}.double()
"""
WRITES = """
    {v} += 2; {v} *= {w}; {v}[...] = 3; {v}[0] = 5; {v}[{v} > 0] = 0; {v}[1:] = {w}[:-1] + 1; {v}[..., 0] -= 1
    {v}[::2] = {w}[::2] * 2; {v} -= {v}.mean()
"""
TORCH_WRITES = "{v}.add_(1); {v}.zero_(); {v}.copy_({w} + 0); {v}.clamp_(0, 1)"


def forms(*texts):
    return [form.strip() for text in texts for line in text.strip().splitlines() for form in line.split(";")]


def program(seed, views, writes):
    """The source of a function of x and y that takes views, writes to some of them, and returns copies of all."""
    choose, names, lines = random.Random(seed), ["x", "y"], []
    for k in range(choose.randint(2, 7)):
        v, w = choose.choice(names), choose.choice(names)
        if choose.random() < 0.5:
            lines.append(f"v{k} = {choose.choice(views).format(v=v)}")
            names.append(f"v{k}")
        else:
            lines.append(choose.choice(writes).format(v=v, w=w))
    lines.append("return " + ", ".join(f"{name} * 1" for name in names))
    return "def f(x, y):\n" + "\n".join(f"    {line}" for line in lines)


def run(seeds, views, writes, scope, make, torch=None):
    """How many programs were compared; those that fail outside have no meaning, those that a trace refuses no say."""
    compared = 0
    for seed in seeds:
        source = program(seed, views, writes)
        exec(source, scope)
        values = np.random.default_rng(seed).integers(-4, 5, (2, 3, 4)).astype(np.float32)
        theirs, mine = ([make(v.copy()) for v in values] for _ in range(2))
        try:
            wanted = scope["f"](*theirs)
        except (ValueError, IndexError, RuntimeError, TypeError):
            continue
        try:
            found = traced(scope["f"], mine, torch)
        except Unsupported:
            continue
        try:
            same(found, wanted)
            same(mine, theirs)
        except AssertionError as error:
            raise AssertionError(f"{source}\n{error}") from None
        compared += 1
    return compared


def test_numpys_views_and_copies_are_told_apart():
    scope = {"np": np, "I": np.array([1, 0])}
    assert run(range(200), forms(COMMON, NUMPY), forms(WRITES), scope, np.asarray) > 120


def test_torchs_views_and_copies_are_told_apart():
    torch = pytest.importorskip("torch")
    scope = {"torch": torch, "I": torch.tensor([1, 0])}
    views, writes = forms(COMMON, TORCH), forms(WRITES, TORCH_WRITES)
    assert run(range(120), views, writes, scope, torch.from_numpy, torch) > 50
