"""Reading at computed positions on every target: NumPy is the oracle, and what is out of range reads as nothing."""

from __future__ import annotations

import numpy as np
import pytest
from fused import traced
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_targets import TARGETS, check

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((6, 40), dtype=np.float32)
T = RANDOM.standard_normal((3, 5, 16), dtype=np.float32)
K = np.array([[0, 2, -1], [1, -3, 2]])
Y = RANDOM.integers(-40, 40, 6)
R = np.arange(6)
ARRAYS = {"x": X, "t": T, "i": K, "y": Y, "r": R}


def run(text, target, **arrays):
    """The results of a text on a target as NumPy arrays."""
    arrays = arrays or ARRAYS
    kernel = fd.kernel(text, fallback=False)
    made = kernel(*(target(arrays[n]) if np.ndim(arrays[n]) else arrays[n] for n in kernel.params))
    return tuple(map(to_host, made)) if isinstance(made, tuple) else to_host(made)


def kernels(text, **specs) -> int:
    """How many kernels a text takes on a GPU."""
    kernel = fd.kernel(text)
    return len(kernel.explain(*(specs[n] for n in kernel.params)).kernels)


INDEXED = [
    ("x[r, y]", lambda: X[R, Y]),
    ("x[i]", lambda: X[K]),
    ("x[y % 6, 1:]", lambda: X[Y % 6, 1:]),
    ("t[..., i, :]", lambda: T[..., K, :]),
    ("t[i, i] - t[0, i]", lambda: T[K, K] - T[0, K]),
    ("t[1:, i, None, ::-1]", lambda: T[1:, K, None, ::-1]),
    ("t.T[i]", lambda: T.T[K]),
    ("t[i, :, i]", lambda: T[K, :, K]),
    ("t[0, ::2, i] - t[:, 0, None, i][..., 0]", lambda: T[0, ::2, K] - T[:, 0, None, K][..., 0]),
    ("sum(x[None][i - i, 1:, y[:3]], -1)", lambda: X[None][K - K, 1:, Y[:3]].sum(-1)),
    ("t[r[:2], ..., 3, None, i[:, :2]] * 2", lambda: T[R[:2], ..., 3, None, K[:, :2]] * 2),
    ("take(t, i, axis=-1)", lambda: np.take(T, K, axis=-1)),
    ("take(x, i)", lambda: np.take(X, K)),
    ("take(x + 1, i, axis=1)", lambda: np.take(X + 1, K, axis=1)),
    ("take_along_axis(x, y[:, None], -1)[:, 0]", lambda: X[R, Y]),
    ("take_along_axis(x[:3, :3], i[:1], 0)", lambda: np.take_along_axis(X[:3, :3], K[:1], 0)),
    ("x[r][i][0]", lambda: X[R][K][0]),
    ("x[iota(x[:, 0], 0), y]", lambda: X[R, Y]),
    ("x[(iota(x[:, 0], 0) * 5 + 1) % 6]", lambda: X[(R * 5 + 1) % 6]),
    ("x[r[1], y[0]]", lambda: X[1, Y[0]]),
    ("where(y > 0, x[r, y], 0)", lambda: np.where(Y > 0, X[R, Y], 0)),
    ("sum(x[i], axis=-1)", lambda: X[K].sum(-1)),
    ("mean(t[:, i], axis=2)", lambda: T[:, K].mean(2)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("text", "wanted"), INDEXED, ids=[t for t, _ in INDEXED])
def test_index_arrays_mean_what_numpy_says(text, wanted, target):
    made = run(text, target)
    assert made.dtype == wanted().dtype
    np.testing.assert_allclose(made, wanted(), rtol=2e-6, atol=2e-6)


JOINED = [
    ("concat([x, y[:, None]], 1)", lambda: np.concatenate([X, Y[:, None]], 1)),
    ("concat([x, x[:2], x[::-1]])", lambda: np.concatenate([X, X[:2], X[::-1]])),
    ("concat([-x[:, 20:], x[:, :20]], -1) * 2 + x", lambda: np.concatenate([-X[:, 20:], X[:, :20]], 1) * 2 + X),
    ("concat([x, t, y], axis=None)", lambda: np.concatenate([X, T, Y], axis=None)),
    ("concat([sum(x, 1), max(x, axis=1)])", lambda: np.concatenate([X.sum(1), X.max(1)])),
    ("stack([x, x * 2, -x], axis=1)", lambda: np.stack([X, X * 2, -X], 1)),
    ("stack([y, r], -1)", lambda: np.stack([Y, R], -1)),
    ("flip(t, (0, -1))", lambda: np.flip(T, (0, -1))),
    ("roll(x, 7)", lambda: np.roll(X, 7)),
    ("roll(x, (1, -43), (0, 1)) - x", lambda: np.roll(X, (1, -43), (0, 1)) - X),
    ("repeat(x, 3, axis=1)", lambda: np.repeat(X, 3, 1)),
    ("repeat(x * 2, 3)[1:] + 1", lambda: np.repeat(X * 2, 3)[1:] + 1),
    ("tile(x, (2, 1, 3))", lambda: np.tile(X, (2, 1, 3))),
    ("tile(y, (2, 1))", lambda: np.tile(Y, (2, 1))),
    ("tile(y, 2)[:, None] + repeat(r, 2)[:, None]", lambda: (np.tile(Y, 2) + np.repeat(R, 2))[:, None]),
    ("outer(y, r)", lambda: np.outer(Y, R)),
    ("pad(x, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4)))",
     lambda: np.pad(X, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4)))),
    ("softmax(pad(x, ((0, 0), (0, 24)), constant_values=-inf))[:, :40]", lambda: SOFTMAX(X)),
    ("reshape(exp(t) * t[0], (15, 4, 4))", lambda: (np.exp(T) * T[0]).reshape(15, 4, 4)),
    ("reshape(softmax(t), (15, 16)) + 1", lambda: SOFTMAX(T).reshape(15, 16) + 1),
    ("sum(reshape(t.T + 1, (-1, 3)), 0)", lambda: (T.T + 1).reshape(-1, 3).sum(0)),
]  # fmt: skip
for _mode in ("constant", "edge", "reflect", "wrap"):
    for _width in (1, (1, 2), ((9, 0), (0, 3)), ((0, 0), (90, 130))):
        JOINED.append((f"pad(x, {_width}, mode='{_mode}')", lambda m=_mode, w=_width: np.pad(X, w, mode=m)))


