"""`bench`: what it measures, writes, plots and compares."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fusedsl.__main__ import main
from fusedsl.bench import page, peers, plots, ratios, record, regressions, runner, suites, terminal, timers, workloads

HEAD = {"machine": {"cpu": "a CPU", "threads": 2}, "versions": {"fusedsl": "1"}, "date": "2026-01-01T00:00:00+00:00"}
HEAD |= {"target": "cpu", "unfused": "numpy", "absent": [], "floors": {"copy_gb_s": 10.0}}


def row(peer: str, median: float | None, spread: float = 0.1, **changes) -> record.Row:
    facts = {"suite": "rows", "workload": "softmax", "shape": "4x1024", "dtype": "float32", "bytes": 1, "flops": 1}
    low, high = (median * (1 - spread), median * (1 + spread)) if median else (None, None)
    times = {"median_us": median, "p20_us": low, "p80_us": high, "floor_us": 5.0, "max_error": None}
    return record.Row(peer=peer, **{**facts, **times, **changes})


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> tuple[Path, Path]:
    """The files of a short run on the CPU."""
    folder = tmp_path_factory.mktemp("bench")
    files = folder / "rows.json", folder / "rows.html"
    sizes = ("--sizes", "2048", "4096", "--repetitions", "3", "--peers", "numpy", "--device", "cpu")
    assert main(["bench", "reductions", *sizes, "--json", str(files[0]), "--html", str(files[1])]) == 0
    return files


class Elements(HTMLParser):
    """The open elements, the titles of points, and what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.titles: list[str] = []
        self.loaded: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.open += [tag] if tag not in ("meta", "link") else []
        self.loaded += [value for name, value in attrs if name in ("src", "href")]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_startendtag(self, tag, attrs):
        self.loaded += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["title"] and "svg" in self.open:
            self.titles.append(data)


def read(html: str) -> Elements:
    found = Elements()
    found.feed(html)
    assert not found.open
    return found


def test_a_run_checks_times_and_writes_every_peer(measured):
    data = regressions.load(measured[0])
    assert data["target"] == "cpu" and data["unfused"] == "numpy" and data["floors"]["copy_gb_s"] > 0
    cases = suites.cases(["reductions"], "cpu", [2048, 4096])
    assert len(cases) == 6
    for case in cases:
        rows = [
            r for r in data["rows"] if (r.workload, r.shape) == (case.workload.name, workloads.shape_name(case.shape))
        ]
        assert sorted((r.peer, r.measure) for r in rows) == [
            *(("copy", "kernel"), ("fusedsl", "call"), ("fusedsl", "kernel"), ("numpy", "call"), ("numpy", "kernel"))
        ]
        for r in rows:
            assert r.p20_us <= r.median_us <= r.p80_us and r.error is None
            assert r.peer == "copy" or r.max_error <= runner.TOLERANCE["float32"]
            assert (r.floor_us is None) is (r.measure == "call")


def test_the_page_needs_no_other_file_and_plots_what_the_json_has(measured):
    html = measured[1].read_text(encoding="utf-8")
    found = read(html)
    assert all(link.startswith("data:") for link in found.loaded) and "url(" not in html and "@import" not in html
    assert len(found.ids) == len(set(found.ids))
    inside = json.loads(re.search(r'id="results">(.*?)</script>', html).group(1))
    data = regressions.load(measured[0])
    assert [record.Row(**r) for r in inside["rows"]] == data["rows"]
    rows, told = data["rows"], set()
    for measure in ("kernel", "call"):
        for found_peers in ratios.by_case([r for r in rows if r.measure == measure]).values():
            told.add(f"{ratios.ratio(found_peers, 'numpy'):.2f}× numpy")
            if part := ratios.share(found_peers["fusedsl"]):
                told.add(f"{part:.2f} of roofline")
    plotted = {re.search(r": (.*) \(", title).group(1) for title in found.titles}
    assert plotted == told and len(found.titles) == 6 * 3


