"""Ways to lower generated CUDA files beside each other on one card: python benchmarks/lowering.py --json FILE.

Compiles every kernel of the cases by Numba alone and by the `own` front end, a process a core; compares machine code,
registers and time to lower. With a GPU it then times both, in turns and with a cold L2, for each case of which a kernel
differs, compares the results, and says of each family whether the own front end may lower it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import math
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(path) for path in (ROOT, ROOT / "tests", ROOT / "examples") if path not in map(Path, sys.path)]

from expressions import PRODUCTS  # noqa: E402

from fusedsl.bench.record import Report, Row, failed_row  # noqa: E402
from problems import Problem, _problem, problems  # noqa: E402

WAYS = ("numba", "own")
SLOWER, MEAN = 1.02, 1.005  # of Numba's median: what a case may take, and a family in the (geometric) mean
MORE = {  # of the other suites: what the expressions do not have
    "wide": ("softmax 256", "softmax 4096", "rms_norm 32768", "layer_norm 1024", "cross_entropy 262144"),
    "reductions": ("sum_all 16384", "sum_columns 16384", "sum_columns 256", "sum_rows 256", "argmax_all"),
    "backward": ("rms_norm_backward 4096", "layer_norm_backward 4096"),
}
OTHERS = {
    "transposed": ("x.mT + y", {"x": (8192, 8192), "y": (8192, 8192)}),
    "turned": ("x.mT", {"x": (16_384, 8192)}),
    "gelu": ("gelu(x)", {"x": (16_384, 8192)}),
    "sort": ("sort(x)", {"x": (16_384, 1024)}),
    "topk": ("topk(x, 64)", {"x": (1024, 131_072)}),
    "weighted": ("softmax(x) * y", {"x": (4096, 65_536), "y": (4096, 65_536)}),
    "gradient": ("p = softmax(x); p * (y - sum(p * y, -1, keepdims=True))", {"x": (4096, 65_536), "y": (4096, 65_536)}),
    "cumsum_long": ("cumsum(x)", {"x": (1 << 26,)}),
    "two_maps": ("x.mT + 1, y * 2", {"x": (2048, 2048), "y": (1 << 20,)}),
}
CAUSAL = "attention(q, k, v, mask='j <= i')"
ATTENTION = {  # batch, heads, rows, keys, width, dtype
    "full": ("attention(q, k, v)", (4, 16, 4096, 4096, 128, "bfloat16")),
    "causal": (CAUSAL, (4, 32, 4096, 4096, 64, "bfloat16")),
    "causal 128": (CAUSAL, (4, 16, 4096, 4096, 128, "bfloat16")),
    "causal 256": (CAUSAL, (4, 8, 4096, 4096, 256, "bfloat16")),
    "window": ("attention(q, k, v, mask='(j <= i) & (i - j < 1024)')", (4, 16, 4096, 4096, 128, "bfloat16")),
    "softcap": ("attention(q, k, v, score='50*tanh(score/50)', mask='j <= i')", (4, 16, 4096, 4096, 128, "bfloat16")),
    "dropout": ("p = softmax(q @ k.mT/8); where(uniform(7, p) < 0.9, p, 0) @ v", (4, 16, 2048, 2048, 64, "bfloat16")),
    "sigmoid": ("sigmoid(q @ k.mT/8) @ v", (4, 16, 4096, 4096, 64, "bfloat16")),
    "decode": ("attention(q, k, v)", (16, 8, 1, 32_768, 128, "bfloat16")),
    "narrow": (CAUSAL, (4, 16, 2048, 2048, 96, "float16")),
    "odd": (CAUSAL, (4, 16, 1023, 1023, 40, "bfloat16")),
    "exact": (CAUSAL, (2, 16, 1024, 1024, 64, "float32")),
}


def cases(only: str = "") -> list[Problem]:
    """The list's expressions at the sizes of use, what they lack of families, widths and dtypes, and attention."""
    found = problems("expressions")
    for e in PRODUCTS:
        first = e.arrays[0]
        found.append(Problem("products", e, "x".join(map(str, e.shape(first, False))), e.dtype(first), e.name))
    for suite, wanted in MORE.items():
        found += [p for p in problems(suite) if any(_is(p, *words.split()) for words in wanted)]
    for dtype in ("float32", "bfloat16"):
        for name, (text, shapes) in OTHERS.items():
            inputs = {n: f"{dtype}[{', '.join(map(str, shape))}]" for n, shape in shapes.items()}
            found.append(_problem("other", name, text, inputs, shapes["x"], dtype))
    for name, (text, (batch, heads, rows, keys, width, dtype)) in ATTENTION.items():
        q, k = (f"{dtype}[{batch}, {heads}, {n}, {width}]" for n in (rows, keys))
        found.append(_problem("attention", name, text, {"q": q, "k": k, "v": k}, (batch, heads, rows, width), dtype))
    return [p for p in found if all(word in " ".join(p.case) for word in only.split())]


