"""Sphinx extension: writes the pages of docs/tables/ from results and tables of functions, before a build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import accuracy_table
import explanation_keys
import migration_tables
import performance_page
import traced_functions

PAGES = {
    "accuracy.md": accuracy_table.page,
    "performance.md": performance_page.page,
    "traced_functions.md": traced_functions.page,
    "explanation_keys.inc": explanation_keys.table,
    **migration_tables.PARTS,
}


def write(folder: Path) -> None:
    """Write the pages; one that has not changed keeps its time, so that Sphinx does not read it again."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        file, text = folder / name, page()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "tables"))
    return {"parallel_read_safe": True}