def SOFTMAX(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("text", "wanted"), JOINED, ids=[t for t, _ in JOINED])
def test_joins_mean_what_numpy_says(text, wanted, target):
    made = run(text, target)
    assert made.dtype == wanted().dtype
    np.testing.assert_allclose(made, wanted(), rtol=2e-6, atol=2e-6)


# ---- what is out of range

FAR = {
    "int8": [3, -3, 2, -4, 127, -128],
    "uint8": [0, 2, 3, 255],
    "int16": [-32768, 32767, 0],
    "uint16": [65535, 1],
    "int32": [-(2**31), 2**31 - 1, -3, 2],
    "uint32": [2**32 - 1, 0],
    "int64": [-(2**63), 2**63 - 1, 2**32, -(2**32), 2**32 + 1, 1, -1],
    "uint64": [2**64 - 1, 2**63, 2**63 - 1, 2],
}


def picked(x, index):
    """x[index] along the first axis, with what is out of range as the language reads it."""
    missing = np.nan if x.dtype.kind == "f" else 0
    rows = [x[int(k)] if -len(x) <= int(k) < len(x) else np.full_like(x[0], missing) for k in index]
    return np.array(rows, x.dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ("float32", "float64", "int32", "uint8", "bool", "float16"))
def test_an_index_out_of_range_reads_nothing(kind, target):
    x = (RANDOM.standard_normal((3, 5)) * 4).astype(kind)
    for name, values in FAR.items():
        index = np.array(values, name)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(run("x[k]", target, x=x, k=index), picked(x, values), err_msg=name)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_to_read_and_nothing_to_index(target):
    empty, none = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
    assert np.isnan(run("x[k]", target, x=empty, k=np.array([0, 1]))).all()
    assert run("x[k]", target, x=X, k=none).shape == (0, 40)
    assert run("take(x, k, axis=1)", target, x=X, k=none).shape == (6, 0)
    assert run("concat([x, x])", target, x=empty).shape == (0, 4)
    np.testing.assert_array_equal(run("concat([e, x, e])", target, x=X, e=X[:0]), X)
    np.testing.assert_array_equal(run("pad(x, 1, constant_values=2)", target, x=empty), np.full((2, 6), 2, np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_known_only_at_the_call_are_an_index(target):
    for k in (0, -1, 5):
        np.testing.assert_array_equal(run("x[k]", target, x=X, k=k), X[k])
        np.testing.assert_array_equal(run("x[:, k]", target, x=X, k=np.int32(k)), X[:, k])
    assert np.isnan(run("x[k]", target, x=X, k=6)).all()


def test_verify_raises_on_a_bad_index():
    with pytest.raises(fd.ShapeError, match=r"index 6 is out of range for an axis of 6"):
        fd.evaluate("x[k]", {"x": X, "k": np.array([0, 6])}, verify=True)
    fd.evaluate("where(k >= 0, x[k, 0], 0), pad(x, 2)", {"x": X, "k": np.array([0, -6])}, verify=True)


@pytest.mark.parametrize("target", TARGETS)
def test_a_result_may_take_the_place_of_what_it_is_gathered_from(target):
    x = target(X.copy())
    k = target(np.array([5, 4, 3, 2, 1, 0]))
    fd.evaluate("x[k] + 1", {"x": x, "k": k}, out=x)
    np.testing.assert_array_equal(to_host(x), X[::-1] + 1)


LAYOUTS = {
    "F order": np.asfortranarray,
    "stepped": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "repeated": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_is_gathered_from(layout, target):
    x = LAYOUTS[layout](X)
    for text in ("x[i] + roll(x, 1)[0]", "concat([x[:, 1:], x], 1)", "take(x, i)", "x[r, y] / sum(x, -1)"):
        check(text, ARRAYS | {"x": x}, target)


# ---- random programs

STEPS = (
    "{}[i]",
    "{}[:, i]",
    "take({}, j, axis=1)",
    "take_along_axis({}, i[:, None], 0)",
    "roll({}, #, axis=0)",
    "concat([{}, {} * 2], axis=1)",
    "pad({}, ((1, 0), (0, #)), mode='constant')",
    "pad({}, ((#, 1), (0, 2)), mode='reflect')",
    "pad({}, ((0, 1), (#, 0)), mode='wrap')",
    "repeat({}, #, axis=1)",
    "tile({}, (1, #))",
    "flip({}, 1)",
    "({}[::2] * 2)",
    "exp({} * 0.1)",
    "({} - mean({}, -1, keepdims=True))",
    "reshape({}, (-1,))[None]",
    "{}.T",
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_chains_of_gathers_agree_with_the_interpreter(data):
    text = "x"
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4)):
        text = step.replace("#", str(data.draw(st.integers(1, 3)))).replace("{}", text)
    index = st.integers(-7, 6)
    arrays = {
        "x": RANDOM.standard_normal((data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))), dtype=np.float32),
        "i": np.array(data.draw(st.lists(index, min_size=1, max_size=4))),
        "j": np.array(data.draw(st.lists(index, min_size=1, max_size=2)), np.int8),
    }
    check(text, arrays, lambda x: x)


