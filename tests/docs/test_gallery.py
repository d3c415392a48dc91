"""The gallery's scripts run, agree with their unfused twins and draw; the notebooks are the scripts'."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
SCRIPTS = sorted(file.stem for file in GALLERY.glob("*.py") if not file.name.startswith("_"))
FEWER_BYTES = 1.5  # unfused against fused, at least


@pytest.fixture
def gallery(monkeypatch):
    """The folder on the path and a backend that needs no display."""
    matplotlib = pytest.importorskip("matplotlib", reason="the gallery draws with matplotlib")
    monkeypatch.syspath_prepend(str(GALLERY))
    style = matplotlib.rcParams.copy()
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")
    matplotlib.rcParams.update(style)


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_agrees_with_its_twin_and_draws(name, gallery, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--pictures", str(tmp_path)])
    runpy.run_path(str(GALLERY / f"{name}.py"), run_name="__main__")
    told = capsys.readouterr().out
    costs = re.findall(r"^(fused|unfused) +(\d+) +([\d.]+) MB +[\d.]+ ms$", told, re.MULTILINE)
    assert [cost[0] for cost in costs] == ["fused", "unfused"] * (len(costs) // 2) and costs, told
    for fused, unfused in zip(costs[::2], costs[1::2]):
        assert int(fused[1]) < int(unfused[1]) and float(fused[2]) * FEWER_BYTES < float(unfused[2]), told
    assert (tmp_path / f"{name}.png").stat().st_size > 5_000


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_notebook_is_its_script_with_results(name):
    cells = json.loads((GALLERY / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    written = re.split(r"^# %%.*\n", (GALLERY / f"{name}.py").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert [as_text(cell["source"]) for cell in cells] == [uncommented(cell) for cell in written], (
        f"run python docs/build_gallery.py {name}"
    )
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 1 and len(pictures[0]) < 100_000


def as_text(source) -> str:
    """Of a cell: a string, or its lines."""
    return "".join(source).strip()


def uncommented(cell: str) -> str:
    """A cell of Markdown without the signs of comments; one of code as it is."""
    lines = cell.strip().splitlines()
    prose = all(line.startswith("#") for line in lines)
    return "\n".join(re.sub("^# ?", "", line) if prose else line for line in lines)
