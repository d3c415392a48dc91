"""The house: a folder imports only downwards, and importing fusedsl costs little."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "fusedsl"

# From the ground up; what stands on one line is one layer.
LAYERS = (
    ("errors", "config", "hardware", "geometry", "debug", "generated", "files", "logs", "lru"),
    ("ir",),
    ("accuracy",),
    ("lang",),
    ("trace", "rewrite"),
    ("fusion",),
    ("schedule",),
    ("codegen",),
    ("runtime",),
    ("program", "specs"),
    ("report", "interop"),
    ("arguments", "variants", "scope", "threads", "traces"),
    ("aot",),
    ("api", "decorator"),
    ("evaluation",),
    ("lists", "attend", "loaded_function"),
    ("loading",),
    ("cli", "__main__"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def room(path: Path) -> str:
    """The layer's name for a file: its folder, or its own name at the top."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def imports(path: Path) -> set[str]:
    """The rooms that a file imports at module level or inside functions."""
    inside = path.relative_to(PACKAGE).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = (*inside[: len(inside) - node.level + 1], *(node.module or "").split("."))
            base = tuple(p for p in base if p)
            found |= {base[0]} if base else {alias.name for alias in node.names}
    return found - {"__version__"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_downwards(path):
    here = room(path)
    if here == "__init__":
        return
    for other in imports(path):
        assert other in LEVEL, f"{other} has no layer: give it one in LAYERS"
        if other != here:
            assert LEVEL[other] < LEVEL[here] or _beside(here, other), f"{here} imports {other}, which is above it"


def _beside(here: str, other: str) -> bool:
    return LEVEL[here] == LEVEL[other] and here in ("config", "decorator", "debug", "files")


def test_every_file_says_its_job_first():
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        assert not tree.body or ast.get_docstring(tree), f"{path} has no docstring"


def test_import_is_light():
    code = "import sys, time; t = time.process_time(); import fusedsl; print(time.process_time() - t, *sys.modules)"
    seconds, *modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"numba", "cupy", "torch", "lark", "fusedsl.program.pipeline", "fusedsl.schedule", "fusedsl.lang"}
    assert not heavy & set(modules)
    assert float(seconds) < 0.5  # of this process: others may have the cores meanwhile


def test_public_names_are_there():
    import fusedsl

    for name in fusedsl.__all__:
        assert getattr(fusedsl, name) is not None
    with pytest.raises(AttributeError):
        fusedsl.nothing  # noqa: B018


def test_python_without_the_gil_is_refused():
    code = "import sys; sys._is_gil_enabled = lambda: False; import fusedsl"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError" in told.stderr and "-X gil=1" in told.stderr
