"""Every page of the site: its Python runs and shows real output, and its comments are of a known form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_code import BLOCK, blocks, run

import fusedsl as fd

DOCS = Path(__file__).parents[2] / "docs"
ELSEWHERE = {
    "attention.md": "excerpts of generated files: test_attention_page.py",
    "architecture.md": "excerpts of generated files: test_docs.py",
    "contributing.md": "changes to a copy of the sources: test_contributing.py",
    "reference.md": "made of examples that run: test_reference.py",
}
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if str(page.relative_to(DOCS)) not in ELSEWHERE and page.relative_to(DOCS).parts[0] not in ("tables", "gallery")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some pages write files
    threads = fd.get_num_threads()
    run(page)
    assert fd.get_num_threads() == threads


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_block_is_found_and_every_block_that_does_not_run_has_a_reason(page):
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```\w+$", text, re.M)) == len(BLOCK.findall(text))
    assert len(re.findall(r"^<!-- (?:needs|not run):", text, re.M)) == sum(b.mark is not None for b in blocks(page))
    assert all(b.about for b in blocks(page) if b.mark)


def test_the_pages_tested_elsewhere_exist():
    assert all((DOCS / name).is_file() for name in ELSEWHERE)
