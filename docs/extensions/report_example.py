"""Sphinx extension: report.html beside the built pages, as `Kernel.report` writes it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import fusedsl as fd

PROGRAM = """
m = mean(x, axis=0)
y = (x - m) / std(x, axis=-1, keepdims=True)
return gelu(y), sum(y, axis=-1)
"""


def write(folder: Path) -> None:
    """Write the page; without numba-cuda, without what only its compiler knows."""
    compiles = importlib.util.find_spec("numba_cuda") is not None
    fd.kernel(PROGRAM.strip()).report(folder / "report.html", fd.spec((4096, 4096)), cc=90, compile=compiles)


def written(app: Any, fault: Exception | None) -> None:
    """Called by Sphinx at the end of a build."""
    if fault is None and app.builder.name == "html":
        write(Path(app.outdir))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("build-finished", written)
    return {"parallel_read_safe": True}
