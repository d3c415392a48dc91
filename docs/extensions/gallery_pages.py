"""Sphinx extension: docs/gallery/ from the notebooks of examples/gallery with their pictures, before a build."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[2] / "examples" / "gallery"
INTRODUCTION = """# Gallery

Each page is a script of [examples/gallery](../../examples/gallery/_gallery.py), and a notebook beside it, with one
picture. Each compares the fused program with its unfused twin in NumPy: the kernels, the bytes that they move, by
`explain()`, and the time of both, taken in turns on a machine with two cores. `python NAME.py` runs one in a moment,
`--large` with the sizes shown here; it needs the file `_gallery.py` beside it, which is
[at the end of this page](#what-the-scripts-share), and Matplotlib.

"""
SCRIPT = (
    "[The script](../../examples/gallery/{0}.py) · [the notebook](../../examples/gallery/{0}.ipynb) · "
    "run it with [`_gallery.py`](index.md#what-the-scripts-share) beside it: `python {0}.py`\n"
)
SHARED = "## What the scripts share\n\n`_gallery.py`:\n\n```python\n{}```\n"


def pages() -> dict[str, str | bytes]:
    """The contents of the files of docs/gallery, by name."""
    files: dict[str, str | bytes] = {}
    cards = []
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        name = notebook.stem
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        files[f"{name}.md"] = "\n".join(part for cell in cells for part in shown(cell, name)) + SCRIPT.format(name)
        files[f"{name}.png"] = picture(cells)
        cards.append(card(name, cells))
    names = "\n".join(file[:-3] for file in files if file.endswith(".md"))
    shared = SHARED.format((NOTEBOOKS / "_gallery.py").read_text(encoding="utf-8"))
    contents = f"```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    files["index.md"] = f"{INTRODUCTION}:::{{container}} gallery\n\n{''.join(cards)}:::\n\n{contents}\n{shared}"
    return files


def shown(cell: dict[str, Any], name: str) -> Iterator[str]:
    """A cell and what it printed, as Markdown."""
    source = joined(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        yield f"{source}\n"
        return
    yield f"```python\n{source}\n```\n"
    for output in cell["outputs"]:
        if "text" in output:
            yield f"```text\n{joined(output['text']).strip()}\n```\n"
        elif "image/png" in output.get("data", {}):
            yield f"![{name}]({name}.png)\n"


def card(name: str, cells: list[dict[str, Any]]) -> str:
    """The picture, the title and the numbers of kernels of an example."""
    title = joined(cells[0]["source"]).splitlines()[0].removeprefix("# ")
    printed = "".join(joined(output.get("text", "")) for cell in cells for output in cell.get("outputs", ()))
    fused, before = (re.search(rf"^{row} +(\d+)", printed, re.MULTILINE).group(1) for row in ("fused", "unfused"))
    counts = f"{fused} kernel{'s' * (fused != '1')} instead of {before}"
    return f"```{{figure}} {name}.png\n:alt: {title}\n:target: {name}.html\n\n[{title}]({name}.md), {counts}\n```\n\n"


def picture(cells: list[dict[str, Any]]) -> bytes:
    """The one picture of a notebook."""
    data = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    return base64.b64decode(next(joined(kinds["image/png"]) for kinds in data if "image/png" in kinds))


def joined(text: str | list[str]) -> str:
    """Text of a notebook: a string, or its lines."""
    return "".join(text)


def write(folder: Path) -> None:
    """Write the files; one that has not changed keeps its time, so that Sphinx does not read it again."""
    folder.mkdir(exist_ok=True)
    for name, content in pages().items():
        file, data = folder / name, content if isinstance(content, bytes) else content.encode()
        if not file.exists() or file.read_bytes() != data:
            file.write_bytes(data)


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "gallery"))
    app.add_css_file("gallery.css")
    return {"parallel_read_safe": True}
