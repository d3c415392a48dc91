"""Debug output on stderr by FUSEDSL_DEBUG: 1 kernels, 2 decisions, 3 graphs after each pass, 4 sources, 5 rewrites."""

from __future__ import annotations

import sys

from .config import debug_level

KERNELS, DECISIONS, GRAPHS, SOURCES, REWRITES = range(1, 6)


def showing(level: int) -> bool:
    """Whether this level is shown."""
    return debug_level() >= level


def say(level: int, title: str, text: str = "") -> None:
    """Print a title, and a text indented below it, if FUSEDSL_DEBUG has this level."""
    if showing(level):
        lines = [f"fusedsl: {title}", *(f"    {line}" for line in text.splitlines())]
        print("\n".join(lines), file=sys.stderr)