def _is(problem: Problem, name: str, columns: str = "") -> bool:
    return problem.name == name and (not columns or problem.shape.split("x")[-1] == columns)


@contextlib.contextmanager
def front_end(way: str, problem: Problem, folder: str) -> Iterator[list[float]]:
    """Inside the block a problem is lowered this way, with a cache of its own; gives the seconds that it took."""
    from fusedsl.backends.cuda import compile as cuda

    seconds: list[float] = []
    with contextlib.ExitStack() as stack:
        stack.callback(_forget)
        stack.enter_context(mock.patch.dict(os.environ, FUSEDSL_CACHE_DIR=str(Path(folder, way))))
        stack.enter_context(mock.patch.object(cuda, "lowered", partial(_timed, cuda.lowered, seconds)))
        if way == "own":
            stack.enter_context(mock.patch("fusedsl.backends.cuda.compiler.numba_backend.lower", _refused))
        else:
            stack.enter_context(mock.patch("fusedsl.backends.cuda.compiler.frontend.lowered", _unsupported))
        _forget()
        yield seconds


def _forget() -> None:
    from fusedsl.lru import clear_all
    from fusedsl.runtime.cache import disk

    clear_all()
    disk.cache_clear()


def _timed(lowered: Callable, seconds: list[float], *arguments: Any) -> bytes:
    begun = time.process_time()
    made = lowered(*arguments)
    seconds.append(time.process_time() - begun)
    return made


def _refused(*arguments: Any) -> bytes:
    raise RuntimeError("the own front end does not know a form of this file")


def _unsupported(*arguments: Any) -> bytes:
    from fusedsl.backends.cuda.compiler.frontend import UnsupportedForm

    raise UnsupportedForm("Numba lowers it")


