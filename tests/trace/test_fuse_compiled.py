"""Traced functions of torch and NumPy as compiled kernels: what people fuse, against the functions themselves."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd


def test_a_torch_block_gives_what_torch_gives():
    torch = pytest.importorskip("torch")
    F = torch.nn.functional

    @fd.fuse
    def block(x, w, g):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        y = (x * scale).to(x.dtype) * w
        gate, up = y.chunk(2, dim=-1)
        shifted = torch.zeros_like(x)
        shifted[:, 1:] = x[:, :-1]
        return {"glu": F.silu(gate) * up + g, "top": x.max(-1), "shifted": shifted}

    x, w, g = torch.randn(5, 8), torch.randn(8), torch.tensor(0.5)
    found, wanted = block(x, w, g), block.function(x, w, g)
    for name in ("glu", "shifted"):
        torch.testing.assert_close(found[name], wanted[name])
    assert torch.equal(found["top"].values, wanted["top"].values)
    assert torch.equal(found["top"].indices, wanted["top"].indices)


def test_tensors_of_no_axes_that_a_function_names_are_numbers_of_each_call():
    torch = pytest.importorskip("torch")
    scale, place = torch.tensor(2.0), torch.tensor(1)
    scaled = fd.fuse(lambda x: torch.where(x > 0, x * scale, torch.tensor(-1.0)) + x[place])
    x = torch.randn(3, 4)
    for value in (2.0, 3.0):
        scale.fill_(value)
        torch.testing.assert_close(scaled(x), scaled.function(x))


def test_an_optimiser_step_writes_tensors_in_place():
    torch = pytest.importorskip("torch")

    @fd.fuse
    def adam(p, g, m, v, step, lr=1e-3):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m / (1 - 0.9**step), (v / (1 - 0.999**step)).sqrt_().add_(1e-8), value=-lr)

    mine = [torch.randn(10) for _ in range(4)]
    mine[3].abs_()
    theirs = [x.clone() for x in mine]
    for step in (1, 2, 3):
        assert adam(*mine, step) is None
        adam.function(*theirs, step)
        torch.testing.assert_close(mine, theirs)


def test_a_stencil_writes_parts_of_an_array_in_one_kernel():
    @fd.fuse(max_kernels=1)
    def stencil(x, out):
        inner = x[1:-1, 1:-1]
        out[1:-1, 1:-1] = inner + 0.1 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * inner)
        out[::-2, 0] = -x[::-2, 1]
        out[x < 0.1] = -1

    x = np.random.default_rng(0).random((6, 7))
    found, wanted = np.ones((6, 7)), np.ones((6, 7))
    stencil(x, found)
    stencil.function(x, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
