"""Sphinx extension: relative links that leave docs/ become links to the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/fusedsl/fusedsl"
LINK = re.compile(r"\]\((?P<path>\.\.?/[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def repository() -> str:
    """The address of the repository, from pyproject.toml if it has one."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^(?:Repository|Source|"?Source code"?)\s*=\s*"([^"]+)"', project, re.M | re.I)
    return found[1].rstrip("/").removesuffix(".git") if found else REPOSITORY


def absolute(source: str, page: Path, docs: Path) -> str:
    """The Markdown of a page with links out of `docs` made absolute. Raises FileNotFoundError for a missing file."""

    def put(link: re.Match) -> str:
        target = (page.parent / link["path"]).resolve()
        if docs in target.parents or target == docs:
            return link[0]
        if not target.exists():
            raise FileNotFoundError(f"{page}: {link['path']}")
        kind = "tree" if target.is_dir() else "blob"
        return f"]({repository()}/{kind}/main/{target.relative_to(ROOT).as_posix()}{link['anchor'] or ''})"

    return LINK.sub(put, source)


def _read(app: Any, name: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(name))
    if page.suffix == ".md":
        source[0] = absolute(source[0], page, Path(app.srcdir).resolve())


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