def test_lost_cases_are_red_and_names_are_escaped():
    rows = [row("copy", 5.0), row("fusedsl", 10.0), row("numpy", 9.0), row("<b>", 30.0)]
    html = page.page(HEAD, rows)
    read(html)
    assert html.count('mark s0 lost"') == 1 and "0.90×" in html and "<b>" not in html.split("<script")[0]
    assert html.split("<script")[0].count('<td class="lost">0.90×') == 3  # the mean, the minimum and the table


def test_axes_hold_their_points():
    points = tuple(plots.Point(2.0**k, 10.0 ** (k - 14), "") for k in (10, 12, 16, 20))
    for axes in (plots.ratio_axes([plots.Series("", 0, points)]), plots.share_axes([plots.Series("", 0, points[:3])])):
        for point in points[:3]:
            assert plots.LEFT < axes.across(point.x) < plots.WIDTH and 0 < axes.down(point.y) < plots.HEIGHT
        assert axes.down(2.0) < axes.down(1.0)
    far = (plots.Point(1024.0, 1.0, ""), plots.Point(2048.0, 2e4, ""))
    picture = plots.chart([plots.Series("", 0, far)], plots.ratio_axes([plots.Series("", 0, far)]), "", "×")
    assert ">10k×<" in picture and ">10000×<" not in picture  # which the margin would cut


def test_a_wrong_result_is_no_time_and_fails_the_run(monkeypatch, capsys):
    wrong = replace(workloads.BY_NAME["logsumexp"], text="logsumexp(x, -1) * 1.001")
    monkeypatch.setitem(workloads.BY_NAME, "logsumexp", wrong)
    monkeypatch.setitem(suites.SUITES, "reductions", ("logsumexp",))
    assert (
        main(["bench", "reductions", "--sizes", "2048", "--repetitions", "2", "--peers", "numpy", "--device", "cpu"])
        == 1
    )
    assert "WRONG: logsumexp 2x1024: WrongResult" in capsys.readouterr().out


