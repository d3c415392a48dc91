"""Runs the Python of a Markdown page: examples with prompts as doctests, other blocks as programs that print.

A `text` block right behind a program is what it prints. A comment before a block says what it needs:
`<!-- needs: torch -->` skips the page from there on if the module is missing, `<!-- not run: reason -->` leaves out the
one block. Of shell blocks, quick commands of the package run.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fusedsl.__main__ import main

BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>needs|not run): (?P<about>[^\n]*?) -->\n)?"
    r"^```(?P<language>\w+)\n(?P<body>.*?)^```$"
    r"(?=(?:\n\n```text\n(?P<shown>.*?)^```$)?)",
    re.M | re.S,
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its lines, and the comment before it."""

    language: str
    body: str
    line: int
    mark: str | None
    about: str | None
    shown: str | None  # the `text` block right behind it


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for m in BLOCK.finditer(text):
        line = text.count("\n", 0, m.start("body"))
        yield Block(m["language"], m["body"], line, m["mark"], m["about"], m["shown"])


def run(page: Path) -> int:
    """The number of blocks that ran; AssertionError for output that differs from the page."""
    scope: dict = {"__name__": "__page__"}
    done = 0
    for block in blocks(page):
        if block.mark == "needs":
            for module in (block.about or "").split(", "):
                pytest.importorskip(module)
        if block.language == "sh":
            done += _run_commands(page, block)
        if block.language != "python" or block.mark == "not run":
            continue
        done += 1
        if ">>> " in block.body:
            _run_examples(page, block, scope)
        else:
            printed = _run_program(page, block, scope)
            if block.shown is not None:
                agrees = doctest.OutputChecker().check_output(_untimed(block.shown), _untimed(printed), FLAGS)
                assert agrees, f"{page.name}:{block.line} prints\n{printed}"
    return done


QUICK = ("explain", "reference", "cache")  # commands that take no minutes


def _run_commands(page: Path, block: Block) -> int:
    """Run the lines of a shell block that start a quick command of the package; how many there were."""
    commands = re.findall(r"^python -m fusedsl (\S.*)", block.body, re.M)
    quick = [arguments for line in commands if (arguments := shlex.split(line, comments=True))[0] in QUICK]
    for arguments in quick:
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(arguments) == 0, f"{page.name}:{block.line}: {arguments}"
    return len(quick)


def _untimed(output: str) -> str:
    """Output without predicted times, which change whenever the time model does."""
    return re.sub(r"\b[\d.,]+ (?:s|ms|µs)\b", "… s", output)


def _run_examples(page: Path, block: Block, scope: dict) -> None:
    test = doctest.DocTestParser().get_doctest(block.body, scope, page.stem, str(page), block.line)
    test.globs = scope  # shared by all blocks of the page, where get_doctest copies it
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    assert not runner.run(test, out=said.append, clear_globs=False).failed, "".join(said)


def _run_program(page: Path, block: Block, scope: dict) -> str:
    printed = io.StringIO()
    code = compile("\n" * block.line + block.body, str(page), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, scope)
    return printed.getvalue()


def rewrite(page: Path) -> str:
    """The page with the output of its programs put into the `text` blocks behind them."""
    scope: dict = {"__name__": "__page__"}
    text = page.read_text(encoding="utf-8")
    parts, at = [], 0
    for m, block in zip(BLOCK.finditer(text), blocks(page)):
        if block.language == "python" and block.mark != "not run" and ">>> " not in block.body:
            printed = _run_program(page, block, scope)
            if block.shown is not None:
                parts += [text[at : m.start("shown")], printed.rstrip() + "\n"]
                at = m.end("shown")
    return "".join([*parts, text[at:]])


if __name__ == "__main__":
    import sys

    for name in sys.argv[1:]:
        Path(name).write_text(rewrite(Path(name)), encoding="utf-8")
