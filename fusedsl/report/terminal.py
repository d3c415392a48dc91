"""An explanation in a terminal: in colour and wrapped to its width by rich, if that is installed; else plain text.

NO_COLOR, if it is set, leaves the plain text; FORCE_COLOR colours what goes to a file or a pipe, too. What is printed
has the words of `str()` in their order.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from textwrap import TextWrapper
from typing import TYPE_CHECKING, TextIO

from .render import LABEL_WIDTH

if TYPE_CHECKING:
    from rich.text import Text

    from .explain import Explanation

KERNELS = ("green", "blue", "yellow", "magenta", "red", "cyan")
LABELS = ("with", "on", "computes", "iterates", "reads", "writes", "schedule", "registers", "time", "tried")
MIN_WIDTH = 40  # columns that text is wrapped to at least


def print_explanation(explanation: Explanation, file: TextIO | None = None) -> None:
    """Print an explanation as the reader of a stream likes it."""
    stream = sys.stdout if file is None else file
    if not wants_colour(stream) or importlib.util.find_spec("rich") is None:
        print(explanation, file=stream)
        return
    from rich.console import Console

    console = Console(file=stream, force_terminal=True, highlight=False, soft_wrap=True)
    for line in coloured(str(explanation), max(MIN_WIDTH, console.width)):
        console.print(line)


def wants_colour(stream: TextIO) -> bool:
    """Whether a stream is to be coloured: by NO_COLOR, then FORCE_COLOR, then if it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return os.environ["FORCE_COLOR"] != "0"
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(text: str, width: int) -> Iterator[Text]:
    """The lines of an explanation's text, wrapped, each with its styles."""
    from rich.text import Text

    kernel = ""
    for number, line in enumerate(text.splitlines()):
        if (kernel_line := re.match(r"kernel (\d+): ", line)) is not None:
            kernel = KERNELS[int(kernel_line[1]) % len(KERNELS)]
        label = line.strip().partition(" ")[0] if line.startswith("  ") else ""
        has_label = label in LABELS and line[2 : 2 + LABEL_WIDTH].strip() == label
        for k, part in enumerate(_wrapped(line, width, has_label)):
            shown = Text(part, style=_style(line, number, kernel))
            if has_label and k == 0:
                shown.stylize("dim", 0, 2 + LABEL_WIDTH)
            yield shown


def _wrapped(line: str, width: int, has_label: bool) -> list[str]:
    """A line in parts of this width; those after the first begin below the first one's value."""
    is_continuation = line.startswith(" " * (2 + LABEL_WIDTH))
    indent = " " * (4 + LABEL_WIDTH if has_label or is_continuation else 4)
    wrapper = TextWrapper(width, subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False)
    wrapper.replace_whitespace = wrapper.expand_tabs = False
    return wrapper.wrap(line) or [""]


def _style(line: str, number: int, kernel: str) -> str:
    """The style of a line: the headline, the times below it, headings, warnings."""
    if number == 0:
        return "bold green"
    if line.startswith("kernel "):
        return f"bold {kernel}"
    if line and not line.startswith(" "):
        return "dim" if line.startswith("about ") else "bold"
    return "yellow" if " spilled" in line and "no spills" not in line else ""
