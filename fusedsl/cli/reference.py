"""`reference`: prints the entry of a function, or writes the reference of all functions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..errors import UnknownNameError


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `reference`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="functions to explain; all, as a page, if none")
    parser.add_argument("--write", metavar="PATH", help="write the page to a file")


def run(chosen: argparse.Namespace) -> int:
    """Print entries or the page, or write the page; exit code 2 if a name is no function."""
    from ..report.reference import card, page

    if chosen.write:
        Path(chosen.write).write_text(page(), encoding="utf-8")
        return 0
    if not chosen.names:
        print(page(), end="")
        return 0
    cards, faults = [], []
    for name in chosen.names:
        try:
            cards.append(card(name))
        except UnknownNameError as fault:
            faults.append(str(fault))
    if cards:
        print("\n\n".join(cards))
    for message in faults:
        print(message, file=sys.stderr)
    return 2 if faults else 0
