"""Which kernels compute which part of a program, its passes as text, and the tiles of its masks."""

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.report.explain import resolved_call
from fusedsl.report.passes import pass_outputs
from fusedsl.report.program_spans import program_pieces
from fusedsl.report.provenance import owners
from fusedsl.report.tile_map import EMPTY, FULL, PARTIAL, tile_maps

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
