"""What docs/attention.md shows of generated code and of debug output is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fusedsl as fd
from fusedsl.report.explain import source

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "attention.md").read_text(encoding="utf-8")
(CAUSAL,) = re.findall(r"^```\n(s = .*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def missing(excerpt: str, lines: list[str]) -> list[str]:
    """The lines of an excerpt that do not follow each other in the text; `...` stands for anything."""
    rest = iter([line.strip() for line in lines])
    wanted = [line.partition("  #")[0].strip() for line in excerpt.splitlines()]
    patterns = [re.escape(line).replace(r"\.\.\.", ".*") for line in wanted if line not in ("", "...")]
    return [pattern for pattern in patterns if not any(re.fullmatch(pattern, line) for line in rest)]


@pytest.mark.parametrize(("number", "cc"), [(0, 90), (1, 80)])
def test_the_excerpts_are_generated(number, cc):
    excerpt = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[number]
    operand = fd.spec((2, 16, 4096, 128), "bfloat16")
    written = source(fd.kernel(CAUSAL)._program, [operand] * 3, "cuda", cc)
    assert not missing(excerpt, written.splitlines())


def test_the_online_reduction_is_printed(tmp_path):
    (excerpt,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    text = "s = q @ k.mT * 0.125; softmax(s) @ v"
    call = f"x = np.ones((2, 3, 4, 4), np.float32); fd.evaluate({text!r}, q=x, k=x, v=x)"
    environment = os.environ | {"FUSEDSL_DEBUG": "2", "FUSEDSL_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", f"import numpy as np, fusedsl as fd; {call}"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert not missing(excerpt, ran.stderr.splitlines())
