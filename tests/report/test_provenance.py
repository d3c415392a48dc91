"""Which kernels compute which part of a program, its passes as text, and the tiles of its masks."""

import sys

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.inspection import GivenCall
from fusedsl.report.explain import resolved_call
from fusedsl.report.ir_after_passes import pass_outputs
from fusedsl.report.program_spans import program_pieces
from fusedsl.report.provenance import owners
from fusedsl.report.tile_map import EMPTY, FULL, PARTIAL, tile_maps
from fusedsl.trace import expression_spans

X = fd.spec((4096, 4096))


def resolved(text, *given, device="cuda", **how):
    return resolved_call(fd.kernel(text, **how)._program, given, device, None)


def pieces(text, *given):
    call = resolved(text, *given)
    return [(p.text.strip(), p.kernels) for p in program_pieces(call, owners(call)) if p.kernels]


def test_one_kernel_computes_everything():
    assert pieces("softmax(x) + y", X, X) == [("softmax(x) + y", (0,))]


def test_an_expression_belongs_to_the_kernel_that_computes_it():
    assert pieces("gelu(x @ w + b) @ u", X, X, fd.spec(4096), X) == [("gelu(x @ w + b)", (0,)), ("@ u", (1,))]
    steps = "a = sum(x, 0)\nb = sum(exp(x - a), 1)\nreturn cumsum(b) * 2, a"
    assert pieces(steps, X) == [("sum(x, 0)", (0,)), ("sum(exp(x - a), 1)", (1,)), ("cumsum(b) * 2", (2,))]


def test_what_two_kernels_compute_belongs_to_both():
    text = "(x - mean(x, axis=0)) / std(x, axis=-1, keepdims=True)"
    assert ("std(x, axis=-1, keepdims=True)", (0, 1)) in pieces(text, X)


def test_values_that_are_nearly_equal_keep_their_kernels():
    steps = [f"a{k} = a{k - 1} * {k} + sin(a{k - 1})" for k in range(1, 30)]
    call = resolved("\n".join(["a0 = x", *steps, "a29"]), X)
    owned = owners(call)
    assert len(call.launches) > 1
    shared = [n for n, launches in owned.items() if len(launches) > 1]
    assert len(shared) <= 2 * len(call.launches)


def test_bodies_of_functions_of_the_text_are_coloured_too():
    found = pieces("f(t) = t * sigmoid(t)\nreturn f(x - 1)", X)
    assert found == [("t * sigmoid(t)", (0,)), ("f(x - 1)", (0,))]


def test_equal_programs_on_every_target():
    text = "sum(exp(x - sum(x, 0)), 1)"
    for device in ("cpu", "cuda"):
        call = resolved(text, X, device=device)
        of_op = {n.op: launches for n, launches in owners(call).items()}
        assert of_op["exp"] == (1,) and len(call.launches) == 2


def test_passes_show_what_each_made():
    outputs = {p.name: p for p in pass_outputs(resolved("softmax(x) / 1", X))}
    assert list(outputs) == ["typed graph", "after the laws", "scalar program", "fusion groups", "kernel IR"]
    assert "reduce %0, (max, (1))" in outputs["typed graph"].text
    assert outputs["after the laws"].about == "x / 1 = x"
    assert "load x[i0, i1]" in outputs["scalar program"].text
    assert "reduces rows: %1, %4" in outputs["fusion groups"].text
    assert "exp_0 = exp(sub_0)" in outputs["kernel IR"].text


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("attention(q, k, v, mask='j <= i')", "cuda"),
        ("attention(q, k, v, mask='(i - j < 200) & (j <= i) | (j < 64)')", "cuda"),
        ("softmax(where(abs(arange(700)[:, None] - arange(700)) < 90, q @ k.mT, -inf)) @ v", "cuda"),
        ("attention(q, k, v, mask='j <= i')", "cpu"),
    ],
)
def test_a_tile_is_what_its_elements_are(text, device):
    given = fd.spec((1, 2, 700, 64), "float32" if device == "cpu" else "float16")
    (found,) = tile_maps(resolved(text, given, given, given, device=device))
    i, j = np.arange(700)[:, None], np.arange(700)
    condition = text.split("'")[1] if "mask" in text else "abs(i - j) < 90"
    counts = eval(condition, {"i": i, "j": j, "abs": abs})
    seen = [0, 0, 0]
    rows, columns = found.tile
    for a, line in enumerate(found.cells):
        for b, state in enumerate(map(int, line)):
            part = counts[a * rows : (a + 1) * rows, b * columns : (b + 1) * columns]
            assert {EMPTY: not part.any(), FULL: part.all(), PARTIAL: True}[state]
            seen[state] += 1
    assert tuple(seen) == found.counts and found.counts[EMPTY]


