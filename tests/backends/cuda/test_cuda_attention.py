"""Attention on CUDA: one kernel, whose scores stay in registers, on an emulated GPU and on a real one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.program.first_call import run_interpreter
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.arrays import describe_all

pytest.importorskip("numba_cuda")
from devices import Emulated
from ptx import emulated_gpu, tensor

BRAIN = ml_dtypes.bfloat16
SCORES = "s = q @ k.mT * 0.2\n"
CAUSAL = "iota(s, -1) <= iota(s, -2)"
FORMULAS = {
    "entropy": SCORES + "p = softmax(s); p @ v, -sum(p * log(p), -1)",
    "entropy of what counts": SCORES + f"p = softmax(where({CAUSAL}, s, -inf)); p @ v, sum(xlogy(p, p), -1)",
    "largest weight": SCORES + f"p = softmax(where({CAUSAL}, s, -inf)); p @ v, max(p, axis=-1), argmax(p, axis=-1)",
    "causal": SCORES + f"softmax(where({CAUSAL}, s, -inf)) @ v, logsumexp(s, -1)",
    "softcap, bias, residual": SCORES + "r + softmax(5 * tanh(s / 5) + bias) @ v",
    "dilated window": SCORES
    + "d = iota(s, -2) - iota(s, -1); softmax(where((abs(d) < 40) & (d % 3 == 0) & (d // 5 < 7), s, -inf)) @ v",
    "waves": SCORES + "s = s + 0.1 * sin(iota(s, -1) * 0.3)\nsoftmax(where(iota(s, -1) < 99, s, -inf)) @ v",
    "documents": SCORES + "softmax(s, where=doc[: size(s, -2), None] == doc[None, : size(s, -1)]) @ v",
    "ranges of each row": SCORES
    + "f = 20 * doc[: size(s, -2), None]; softmax(where((iota(s, -1) >= f) & (iota(s, -1) < f + 60), s, -inf)) @ v",
    "boxes beside scores, documents of each head": SCORES
    + f"softmax(where(({CAUSAL}) & (own[:, : size(s, -2), None] == own[:, None, : size(s, -1)]), s + near, -inf)) @ v",
    "sink": SCORES + f"s = where({CAUSAL}, s + 0.1 * sin(iota(s, -1) * 0.3), -inf)\n"
    "m = maximum(max(s, axis=-1, keepdims=True), sink); e = exp(s - m)\n"
    "(e @ v) / (sum(e, -1, keepdims=True) + exp(sink - m)), logsumexp(s, -1)",
    "dropout": SCORES + f"p = softmax(where({CAUSAL}, s, -inf))\n"
    "where(uniform(7, (size(q, 0), size(q, 1), size(q, 2), size(k, 2)), stream=3) < 0.8, p, 0) * 1.25 @ v",
    "sigmoids": SCORES + f"where({CAUSAL}, sigmoid(s - 1), 0) @ v",
    "squares of what is positive, a prefix": SCORES + f"where(({CAUSAL}) | (iota(s, -1) < 40), square(relu(s)), 0) @ v",
    "one more in the sum, a mask in memory": SCORES + "s = where(bias < 1, s, -inf)\n"
    "m = maximum(max(s, axis=-1, keepdims=True), 0); e = exp(s - m)\n(e @ v) / (sum(e, -1, keepdims=True) + exp(-m))",
    "lengths": "attention(q, k, v, mask='j <= i + 30', lengths=lengths, return_lse=True)",
    "relative positions": "attention(q, k, v, score='score + apart[clip(i - j, 0, 9), h]', mask='j <= i', apart=apart)",
    "shared heads": "attention(q, k[:, :1], v[:, :1], score='where(j <= i, score + sink[h, 0, 0] * (j - i), -inf)', "
    "sink=sink)",
}


def given(n=70, m=152, heads=2, width=32, out=16, dtype=BRAIN):
    """Arrays for the formulas, by name: the same whenever they are asked for."""
    random = np.random.default_rng(17)
    shapes = {"q": (1, heads, n, width), "k": (1, heads, m, width), "v": (1, heads, m, out), "r": (1, heads, n, out)}
    found = {name: random.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    bias, sink = (random.standard_normal(shape).astype(np.float32) for shape in ((n, m), (heads, 1, 1)))
    sink[-1] = -abs(sink[-1])  # as a slope, it makes large scores of what is far
    found |= {"bias": bias, "near": bias.astype(dtype), "sink": sink}
    own = np.sort(random.integers(0, 4, (heads, m))).astype(np.int32)
    found["apart"] = random.standard_normal((10, heads)).astype(dtype)
    return found | {"own": own, "doc": own[0], "lengths": np.array([m * 2 // 3], np.int32)}


def reference(kernel, arrays):
    """Results in float64."""
    wide = {n: x.astype(np.float64) if x.dtype in (BRAIN, np.float16) else x for n, x in arrays.items()}
    return run_interpreter(kernel._program.plans, describe_all(kernel.params, [wide[name] for name in kernel.params]))


def agrees(kernel, arrays, found):
    """Each weight is rounded to 16 bits, and so is the result: both as much as a half of the last bit.

    What rounding the weights can do is at most that share of what the weights make of |v|.
    """
    error = 2.0**-8 if arrays["v"].dtype == BRAIN else 2.0**-11
    largest = reference(kernel, arrays | {name: np.abs(arrays[name]) for name in "vr"})
    for value, expected, most in zip(found, reference(kernel, arrays), largest):
        value, same = value.astype(np.float64), value == expected  # infinities, too
        distance = np.abs(np.where(same, 0.0, value) - np.where(same, 0.0, expected))
        np.testing.assert_array_less(distance, 2.2 * error * np.where(same, 0.0, np.abs(most)) + 1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_is_one_kernel(name):
    arrays, kernel = given(), fd.kernel(FORMULAS[name])
    with emulated_gpu() as gpu:
        found = kernel(*(gpu.asarray(arrays[name]) for name in kernel.params))
        found = [to_host(x) for x in (found if isinstance(found, tuple) else (found,))]
        assert len(gpu.launches) == 1
    agrees(kernel, arrays, found)


@pytest.mark.parametrize("cc", [(9, 0), (8, 0)])
def test_scores_of_a_hundred_thousand(cc):
    arrays, kernel = given(), fd.kernel("attention(q, k, v, mask='j <= i', scale=20000.0, return_lse=True)")
    with emulated_gpu(cc=cc) as gpu:
        found, lse = (to_host(x) for x in kernel(*(gpu.asarray(arrays[name]) for name in "qkv")))
    expected = reference(kernel, arrays)
    assert np.abs(expected[1]).max() > 1e5
    np.testing.assert_allclose(found.astype(np.float64), expected[0], rtol=2.0**-7, atol=2.0**-7)
    np.testing.assert_allclose(lse, expected[1], rtol=1e-6)


WEIGHTS = {
    "full": "softmax(s)",
    "causal": f"softmax(where({CAUSAL}, s, -inf))",
    "added": "sigmoid(s + triu(full_like(s, -inf), 1))",
    "chosen": "(exp(s) * where(iota(s, -1) > iota(s, -2), False, s == s))",
}


@pytest.mark.parametrize(
    "text, n, tiles",
    [("full", 70, 3 + 3 + 1)] + [(name, 260, 3 * 1 + 2 + 2 + 3) for name in ("causal", "added", "chosen")],
)
def test_groups_work_the_tiles_that_count_for_their_rows(text, n, tiles, monkeypatch):
    """The first of several tiles of 192 rows is the one that is not full; an item's last tile is everybody's."""
    threads, built = [], tensor.COLLECTIVES["wgmma"]

    def counted(instruction):
        multiply = built(instruction)
        return lambda machine, lanes, members: threads.extend(lanes) or multiply(machine, lanes, members)

    monkeypatch.setitem(tensor.COLLECTIVES, "wgmma", counted)
    arrays, kernel = given(n, 260, heads=1), fd.kernel(SCORES + f"{WEIGHTS[text]} @ v")
    with emulated_gpu() as gpu:
        agrees(kernel, arrays, [to_host(kernel(*(gpu.asarray(arrays[name]) for name in "qkv")))])
    again = 3 * -(-n // 192)  # a block's last scores are multiplied once more, for nothing
    assert len(threads) == 128 * (32 // 16 * (tiles + again) + 128 // 16 * tiles)


def test_references_stay_behind_scores_that_rise_slowly_and_results_are_measured_from_the_extrema():
    arrays = given(70, 520, heads=1)
    steps = np.arange(520.0)[::-1, None]  # the last tile comes first
    arrays["k"] = (arrays["k"].astype(np.float64) * (1 + steps / 40)).astype(BRAIN)
    text = SCORES + "m = max(s, axis=-1, keepdims=True); e = exp(s - m)\ne @ v, sum(e, axis=-1), m"
    kernel = fd.kernel(text)
    with emulated_gpu() as gpu:
        found = [to_host(x) for x in kernel(*(gpu.asarray(arrays[name]) for name in "qkv"))]
        assert len(gpu.launches) == 1
    agrees(kernel, arrays, found)
    assert "choose_reference(" in kernel.source(*specs(kernel, 64), device="cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("width, out", [(64, 64), (80, 48), (128, 128), (192, 128), (256, 256)])
@pytest.mark.parametrize("name", ["causal", "documents"])
def test_widths_on_a_card(name, width, out):
    on_a_card(name, width, out)


@pytest.mark.gpu
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_on_a_card(name):
    on_a_card(name, 32, 16)


def on_a_card(name, width, out):
    cupy = pytest.importorskip("cupy")
    for n, m in ((1, 1), (333, 1000), (1024, 1024)):
        arrays, kernel = given(n, max(m, n), width=width, out=out, dtype=np.float16), fd.kernel(FORMULAS[name])
        found = kernel(*(cupy.asarray(arrays[name]) for name in kernel.params))
        agrees(kernel, arrays, [cupy.asnumpy(x) for x in (found if isinstance(found, tuple) else (found,))])


def specs(kernel, width, dtype="bfloat16", length=2048):
    """What stands for the arrays of a formula, for 16 heads."""
    square, line = (length, length), (length,)
    of = {"bias": (square, "float32"), "near": (square, dtype), "doc": (line, "int32"), "own": ((16, length), "int32")}
    of["sink"] = ((16, 1, 1), "float32")
    return [fd.spec(*of.get(name, ((1, 16, length, width), dtype))) for name in kernel.params]


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("attention(q, k, v, mask='j <= i', scale=0.125)", 64),
        (SCORES + "softmax(s + near) @ v", 128),
        (FORMULAS["documents"], 128),
        (SCORES + f"softmax(where({CAUSAL}, s, -inf)) @ v", 256),
    ],
)
def test_compiled_for_the_card_nothing_spills_and_no_product_waits_for_another(text, width, monkeypatch, tmp_path):
    from fusedsl.backends.cuda.compiler import linker
    from fusedsl.runtime import cache, compile

    made, link = [], linker.link
    monkeypatch.setattr(linker, "link", lambda code, cc: made.append(link(code, cc)) or made[-1])
    monkeypatch.setattr(compile, "disk", lambda: cache.Cache(tmp_path))
    kernel = fd.kernel(text)
    kernel.resources(*specs(kernel, width), cc=(9, 0))
    (binary,) = made
    assert binary.spill_bytes == 0
    assert "C75" not in binary.log  # ptxas on products that it serialises


@pytest.mark.parametrize("m", [132, 134])
def test_neighbours_draw_for_each_other_where_a_counter_serves_columns_of_both(m):
    """Of a number for each score, four neighbours come from one counter: where keys are a multiple of 4, of one row."""
    arrays, kernel = given(66, m, heads=1), fd.kernel(FORMULAS["dropout"])
    with emulated_gpu() as gpu:
        agrees(kernel, arrays, [to_host(kernel(*(gpu.asarray(arrays[name]) for name in "qkv")))])


def test_tiles_that_a_mask_leaves_whole_drop_weights_and_need_no_mask():
    arrays, kernel = given(200, 200, heads=1, width=16), fd.kernel(FORMULAS["dropout"])
    with emulated_gpu() as gpu:
        agrees(kernel, arrays, [to_host(kernel(*(gpu.asarray(arrays[name]) for name in "qkv")))])
    written = kernel.source(*specs(kernel, 64), device="cuda")
    assert "if tile_info & 2 != 0:" in written
    assert written.count(" = evaluate_mask_0(") == 2  # of the first tile, and in the loop
    never = fd.kernel(SCORES + "softmax(where(doc[:, None] * iota(s, -1) < 1.5 * iota(s, -2), s, -inf)) @ v")
    assert "if tile_info & 2" not in never.source(*specs(never, 64), device="cuda")


@pytest.mark.parametrize(
    ("numbers", "by_four"),
    [("s", True), ("s.mT, stream=2", False), ("float64(s)", False), ("s[:, :1, :, :]", True)],
)
def test_numbers_are_drawn_by_four_where_they_follow_the_columns(numbers, by_four):
    drawn = f"uniform(7, {numbers})"
    drawn = f"({drawn}).mT" if ".mT" in numbers else drawn
    kernel = fd.kernel(SCORES + f"where({drawn} < 0.8, softmax(s), 0) @ v")
    assert ("philox_mask(" in kernel.source(*specs(kernel, 64), device="cuda")) is by_four


@pytest.mark.parametrize("n, width, out", [(130, 80, 48), (129, 128, 72), (193, 64, 64)])
def test_results_leave_in_boxes_and_line_by_line_where_a_tile_is_not_full(n, width, out):
    arrays, kernel = given(n, 140, heads=1, width=width, out=out, dtype=np.float16), fd.kernel(FORMULAS["causal"])
    with emulated_gpu() as gpu:
        agrees(kernel, arrays, [to_host(x) for x in kernel(*(gpu.asarray(arrays[name]) for name in "qkv"))])


@pytest.mark.parametrize(
    ("text", "width", "boxed"),
    [
        (SCORES + "softmax(s) @ v", 64, True),
        (SCORES + "softmax(s) @ v, relu(softmax(s) @ v)", 128, True),
        (SCORES + "softmax(s) @ v", 256, False),  # no room beside the tiles of the stream
        (SCORES + "softmax(s + near) @ v", 128, False),
        (SCORES + "softmax(s + bias) @ v", 64, False),  # results of 32 bits
    ],
)
def test_results_leave_through_shared_memory_where_it_has_room(text, width, boxed):
    kernel = fd.kernel(text)
    assert ("tma_store(" in kernel.source(*specs(kernel, width), device="cuda")) is boxed
    told = str(kernel.explain(*specs(kernel, width), device="cuda", compile=False))
    assert ("outputs are stored by TMA" in told) is boxed


@pytest.mark.parametrize("cc", [(9, 0), (8, 0)])
@pytest.mark.parametrize("text", ["b", "~b", "b & (iota(s, -2) % 3 != 1)"])
def test_a_mask_whose_elements_a_row_shares(text, cc):
    """An array of stride 0 along the stream is read once a row; nothing is drawn of it."""
    arrays = {name: x[0, 0] for name, x in given(66, 132, heads=1).items() if name in "qkv"}
    arrays["b"] = np.broadcast_to((np.arange(66) % 5 != 2)[:, None], (66, 132))
    kernel = fd.kernel(f"s = q @ k.mT\nsoftmax(where({text}, s, -inf)) @ v", fallback=False)
    expected = fd.kernel(kernel.text)(*(arrays[name] for name in kernel.params))
    with emulated_gpu(cc=cc, multiprocessors=4):
        found = to_host(kernel(*(Emulated().there(arrays[name]) for name in kernel.params)))
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=0.02, atol=0.02)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("width", "out", "dtype", "cc"),
    [
        (32, 16, BRAIN, (9, 0)),
        (16, 80, BRAIN, (9, 0)),
        (96, 256, np.float16, (9, 0)),
        (8, 40, np.float16, (8, 0)),
        (48, 96, BRAIN, (8, 0)),
        (5, 33, np.float32, (8, 0)),
        (12, 18, np.float64, (8, 0)),
    ],
)
def test_what_is_masked_adds_nothing_whatever_it_is(width, out, dtype, cc):
    arrays = {name: x[:, :1] for name, x in given(width=width, out=out, dtype=dtype).items() if name in "qkvr"}
    arrays["v"][0, 0, 60:], arrays["k"][0, 0, 70:], arrays["v"][0, 0, 20, 3] = np.nan, np.inf, np.inf
    text = f"t = where({CAUSAL}, s, -inf); o = softmax(t) @ v\no * r + iota(o, -1), logsumexp(t, -1)"
    kernel = fd.kernel(SCORES + text)
    with emulated_gpu(cc=cc) as gpu:
        found, sums = (to_host(x) for x in kernel(*(gpu.asarray(arrays[name]) for name in kernel.params)))
        assert len(gpu.launches) == 1
    q, k, v, r = (arrays[name][0, 0].astype(np.float64) for name in "qkvr")
    for i, row in enumerate(found.astype(np.float64)[0, 0]):
        with np.errstate(invalid="ignore"):
            s = k[: i + 1] @ q[i] * 0.2
            weights = np.exp(s - s.max())
            expected = weights @ v[: i + 1] / weights.sum() * r[i] + np.arange(out)
        np.testing.assert_allclose(row, expected, rtol=0.02, atol=0.02)
        np.testing.assert_allclose(sums[0, 0, i], s.max() + np.log(weights.sum()), rtol=0.02, atol=0.02)
