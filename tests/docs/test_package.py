"""What the package says of itself is the same everywhere, and its links lead to files that exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import fusedsl as fd

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")


def source() -> str:
    """The address of the repository, in pyproject.toml."""
    return re.search(r'^Source = "(.*)"', PROJECT, re.M)[1]


def test_the_version_is_the_same_everywhere():
    assert f'version = "{fd.__version__}"' in PROJECT
    assert f"version: {fd.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    minor = ".".join(fd.__version__.split(".")[:2])
    assert f"| {minor} |" in (ROOT / "docs" / "compatibility.md").read_text()


def test_the_address_is_the_same_everywhere():
    pages = [*(ROOT / name for name in (*PAGES, "CITATION.cff")), *(ROOT / ".github").rglob("*.yml")]
    for page in pages:
        for address in re.findall(r"https://github\.com/[\w-]+/[\w-]+", page.read_text(encoding="utf-8")):
            assert address == source(), page


@pytest.mark.parametrize("name", PAGES)
def test_links_of_the_pages_lead_to_files(name):
    for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text(encoding="utf-8")):
        assert (ROOT / link).exists(), link


def test_the_classifiers_are_the_pythons_of_the_page_and_of_ci():
    named = set(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT))
    lowest = re.search(r'requires-python = ">=3\.(\d+)"', PROJECT)[1]
    assert named == {f"3.{minor}" for minor in range(int(lowest), 15)} and f"3.{sys.version_info.minor}" in named
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    assert named <= set(re.findall(r'"(3\.\d+)"', workflow.read_text()))


def test_the_console_script_says_its_own_name(monkeypatch, capsys):
    from fusedsl.__main__ import main

    assert 'fusedsl = "fusedsl.__main__:main"' in PROJECT
    for called, name in (("/usr/bin/fusedsl", "fusedsl"), ("/lib/fusedsl/__main__.py", "python -m fusedsl")):
        monkeypatch.setattr(sys, "argv", [called])
        with pytest.raises(SystemExit):
            main([])
        assert f"usage: {name} [" in capsys.readouterr().out
