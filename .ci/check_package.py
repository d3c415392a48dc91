"""Check built distributions: what users need is in both, tests and documentation are in the source, no leftovers."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

RUNTIME = ("fusedsl/lang/grammar.lark", "fusedsl/lang/prelude.fd", "fusedsl/py.typed", "fusedsl/__main__.py")
RUNTIME += ("fusedsl/report/page/page.css", "fusedsl/report/page/page.js", "fusedsl/report/page/notebook.css")
SOURCE = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "tests/conftest.py")
SOURCE += ("docs/guide/index.md", "examples/00_tour.py", "benchmarks/run.py", "benchmarks/results/cpu.json", ".ci/run")


def main(folder: Path) -> None:
    """Raise SystemExit if a distribution lacks a file or has one too many."""
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        check(source, {name.partition("/")[2] for name in archive.getnames()}, RUNTIME + SOURCE)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        console = next(archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    check(wheel, names, RUNTIME)
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    if tops != {"fusedsl"} or "fusedsl = fusedsl.__main__:main" not in console:
        raise SystemExit(f"{wheel.name}: {sorted(tops)}, {console}")


def check(path: Path, names: set[str], wanted: tuple[str, ...]) -> None:
    missing = sorted(set(wanted) - names)
    spare = sorted(name for name in names if "__pycache__" in name or name.endswith(".pyc"))
    if missing or spare:
        raise SystemExit(f"{path.name}: missing {missing}, not wanted {spare}")
    print(f"{path.name}: {len(names)} files")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
