"""Every target gives what the reference interpreter gives, within the bound that the expression derives."""

from __future__ import annotations

import numpy as np
import pytest
from bounds import agrees, evaluate
from programs import AXES, BROADCAST, CUBES, ELEMENTWISE, ROWS, VIEWS

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.arrays import describe_all

RANDOM = np.random.default_rng(7)
DTYPES = ("float32", "float64", "float16", "bfloat16")


def make(shape, dtype: str = "float32"):
    """Random values around 0, some large, in a dtype."""
    x = RANDOM.standard_normal(shape) * 2
    if dtype == "bfloat16":
        import ml_dtypes

        return x.astype(ml_dtypes.bfloat16)
    return x.astype(dtype)


def arrays(rows: int, columns: int, dtype: str = "float32") -> dict:
    return {
        "x": make((rows, columns), dtype),
        "y": make((rows, columns), dtype),
        "b": make((columns,), dtype),
        "w": make((rows,), dtype),
        "c": make((3, 4, 5), dtype),
    }


def as_cupy(x):
    cupy = pytest.importorskip("cupy")
    return cupy.asarray(x)


def as_torch(x):
    torch = pytest.importorskip("torch")
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(np.ascontiguousarray(x)).cuda()


TARGETS = [
    pytest.param(lambda x: x, id="cpu"),
    pytest.param(as_cupy, id="cupy", marks=pytest.mark.gpu),
    pytest.param(as_torch, id="torch", marks=pytest.mark.gpu),
]


def check(text: str, given: dict, target) -> None:
    """Run a text on a target and hold every result to its bound."""
    kernel = fd.kernel(text)
    values = [given[name] for name in kernel.params]
    results = kernel(*(target(v) for v in values))
    results = results if isinstance(results, tuple) else (results,)
    facts = describe_all(kernel.params, values)
    graph = kernel._program.plans.graph(facts)
    for k, (made, (value, bound)) in enumerate(zip(results, evaluate(graph, values))):
        agrees(to_host(made), value, bound, graph.results[k].type.dtype, f"{text!r}, result {k}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", (*ELEMENTWISE, *BROADCAST, *VIEWS, *ROWS, *AXES, *CUBES))
def test_float32_programs_agree_with_the_interpreter(text, target):
    check(text, arrays(13, 37), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ("float64", "float16", "bfloat16"))
@pytest.mark.parametrize(
    "text", (ELEMENTWISE[2], ELEMENTWISE[5], BROADCAST[1], ROWS[0], ROWS[3], ROWS[5], AXES[3], AXES[1])
)
def test_other_dtypes_agree_with_the_interpreter(text, dtype, target):
    check(text, arrays(9, 40, dtype), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", (1, 2, 3, 8, 31, 64, 100, 257, 1000, 4097))
def test_rows_of_any_length(columns, target):
    given = arrays(5, columns)
    for text in ("softmax(x)", "layer_norm(x, b, b)", "argmax(x, axis=-1), max(x, axis=-1)"):
        check(text, given, target)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("columns", (16384, 16385, 20000, 70001))
def test_long_rows_on_a_gpu(columns, dtype):
    given = arrays(7, columns, dtype)
    for text in ("softmax(x)", "layer_norm(x, b, b)", "r = x + y; r, rms_norm(r, b)"):
        check(text, given, as_torch)


WIDE_TEXTS = (
    "softmax(x), logsumexp(x, axis=-1)",
    "layer_norm(x, b, b)",
    "r = x + y; r, rms_norm(r, b)",
    "argmax(x, axis=-1), x - max(x, axis=-1, keepdims=True)",
    "x * any(x > 9, axis=-1, keepdims=True), count_nonzero(x > 0, axis=-1)",
)


@pytest.mark.gpu
@pytest.mark.parametrize(("columns", "dtype"), [(65536, "float32"), (131071, "bfloat16"), (262147, "float32")])
def test_rows_that_clusters_keep(columns, dtype):
    for rows in (1, 5):
        given = arrays(rows, columns, dtype)
        for text in WIDE_TEXTS if rows == 5 else WIDE_TEXTS[:1]:
            check(text, given, as_torch)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"), [(70, 65536, "bfloat16"), (20, 262144, "float32"), (140, 32768, "float16")]
)
def test_rows_in_the_registers_of_clusters(rows, columns, dtype):
    given = arrays(rows, columns, dtype)
    for text in ("softmax(x)", "layer_norm(x, b, b)", "rms_norm(x, b)", WIDE_TEXTS[3]):
        check(text, given, as_torch)


