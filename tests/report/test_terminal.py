"""`python -m fusedsl explain` in a terminal: colours, widths, NO_COLOR and FORCE_COLOR; plain text elsewhere."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest

import fusedsl as fd
from fusedsl.__main__ import main
from fusedsl.report.terminal import print_explanation, wants_colour

ASKED = ["explain", "mean((x - mean(x, axis=0)) ** 2, axis=-1) + 1", "-s", "x=4096,4096", "--cc", "90", "--no-compile"]
ANSI = re.compile(r"\x1b\[[0-9;]*m")
needs_rich = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("rich") is None, reason="rich is not installed"
)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def told():
    return fd.kernel(ASKED[1]).explain(fd.spec((4096, 4096)), cc=90, compile=False)


def printed(capsys):
    assert main(ASKED) == 0
    return capsys.readouterr().out


def test_plain_where_nobody_watches(capsys):
    assert printed(capsys) == f"{told()}\n"


@needs_rich
@pytest.mark.parametrize("width", [60, 80, 400])
def test_the_same_words_in_colour(monkeypatch, capsys, width):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    out = printed(capsys)
    text = ANSI.sub("", out)
    assert out != text and text.split() == str(told()).split()
    assert max(map(len, text.splitlines())) <= width
    if width == 400:
        assert text == f"{told()}\n"


@needs_rich
def test_no_color_comes_first(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(capsys) == f"{told()}\n"


def test_without_rich_it_is_plain(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    stream, explanation = io.StringIO(), told()
    print_explanation(explanation, stream)
    assert stream.getvalue() == f"{explanation}\n"


def test_what_wants_colour(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert wants_colour(Terminal()) and not wants_colour(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(Terminal())
    monkeypatch.setenv("FORCE_COLOR", "0")
    assert not wants_colour(Terminal())


@needs_rich
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_in_a_terminal_of_eighty_columns():
    import pty

    leader, follower = pty.openpty()
    run = [sys.executable, "-m", "fusedsl", *ASKED]
    environment = {**os.environ, "COLUMNS": "80"}
    with subprocess.Popen(run, stdout=follower, stdin=follower, stderr=subprocess.PIPE, env=environment):
        os.close(follower)
        out = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            out += part
        os.close(leader)
    text = out.decode().replace("\r\n", "\n")
    assert ANSI.search(text) and max(len(line) for line in ANSI.sub("", text).splitlines()) <= 80
