"""Python numbers beside torch tensors: each function wraps, truncates or refuses them as eager torch does."""

from __future__ import annotations

from functools import partial

import pytest
from fused import traced

import fusedsl as fd
from fusedsl.trace.torch import clamps

torch = pytest.importorskip("torch")
F = torch.nn.functional

NUMBERS = [300, -1000, 128, -129, 255, 256, -1, 3, 2**31, 2**40, 2**63 - 1, 2**70, 1.5, -2.7, 1e30, float("nan"),
           float("inf")]  # fmt: skip
TENSORS = {
    "int8": [-128, -3, 0, 5, 127], "uint8": [0, 3, 200, 5, 127], "int32": [-128, -3, 0, 5, 2**31 - 1],
    "int64": [-128, -3, 0, 5, 2**62], "float32": [-1.5, 0.0, -0.0, 7.0, 127.0],
    "float16": [-1.5, 0.0, -0.0, 7.0, 127.0],
}  # fmt: skip
ARITHMETIC = {
    "+": lambda t, s: t + s, "r+": lambda t, s: s + t, "-": lambda t, s: t - s, "r-": lambda t, s: s - t,
    "*": lambda t, s: t * s, "/": lambda t, s: t / s, "//": lambda t, s: t // s, "%": lambda t, s: t % s,
    "&": lambda t, s: t & s, "r|": lambda t, s: s | t, "^": lambda t, s: t ^ s, "==": lambda t, s: t == s,
    "<": lambda t, s: t < s, "r>=": lambda t, s: s >= t, "**": lambda t, s: t**s,
    "add": lambda t, s: torch.add(t, s), "mul_": lambda t, s: t.clone().mul_(s), "fmod": lambda t, s: torch.fmod(t, s),
    "div floor": lambda t, s: torch.div(t, s, rounding_mode="floor"),
    "add of 2 s": lambda t, s: torch.add(t, s, alpha=2),
}  # fmt: skip
FITTING = {
    "clamp min": lambda t, s: torch.clamp(t, min=s), "clamp max": lambda t, s: torch.clamp(t, max=s),
    "clamp": lambda t, s: torch.clamp(t, -s, s), "clamp_min": lambda t, s: torch.clamp_min(t, s),
    "masked_fill": lambda t, s: t.masked_fill(t > 0, s), "where": lambda t, s: torch.where(t > 0, t, s),
    "where of it": lambda t, s: torch.where(t > 0, s, t), "full_like": lambda t, s: torch.full_like(t, s),
    "new_full": lambda t, s: t.new_full((2,), s), "full": lambda t, s: torch.full((2,), s, dtype=t.dtype) + 0 * t[:2],
    "fill_": lambda t, s: t.clone().fill_(s), "fill": lambda t, s: torch.fill(t, s),
    "alpha": lambda t, s: torch.add(t, t, alpha=s), "alpha of sub": lambda t, s: torch.sub(t, t, alpha=s),
    "hardtanh": lambda t, s: F.hardtanh(t, -s, s), "threshold": lambda t, s: F.threshold(t, s, s),
    "value of threshold": lambda t, s: F.threshold(t, 0, s), "addcmul": lambda t, s: torch.addcmul(t, t, t, value=s),
    "new_tensor": lambda t, s: t.new_tensor(s), "new_tensor of a list": lambda t, s: t.new_tensor([s, s]),
    "index_fill": lambda t, s: t.index_fill(0, torch.tensor([0]), s),
}  # fmt: skip


def assign(t, s):
    u = t.clone()
    u[1:3] = s
    return u


def assign_masked(t, s):
    u = t.clone()
    u[u > 0] = s
    return u


FITTING |= {"x[1:3] =": assign, "x[x > 0] =": assign_masked}


def outcome(function, *arguments):
    """What comes of a call: a tensor, or None and the error."""
    try:
        return function(*arguments), ""
    except (RuntimeError, TypeError, OverflowError, ValueError, fd.FusedslError) as error:
        return None, str(error)


