"""The page of measured errors of functions, from benchmarks/results/accuracy_*.json."""

from __future__ import annotations

import json
from pathlib import Path

from markdown import table

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
HEAD = """# Accuracy of functions

The largest error of each function on hard inputs, in units in the last place (ulp) of the exact result. 0.5 ulp is
correct rounding. Inputs cover all exponents, and the neighbourhood of zeros, poles and limits. The reference of float32
is float64, that of float64 is long double, or mpmath on fewer inputs. `benchmarks/accuracy.py` measures it, and fails
beyond 4 ulp on the CPU (1 for powers) and beyond CUDA's documented errors on a GPU. [Numerics](../numerics.md) says
what else is rounded.
"""


def page() -> str:
    """The whole page: a table for each machine."""
    parts = [HEAD.rstrip()]
    for name in ("cpu", "h200"):
        data = json.loads((RESULTS / f"accuracy_{name}.json").read_text())
        machine = data["machine"]
        where = machine["gpu"].split(",")[0] if name != "cpu" else f"CPU ({machine['cpu']})"
        found: dict[str, dict[str, dict]] = {}
        for row in data["rows"]:
            found.setdefault(row["name"], {})[row["dtype"]] = row
        rows = [[f"`{function}`", *_cells(dtypes)] for function, dtypes in found.items()]
        parts += [f"## {where}", table(("function", "float32", "float64", "arguments"), rows)]
        if "lgamma, zeros" in found:
            parts.append(
                "`lgamma, zeros`: arguments next to the zeros of `lgamma` below -2, for which CUDA documents no bound. "
                "The error is small in comparison with 1, but not with the value."
            )
    return "\n\n".join(parts) + "\n"


def _cells(dtypes: dict[str, dict]) -> list[str]:
    errors = [f"{dtypes[d]['ulps']:,.2f}" if d in dtypes else "–" for d in ("float32", "float64")]
    return [*errors, f"{next(iter(dtypes.values()))['count']:,}"]
