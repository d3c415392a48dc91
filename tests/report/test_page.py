"""Kernel.report: the page is complete, agrees with explain(), is well formed, and escapes its texts."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from html_check import read_html
from test_explain import needs_compiler

import fusedsl as fd
from fusedsl.report.explain import explain
from fusedsl.report.listing import ListedLine
from fusedsl.report.page import data as page_data_module
from fusedsl.report.page import document, page_data
from fusedsl.report.page.charts import WIDTH, bytes_picture
from fusedsl.report.page.graph_layout import NodeSize, lay_out

X = fd.spec((4096, 4096))
STEPS = "a = sum(x, 0)\nb = sum(exp(x - a), 1)\nreturn cumsum(b) * 2, a"
Q = fd.spec((1, 2, 700, 64), "float16")


@cache
def made(text, *given, device=None, compile=False):
    """(the data of a page, its reader)"""
    data = page_data(fd.kernel(text)._program, given, device, None, compile)
    return data, read_html(document(data))


def embedded(reader):
    return json.loads(reader.scripts["data"])


PROGRAMS = [(STEPS, X), ("softmax(x @ w, -1)", X, X), ("attention(q, k, v, mask='j <= i')", Q, Q, Q), ("x", X)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0][:12])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_pages_are_well_formed_and_hold_their_data(program, device):
    data, reader = made(*program, device=device)
    assert embedded(reader) == data == json.loads(json.dumps(data))
    told = fd.kernel(program[0]).explain(*program[1:], device=device, compile=False)
    assert data["explanation"] == json.loads(json.dumps(told.to_dict()))
    text = "".join(reader.text)
    for part in (*told.arguments, *told.notes, *(k.name for k in told.kernels), *(k.schedule for k in told.kernels)):
        assert part in text
    assert "".join(p["text"] for p in data["program"]) == program[0] and program[0] in text
    assert f"instead of {told.before.kernels}" in text and "def " in text  # the source


def test_every_plotted_number_is_in_the_data():
    _, reader = made(STEPS, X)
    told = embedded(reader)
    points = [p for p in (*told["roofline"]["kernels"], *told["roofline"]["operations"]) if p is not None]
    drawn = {(float(given["data-x"]), float(given["data-y"])) for given in reader.having("data-x")}
    assert drawn == {(p["instructions_per_byte"], p["instructions_per_second"]) for p in points}
    for kernel, point in zip(told["explanation"]["kernels"], told["roofline"]["kernels"]):
        assert point["instructions_per_byte"] == kernel["instructions"] / kernel["bytes"]
        assert point["instructions_per_second"] == kernel["instructions"] / kernel["seconds"]
    steps = told["explanation"]["before"]["steps"]
    for step, point in zip(steps, told["roofline"]["operations"]):
        assert point["instructions_per_second"] == step["instructions"] / step["seconds"]
    sizes = {x["bytes"] for x in (*steps, *told["explanation"]["kernels"])}
    assert sizes.issuperset(int(given["data-bytes"]) for given in reader.having("data-bytes"))
    assert sum(s["bytes"] for s in steps) == told["explanation"]["before"]["bytes"]


def test_points_are_where_their_numbers_say():
    data, reader = made(STEPS, X)
    dots = {(float(d["data-x"]), float(d["data-y"])): (float(d["cx"]), float(d["cy"])) for d in reader.having("data-x")}
    by_x, by_y = (
        sorted((x, place[0]) for (x, _), place in dots.items()),
        sorted((y, -p[1]) for (_, y), p in dots.items()),
    )
    assert [place for _, place in by_x] == sorted(place for _, place in by_x)
    assert [place for _, place in by_y] == sorted(place for _, place in by_y)
    card = data["hardware"]
    for x, y in dots:
        assert y <= 1.05 * min(card["instructions_per_second"], x * card["bytes_per_second"])


def test_a_cpu_has_a_roofline_of_its_cores():
    data, reader = made("softmax(x @ w, -1)", X, X, device="cpu")
    card = data["hardware"]
    points = [p for p in (*data["roofline"]["kernels"], *data["roofline"]["operations"]) if p is not None]
    assert len(points) > 2 and card["is_cpu"]
    for p in points:
        roof = min(card["instructions_per_second"], p["instructions_per_byte"] * card["bytes_per_second"])
        assert p["instructions_per_second"] == pytest.approx(roof)
    assert "measure=True" in "".join(reader.text) and "dashed" not in str(reader.elements)


def test_a_measured_cpu_has_a_measured_roofline():
    x = np.ones((300, 1000), np.float32)
    data = page_data(fd.kernel("exp(x) - sum(x, -1)[:, None]")._program, [x], measure=True)
    (kernel,), (point,) = data["explanation"]["kernels"], data["roofline"]["kernels"]
    assert point["seconds"] == kernel["measured_seconds"] > 0
    assert data["hardware"]["bytes_per_second"] > 1e8 and data["hardware"]["instructions_per_second"] > 1e8
    assert "measured" in "".join(read_html(document(data)).text)


def test_bars_are_as_long_as_the_bytes():
    told = explain(fd.kernel("exp(x) * 2 + 1 - x")._program, [fd.spec((1000, 1000))], "cpu").to_dict()
    bars = read_html(bytes_picture({"explanation": told})).having("data-bytes")
    most = told["before"]["bytes"]
    assert len(bars) == 5
    for bar in bars:
        assert abs(float(bar["width"]) + 1 - WIDTH * int(bar["data-bytes"]) / most) < 0.2


def test_operations_have_the_colours_of_their_kernels():
    data, reader = made(STEPS, X)
    steps = zip(data["explanation"]["before"]["steps"], data["operations"])
    assert {s["operation"]: o["kernels"] for s, o in steps if s["operation"] in ("exp", "cumsum")} == {
        "exp": [1],
        "cumsum": [2],
    }
    assert data["reads"][0] == ["x"] and data["results"] == [len(data["operations"]) - 1, 0]
    spans = [given["title"] for tag, given in reader.elements if tag == "span" and "title" in given]
    assert {"kernel 0", "kernel 1", "kernel 2"} == set(spans)


@pytest.mark.parametrize("name", ["</script><b>", "a < b & c > b", '"quoted"'])
def test_nothing_in_a_text_becomes_markup(name):
    text = f"x + 1  # {name}"
    reader = made(text, fd.spec(4), device="cpu")[1]
    assert text in "".join(reader.text)
    assert sum(tag == "script" for tag, _ in reader.elements) == 2


def test_what_is_not_there_has_a_reason():
    on_cpu, on_cuda = made(STEPS, X, device="cpu")[0], made(STEPS, X)[0]
    assert set(on_cpu["absent"]) == {"listings", "cards"} and "cc=90" in on_cpu["absent"]["cards"]
    assert set(on_cuda["absent"]) == {"listings", "cards"} and "compile=False" in on_cuda["absent"]["cards"]
    text = "".join(made(STEPS, X, device="cpu")[1].text)
    assert all(reason in text for reason in on_cpu["absent"].values())


@needs_compiler
def test_a_page_is_written_with_cards_and_listings(tmp_path):
    file = tmp_path / "page.html"
    fd.kernel("x * 2 + 1").report(file, fd.spec((64, 128)), cc=80, compile=(80, 86))
    reader = read_html(file.read_text(encoding="utf-8"))
    data = embedded(reader)
    assert [card["cc"] for card in data["cards"]] == ["8.0", "8.6"]
    for card in data["cards"]:
        (kernel,) = card["kernels"]
        assert f"{kernel['figures']['registers']} registers" in "".join(reader.text)
    (listing,) = data["listings"]
    lines = [listing["ptx"]["table"][k] for k in listing["ptx"]["lines"]]
    assert len(lines) == listing["ptx"]["text"].count("\n") + 1
    assert 0 < max(k for at in lines for k in at) <= listing["source"].count("\n") + 1


def test_long_listings_are_cut():
    found = page_data_module._lines([ListedLine(f"add {k};", (k % 3,)) for k in range(1000)], 500)
    assert len(found["text"]) < 600 and found["text"].endswith("lines more")
    assert len(found["lines"]) == found["text"].count("\n") + 1


def test_layers_go_down_and_boxes_do_not_overlap():
    edges = [(0, 2), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5), (0, 5), (6, 5)]
    boxes = [NodeSize(30.0 + 10 * k, 20.0) for k in range(7)]
    layout = lay_out(boxes, edges)
    for a, b in edges:
        assert layout.centres[a][1] < layout.centres[b][1]
        assert layout.paths[a, b][0] == layout.centres[a] and layout.paths[a, b][-1] == layout.centres[b]
    places = sorted((layout.centres[n][1], layout.centres[n][0], boxes[n].width) for n in range(7))
    for (y, x, w), (v, u, other) in pairwise(places):
        assert y != v or x + w / 2 < u - other / 2
    assert all(
        x - boxes[n].width / 2 >= 0 and x + boxes[n].width / 2 <= layout.width for n, (x, _) in layout.centres.items()
    )


def test_the_page_of_a_function(tmp_path):
    @fd.fuse
    def scaled(x, *, by):
        return np.exp(x - x.max(axis=0)) * by + x.sum()

    scaled.report(tmp_path / "page.html", np.ones((6, 8), np.float32), by=3.0)
    reader = read_html((tmp_path / "page.html").read_text(encoding="utf-8"))
    data = embedded(reader)
    assert "np.exp(x - x.max(axis=0)) * by + x.sum()" in "".join(reader.text)
    assert all(operation["kernels"] for operation in data["operations"])


# -- small forms


def test_small_forms_are_parts_of_a_page():
    kernel = fd.kernel("where(x < 1, x, 1) & x", params="x")

    @fd.fuse
    def halved(x):
        return np.tanh(x) < 0.5

    with pytest.raises(fd.DTypeError) as fault:
        kernel(np.ones(3))
    told = fd.kernel(STEPS).explain(X, compile=False)
    for shown, parts in (
        (kernel, ["where(x < 1, x, 1) & x", "(x)"]),
        (halved, ["np.tanh(x) < 0.5", "halved"]),
        (told, [str(told), "instead of"]),
        (fault.value, [str(fault.value)]),
    ):
        reader = read_html(shown._repr_html_())
        assert all(part in "".join(reader.text) for part in parts) and "script" not in reader.tags
