"""The expressions that people need, each from its text, in one kernel, against NumPy in float64.

Errors are held to the bound that the expression derives (bounds.py). On a GPU the same texts run at the sizes of use.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bounds import evaluate

import fusedsl as fd
from fusedsl.runtime.arrays import describe_all

SMALL = (6, 37)
EPS = 1e-6
SHAPES_AT_THE_EDGE = ((0, 5), (4, 0), (1, 5), (4, 1), (1, 1))

# shapes of inputs, from (rows, columns)
WIDE, ROW, COLUMN, STANDING = "wide", "row", "column", "standing"
SHAPES = {WIDE: lambda r, c: (r, c), ROW: lambda r, c: (c,), COLUMN: lambda r, c: (r,), STANDING: lambda r, c: (r, 1)}


@dataclass(eq=False)
class Case:
    """An expression: its text, what goes in, and the same in NumPy (`xp` has erf too). `real` is a size of use."""

    number: int
    name: str
    text: str
    inputs: dict[str, Any]  # name: shape, "bool shape" or "positive shape"; or a number
    reference: Callable
    dtypes: tuple[str, ...] = ("float32",)
    real: tuple[int, int] = (8192, 4096)
    kernels: int | None = 1
    small: tuple[int, int] = SMALL
    aliased: dict[str, int] = field(default_factory=dict)  # input: the result that may be written over it

    def __str__(self) -> str:
        return f"{self.number}-{self.name}"

    @cached_property
    def kernel(self) -> fd.Kernel:
        """Refuses to be more kernels than the case allows."""
        return fd.kernel(self.text, max_kernels=self.kernels)

    @cached_property
    def free(self) -> fd.Kernel:
        """As many kernels as it takes."""
        return fd.kernel(self.text)


def gelu(xp, x):
    return 0.5 * x * (1 + xp.tanh(0.79788456 * (x + 0.044715 * x**3)))


def sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


def softplus(xp, x):
    return xp.logaddexp(x, xp.zeros_like(x))


def selu(xp, x):
    return 1.0507009873554805 * xp.where(x > 0, x, 1.6732632423543772 * xp.expm1(x))


def phi(xp, x):
    return 0.5 + 0.5 * xp.erf(x * math.sqrt(0.5))


def black_scholes(xp, S, K, t, r, v):
    d1 = (xp.log(S / K) + (r + v * v / 2) * t) / (v * xp.sqrt(t))
    d2 = d1 - v * xp.sqrt(t)
    call = S * phi(xp, d1) - K * xp.exp(-r * t) * phi(xp, d2)
    return call, call - S + K * xp.exp(-r * t)


def rms_norm(xp, x, w):
    return x / xp.sqrt(xp.mean(x * x, -1, keepdims=True) + EPS) * w


def layer_norm(xp, x, w, b):
    centred = x - xp.mean(x, -1, keepdims=True)
    return centred / xp.sqrt(xp.mean(centred**2, -1, keepdims=True) + 1e-5) * w + b


def softmax(xp, x):
    e = xp.exp(x - xp.max(x, -1, keepdims=True))
    return e / xp.sum(e, -1, keepdims=True)


def logsumexp(xp, x):
    m = xp.max(x, -1, keepdims=True)
    m = xp.where(xp.isfinite(m), m, 0)
    return m + xp.log(xp.sum(xp.exp(x - m), -1, keepdims=True))


def huber(xp, x, y):
    d = xp.abs(x - y)
    return xp.mean(xp.where(d < 1, 0.5 * d * d, d - 0.5))


def triplet(xp, a, p, n):
    far, near = (xp.sqrt(xp.sum((a - o) ** 2, -1)) for o in (p, n))
    return xp.mean(xp.maximum(far - near + 1.0, 0))


BOTH, NARROW = ("float32", "float64"), ("float32", "bfloat16")
BLACK_SCHOLES = """
Phi(z) = 0.5 + 0.5*erf(z*0.7071067811865476)
d1 = (log(S/K) + (r + v*v/2)*t) / (v*sqrt(t)); d2 = d1 - v*sqrt(t)
call = S*Phi(d1) - K*exp(-r*t)*Phi(d2); put = call - S + K*exp(-r*t)
return call, put
"""
NORMAL = "x*rsqrt(mean(x*x, -1, keepdims=True) + 1e-6)"

ELEMENTWISE = (
    Case(
        1, "axpby", "2*a + 3*b", {"a": WIDE, "b": WIDE}, lambda xp, a, b: 2 * a + 3 * b, BOTH, aliased={"a": 0, "b": 0}
    ),
    Case(
        1, "sin2cos2", "sin(a)**2 + cos(b)**2", {"a": WIDE, "b": WIDE}, lambda xp, a, b: xp.sin(a) ** 2 + xp.cos(b) ** 2
    ),
    Case(
        *(2, "polynomial-wave", "(x0+x1*t+x2*t**2)*cos(x3+x4*t+x5**t)"),
        {"t": STANDING, "x0": 0.1, "x1": 0.2, "x2": 0.3, "x3": 0.4, "x4": 0.5, "x5": 1.5},
        lambda xp, t, x0, x1, x2, x3, x4, x5: (x0 + x1 * t + x2 * t**2) * xp.cos(x3 + x4 * t + x5**t),
        *(("float64",), (44_100_000, 1)),
        small=(441, 1),
    ),
    Case(
        *(4, "black-scholes", BLACK_SCHOLES),
        {"S": "positive wide", "K": "positive wide", "t": "positive wide", "r": 0.03, "v": 0.3},
        *(black_scholes, ("float64",), (10_000, 1000)),
    ),
    Case(
        *(5, "mask-rows", "where(mask[:,None], inf, p)", {"mask": "bool column", "p": WIDE}),
        lambda xp, mask, p: xp.where(mask[:, None], xp.inf, p),
        *(("float64",), (357_899, 2)),
        small=(59, 2),
        aliased={"p": 0},
    ),
    Case(6, "gelu", "0.5*x*(1+tanh(0.79788456*(x+0.044715*x**3)))", {"x": WIDE}, gelu, NARROW, (8192, 8192)),
    Case(6, "gelu-wide", "0.5*x*(1+tanh(0.79788456*(x+0.044715*x**3)))", {"x": WIDE}, gelu, real=(1024, 393_216)),
    Case(6, "mish", "mish(x)", {"x": WIDE}, lambda xp, x: x * xp.tanh(softplus(xp, x)), aliased={"x": 0}),
    Case(6, "selu", "selu(x)", {"x": WIDE}, selu),
    Case(6, "hardswish", "hardswish(x)", {"x": WIDE}, lambda xp, x: x * xp.clip(x + 3, 0, 6) / 6),
    Case(6, "softplus", "softplus(x)", {"x": WIDE}, softplus),
    Case(
        *(7, "swiglu", "g*sigmoid(g)*u", {"g": WIDE, "u": WIDE}, lambda xp, g, u: g * sigmoid(xp, g) * u, NARROW),
        (8192, 14_336),
        aliased={"g": 0, "u": 0},
    ),
    Case(
        *(7, "swiglu-packed", "f = size(x, 1)//2; silu(x[:, :f])*x[:, f:]", {"x": WIDE}),
        lambda xp, x: x[:, : x.shape[1] // 2] * sigmoid(xp, x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :],
        *(NARROW, (3072, 24_576)),
        small=(6, 38),
    ),
    Case(7, "geglu", "gelu(g)*u", {"g": WIDE, "u": WIDE}, lambda xp, g, u: g * phi(xp, g) * u),
    Case(7, "relu2", "maximum(x, 0)**2", {"x": WIDE}, lambda xp, x: xp.maximum(x, 0) ** 2, NARROW),
    Case(
        *(8, "dynamic-tanh", "tanh(alpha*x)*gamma + beta"),
        {"alpha": 0.5, "x": WIDE, "gamma": ROW, "beta": ROW},
        lambda xp, alpha, x, gamma, beta: xp.tanh(alpha * x) * gamma + beta,
        NARROW,
        aliased={"x": 0},
    ),
)

ROWS = (
    Case(12, "distance", "sum((x-y)**2, -1)", {"x": WIDE, "y": WIDE}, lambda xp, x, y: xp.sum((x - y) ** 2, -1)),
    Case(12, "dot", "sum(x*y, -1)", {"x": WIDE, "y": WIDE}, lambda xp, x, y: xp.sum(x * y, -1)),
    Case(
        *(12, "pairs-above", "sum(p,-1) > t", {"p": WIDE, "t": 0.5}, lambda xp, p, t: xp.sum(p, -1) > t),
        *(("float64",), (357_899, 2)),
        small=(59, 2),
    ),
    Case(
        *(13, "weighted-mean", "sum(x*w,-1)/sum(w,-1)", {"x": WIDE, "w": "positive wide"}),
        lambda xp, x, w: xp.sum(x * w, -1) / xp.sum(w, -1),
    ),
    Case(
        13, "argmax-max", "argmax(x,-1), max(x,axis=-1)", {"x": WIDE}, lambda xp, x: (xp.argmax(x, -1), xp.max(x, -1))
    ),
    Case(13, "norm", "sqrt(sum(x*x,-1))", {"x": WIDE}, lambda xp, x: xp.sqrt(xp.sum(x * x, -1))),
    Case(14, "rms-norm", f"{NORMAL}*w", {"x": WIDE, "w": ROW}, rms_norm, NARROW, aliased={"x": 0}),
    Case(
        14, "rms-norm-gemma", f"{NORMAL}*(1+w)", {"x": WIDE, "w": ROW}, lambda xp, x, w: rms_norm(xp, x, 1 + w), NARROW
    ),
    Case(
        *(15, "add-rms-norm", "r2 = x + r; y = r2*rsqrt(mean(r2*r2, -1, keepdims=True) + 1e-6)*w; return r2, y"),
        {"x": WIDE, "r": WIDE, "w": ROW},
        lambda xp, x, r, w: (x + r, rms_norm(xp, x + r, w)),
        NARROW,
        aliased={"r": 0},
    ),
    Case(17, "layer-norm", "layer_norm(x, w, b)", {"x": WIDE, "w": ROW, "b": ROW}, layer_norm, aliased={"x": 0}),
    Case(
        17, "layer-norm-long", "layer_norm(x, w, b)", {"x": WIDE, "w": ROW, "b": ROW}, layer_norm, real=(1024, 65_531)
    ),
    Case(
        *(21, "softmax", "softmax(x*scale + bias, -1)", {"x": WIDE, "scale": 0.5, "bias": ROW}),
        lambda xp, x, scale, bias: softmax(xp, x * scale + bias),
        real=(16_384, 512),
    ),
    Case(
        *(21, "softmax-long", "softmax(x*scale + bias, -1)", {"x": WIDE, "scale": 0.5, "bias": ROW}),
        lambda xp, x, scale, bias: softmax(xp, x * scale + bias),
        real=(1024, 393_216),
    ),
    Case(
        22,
        "logsumexp-guarded",
        "m=max(x, axis=-1, keepdims=True); m0=where(isfinite(m), m, 0); m0 + log(sum(exp(x-m0), -1, keepdims=True))",
        {"x": WIDE},
        logsumexp,
    ),
    Case(
        *(22, "log-softmax", "log_softmax(x)", {"x": WIDE}),
        lambda xp, x: x - xp.max(x, -1, keepdims=True) - logsumexp(xp, x - xp.max(x, -1, keepdims=True)),
    ),
    Case(
        *(26, "l1-norm", "x/mean(abs(x), 1, keepdims=True)", {"x": WIDE}),
        lambda xp, x: x / xp.mean(xp.abs(x), 1, keepdims=True),
        real=(4096, 65_535),
    ),
)

GLOBAL = (
    Case(
        *(26, "triplet", "mean(maximum(norm(a-p, -1) - norm(a-n, -1) + 1, 0))", {"a": WIDE, "p": WIDE, "n": WIDE}),
        triplet,
        kernels=None,
    ),
    Case(32, "mse", "mean((x-y)**2)", {"x": WIDE, "y": WIDE}, lambda xp, x, y: xp.mean((x - y) ** 2), kernels=None),
    Case(
        *(32, "huber", "d = abs(x-y); mean(where(d < 1, 0.5*d*d, d - 0.5))", {"x": WIDE, "y": WIDE}, huber),
        kernels=None,
    ),
    Case(
        *(32, "hinge", "mean(maximum(1 - p*t, 0))", {"p": WIDE, "t": WIDE}),
        lambda xp, p, t: xp.mean(xp.maximum(1 - p * t, 0)),
        kernels=None,
    ),
)

CASES = ELEMENTWISE + ROWS + GLOBAL
each_case = pytest.mark.parametrize("case", CASES, ids=str)


# ---- inputs and agreement


def cast(x: np.ndarray, dtype: str) -> np.ndarray:
    if dtype != "bfloat16":
        return x.astype(dtype)
    import ml_dtypes

    return x.astype(ml_dtypes.bfloat16)


def inputs(case: Case, size: tuple[int, int], dtype: str, seed: int = 3) -> dict[str, Any]:
    """The arrays and numbers of a case."""
    draw, made = np.random.default_rng(seed), {}
    for name, what in case.inputs.items():
        if not isinstance(what, str):
            made[name] = what
            continue
        *kind, place = what.split()
        x = draw.standard_normal(SHAPES[place](*size)) * 2
        made[name] = x > 0 if kind == ["bool"] else cast(np.abs(x) + 0.5 if kind == ["positive"] else x, dtype)
    return made


class Wide:
    """NumPy with erf."""

    erf = staticmethod(np.vectorize(math.erf, otypes=[np.float64]))

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def as_tuple(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def in_float64(case: Case, given: dict[str, Any]) -> tuple:
    wide = {
        n: a.astype(np.float64) if getattr(a, "dtype", bool) not in (bool, np.bool_) else a for n, a in given.items()
    }
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mean of nothing
        return as_tuple(case.reference(Wide(), **wide))


def check(case: Case, given: dict[str, Any], results: Any = None, shown: dict[str, Any] | None = None) -> None:
    """Hold the results (of a new call, if none are given) to float64 NumPy, within the derived bound.

    `shown` are the inputs as they were before a call that wrote over one.
    """
    kernel, shown = case.kernel, shown or given
    results = as_tuple(kernel(**given) if results is None else results)
    values = [shown[p] for p in kernel.params]
    bounds = evaluate(case.free._program.plans.graph(describe_all(kernel.params, values)), values)
    for result, reference, (_, bound) in zip(results, in_float64(case, shown), bounds, strict=True):
        reference = np.asarray(reference)
        assert result.shape == reference.shape
        if result.dtype.kind not in "biu":  # the bound is about the rounded value, where there is one right result
            bound = bound + np.abs(reference) * float(ml_dtypes.finfo(result.dtype).eps) / 2
        got = np.asarray(result, np.float64)
        with np.errstate(all="ignore"):
            right = (
                (np.abs(got - reference) <= bound * 1.01) | (got == reference) | (np.isnan(got) & np.isnan(reference))
            )
        right |= np.isinf(bound) & ~np.isnan(got)
        assert right.all(), (
            f"{got[~right][:3]} instead of {reference[~right][:3]}, bound {np.asarray(bound)[~right][:3]}"
        )


# ---- the tests


@each_case
def test_an_expression_is_right_in_every_dtype_of_use(case):
    for dtype in case.dtypes:
        check(case, inputs(case, case.small, dtype))


@pytest.mark.sampled(2)
@each_case
def test_empty_and_unit_axes(case):
    for rows, columns in SHAPES_AT_THE_EDGE:
        if STANDING in case.inputs.values():
            columns = 1
        given = inputs(case, (rows, columns), case.dtypes[0])
        try:
            in_float64(case, given)
        except ValueError:  # NumPy refuses the maximum of nothing, which a softmax of nothing does without
            if "softmax" in case.name:
                assert case.free(**given).shape == (rows, columns) and not columns
                continue
            with pytest.raises(ValueError):
                case.free(**given)
        else:
            check(case, given, case.free(**given))


@pytest.mark.parametrize("text", ["softmax(x)", "layer_norm(x)", "rms_norm(x)"])
def test_a_single_row_is_one_kernel_too(text):
    fd.evaluate(text, x=np.ones((1, 37), np.float32), max_kernels=1)


@pytest.mark.sampled(2)
@each_case
def test_strided_and_reversed_inputs(case):
    rows, columns = case.small
    large = inputs(case, (2 * rows, 3 * columns if columns > 2 else columns), case.dtypes[0])
    step = 3 if columns > 2 else 1
    given = {}
    for name, what in case.inputs.items():
        place = what.split()[-1] if isinstance(what, str) else None
        cut = {WIDE: np.s_[::-2, ::step], ROW: np.s_[::-step], COLUMN: np.s_[::2], STANDING: np.s_[::-2]}
        given[name] = large[name][cut[place]] if place else what
    check(case, given)
    turned = {n: np.asfortranarray(a) if isinstance(a, np.ndarray) else a for n, a in given.items()}
    check(case, turned)


@each_case
def test_nan_and_infinities_stay_in_their_rows(case):
    given = inputs(case, case.small, case.dtypes[0])
    wide = next(a for n, a in given.items() if case.inputs[n] in (WIDE, "positive wide", STANDING))
    wide[0, 0], wide[1, -1], wide[2, 0], wide[3, :] = np.nan, np.inf, -np.inf, -np.inf
    wide[4, 0], wide[4, -1] = 0.0, -0.0
    check(case, given)


@pytest.mark.parametrize("case", [c for c in CASES if c.aliased], ids=str)
def test_a_result_written_over_an_input(case):
    for name, k in case.aliased.items():
        given = inputs(case, case.small, case.dtypes[-1])
        shown = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in given.items()}
        count = len(in_float64(case, shown))
        results = case.kernel(**given, out=tuple(given[name] if j == k else None for j in range(count)))
        assert as_tuple(results)[k] is given[name]
        check(case, given, results, shown)


@pytest.mark.parametrize(
    "case", [c for c in CASES if len([w for w in c.inputs.values() if isinstance(w, str)]) > 1], ids=str
)
def test_mixed_dtypes_compute_in_the_wider(case):
    given = inputs(case, case.small, "float32")
    arrays = [n for n, w in case.inputs.items() if isinstance(w, str) and not w.startswith("bool")]
    for k, name in enumerate(arrays):
        given[name] = cast(given[name], ("float32", "float16", "float32")[k % 3])
    results = as_tuple(case.kernel(**given))
    check(case, given, results)
    assert all(r.dtype in (np.float32, np.int64, np.bool_) for r in results)


def test_rows_of_minus_infinity():
    x = np.full((3, 40), -np.inf, np.float32)
    x[1] = 1.0
    assert np.isnan(fd.evaluate("softmax(x)", x=x)[[0, 2]]).all()
    assert (fd.evaluate("logsumexp(x, axis=-1)", x=x)[[0, 2]] == -np.inf).all()
    assert np.allclose(fd.evaluate("softmax(x)", x=x)[1], 1 / 40)


def test_long_rows_keep_their_digits():
    x = np.random.default_rng(5).standard_normal((3, 70_001), dtype=np.float32)
    wide = x.astype(np.float64)
    exact = {
        "softmax(x)": softmax(np, wide),
        "log_softmax(x)": wide - logsumexp(np, wide),
        "mean(x, -1)": wide.mean(-1),
    }
    for text, right in exact.items():
        assert np.max(np.abs(fd.evaluate(text, x=x) - right)) <= 3e-7 * max(1, np.max(np.abs(right))), text


def test_llama_rounds_before_its_weight_and_gemma_after():
    import ml_dtypes

    x, w = (cast(np.random.default_rng(k).standard_normal(s), "bfloat16") for k, s in enumerate([(16, 64), (64,)]))
    normal = rms_norm(np, x.astype(np.float64), 1.0)
    llama = fd.evaluate(f"bfloat16({NORMAL})*w", x=x, w=w)
    rounded = normal.astype(ml_dtypes.bfloat16).astype(np.float64) * w.astype(np.float64)
    same = llama.astype(np.float64) == rounded.astype(ml_dtypes.bfloat16).astype(np.float64)
    assert same.mean() > 0.99  # a tie may go either way where float32 and float64 differ
    gemma = fd.evaluate(f"bfloat16({NORMAL}*(1+float32(w)))", x=x, w=w)
    exact = (normal * (1 + w.astype(np.float64))).astype(ml_dtypes.bfloat16)
    assert (gemma == exact).mean() > 0.99


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_a_gpu_at_the_sizes_of_use(case):
    cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    from cupyx.scipy.special import erf

    class OnGpu:
        def __getattr__(self, name: str) -> Any:
            return erf if name == "erf" else getattr(cupy, name)

    limits = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 2.0**-7}
    for dtype in case.dtypes:
        given: dict[str, Any] = {}
        draw = torch.Generator(device="cuda").manual_seed(9)
        for name, what in case.inputs.items():
            if not isinstance(what, str):
                given[name] = what
                continue
            *kind, place = what.split()
            x = torch.randn(SHAPES[place](*case.real), device="cuda", generator=draw)
            x = x.abs() + 0.5 if kind == ["positive"] else x
            given[name] = x > 0 if kind == ["bool"] else x.to(getattr(torch, dtype))
        results = as_tuple(case.kernel(**given))
        wide = {
            n: a if not isinstance(a, torch.Tensor) else cupy.asarray(a if a.dtype == torch.bool else a.double())
            for n, a in given.items()
        }
        for result, reference in zip(results, as_tuple(case.reference(OnGpu(), **wide)), strict=True):
            got = cupy.asarray(result.double())
            reference = cupy.asarray(reference, "float64")
            assert got.shape == reference.shape
            apart = cupy.where(got == reference, 0, cupy.abs(got - reference))
            scale = cupy.max(cupy.where(cupy.isfinite(reference), cupy.abs(reference), 0))
            if case.name == "pairs-above":
                assert float(cupy.mean(apart)) < 1e-6  # a sum within a rounding of t
            else:
                assert float(cupy.max(apart)) <= limits[dtype] * float(scale)
        del results, wide, got, reference, apart
        cupy.get_default_memory_pool().free_all_blocks()
