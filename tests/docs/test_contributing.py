"""The first changes of docs/contributing.md: each applied to a copy of the sources, checked, with the smoke lane."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fusedsl

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contributing.md").read_text()
CHANGE = re.compile(
    r"### (?P<title>[^\n]+)\n(?:(?!###).)*?```diff\n(?P<diff>.*?)```\n+```python\n(?P<check>.*?)```", re.S
)
CHANGES = {m["title"]: (m["diff"], m["check"]) for m in CHANGE.finditer(PAGE)}


def apply(diff: str, root: Path) -> None:
    """Put the lines with + behind or before the lines of context around them, which must be there once."""
    for path, hunk in re.findall(r"--- (\S+)\n((?:[ +\n].*\n?|\n)*?)(?=--- |\Z)", diff):
        lines = hunk.rstrip("\n").split("\n")
        old = "\n".join(line[1:] for line in lines if not line.startswith("+"))
        new = "\n".join(line[1:] for line in lines)
        text = (root / path).read_text()
        assert text.count(old) == 1, f"{path}: the context of the change is there {text.count(old)} times"
        (root / path).write_text(text.replace(old, new))


def run(root: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root), "FUSEDSL_CACHE_DIR": str(root / "cache")}
    told = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, cwd=root)
    assert told.returncode == 0, (told.stdout + told.stderr)[-3000:]
    return told.stdout


def test_there_are_three_changes():
    assert len(CHANGES) == 3


@pytest.mark.parametrize("title", CHANGES)
def test_a_first_change(title, tmp_path):
    diff, check = CHANGES[title]
    shutil.copytree(Path(fusedsl.__file__).parent, tmp_path / "fusedsl", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("tests", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.json"))
    apply(diff, tmp_path)
    run(tmp_path, "-c", check)
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "tests/smoke")
