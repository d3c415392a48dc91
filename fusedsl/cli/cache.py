"""`cache`: list or clear the folder of compiled kernels."""

from __future__ import annotations

import argparse
from datetime import datetime

from ..config import cache_megabytes
from ..report.table import text_table
from ..report.units import bytes_text


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `cache`."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="every entry, newest first")
    what.add_argument("--clear", action="store_true", help="remove every entry and source; they are compiled again")


def run(chosen: argparse.Namespace) -> int:
    """Print the folder and its entries, or clear it."""
    from ..runtime.cache import Cache

    cache = Cache()
    if chosen.clear:
        print(f"removed {cache.clear()} of the entries in {cache.folder}")
        return 0
    entries = cache.list()
    megabytes = cache_megabytes()
    limit = f"at most {megabytes} MB" if megabytes else "no limit"
    print(f"{cache.folder}: {len(entries)} entries, {bytes_text(sum(e.size for e in entries))}; {limit}")
    if chosen.list and entries:
        rows = [
            [e.key[:16], bytes_text(e.size), f"{datetime.fromtimestamp(e.written):%Y-%m-%d %H:%M}"] for e in entries
        ]
        print(text_table(["entry", "size", "written"], rows))
    return 0
