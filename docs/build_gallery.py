"""Executes the gallery's scripts as notebooks and writes examples/gallery/*.ipynb: python docs/build_gallery.py [NAME…]

Each script is a notebook in jupytext's percent format. The notebooks hold the printed results and the pictures, so the
site and GitHub show them without executing anything.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

GALLERY = Path(__file__).resolve().parents[1] / "examples" / "gallery"


def scripts() -> list[Path]:
    """The examples, without what they share."""
    return [file for file in sorted(GALLERY.glob("*.py")) if not file.name.startswith("_")]


def executed(script: Path):
    """The notebook of a script, with its outputs."""
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(script, fmt="py:percent")
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(GALLERY)}}).execute()
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # the same in every run
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("text/plain", None)
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    return notebook


def main(names: list[str]) -> int:
    """Write the notebooks of these examples, or of all."""
    try:
        import nbformat
    except ImportError:
        print("notebooks need pip install jupytext nbclient ipykernel matplotlib", file=sys.stderr)
        return 2
    os.environ.setdefault("GALLERY_SIZE", "large")
    for script in scripts():
        if not names or script.stem in names:
            nbformat.write(executed(script), script.with_suffix(".ipynb"))
            print(f"{script.stem}.ipynb: {script.with_suffix('.ipynb').stat().st_size // 1000} kB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
