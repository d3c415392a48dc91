"""The reference page is what the tables say today, and the guide does what it shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fusedsl.__main__ import main
from fusedsl.lang import functions, prelude
from fusedsl.report.catalogue import EXAMPLES, FAMILIES, PLAIN
from fusedsl.report.reference import COMMAND, card, entry, page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_up_to_date():
    """Its examples run as the page is made."""
    assert (DOCS / "reference.md").read_text(encoding="utf-8") == page(), f"run {COMMAND}"


def test_every_function_is_in_one_family_and_no_other_name_is():
    listed = [name for names in FAMILIES.values() for name in names.split()]
    operators = [op.name for op in functions.OPS.values() if op.symbol]
    known = {functions.ALIASES.get(name, name) for name in functions.known_names()} | prelude.names()
    known |= {"attention"}  # which is in no table: its keywords may be any names
    assert sorted(listed) == sorted(known - set(operators))
    assert {*EXAMPLES, *PLAIN} <= known
    assert all(entry(name).meaning for name in listed)


def test_the_numpy_functions_that_it_names_exist():
    newer = {"numpy.vecdot", "numpy.cumulative_sum", "numpy.cumulative_prod"}  # than NumPy 2.0
    for names in FAMILIES.values():
        for name in names.split():
            elsewhere = entry(name).elsewhere
            if elsewhere.startswith("numpy.") and elsewhere not in newer and "(" not in elsewhere:
                found = np
                for part in elsewhere.split(".")[1:]:
                    found = getattr(found, part)


def test_the_command_explains_functions(capsys, tmp_path):
    assert main(["reference", "acos", "relu6"]) == 0
    out = capsys.readouterr().out
    assert "arccos(x)   (also acos)" in out and "relu6(x) = minimum(maximum(x, 0), 6)" in out
    assert main(["reference", "sofmax"]) == 2
    assert "did you mean softmax?" in capsys.readouterr().err
    assert main(["reference", "--write", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8").startswith("# Language reference")


def test_words_of_definitions_that_have_no_entry_are_explained():
    assert "# summand(x) is x as a mean adds it up" in card("mean") and "# given(p)" not in card("relu")
