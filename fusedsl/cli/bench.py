"""`bench`: fusedsl beside the libraries that are installed, as tables, JSON and HTML; and two result files compared."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ..errors import ArgumentError
from .demo import parse_count
from .options import add_values, check_exclusive, values_of

COMPILE_HELP = "for torch.compile to compile in, in all (60; for quick on a CPU, where one takes half a minute, 0)"
MEASURED = (
    "suites",
    "json",
    "html",
    "device",
    "sizes",
    "peers",
    "compile_seconds",
    "shape",
    "number",
    "arguments",
)  # options of a run
EXAMPLES = """suites: quick, elementwise, rows, reductions, products, attention, all

  python -m fusedsl bench                                 the suite quick: under three minutes
  python -m fusedsl bench prices.py:swap --shape x=4096,1024 w=1024
  python -m fusedsl bench rows --json new.json --html rows.html
  python -m fusedsl bench --compare old.json new.json     exit code 1 if something became slower"""


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `bench`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="what to measure (quick): suites, or FILE.py:NAME")
    add_values(parser)
    parser.add_argument("--arguments", metavar="NAME", help="of FILE.py: a function that returns the arguments")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every row, the machine and the versions")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page with charts; it needs no other file")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"), help="check two JSON files; no run")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="(the GPU if there is one)")
    parser.add_argument("--dtype", choices=("float16", "float32", "float64"), default="float32", help="(float32)")
    parser.add_argument("--sizes", type=parse_count, nargs="+", metavar="N", default=(), help="elements of arrays")
    parser.add_argument("--peers", nargs="+", metavar="PEER", default=(), help="these alone, e.g. numpy torch.compile")
    parser.add_argument(
        "--repetitions", type=parse_count, default=21, metavar="N", help="timed calls of each peer (21)"
    )
    parser.add_argument("--compile-seconds", type=float, metavar="S", help=COMPILE_HELP)


def run(chosen: argparse.Namespace) -> int:
    """Measure, or compare; exit code 1 if a result is wrong or something became slower."""
    if chosen.compare:
        check_exclusive(chosen, "--compare", MEASURED)
        return _compare(*chosen.compare)
    for path in (chosen.json, chosen.html):
        if path is not None and not path.absolute().parent.is_dir():
            message = f"{path} cannot be written: there is no folder {path.parent}"
            raise ArgumentError(message, "argument.file", help=f"mkdir -p {path.parent}")
    return _measure(chosen)


def _measure(chosen: argparse.Namespace) -> int:
    from ..bench import own_kernels, page, suites, terminal
    from ..bench.record import Report
    from ..bench.runner import BenchmarkRun, BenchmarkSettings, find_clock, wrong

    begun = time.monotonic()
    clock = find_clock(chosen.device)
    places = [name for name in chosen.suites if own_kernels.is_place(name)]
    if not places and (chosen.shape or chosen.number or chosen.arguments):
        help = "name a kernel of your own, FILE.py:NAME"
        raise ArgumentError("the suites of the package have their own arguments", "argument.option", help=help)
    names = [name for name in chosen.suites if name not in places] or ["quick"] * (not places)
    cases = suites.cases(names, clock.kind, chosen.sizes)
    own = [own_kernels.load(place, values_of(chosen), chosen.arguments, clock.xp) for place in places]
    seconds = chosen.compile_seconds
    if seconds is None:
        seconds = 0.0 if clock.kind == "cpu" and not chosen.peers and names == ["quick"] else 60.0
    settings = BenchmarkSettings(chosen.dtype, chosen.repetitions, tuple(chosen.peers), seconds)
    with terminal.progress(len(cases) + len(own)) as (step, say):
        report = Report(chosen.json, say)
        run = BenchmarkRun(clock, report, settings)
        if not cases:
            report.head |= {"unfused": own_kernels.UNDECORATED, "absent": []}
        for one in own:
            with step(one.name):
                own_kernels.measure(one, clock, report, chosen.repetitions)
        run.measure(cases, step)
    print(terminal.tables(report.head, report.rows))
    print(terminal.summary(report.head, report.rows))
    if chosen.html:
        chosen.html.write_text(page.page(report.head, report.rows), encoding="utf-8")
    written = " and ".join(str(path) for path in (chosen.json, chosen.html) if path)
    count = f"{len(report.rows)} measurements (a case, a peer and a measure each)"
    print(f"{count} in {time.monotonic() - begun:.0f} s{written and ', in ' + written}")
    faults = wrong(report)
    if faults:
        print("\n".join(f"WRONG: {fault}" for fault in faults))
        print("please report it with the output of python -m fusedsl doctor")
    return 1 if faults else 0


def _compare(old: Path, new: Path) -> int:
    from ..bench.regressions import check, load
    from ..bench.terminal import comparison_text

    comparison = check(load(old), load(new))
    print(comparison_text(comparison))
    return 1 if comparison.failed else 0
