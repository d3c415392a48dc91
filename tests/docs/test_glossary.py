"""The glossary: every name in it exists, and every class of schedules and of the kernel as data is in it."""

import ast
import re
from pathlib import Path

import pytest

import fusedsl

ROOT = Path(__file__).parents[2]
PACKAGE = Path(fusedsl.__file__).parent
ROWS = [line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| ")]
NAMES = [name for row in ROWS for name in re.findall(r"`([^`]+)`", row.rstrip("| ").rpartition(" | ")[2])]
DEFINED = re.compile(r"^\s*(?:class|def) (\w+)", re.M)
# what plans and kernels hold beside: parts that say in their own first line what they are of
PARTS = {"Value", "Product", "ScanUse", "ScanStep", "Store", "Load", "Position", "ArrayUse", "ScalarUse"}


def defined() -> set[str]:
    return {name for path in PACKAGE.rglob("*.py") for name in DEFINED.findall(path.read_text())}


def test_every_name_exists():
    known = defined()
    missing = [n for n in NAMES if not ((PACKAGE / n).exists() if "/" in n else n in known)]
    assert NAMES and not missing, missing


@pytest.mark.parametrize("files", ["kernel_ir/kernel.py", "kernel_ir/phase.py", "backends/cuda/*/*schedule.py"])
def test_every_class_is_there(files):
    page, found = (ROOT / "docs" / "glossary.md").read_text(), set()
    for path in PACKAGE.glob(files):
        found |= {n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef)}
    public = {name for name in found if not name.startswith("_")} - PARTS
    missing = sorted(name for name in public if f"`{name}`" not in page)
    assert found and not missing, missing
