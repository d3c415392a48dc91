"""The site: its API pages lack nothing public, its generated tables are complete, and its checks detect faults."""

from __future__ import annotations

import json
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fusedsl as fd
from fusedsl.__main__ import main
from fusedsl.config import LIMIT_NAMES, OPTION_NAMES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "extensions"))

import check_site  # noqa: E402
import generated_tables  # noqa: E402
import performance_page  # noqa: E402
import source_links  # noqa: E402
import traced_functions  # noqa: E402

API = {page.stem: page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md")}
EXAMPLES = {name: "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)) for name, text in API.items()}


def test_every_public_name_has_a_directive_and_an_example():
    directives = set(
        re.findall(r"auto(?:function|class|exception|method):: (?:fusedsl\.)?([\w.]+)", "".join(API.values()))
    )
    examples = "".join(EXAMPLES.values())
    for name in fd.__all__:
        assert name in directives, name
        called = name if name != "Kernel" else "kernel"
        assert re.search(rf"\bfd\.{called}\b|errors\.{called}\b|\b{called}\(", examples), f"{name} has no example"


def test_what_directives_name_exists():
    for name in re.findall(r"^\.\. auto\w+:: (fusedsl[\w.]+)", "".join(API.values()), re.M):
        assert pydoc.locate(name) is not None, name


def test_every_method_of_a_kernel_has_a_directive_and_an_example():
    public = [name for name in vars(fd.Kernel) if not name.startswith("_") and name != "grad"]
    for name in public:
        assert re.search(rf"auto(?:method|attribute):: fusedsl\.Kernel\.{name}\b", API["kernels"]), name
        assert f".{name}" in EXAMPLES["kernels"], f"{name} has no example"


def test_every_option_limit_and_environment_variable_has_an_entry():
    for option in OPTION_NAMES:
        section = API["options"].partition(f"\n## {option}\n")[2].partition("\n## ")[0]
        assert f"{option}=" in section, f"{option} has no entry, or no example"
    assert all(f"| `{limit}` |" in API["options"] for limit in LIMIT_NAMES)
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "fusedsl").rglob("*.py"))
    variables = set(re.findall(r"\bFUSEDSL_[A-Z_]+\b", sources))
    assert variables and all(f"| `{variable}` |" in API["environment"] for variable in variables), variables
    assert all(re.search(rf"^(?!\|).*{variable}", API["environment"], re.M) for variable in variables)


def test_every_command_has_an_entry(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+)", capsys.readouterr().out.partition("COMMAND\n")[2], re.M)
    assert len(commands) >= 6
    for command in commands:
        assert f"| `{command}` |" in API["command_line"], command
        assert f"python -m fusedsl {command}" in API["command_line"], command


def test_the_listed_functions_exist_and_the_refused_ones_are_not_listed():
    torch = pytest.importorskip("torch")
    spaces = (torch, torch.nn.functional, torch.Tensor, torch.special, torch.linalg)
    for name in filter(traced_functions.is_torch, traced_functions.torch_table()):
        names = {name, *(name.removeprefix(p) for p in ("Tensor.", "masked.", "special_", "linalg_"))}
        assert any(hasattr(space, n) for space in spaces for n in names), name
    text = traced_functions.page()
    assert "`einsum`" in text and "`scaled_dot_product_attention`" in text and "`rmul`" not in text


def test_tables_of_measurements_are_of_one_machine_each_and_show_losses():
    text = performance_page.page()
    ratios = [s.ratios(peer).values() for s in performance_page.suites() for peer in s.peers]
    lost = {f"{least:.2f}" for least in map(min, filter(None, ratios)) if round(least, 2) < performance_page.LOSS}
    shown = set(re.findall(r'<span class="loss">([\d.]+)×</span>', text))
    assert lost and lost <= shown and max(map(float, shown)) < performance_page.LOSS
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        assert sum(card in section for card in ("H100", "H200")) <= 1
        assert re.search(r"^Measured \d{4}-\d\d-\d\d", section, re.M)
    data = json.loads((performance_page.RESULTS / "h200_map.json").read_text())
    times = {(r["workload"], r["dtype"], r["peer"]): r["median_us"] for r in data["rows"]}
    ratio = times["axpy", "float32", "torch"] / times["axpy", "float32", "fusedsl"]
    (suite,) = [s for s in performance_page.suites() if s.name == "map"]
    assert suite.ratios("torch")["axpy", "8192x8192", "float32"] == pytest.approx(ratio)


def test_generated_pages_are_written_once(tmp_path):
    generated_tables.write(tmp_path)
    before = {page: page.stat().st_mtime_ns for page in tmp_path.iterdir()}
    generated_tables.write(tmp_path)
    assert len(before) == len(generated_tables.PAGES)
    assert before == {page: page.stat().st_mtime_ns for page in tmp_path.iterdir()}


def test_links_out_of_the_site_lead_to_the_repository():
    page = DOCS / "guide" / "index.md"
    assert source_links.absolute("[a](../../README.md)", page, DOCS) == (
        f"[a]({source_links.repository()}/blob/main/README.md)"
    )
    assert source_links.absolute("[a](../fusion.md#x)", page, DOCS) == "[a](../fusion.md#x)"
    assert source_links.absolute("[a](../../benchmarks/RESULTS.md)", page, DOCS) == "[a](../tables/performance.md)"
    own = DOCS / "tables" / "performance.md"
    assert "blob/main/benchmarks" in source_links.absolute("[a](../../benchmarks/RESULTS.md)", own, DOCS)
    with pytest.raises(FileNotFoundError):
        source_links.absolute("[a](../../NONE.md)", page, DOCS)


def test_faults_of_a_site_are_found(tmp_path):
    good = '<p id="here"><a href="#here">a</a><a href="https://example.org">b</a><a href="b.html#there">c</a></p>'
    (tmp_path / "a.html").write_text(good)
    (tmp_path / "b.html").write_text('<p id="there">')
    assert check_site.faults(tmp_path) == []
    bad = '<a href="c.html">a</a><a href="#no">b</a><script src="https://example.org/x.js"></script>'
    (tmp_path / "a.html").write_text(bad)
    (tmp_path / "x.css").write_text("@import url(https://example.org/font.css);")
    found = check_site.faults(tmp_path)
    assert len(found) == 4 and "requests https://example.org/x.js" in found[0]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    built = subprocess.run([sys.executable, str(DOCS / "build.py"), str(tmp_path)], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "index.html").exists()
