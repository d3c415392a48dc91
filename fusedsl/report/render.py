"""An Explanation as text: a headline, the kernels, and the reasons against further fusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .kernel_report import Access, KernelReport
from .units import bytes_text, plural, seconds_text

if TYPE_CHECKING:
    from .explain import Explanation

LABEL_WIDTH = 11  # columns of the labels


def render(explanation: Explanation) -> str:
    """The text of an explanation."""
    lines = [headline(explanation), *_prediction(explanation), ""]
    lines += [f"  {line}" for line in explanation.program]
    lines += [
        "",
        *_labelled("with", [*explanation.arguments] or ["no arguments"]),
        *_labelled("on", [explanation.target]),
    ]
    for k, kernel in enumerate(explanation.kernels):
        lines += ["", f"kernel {k}: {kernel.name}", *_kernel(kernel)]
    if explanation.temporaries:
        lines += ["", "temporaries", *(f"  {t.name}  {t.type}  {bytes_text(t.bytes)}" for t in explanation.temporaries)]
    if explanation.refused:
        lines += ["", "not merged", *(f"  {barrier_text(r.reason, r.seconds)}" for r in explanation.refused)]
    if explanation.widened:
        lines += ["", "float64 that no input asked for (cast, e.g. float32(...), to stay narrow)"]
        lines += [f"  {w.operation}" + (f"  {w.reason}" if w.reason else "") for w in explanation.widened]
    if explanation.notes:
        lines += ["", "notes", *(f"  {note}" for note in explanation.notes)]
    return "\n".join(lines)


def headline(explanation: Explanation) -> str:
    """`1 kernel instead of 7 · 134 MB instead of 896 MB · 24 registers`."""
    parts = [
        f"{plural(len(explanation.kernels), 'kernel')} instead of {explanation.before.kernels}",
        f"{bytes_text(explanation.bytes)} instead of {bytes_text(explanation.before.bytes)}",
    ]
    real = [k.figures.registers for k in explanation.kernels if k.figures]
    predicted = [k.predicted_registers for k in explanation.kernels if k.predicted_registers is not None]
    if real:
        parts.append(f"{max(real)} registers")
    elif predicted:
        parts.append(f"at most {max(predicted)} registers")
    spilled = sum(k.figures.spill_bytes for k in explanation.kernels if k.figures)
    return " · ".join(parts + ([f"{bytes_text(spilled)} spilled"] if spilled else []))


def _prediction(explanation: Explanation) -> list[str]:
    if explanation.seconds is None or explanation.before.seconds is None:
        return []
    measured = explanation.measured_seconds
    ending = "" if measured is None else f"; measured {seconds_text(measured)}"
    about = f"about {seconds_text(explanation.seconds)} instead of {seconds_text(explanation.before.seconds)}"
    return [f"{about}, by the time model{ending}"]


def barrier_text(reason: str, seconds: float | None) -> str:
    """Why kernels are not merged, with what that saves or costs."""
    if seconds is None:
        return reason
    time = f"about {seconds_text(abs(seconds))}"
    if " is faster than " in reason:
        return f"{reason} (saves {time})"
    return f"{reason} (together would {'save' if seconds >= 0 else 'cost'} {time})"


def _kernel(kernel: KernelReport) -> list[str]:
    launch = f" on {plural(kernel.blocks, 'block')} of {plural(kernel.threads or 0, 'thread')}" if kernel.blocks else ""
    lines = [
        *_labelled("computes", kernel.members),
        *_labelled("iterates", [kernel.iteration + launch]),
        *_labelled("reads", map(_access, kernel.reads)),
        *_labelled("writes", map(_access, kernel.writes)),
        *_labelled("schedule", [kernel.schedule]),
        *_labelled("registers", _registers(kernel)),
    ]
    times = [f"about {seconds_text(kernel.seconds)}"] if kernel.seconds is not None else []
    times += [f"measured {seconds_text(kernel.measured_seconds)}"] if kernel.measured_seconds is not None else []
    return lines + _labelled("time", [", ".join(times)] if times else []) + _labelled("tried", _tried(kernel))


def _tried(kernel: KernelReport) -> list[str]:
    """The trials of tuning: the first choice, then the differences of the other schedules."""
    if kernel.untuned_seconds is None:
        return []
    lines = [f"the first choice  {seconds_text(kernel.untuned_seconds)}"]
    for trial in kernel.tried:
        lines.append(f"{trial.difference}  {trial.note if trial.seconds is None else seconds_text(trial.seconds)}")
    return lines


def _labelled(label: str, values) -> list[str]:
    """The label before the first value, blanks before the others; nothing without values."""
    return [f"  {label if k == 0 else '':<{LABEL_WIDTH}}{value}" for k, value in enumerate(values)]


def _access(a: Access) -> str:
    return f"{a.array}  {a.type}  {bytes_text(a.bytes)}" + (f" in {a.passes} passes" if a.passes > 1 else "")


def _registers(kernel: KernelReport) -> list[str]:
    if kernel.predicted_registers is None:
        return []
    f = kernel.figures
    if f is None:
        return [f"at most {kernel.predicted_registers} predicted"]
    spills = f"{f.spill_bytes} bytes spilled" if f.spill_bytes else "no spills"
    shared = f"{f.shared_bytes} B shared memory, " if f.shared_bytes else ""
    fits = f"{plural(f.blocks_per_sm, 'block')} an SM: {f.occupancy:.0%} of its threads, limited by {f.limiter}"
    return [f"{f.registers} (at most {kernel.predicted_registers} predicted), {spills}, {shared}{fits}"]
