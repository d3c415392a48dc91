"""The keys of Explanation.to_dict() as a table, for the page of kernels."""

from __future__ import annotations

import markdown

from fusedsl.report.schema import SCHEMA


def table() -> str:
    """A row for each key; a path of a list's elements has `[]`."""
    return markdown.table(("key", "value"), ((f"`{key}`", meaning) for key, meaning in SCHEMA.items())) + "\n"
