"""Options of one command that exclude each other."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from ..errors import ArgumentError


def check_exclusive(chosen: argparse.Namespace, option: str, others: Iterable[str]) -> None:
    """ArgumentError if one of the other options, which this one would leave without effect, is given too."""
    for name in others:
        if getattr(chosen, name) not in (None, False, [], ()):
            given = name.upper() if name == "suites" else f"--{name.replace('_', '-')}"
            message = f"{option} is given, beside which {given} has no effect"
            raise ArgumentError(message, "argument.option", help=f"leave one of the two out: {option}, {given}")
