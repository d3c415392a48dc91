"""What the README and the docstrings show is what happens."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fusedsl as fd

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_readme_runs_and_shows_real_output(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it saves a kernel
    scope: dict = {}
    shown = iter(blocks("text"))
    example, more, faulty = blocks("python")
    exec(example, scope)
    assert next(shown).strip() in capsys.readouterr().out
    exec(more, scope)
    assert scope["y"].shape == (4096, 4096) and "def kernel(" in capsys.readouterr().out
    with pytest.raises(fd.ShapeError) as caught:
        exec(faulty, scope)
    assert str(caught.value).splitlines()[:4] == next(shown).splitlines()


def test_the_readmes_commands_are_those_that_ci_runs():
    script = (ROOT / ".ci" / "run").read_text()
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) == 2 and all(command in script for command in commands)


def test_the_readmes_files_exist():
    """Links are absolute, so that they hold on package indexes; each leads to a file of this repository."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    source = re.search(r'^Source = "https://github.com/(.*)"', project, re.M)[1]
    hosts = (f"https://github.com/{source}/blob/main/", f"https://github.com/{source}/tree/main/")
    hosts += (f"https://raw.githubusercontent.com/{source}/main/",)
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 10
    for link in links:
        host = next(host for host in hosts if link.startswith(host))
        assert (ROOT / link.removeprefix(host).partition("#")[0]).exists(), link
    for name in re.findall(r"`((?:benchmarks|fusedsl|examples)/[\w./]+)`", README):
        assert (ROOT / name).exists(), name


def test_the_readme_is_short():
    assert len(README.splitlines()) < 150


def test_the_files_that_the_docs_name_exist():
    generated = [ROOT / "docs" / name for name in ("tables", "gallery", "_build")]  # by the build of the site
    pages = sorted(page for page in (ROOT / "docs").rglob("*.md") if not set(generated) & set(page.parents))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", text):
            assert (page.parent / link).exists(), f"{page.name}: {link}"  # on the code host too, without the site
        for name in re.findall(r"`([\w./]+/(?:[\w.]+\.(?:py|fd))?|\w+\.py)`", text):
            known = (ROOT / name).exists() or any((ROOT / "fusedsl").glob(f"**/{name}"))
            assert known, f"{page.name}: {name}"


def test_the_map_shows_what_happens(tmp_path):
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    code = (
        "import numpy as np, fusedsl as fd; k = fd.kernel('softmax(x)'); k(np.ones((64, 1000), np.float32)); "
        "print(k.source(fd.spec((4096, 4096)), device='cuda'))"
    )
    environment = os.environ | {"FUSEDSL_DEBUG": "4", "FUSEDSL_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    told = [line.strip().removeprefix("fusedsl: ") for line in (ran.stderr + ran.stdout).splitlines()]
    for block in re.findall(r"^```(?:text|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        rest = iter(told)
        missing = [line for line in block.splitlines() if line.strip() not in ("", "...") and line.strip() not in rest]
        assert not missing, missing


def test_what_the_readme_calls_unsupported_is_refused_by_name():
    import numpy as np

    x = np.ones((2, 2), np.float32)
    for text in ("unique(x)", "nonzero(x)"):
        with pytest.raises(fd.Unsupported):
            fd.evaluate(text, {"x": x})


def with_examples() -> list[str]:
    """The modules whose docstrings hold examples."""
    files = sorted((ROOT / "fusedsl").rglob("*.py"))
    chosen = [f.relative_to(ROOT).with_suffix("") for f in files if ">>> " in f.read_text(encoding="utf-8")]
    return [".".join(f.parts) for f in chosen]


@pytest.mark.parametrize("name", with_examples())
def test_the_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert result.attempted and not result.failed


def test_the_licence_and_the_version_are_there():
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert f"## {fd.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    told = subprocess.run([sys.executable, "-m", "fusedsl", "--version"], capture_output=True, text=True, cwd=ROOT)
    assert fd.__version__ in told.stdout