def agree(eager, fused) -> bool:
    if eager is None or fused is None:
        return eager is None and fused is None
    if eager.dtype != fused.dtype or eager.shape != fused.shape:
        return False
    if not eager.dtype.is_floating_point:
        return torch.equal(eager, fused)
    return torch.allclose(eager.double(), fused.double(), rtol=2e-3, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dtype", TENSORS)
@pytest.mark.parametrize("name", [*ARITHMETIC, *FITTING])
def test_numbers_go_into_tensors_as_in_torch(name, dtype):
    function = (ARITHMETIC | FITTING)[name]
    for number in NUMBERS:
        t = torch.tensor(TENSORS[dtype], dtype=getattr(torch, dtype))
        eager, told = outcome(function, t, number)
        if "ZeroDivision" in told:  # 256 in int8 is 0; a quotient by 0 is 0 in a kernel
            continue
        fused, said = outcome(traced, partial(function, s=number), [t.clone()], torch)
        if dtype == "float16" and name in ("**", "%", "fmod"):  # eager rounds the number first
            continue
        assert agree(eager, fused), (number, eager, told, fused, said)


@pytest.mark.parametrize("bound", ["min", "max"])
def test_a_bound_that_is_nan_is_none_where_torch_takes_it_for_none(monkeypatch, bound):
    """Releases of torch differ; with two bounds, and of clamp_min and clamp_max, all have NaN."""
    monkeypatch.setattr(clamps, "_nan_is_a_bound", lambda: False)
    t = torch.tensor([-3, 5], dtype=torch.int32)
    found = traced(lambda t: torch.clamp(t, **{bound: float("nan")}), [t], torch)
    assert found.dtype == torch.float32 and found.tolist() == [-3, 5]
    assert traced(lambda t: torch.clamp(t, float("nan"), 1.0), [t], torch).isnan().all()
    assert traced(lambda t: torch.clamp_min(t, float("nan")), [t], torch).isnan().all()


@pytest.mark.parametrize("name", ARITHMETIC)
def test_numbers_that_a_call_brings_wrap_in_arithmetic(name):
    t = torch.tensor(TENSORS["int8"], dtype=torch.int8)
    for number in (300, -1000, 128, 2**40):
        eager, told = outcome(ARITHMETIC[name], t, number)
        if "ZeroDivision" not in told and name != "**":
            assert agree(eager, traced(ARITHMETIC[name], [t.clone(), number], torch)), (number, eager)


def test_what_does_not_fit_is_an_error_of_the_call():
    t = torch.tensor(TENSORS["int8"], dtype=torch.int8)
    for function in (lambda t: torch.clamp(t, -1000, 1000), lambda t: t.masked_fill(t > 0, 300)):
        with pytest.raises(fd.DTypeError, match="does not fit int8"):
            fd.fuse(function)(t)
    with pytest.raises(fd.DTypeError, match="300 does not fit int8"):
        fd.fuse(lambda t, n: torch.full_like(t, n))(t, 300)
    with pytest.raises(fd.DTypeError, match="bools"):
        fd.fuse(lambda t: t - True)(t)
    with pytest.raises(fd.ArgumentError, match="above max_val"):
        fd.fuse(lambda t: F.hardtanh(t, 1, -1))(t)


SIGNED = [0.0, -0.0, 1.0, -1.0, 5.0, -5.0, 0.3, float("inf"), float("nan")]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.remainder(x, y), lambda x, y: x % y, lambda x, y: torch.fmod(x, y), lambda x, y: x // y,
        lambda x, y: torch.remainder(x, 5.0), lambda x, y: x % -5.0, lambda x, y: 5.0 % x, lambda x, y: -0.0 % x,
        lambda x, y: torch.div(x, y, rounding_mode="floor"), lambda x, y: torch.heaviside(x, y),
        lambda x, y: x[:, None].sum(1), lambda x, y: x[:, None].mean(1), lambda x, y: x[:, None] @ y[None, :1],
    ],
)  # fmt: skip
def test_signs_of_zero_are_torchs(function, dtype):
    one = torch.tensor(SIGNED, dtype=getattr(torch, dtype))
    x, y = one.repeat_interleave(len(SIGNED)), one.repeat(len(SIGNED))
    eager, fused = function(x, y), fd.fuse(function)(x, y)
    assert torch.equal(torch.nan_to_num(eager, nan=7.0), torch.nan_to_num(fused, nan=7.0))
    number = ~torch.isnan(eager)
    assert torch.equal(torch.signbit(eager)[number], torch.signbit(fused)[number])