# ---- how many kernels

LOGITS = {"x": fd.spec((8192, 128256), "bfloat16"), "y": fd.spec((8192,), "int64"), "w": fd.spec((8192,), "float32")}
HEADS = {
    "x": fd.spec((8192, 40, 128), "bfloat16"),
    "g": fd.spec((128,), "bfloat16"),
    "cos": fd.spec((8192, 1, 128), "float32"),
    "sin": fd.spec((8192, 1, 128), "float32"),
}
GATED = {"g": fd.spec((8192, 7168), "bfloat16"), "u": fd.spec((8192, 7168), "bfloat16")}
ROTATE = "f(t) = t * cos + concat([-t[..., 64:], t[..., :64]], -1) * sin\n"
PACKED = {"w": fd.spec((4096, 512), "int32"), "s": fd.spec((4096, 32), "float32"), "z": fd.spec((4096, 32), "float32")}
ONE_KERNEL = [
    ("logsumexp(x, -1) - take_along_axis(x, y[:, None], -1)[:, 0]", LOGITS),
    ("z = float32(x); l = logsumexp(z, -1) - z[iota(y, 0), y]; valid = y != -100\n"
     "p = (softmax(z) - (iota(z, -1) == y[:, None])) * w[:, None]\n"
     "return where(valid, l * w, 0), where(valid[:, None], p, 0)", LOGITS),
    ("take_along_axis(log_softmax(x), y[:, None], -1)[:, 0]", LOGITS),
    (ROTATE + "f(x)", HEADS),
    (ROTATE + "f(rms_norm(x, g))", HEADS),
    ("a = reshape(silu(g) * u, (size(g, 0), -1, 128)); s = max(abs(a), axis=-1, keepdims=True) / 448\n"
     "return a / s, s[..., 0]", GATED),
    ("q = reshape((w[:, :, None] >> (4 * arange(8))) & 15, (size(w, 0), -1))\n"
     "bfloat16((q - repeat(z, 128, 1)) * repeat(s, 128, 1))", PACKED),
]  # fmt: skip


