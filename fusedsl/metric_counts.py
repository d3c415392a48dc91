"""Counters of the process: what was compiled, planned, found in caches, and computed without fusion; as data."""

from __future__ import annotations

import threading
from typing import NamedTuple


class _Family(NamedTuple):
    """A metric by the terms of OpenMetrics."""

    kind: str  # counter or gauge
    help: str


FAMILIES = {
    "fusedsl_compilations": _Family("counter", "Kernels compiled."),
    "fusedsl_compilation_seconds": _Family("counter", "Seconds in which kernels were compiled."),
    "fusedsl_kernel_loads": _Family("counter", "Kernels found compiled, in memory, on disk or in a saved file."),
    "fusedsl_stored_calls": _Family("counter", "Calls found prepared on disk, with their kernels."),
    "fusedsl_first_calls": _Family(
        "counter", "Calls prepared as the first of their kind: plain ones, and those of bind, graph and foreach."
    ),
    "fusedsl_first_call_seconds": _Family("counter", "Seconds of tracing, planning and compiling in first calls."),
    "fusedsl_interpreted_calls": _Family("counter", "First calls that the reference interpreter computed."),
    "fusedsl_unfused_calls": _Family("counter", "Calls of fused functions that ran the undecorated function."),
    "fusedsl_cache_entries": _Family("gauge", "Entries of the cache folder."),
    "fusedsl_cache_bytes": _Family("gauge", "Bytes of the entries of the cache folder."),
}

_lock = threading.Lock()
_counts: dict[tuple[str, str], float] = {}  # by family and labels


class Metrics(dict[str, float]):
    """The value of each sample by its name, as in `fusedsl_compilations_total{target="cpu"}`."""

    def openmetrics(self) -> str:
        """The samples in the text format of OpenMetrics, as a service's /metrics answers a scraper."""
        lines = []
        for name, family in FAMILIES.items():
            lines += [f"# TYPE {name} {family.kind}", f"# HELP {name} {family.help}"]
            sample = f"{name}_total" if family.kind == "counter" else name
            labelled = {key: value for key, value in self.items() if key.startswith(sample + "{")}
            lines += [f"{key} {value:.9g}" for key, value in (labelled or {sample: self.get(sample, 0)}).items()]
        return "\n".join([*lines, "# EOF", ""])


def count(name: str, amount: float = 1, **labels: str) -> None:
    """Add to a counter."""
    shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
    with _lock:
        key = name, f"{{{shown}}}" if shown else ""
        _counts[key] = _counts.get(key, 0) + amount


def samples() -> Metrics:
    """The counters so far, each without labels as the sum over its labels."""
    with _lock:
        counts = dict(_counts)
    for name, family in FAMILIES.items():
        if family.kind == "counter":
            counts[name, ""] = sum(value for (counted, _), value in counts.items() if counted == name)
    return Metrics({f"{name}_total{labels}": value for (name, labels), value in sorted(counts.items())})