@pytest.mark.parametrize("mask", ["d[i] == d[j]", "j < d[i]"])
def test_masks_of_data_have_no_map_and_a_reason(mask):
    q, ids = fd.spec((1, 2, 512, 64), "float16"), fd.spec(512, "int64")
    (found,) = tile_maps(resolved(f"attention(q, k, v, mask='{mask}', d=d)", q, q, q, ids))
    assert not found.cells and "elements of arrays" in found.note


# -- fused functions


def helper(t):
    return np.exp(t - t.max(axis=0))


def pieces_of(function, *given, device="cuda"):
    def look(program, values):
        call = resolved_call(program, values, device, None)
        return [(p.text.strip(), p.kernels) for p in program_pieces(call, owners(call))]

    return function._inspect(GivenCall(given, {}), look)


def coloured(function, *given, **how):
    return {text: kernels for text, kernels in pieces_of(function, *given, **how) if kernels}


@fd.fuse
def in_steps(x, w):
    "naïve"  # columns of bytecode count bytes
    a = helper(x)
    b = (a.sum(axis=0)
         + w)  # fmt: skip
    for _ in range(2):
        b = np.tanh(b) * 2
    b[1:3] = 0
    b += 1
    return np.cumsum(b), a[:, ::-1]


LINES = sys.version_info < (3, 11)  # bytecode has no columns


@pytest.mark.skipif(LINES, reason="columns of bytecode: Python 3.11")
def test_expressions_of_a_function_belong_to_kernels():
    found = coloured(in_steps, fd.spec((64, 64)), fd.spec(64))
    assert found == {
        "helper(x)": (0, 1),
        "a.sum(axis=0)": (1,),
        "+ w": (2,),
        "np.tanh(b) * 2": (2,),
        "b[1:3]": (2,),
        "b += 1": (2,),
        "np.cumsum(b)": (2,),
    }
    assert "".join(text for text, _ in pieces_of(in_steps, fd.spec((64, 64)), fd.spec(64))).startswith("@fd.fuse")


def test_lines_of_a_function_belong_to_kernels(monkeypatch):
    columns = expression_spans._position
    monkeypatch.setattr(expression_spans, "_position", lambda *given: (*columns(*given)[:2], None, None))
    found = coloured(in_steps, fd.spec((64, 64)), fd.spec(64))
    assert found["a = helper(x)"] == (0, 1) and found["b = np.tanh(b) * 2"] == (2,) and found["b += 1"] == (2,)


@pytest.mark.skipif(LINES, reason="columns of bytecode: Python 3.11")
def test_indented_functions_lambdas_and_methods_too():
    class Model:
        @fd.fuse
        def gram(self, x):
            return x.T @ x - x.mean()

    shifted = fd.fuse(lambda x: x.max() + x)
    assert coloured(shifted, np.ones((4, 8)), device="cpu") == {"x.max() + x": (0,)}
    found = coloured(Model.gram, Model(), np.ones((30, 30)), device="cpu")
    assert found == {"x.T @ x -": (1,), "x.mean()": (0, 1)}


def test_a_function_without_source_is_one_piece():
    scope = {"np": np}
    exec("def f(x): return np.exp(x) + x.sum()", scope)
    assert pieces_of(fd.fuse(scope["f"]), X) == [("def f(...): ...", ())]