def compiled(job: tuple[int, int, str]) -> list[dict[str, Any]]:
    """The kernels of a case, by number, compiled both ways for a compute capability: a row each."""
    from replay.generated import text_sections

    import fusedsl as fd
    from fusedsl.report.explain import resolved_call

    number, cc, folder = job
    warnings.simplefilter("ignore")
    problem, found = cases()[number], {}
    specs = problem.specs()
    for way in WAYS:
        with front_end(way, problem, folder) as seconds:
            made = fd.kernel(problem.expression.text)
            case = resolved_call(made._program, [specs[n] for n in made.params], "cuda", cc)
            for k, members in enumerate(case.launches):
                seconds.clear()
                try:
                    built = case.built(members)
                except Exception as fault:  # of one front end: a result too
                    found[k, way] = {"error": f"{fault}: {fault.__cause__}"}
                    continue
                text = b"".join(text_sections(built.code))
                found[k, way] = {
                    "family": type(built.schedule).__name__.removesuffix("Schedule"),
                    "kernel": built.kernel.name,
                    "lowered_s": round(sum(seconds), 3),
                    "registers": built.registers,
                    "spill_bytes": built.spill_bytes,
                    "code_bytes": len(text),
                    "digest": hashlib.sha256(text).hexdigest()[:16],
                }
    return [_both(problem, *(found[k, way] for way in WAYS)) for k in range(len(found) // 2)]


def _both(problem: Problem, numba: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    shared = {key: numba.get(key) or own.get(key) for key in ("family", "kernel")}
    apart = {way: {k: v for k, v in one.items() if k not in shared} for way, one in zip(WAYS, (numba, own))}
    same = "digest" in numba and numba["digest"] == own.get("digest")
    return {"case": " ".join(problem.case), **shared, "identical": same, **apart}


def compile_all(chosen: Sequence[Problem], cc: int, folder: str, jobs: int) -> list[dict[str, Any]]:
    """The rows of all kernels, in the order of the cases; compiled in so many processes."""
    everything, found = cases(), []
    work = [(everything.index(problem), cc, folder) for problem in chosen]
    with multiprocessing.get_context("spawn").Pool(jobs) as workers:
        for rows in workers.imap(compiled, work, chunksize=1):
            found += rows
            print("".join(f"  {line(row)}\n" for row in rows), end="", flush=True)
    return found


def line(row: dict[str, Any]) -> str:
    """A kernel's row to read."""
    numba, own = (row[way] for way in WAYS)
    fault = numba.get("error") or own.get("error")
    if fault:
        return f"{row['case']}: {fault}"
    figures = [f"{key} {numba[key]} {own[key]}" for key in ("registers", "spill_bytes", "lowered_s")]
    return f"{row['family']} {row['case']}: {'identical' if row['identical'] else 'differs'}, {', '.join(figures)}"


# -- on the GPU


def measure(card: Any, report: Report, problem: Problem, folder: str, repetitions: int) -> None:
    """A case both ways in turns: two rows, of which that of the own front end has its distance from Numba's
    results."""
    import torch

    import fusedsl as fd
    from fusedsl.bench.interleaved_timing import Subject, compare
    from gpu import as_results, max_error

    arguments, bound, results = problem.arguments(), {}, {}
    for way in WAYS:
        with front_end(way, problem, folder):
            made = fd.kernel(problem.expression.text, fallback=False)
            bound[way] = made.bind(*(arguments[n] for n in made.params))
        results[way] = [x.clone() for x in as_results(bound[way]())]
    same = all(torch.equal(_bits(a), _bits(b)) for a, b in zip(*results.values()))
    error = 0.0 if same else max_error(results["own"], [x.double() for x in results["numba"]])
    entrants: Any = {way: partial(_entrant, card, bound[way], error if way == "own" else 0.0) for way in WAYS}
    compare(report, Subject(problem.case, (0, 0), None), entrants, repetitions)


def _bits(x: Any) -> Any:
    import torch

    return x.contiguous().view(-1).view(torch.uint8)


def _entrant(card: Any, call: Any, error: float) -> tuple[Any, float]:
    return partial(card.times, call), error


def verdict(kernels: Sequence[dict[str, Any]], rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Of each family: its kernels, how many are identical, and, where times are known, whether it may switch."""
    timed: dict[str, dict[str, Row]] = {}
    for row in rows:
        timed.setdefault(" ".join(row.case), {})[row.peer] = row
    found = {}
    for family in sorted({row["family"] for row in kernels if row["family"]}):
        own = [row for row in kernels if row["family"] == family]
        different = {row["case"] for row in own if not row["identical"]}
        ratios = {c: _ratio(both) for c, both in timed.items() if c in different and _complete(both)}
        mean = math.exp(statistics.fmean(map(math.log, ratios.values()))) if ratios else 1.0
        reasons = [f"{row['case']}: {fault}" for row in own if (fault := _fault(row, timed.get(row["case"], {})))]
        reasons += [f"in the mean {mean:.4f} of Numba's time"] * (mean > MEAN)
        found[family] = {
            "kernels": len(own),
            "identical": sum(row["identical"] for row in own),
            "mean_ratio": round(mean, 4),
            "ratios": {case: round(ratio, 4) for case, ratio in ratios.items()},
            "switch": not reasons,
            "reasons": reasons,
        }
    return found


def _complete(both: dict[str, Row]) -> bool:
    """Whether a case was timed both ways."""
    return len([row for row in both.values() if row.median_us]) == len(WAYS)


def _ratio(both: dict[str, Row]) -> float:
    numba, own = (both[way].median_us for way in WAYS)
    assert own is not None and numba is not None
    return own / numba


def _fault(kernel: dict[str, Any], both: dict[str, Row]) -> str:
    """Why a kernel speaks against the own front end, if it does: it spills more, is slower beyond the spread of both,
    or has other results."""
    if kernel["identical"]:
        return ""
    if any("error" in kernel[way] for way in WAYS):
        return "does not compile both ways"
    if kernel["own"]["spill_bytes"] > kernel["numba"]["spill_bytes"]:
        return "spills more"
    if not _complete(both):
        return next((row.error for row in both.values() if row.error), "not timed")
    numba, own = (both[way] for way in WAYS)
    if own.error:
        return own.error
    assert own.p20_us is not None and numba.p80_us is not None
    if _ratio(both) > SLOWER and own.p20_us > numba.p80_us:
        return f"{_ratio(both):.3f} of Numba's time"
    return f"results differ by {own.max_error:.2g}" if own.max_error else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where kernels, rows and families go")
    parser.add_argument("--only", default="", metavar="WORDS", help="words that a case must hold")
    parser.add_argument("--compile", action="store_true", help="compile and compare alone: no GPU is needed")
    parser.add_argument("--cc", type=int, default=90, help="compute capability to compile for (90)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes that compile")
    parser.add_argument("--repetitions", type=int, default=30, help="timed calls each way (30)")
    parser.add_argument("--seconds", type=float, default=100.0, help="no case is timed after so long (100)")
    chosen = parser.parse_args()
    begun, report, picked = time.monotonic(), Report(chosen.json), cases(chosen.only)
    with tempfile.TemporaryDirectory(prefix="fusedsl-lowering-") as folder:
        kernels = report.head["kernels"] = compile_all(picked, chosen.cc, folder, chosen.jobs)
        print(f"{len(kernels)} kernels compiled both ways in {time.monotonic() - begun:.0f} s", flush=True)
        different = {row["case"] for row in kernels if not row["identical"]}
        if not chosen.compile:
            from gpu import Card

            card = Card()
            for problem in picked:
                if " ".join(problem.case) in different and time.monotonic() - begun < chosen.seconds:
                    try:
                        measure(card, report, problem, folder, chosen.repetitions)
                    except Exception as fault:  # a case that cannot run is a result too
                        report.add(failed_row(problem.case, "own", (0, 0), fault))
                    gc.collect()
        report.head["families"] = families = verdict(kernels, report.rows)
        report.write()
    for name, found in families.items():
        told = "well lowered" if found["switch"] else "; ".join(found["reasons"])
        print(
            f"{name}: {found['identical']} of {found['kernels']} identical, {found['mean_ratio']} of the time; {told}"
        )
    print(f"{time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
