"""The keys of Explanation.to_dict() as a table, for the page of kernels."""

from __future__ import annotations

from fusedsl.report.schema import SCHEMA


def table() -> str:
    """A row for each key; a path of a list's elements has `[]`."""
    rows = "".join(f"| `{key}` | {meaning.replace('|', chr(92) + '|')} |\n" for key, meaning in SCHEMA.items())
    return f"| key | value |\n| --- | --- |\n{rows}"