@pytest.mark.gpu
def test_wide_rows_of_minus_infinity_and_nan():
    x = make((5, 100003))
    x[1], x[2, 99999], x[3, 3], x[4, :] = -np.inf, np.nan, np.inf, 1.0
    check("max(x, axis=-1), argmax(x, axis=-1), softmax(x)", {"x": x}, as_torch)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_nothing_and_of_minus_infinity(target):
    check("sum(x, axis=-1), any(x > 0, axis=-1), prod(x, axis=-1)", {"x": make((4, 0))}, target)
    check("softmax(x)", {"x": make((0, 4))}, target)
    check("x * 2 + sum(x)", {"x": make((0, 4))}, target)
    x = make((4, 33))
    x[1] = -np.inf
    x[2, 5], x[3, 7] = np.nan, np.inf
    check("max(x, axis=-1), argmax(x, axis=-1), softmax(x)", {"x": x}, target)


LAYOUTS = {
    "F order": lambda x: np.asfortranarray(x),
    "every second column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: x[::-1, ::-1],
    "broadcast row": lambda x: np.broadcast_to(x[:1], x.shape),
    "unaligned": lambda x: np.concatenate([x.ravel()[:1], x.ravel()])[1:].reshape(x.shape),
    "read-only": lambda x: _locked(x.copy()),
}


def _locked(x):
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_inputs(layout):
    given = arrays(6, 24)
    given["x"] = LAYOUTS[layout](given["x"])
    for text in ("x * 2 + b", "softmax(x)", "sum(x, axis=0)", "x.T - w"):
        check(text, given, lambda x: x)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ("F order", "every second column", "reversed", "unaligned"))
def test_layouts_of_inputs_on_a_gpu(layout):
    import cupy

    there = {
        "F order": cupy.asfortranarray,
        "every second column": lambda x: cupy.repeat(x, 2, axis=1)[:, ::2],
        "reversed": lambda x: cupy.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
        "unaligned": lambda x: cupy.concatenate([x.ravel()[:1], x.ravel()])[1:].reshape(x.shape),
    }[layout]
    given = arrays(6, 24)
    for text in ("x * 2 + b", "softmax(x)", "sum(x, axis=0)", "x.T - w"):
        check(text, given, lambda v: there(cupy.asarray(v)) if v.ndim == 2 else cupy.asarray(v))


@pytest.mark.parametrize("dtype", ("bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"))
def test_integers_agree_exactly(dtype):
    x = RANDOM.integers(0, 2 if dtype == "bool" else 100, (5, 19)).astype(dtype)
    y = RANDOM.integers(0, 2 if dtype == "bool" else 5, (5, 19)).astype(dtype)
    texts = [
        "x + y",
        "x * y",
        "x & y | x ^ y",
        "~x",
        "x > y",
        "maximum(x, y)",
        "sum(x)",
        "sum(x, axis=0)",
        "max(x, axis=1)",
    ]
    if dtype != "bool":
        texts += [
            "x - y",
            "x // y",
            "x % y",
            "x << y",
            "x >> y",
            "x ** y",
            "argmax(x, axis=1)",
            "prod(y, axis=0)",
            "x / y",
        ]
    for text in texts:
        check(text, {"x": x, "y": y}, lambda v: v)


