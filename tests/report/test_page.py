"""Kernel.report: the page is complete, agrees with explain(), and escapes its texts."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

import fusedsl as fd
from fusedsl.report.explain import explain
from fusedsl.report.page import WIDTH, picture


class Reader(HTMLParser):
    """What a browser would show, and whether every element is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.widths, self.tags = [], [], {"old": 0.0, "new": 0.0}, set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        given = dict(attributes)
        if tag == "rect":
            self.widths[given["class"]] += float(given["width"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert not reader.open
    return reader


def test_a_page_says_what_explain_says(tmp_path):
    kernel = fd.kernel("m = mean(x, axis=-1, keepdims=True); return (x - m) * 2, sum(x < 0)")
    given = fd.spec((512, 1024))
    kernel.report(tmp_path / "page.html", given, device="cpu")
    reader, told = read(tmp_path / "page.html"), kernel.explain(given, device="cpu")
    text = "".join(reader.text)
    for part in (
        *told.program,
        *told.arguments,
        *(k.name for k in told.kernels),
        told.kernels[0].schedule,
        *told.notes,
    ):
        assert part in text
    assert f"instead of {told.before.kernels}" in text
    assert "def " in text  # the source
    assert "script" not in reader.tags


def test_bars_are_as_long_as_the_bytes(tmp_path):
    kernel = fd.kernel("exp(x) * 2 + 1 - x")
    told = explain(kernel._program, [fd.spec((1000, 1000))], "cpu")
    reader = Reader()
    reader.feed(picture(told))
    assert abs(reader.widths["old"] - WIDTH) < 0.02 * WIDTH
    assert abs(reader.widths["new"] / WIDTH - told.bytes / told.before.bytes) < 0.02


def test_nothing_in_a_text_becomes_markup(tmp_path):
    kernel = fd.kernel("a < b & c > b", params="a b c")
    x = np.zeros(4, np.int32)
    kernel.report(tmp_path / "page.html", x, x, x)
    raw = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "a &lt; b" in raw and "a < b" not in raw