def test_a_busy_machine_is_told(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(runner, "_load", lambda: 1e3)
    report = record.Report(None, told.append)
    runner.BenchmarkRun(timers.CpuClock(), report, runner.BenchmarkSettings(peers=("numpy",)))
    assert "busy" in told[0] and report.head["load"] == 1e3
    head = {**HEAD, "load": 1e3}
    assert "this machine was busy: a load of 1000.0" in page.page(head, [row("fusedsl", 1.0), row("numpy", 2.0)])
    assert terminal.summary(head, [row("fusedsl", 1.0), row("numpy", 2.0)]).endswith("Repeat the run idle.")
    assert "busy:" not in page.page(HEAD, [row("fusedsl", 1.0), row("numpy", 2.0)])


def test_what_is_too_large_is_left_out(monkeypatch, capsys):
    def fails(self):
        raise MemoryError

    monkeypatch.setattr(peers.Peers, "reference", fails)
    assert (
        main(["bench", "reductions", "--sizes", "2048", "--repetitions", "2", "--peers", "numpy", "--device", "cpu"])
        == 0
    )
    assert capsys.readouterr().err.count("is left out: it is too large for the memory") == 3


def test_faults_of_a_request_are_errors(capsys, tmp_path):
    assert main(["bench", "row"]) == 2 and "rows" in capsys.readouterr().err
    (tmp_path / "old.json").write_text("[]")
    assert main(["bench", "--compare", str(tmp_path / "old.json"), str(tmp_path / "new.json")]) == 2
    assert "no result file" in capsys.readouterr().err
    for option in ("--html", "--json"):
        assert main(["bench", option, str(tmp_path / "missing" / "page.html")]) == 2
        assert "there is no folder" in capsys.readouterr().err
    for ignored in (["rows"], ["--html", "page.html"], ["--peers", "numpy"], ["--sizes", "1000"]):
        assert main(["bench", *ignored, "--compare", "old.json", "new.json"]) == 2
        assert "has no effect" in capsys.readouterr().err


def test_every_suite_has_cases_for_both_targets():
    for target in ("cpu", "cuda"):
        for suite in ("quick", "all", *suites.SUITES):
            found = suites.cases([suite], target)
            assert len(found) == len({(c.workload.name, c.shape) for c in found}) > 0
        assert {c.suite for c in suites.cases(["quick"], target)} == set(suites.SUITES)
    assert set(peers.NUMEXPR) <= set(workloads.BY_NAME)


def test_peers_that_are_missing_or_take_too_long_are_left_out():
    unusable = peers.Unusable(["numexpr"], 1e-9)
    assert unusable.reason("numexpr").startswith("ModuleNotFoundError") and unusable.reason("torch.compile") is None
    assert unusable.prepared("torch.compile", lambda: 3) == 3
    assert "left out" in unusable.reason("torch.compile") and unusable.reason("numpy") is None


def test_a_clock_takes_as_many_samples_as_time_allows(monkeypatch):
    monkeypatch.setattr(timers, "BUDGET", 0.0)
    clock = timers.CpuClock()
    assert len(clock.cold(lambda: None, 9)) == 2 and len(clock.warm(lambda: None, 9)) == 2
    for copy in clock.copies(1 << 18):
        copy()


# -- two files


def changed(before: list[record.Row], after: list[record.Row]) -> regressions.Comparison:
    return regressions.check({**HEAD, "rows": before}, {**HEAD, "rows": after})


def test_slower_beyond_the_noise_is_a_regression():
    before = [row("fusedsl", 100.0), row("numpy", 300.0), row("copy", 50.0)]
    others = before[1:]
    assert changed(before, [row("fusedsl", 150.0), *others]).failed
    assert not changed(before, [row("fusedsl", 115.0), *others]).failed  # the spreads overlap
    steady = [row("fusedsl", 100.0, 0.001), *others]
    assert not changed(steady, [row("fusedsl", 104.0, 0.001), *others]).failed
    assert changed(steady, [row("fusedsl", 106.0, 0.001), *others]).failed
    busy = [row("fusedsl", 150.0), row("numpy", 450.0), row("copy", 75.0)]
    assert not changed(before, busy).failed  # the machine was slower for all
    assert changed(before, [row("fusedsl", 50.0), *others]).changes[0].faster


def test_failures_are_regressions_and_other_machines_are_told():
    before = [row("fusedsl", 100.0), row("fusedsl", 9.0, measure="call")]
    verdict = changed(before, [row("fusedsl", None, error="WrongResult: the error is 0.1")])
    assert verdict.failed and "WrongResult" in verdict.broken[0] and verdict.missing[0].endswith("call")
    assert not verdict.busy and regressions.check({**HEAD, "rows": before}, {**HEAD, "rows": before, "load": 9.0}).busy
    there = {**HEAD, "machine": {**HEAD["machine"], "gpu": "NVIDIA H100"}, "rows": before}
    assert "H100" in regressions.check({**HEAD, "rows": before}, there).other_machine


def test_compare_has_an_exit_code(measured, tmp_path, capsys):
    assert main(["bench", "--compare", str(measured[0]), str(measured[0])]) == 0
    data = json.loads(measured[0].read_text())
    for one in data["rows"]:
        if one["peer"] == "fusedsl" and one["workload"] == "logsumexp":
            for name in ("median_us", "p20_us", "p80_us"):
                one[name] *= 100
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps(data))
    capsys.readouterr()
    assert main(["bench", "--compare", str(measured[0]), str(slow)]) == 1
    told = capsys.readouterr().out
    assert told.count("slower  reductions logsumexp") == 4 and "4 regressions in 12 cases" in told


def test_ratios_of_times_that_vary_are_marked():
    steady = [row("fusedsl", 100.0), row("numpy", 300.0)]
    assert "3.00x" in terminal.tables(HEAD, steady) and "~" not in terminal.tables(HEAD, steady)
    varying = [steady[0], row("numpy", 300.0, 0.4)]
    assert "3.00x ~" in terminal.tables(HEAD, varying) and "80 % quantile" in terminal.summary(HEAD, varying)
    assert "80 % quantile" not in terminal.summary(HEAD, steady) and "one thread" in terminal.summary(HEAD, steady)