def test_a_second_run_has_the_same_bits():
    x = make((33, 1000))
    for text in ("softmax(x)", "sum(x)", "sum(x, axis=0)", "var(x, axis=1)"):
        kernel = fd.kernel(text)
        assert kernel(x).tobytes() == kernel(x.copy()).tobytes()


def test_inputs_stay_and_out_is_written_in_full():
    x = make((12, 40))
    before = x.copy()
    out = np.full((12, 40), np.nan, np.float32)
    assert fd.kernel("softmax(x)")(x, out=out) is out
    assert not np.isnan(out).any() and (x == before).all()


def test_out_may_be_an_input():
    x = make((12, 40))
    for text in ("x * 2 + 1", "softmax(x)", "x - x[::-1]", "x / sum(x)", "softmax(x, axis=0)"):
        expected = fd.evaluate(text, x=x)
        inside = x.copy()
        assert fd.evaluate(text, x=inside, out=inside) is inside
        np.testing.assert_array_equal(inside, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_division_by_a_row_value_is_correctly_rounded(target):
    """Also of zeros of both signs and infinities, by divisors of any size. Where the remainder is subnormal, 2 ulp."""
    x = (RANDOM.standard_normal((64, 257)) * 10.0 ** RANDOM.integers(-30, 30, (64, 257))).astype(np.float32)
    x[:, :8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1.0]
    w = (10.0 ** RANDOM.integers(-37, 37, 64)).astype(np.float32)
    w[:8] = [0.0, -0.0, np.inf, np.nan, 1e-40, 3e38, -3.0, 1.0]
    made = to_host(fd.kernel("a = x / w[:, None]; return a, sum(x, -1)")(target(x), target(w))[0])
    with np.errstate(all="ignore"):
        exact = x / w[:, None]
    special = (x == 0) | ~np.isfinite(x) | ~np.isfinite(exact)
    normal = special | ((np.abs(exact) >= 2.0**-125) & (np.abs(x) >= 2.0**-102))
    np.testing.assert_array_equal(made[normal], exact[normal])
    np.testing.assert_array_equal(np.signbit(made[exact == 0]), np.signbit(exact[exact == 0]))
    np.testing.assert_allclose(made[~normal], exact[~normal], rtol=2.0**-22, atol=2.0**-149)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integers_of_known_sign_compare_with_constants(dtype, target):
    """What a compiler takes an abs for: see backends/cuda/math/vocabulary.py."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.concatenate([np.arange(-100, 100), [least, least + 1, most]]).astype(dtype)
    check("a = abs(x); return a, -a, -a < -5, -a > -5, exp(-float64(a)), sign(x) < -1, ~a < -5", {"x": x}, target)
    check("return -x < -5, -x, float64(0 - x), x * -1 < -5, ~x + 1 > 5", {"x": x}, target)


@pytest.mark.gpu
def test_arrays_beyond_two_billion_elements():
    import cupy

    count = (1 << 31) + 4099
    x = (cupy.arange(count, dtype=cupy.int32) % 101).astype(cupy.int8)
    made = fd.evaluate("x * 2 + 1", x=x)
    assert bool((made == x * 2 + 1).all())
    del made
    rows = x[: (1 << 31) + 4096].reshape(-1, 4096)
    totals = fd.evaluate("sum(x, axis=1)", x=rows)
    assert bool((totals == rows.sum(axis=1)).all())
    scaled = fd.evaluate("(x + 0.5) / max(x, axis=1, keepdims=True)", x=rows.astype(cupy.float16))
    exact = (rows[-3:].astype(cupy.float64) + 0.5) / rows[-3:].max(axis=1, keepdims=True)
    assert float(abs(scaled[-3:] - exact).max()) < 1e-3
    flipped = fd.evaluate("x[::-1] + 0", x=x)
    assert bool((flipped[:5000] == x[::-1][:5000]).all()) and bool((flipped[-5000:] == x[::-1][-5000:]).all())
