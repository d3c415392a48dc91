"""Sphinx extension: relative links that leave docs/ lead to the page that shows a file, or to the repository.

The sources link to files that exist, so that their links hold where the repository is read too.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/fusedsl/fusedsl"
SHOWN = {  # files of the repository, and the pages that the build makes of them
    "benchmarks/RESULTS.md": "tables/performance.md",
    "examples/gallery": "gallery/index.md",
    "fusedsl/accuracy/bounds.py": "tables/accuracy.md",
    "fusedsl/trace/numpy/functions.py": "tables/traced_functions.md",
    "fusedsl/trace/torch/functions.py": "tables/traced_functions.md",
}
LINK = re.compile(r"\]\((?P<path>\.\.?/[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def repository() -> str:
    """The address of the repository, from pyproject.toml if it has one."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^(?:Repository|Source|"?Source code"?)\s*=\s*"([^"]+)"', project, re.M | re.I)
    return found[1].rstrip("/").removesuffix(".git") if found else REPOSITORY


def absolute(source: str, page: Path, docs: Path) -> str:
    """The Markdown of a page, whose links out of `docs` lead to pages that show the files, or to the repository.

    Raises FileNotFoundError for a missing file.
    """

    def put(link: re.Match) -> str:
        target = (page.parent / link["path"]).resolve()
        if docs in target.parents or target == docs:
            return link[0]
        if not target.exists():
            raise FileNotFoundError(f"{page}: {link['path']}")
        file = target.relative_to(ROOT).as_posix()
        shown = docs / SHOWN.get(file, "")
        if file in SHOWN and page.parent != shown.parent:
            return f"]({os.path.relpath(shown, page.parent)})".replace(os.sep, "/")
        kind = "tree" if target.is_dir() else "blob"
        return f"]({repository()}/{kind}/main/{file}{link['anchor'] or ''})"

    return LINK.sub(put, source)


def _read(app: Any, name: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(name))
    if page.suffix == ".md":
        source[0] = absolute(source[0], page, Path(app.srcdir).resolve())


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
