"""Print what a function does, or write the reference of all of them."""

from __future__ import annotations

import argparse
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `reference`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="functions to explain; all, as a page, if none")
    parser.add_argument("--write", metavar="PATH", help="write the page to a file")


def run(chosen: argparse.Namespace) -> int:
    """Print entries or the page, or write the page."""
    from ..report.reference import card, page

    if chosen.write:
        Path(chosen.write).write_text(page(), encoding="utf-8")
    else:
        print("\n\n".join(map(card, chosen.names)) if chosen.names else page(), end="\n" if chosen.names else "")
    return 0
