"""What FUSEDSL_DEBUG shows on stderr: 1 kernels, 2 decisions, 3 graphs after each pass, 4 sources, 5 rewrites."""

from __future__ import annotations

import sys

from .config import debug_level

KERNELS, DECISIONS, GRAPHS, SOURCES, REWRITES = range(1, 6)


def showing(level: int) -> bool:
    """Whether this much is to be shown."""
    return debug_level() >= level


def say(level: int, title: str, text: str = "") -> None:
    """Show a title, and a text indented below it, where FUSEDSL_DEBUG asks for this level."""
    if showing(level):
        lines = [f"fusedsl: {title}", *(f"    {line}" for line in text.splitlines())]
        print("\n".join(lines), file=sys.stderr)