@pytest.mark.parametrize(("text", "specs"), ONE_KERNEL, ids=[t[:40] for t, _ in ONE_KERNEL])
def test_what_takes_one_kernel(text, specs):
    assert kernels(text, **specs) == 1


def test_rows_of_a_softmax_come_from_its_statistics():
    assert kernels("softmax(x)[k]", x=fd.spec((64, 999), "float32"), k=fd.spec((7,), "int32")) == 2


def test_vectors_of_neighbours_are_gathered_as_one():
    """Rows of a table come 16 bytes at a time, whatever the rows."""
    pytest.importorskip("numba_cuda")
    from fusedsl.backends.cuda import compile as cuda

    seen = []
    compile_source = cuda.compile_source

    def spy(source, path, kernel, schedule, cc):
        seen.append(cuda.ptx(source, path, kernel, schedule, cc))
        return compile_source(source, path, kernel, schedule, cc)

    with pytest.MonkeyPatch.context() as patch, fd.options(fallback=False):
        patch.setattr(cuda, "compile_source", spy)
        table, ids = fd.spec((50021, 4096), "bfloat16"), fd.spec((77,), "int32")
        assert fd.kernel("w[k] + 1.5").resources(table, ids, cc=90)
    (text,) = seen
    assert text.count("ld.global.L2::cache_hint.v4") == 2  # vectors a thread


def test_what_merges_literal_extents_runs_over_them():
    """A word is read once for its eight values, a scale once for its group: no address is computed."""
    words = fd.spec((4096, 512), "int32"), fd.spec((4096, 32), "float32")
    text = """
        q = reshape((w[:, :, None] >> (4*arange(8))) & 15, (size(w, 0), -1))
        bfloat16(float32(q) * repeat(s, 128, 1))
    """
    source = fd.kernel(text).source(*words, device="cuda")
    assert "fetch_" not in source
    assert 'load_w_0 = tile.load("int32", "0")' in source


@pytest.mark.parametrize("target", TARGETS)
def test_merged_axes_mean_what_they_did(target):
    w = RANDOM.integers(-(2**31), 2**31, (3, 8)).astype(np.int32)
    s = RANDOM.standard_normal((3, 4), dtype=np.float32)
    q = ((w[:, :, None] >> (4 * np.arange(8))) & 15).reshape(3, -1)
    text = "q = reshape((w[:, :, None] >> (4*arange(8))) & 15, (size(w, 0), -1)); float32(q)*repeat(s, 16, 1)"
    np.testing.assert_array_equal(run(text, target, w=w, s=s), q.astype(np.float32) * np.repeat(s, 16, 1))
    made = run(text.replace("; ", "; return ") + ", q + 1, repeat(s, 16, 1)[:, ::-1]", target, w=w, s=s)
    for part, wanted in zip(made, (q.astype(np.float32) * np.repeat(s, 16, 1), q + 1, np.repeat(s, 16, 1)[:, ::-1])):
        np.testing.assert_array_equal(part, wanted)


# ---- equal pieces

