"""The index of the architecture page: every file in it exists, rows are in order, and no word is there twice."""

import re
from pathlib import Path

import fusedsl

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PACKAGE = Path(fusedsl.__file__).parent
INDEX = PAGE.read_text(encoding="utf-8").split("## Where is …?")[1].split("\n## ")[0]
ROWS = [row.strip("| ").split(" | ") for row in INDEX.splitlines() if row.startswith("| ")][2:]
FILE = re.compile(r"`((?:\w+/)*\w+\.(?:py|fd|lark))`")


def test_every_file_exists():
    files = [file for _, answer in ROWS for file in FILE.findall(answer)]
    assert len(files) >= len(ROWS) > 100
    assert not [file for file in files if not (PACKAGE / file).is_file()]


def test_every_row_begins_with_a_file():
    assert not [what for what, answer in ROWS if not FILE.match(answer)]


def test_rows_are_in_alphabetical_order():
    words = [re.sub("[^a-z0-9 ]", "", what.lower()) for what, _ in ROWS]
    assert words == sorted(set(words))
