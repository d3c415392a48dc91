"""Split scans of few long rows: threads find the states of fixed parts of a row, then the prefixes in each part.

Three C functions: `totals` over (row, part); `merge` over rows, which replaces the total of each part by its exclusive
prefix; `prefixes` over (row, part). Two parameter slots follow the kernel's own: the address of the workspace, and the
number of parts.
"""

from __future__ import annotations

from dataclasses import fields, replace

from ...ir.folds import FOLDS
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Body, Phase, Reduction
from . import reduce, scan
from .roles import ScratchArray, ValueRoles
from .rows import column_loop, fold_arrays, row_prologue
from .scratch import free
from .source_text import header, indented
from .split_rows import part_bounds, prologue
from .workspace import scan_arrays

NOTHING = Body((), (), ())


def emit(kernel: KernelIR) -> tuple[str, list[ScratchArray]]:
    """The source of a split scan, and its scratch arrays."""
    shared, (phase,) = scan_arrays(kernel), kernel.phases
    totals = replace(kernel, phases=(_of_totals(phase),))
    own = [fold_arrays(k, [0]) for k in (totals, kernel)]
    functions = {
        "totals": _totals_function(totals, shared, own[0]),
        "merge": _merge_function(kernel, shared),
        "prefixes": _prefixes_function(kernel, shared, own[1]),
    }
    lines = header(kernel, "split scan")
    for name, body in functions.items():
        lines += ["", "", f"def {name}(slots, begin, end):", *indented(body)]
    arrays = {array.label: array for array in (*shared, *own[0], *own[1])}
    return "\n".join([*lines, ""]), list(arrays.values())


def _of_totals(phase: Phase) -> Phase:
    """The phase that finds the states of all elements: by folds in vector lanes where these may change the order."""
    if all(use.name in FOLDS for use in phase.scan_uses):
        names = [f.name for f in fields(Reduction)]
        folds = tuple(Reduction(**{name: getattr(use, name) for name in names}) for use in phase.scan_uses)
        return replace(phase, stores=(), scans=(), folds=folds)
    return replace(phase, stores=(), scans=tuple(replace(step, element=NOTHING) for step in phase.scans))


def _part_function(
    kernel: KernelIR, shared: list[ScratchArray], private: list[ScratchArray], body: list[str]
) -> list[str]:
    """A function over the parts of rows."""
    opening = ["row = unit // parts", "part = unit - row * parts", *row_prologue(ValueRoles(kernel), "row")]
    body = [*opening, *part_bounds(), *body]
    return [*prologue(kernel, shared, private), "for unit in range(begin, end):", *indented(body), *free(private)]


def _totals_function(kernel: KernelIR, shared: list[ScratchArray], private: list[ScratchArray]) -> list[str]:
    (phase,) = kernel.phases
    body = column_loop(ValueRoles(kernel), 0, "low", "high")
    for use in phase.folds or phase.scan_uses:
        body += reduce.put_state(use, "part", "unit", reduce.part_names(use, "" if phase.folds else "before"))
    return _part_function(kernel, shared, private, body)


def _prefixes_function(kernel: KernelIR, shared: list[ScratchArray], private: list[ScratchArray]) -> list[str]:
    body = []
    for use in kernel.phases[0].scan_uses:
        before = zip(reduce.part_names(use, "origin"), reduce.get_state(use, "part", "unit"))
        body += [f"{name} = {text}" for name, text in before]
    body += column_loop(ValueRoles(kernel), 0, "low", "high", origin="origin")
    return _part_function(kernel, shared, private, body)


def _merge_function(kernel: KernelIR, shared: list[ScratchArray]) -> list[str]:
    """A function that replaces the states of a row's parts by their exclusive prefixes."""
    (phase,) = kernel.phases
    step = ["place = row * parts + " + ("parts - 1 - part" if scan.is_reverse(phase) else "part")]
    body = []
    for use in phase.scan_uses:
        body += reduce.identity(use, "before")
        before, total = reduce.part_names(use, "before"), reduce.part_names(use, "total")
        step += [f"{name} = {text}" for name, text in zip(total, reduce.get_state(use, "part", "place"))]
        step += [*reduce.put_state(use, "part", "place", before), *reduce.merge(use, before, total, before)]
    body += ["for part in range(parts):", *indented(step)]
    return [*prologue(kernel, shared, []), "for row in range(begin, end):", *indented(body)]