ROTARY = """
    n = {0}
    n*c[:, None, :] + concat([-n[..., {1}:], n[..., :{1}]], -1)*s[:, None, :]
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", (128, 130, 6))
@pytest.mark.parametrize("normal", ("x + 0", "rms_norm(x, w)", "x - max(x, axis=-1, keepdims=True)"))
def test_halves_that_are_turned_are_plain_loads(normal, columns, target):
    half = columns // 2
    x = RANDOM.standard_normal((5, 3, columns), dtype=np.float32)
    w, c, s = (RANDOM.standard_normal(n, dtype=np.float32) for n in (columns, (5, columns), (5, columns)))
    n = {
        "x + 0": lambda: x,
        "rms_norm(x, w)": lambda: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w,
        "x - max(x, axis=-1, keepdims=True)": lambda: x - x.max(-1, keepdims=True),
    }[normal]()
    wanted = n * c[:, None] + np.concatenate([-n[..., half:], n[..., :half]], -1) * s[:, None]
    arrays = {"x": x, "w": w, "c": c, "s": s}
    kernel = fd.kernel(ROTARY.format(normal, half), fallback=False)
    made = kernel(*(target(arrays[name]) for name in kernel.params))
    np.testing.assert_allclose(to_host(made), wanted, rtol=1e-5, atol=1e-5)
    given = [arrays[name] for name in kernel.params]
    assert len(kernel.explain(*given).kernels) == 1
    source = kernel.source(*given, device="cuda")
    assert "fetch_" not in source
    assert "_2_at" not in source  # an array is its two halves, whatever reads them


@pytest.mark.parametrize("target", TARGETS)
def test_a_plan_for_halves_is_not_used_for_other_cuts(target):
    kernel = fd.kernel("x*2 + concat([-x[..., 3:], x[..., :3]], -1)", fallback=False)
    for columns in (6, 8, 6, 7, 3, 4):
        x = RANDOM.standard_normal((5, columns), dtype=np.float32)
        wanted = x * 2 + np.concatenate([-x[..., 3:], x[..., :3]], -1)
        np.testing.assert_array_equal(to_host(kernel(target(x))), wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_equal_pieces_side_by_side(target):
    a = RANDOM.standard_normal((4, 6), dtype=np.float32)
    b, c = a * 2, a - 3
    whole, joined = np.concatenate([a, b, c], 1), "concat([a, b, c], 1)"
    arrays = {"a": a, "b": b, "c": c}
    np.testing.assert_array_equal(run(f"{joined} * 2", target, **arrays), whole * 2)
    np.testing.assert_allclose(run(f"softmax({joined})", target, **arrays), SOFTMAX(whole), rtol=1e-5)
    made = run(f"x = {joined}; return x + iota(x, 1), sum(x, 0), any(x > 2, 1), argmax(x, 1)", target, **arrays)
    for part, wanted in zip(made, (whole + np.arange(18), whole.sum(0), (whole > 2).any(1), whole.argmax(1))):
        np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(run("concat([t.T, b.T], 1).T", target, t=a, b=b), np.concatenate([a, b]))
    x = target(a.copy())
    fd.evaluate("x*2 + concat([-x[..., 3:], x[..., :3]], -1)", {"x": x}, out=x)
    np.testing.assert_array_equal(to_host(x), a * 2 + np.concatenate([-a[..., 3:], a[..., :3]], -1))


@pytest.mark.parametrize("target", TARGETS)
def test_an_axis_of_no_elements_has_no_first_one(target):
    empty = np.zeros((0, 3), np.float32)
    assert np.isnan(run("take(x, 0, axis=0)", target, x=empty)).tolist() == [True] * 3
    assert np.isnan(run("take(x, 0)", target, x=empty))


PARTS = [slice(None), slice(1, None), slice(None, None, -2), None, 0, -1, ...]
LINES = [np.array([1, 0, 1]), np.array([[0], [1]]), np.array([1]), np.array(1)]
SUBSCRIPTS = st.lists(st.sampled_from([*PARTS, *LINES]), min_size=1, max_size=5)


def subscripted(parts, library):
    """What the trace of a subscript gives and what the library does; None for what it refuses."""
    values = [library(v) for v in (T[..., :6], *(p for p in parts if isinstance(p, np.ndarray)))]
    is_line = [isinstance(p, np.ndarray) for p in parts]

    def function(x, *lines):
        rest = iter(lines)
        return x[tuple(next(rest) if line else p for p, line in zip(parts, is_line))]

    def attempt(call):
        try:
            return np.asarray(call())
        except (IndexError, ValueError):  # ShapeError is both
            return None

    return attempt(lambda: traced(function, values)), attempt(lambda: function(*values))


@given(SUBSCRIPTS.filter(lambda parts: sum(p is ... for p in parts) < 2))
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_any_subscript_reads_what_numpy_and_torch_read(parts):
    """torch has integers and tensors without dimensions split nothing, and takes no negative steps."""
    torch = pytest.importorskip("torch")
    for library in (np.asarray, torch.from_numpy):
        if library is np.asarray or PARTS[2] not in [p for p in parts if isinstance(p, slice)]:
            np.testing.assert_array_equal(*subscripted(parts, library))
