"""Reference evaluation of phases on NumPy: rows in registers, and looped rows."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import numpy as np

from ..ir.types import numpy_dtype
from ..ir.verify import require
from .evaluate import KernelRun
from .phase import PANEL_COLUMNS, GroupPhases, PanelFolds, Phase, Reduction, ScanUse, Sort, Value


def run_resident(run: KernelRun) -> None:
    """Evaluate a kernel whose rows stay in registers."""
    run.read()
    for phase in run.kernel.resident:
        work(run, phase)
        for use in phase.folds:
            run.known |= _named(use, run.folded(use, run.ranks if phase.ranks else run.columns))
        finish_row(run, phase)
    if run.kernel.column_epilogue is not None:
        run.body(run.kernel.column_epilogue.body)
        for store in run.kernel.column_epilogue.stores:
            run.store(store)


def run_looped(run: KernelRun) -> None:
    """Evaluate a kernel whose rows are looped in parts."""
    run.read()
    for phase in run.kernel.looped:
        _loop(run, phase)


def _named(use: Reduction, state: Iterable[np.ndarray]) -> dict[str, np.ndarray]:
    return {v.name: x.astype(numpy_dtype(v.dtype)) for v, x in zip(use.accumulators, state)}


def work(run: KernelRun, phase: Phase) -> None:
    """Element work of a phase: its stores and column reductions."""
    run.body(phase.element)
    for step in phase.scans:
        for scan in step.scans:
            run.known |= _named(scan, _scanned(run, scan))
        run.body(step.element)
    if phase.sort is not None:
        _order(run, phase.sort)
    for store in phase.stores:
        run.store(store)
    for scatter in phase.scatters:
        run.scatter(scatter)
    for use in phase.column_reductions:
        run.known |= _named(use, run.folded(use, run.rows))


def finish_row(run: KernelRun, phase: Phase) -> None:
    """Row body of a phase, after its reductions."""
    run.body(phase.row)
    for store in phase.row_stores:
        run.store(store)
    if phase.panel_folds is not None:
        fold_panels(run, phase.panel_folds)
    if phase.groups is not None:
        run_groups(run, phase.groups)


def run_groups(run: KernelRun, groups: GroupPhases) -> None:
    """Phases on groups of values of rows, each as long as a row axis."""
    inner = copy(run)
    inner.known = dict(run.known)
    for phase in groups.phases:
        work(inner, phase)
        for use in phase.folds:
            inner.known |= _named(use, inner.folded(use, (groups.axis,)))
        finish_row(inner, phase)


def fold_panels(run: KernelRun, panels: PanelFolds) -> None:
    """States of panels along a row axis, side by side along the ranks."""
    (ranks,), axis, states = run.ranks, panels.axis, []
    for start in range(0, run.axes[axis], PANEL_COLUMNS):
        panel = copy(run)
        stop = min(start + PANEL_COLUMNS, run.axes[axis])
        panel.axes = tuple(stop - start if a == axis else n for a, n in enumerate(run.axes))
        panel.known = {
            name: x[(slice(None),) * axis + (slice(start, stop),)] if x.shape[axis] > 1 else x
            for name, x in run.known.items()
        }
        for phase in panels.phases:
            work(panel, phase)
            for use in phase.folds:
                panel.known |= _named(use, panel.folded(use, (axis,)))
            finish_row(panel, phase)
        states.append(panel.known)
    for store in panels.stores:
        run.known[store.value] = np.concatenate([known[store.value] for known in states], ranks)
        run.store(store)


def _scanned(run: KernelRun, use: ScanUse) -> list[np.ndarray]:
    """States of the prefixes along the only column axis."""
    (axis,) = run.columns
    states = np.broadcast_arrays(*(run.over(run.known[v.name], (axis,)) for v in use.inputs))
    lines = [np.moveaxis(x, axis, 0) for x in states]
    positions = range(len(lines[0]))[:: -1 if use.reverse else 1]
    prefixes, state = [np.empty_like(x) for x in lines], run.identity(use)
    state = [np.broadcast_to(np.moveaxis(x, axis, 0)[0], line.shape[1:]) for x, line in zip(state, lines)]
    for k in positions:
        following = run.merged(use, state, [x[k] for x in lines])
        for prefix, part in zip(prefixes, state if use.exclusive else following):
            prefix[k] = part
        state = following
    return [np.moveaxis(prefix, 0, axis) for prefix in prefixes]


def _order(run: KernelRun, sort: Sort) -> None:
    """Sorted elements, along the sorted axis."""
    (axis,) = run.columns
    x = run.over(run.known[sort.key.name], (axis,))
    order = np.argsort(np.flip(x, axis) if sort.descending else x, axis=axis, kind="stable")
    order = np.flip(x.shape[axis] - 1 - order, axis) if sort.descending else order
    ranked = {"values": np.take_along_axis(x, order, axis), "positions": order}
    for part, value in (("values", sort.values), ("positions", sort.positions)):
        if value is not None:
            (ranks,) = run.ranks
            read = ranked[part].take(np.arange(run.axes[ranks]), axis=axis)
            run.known[value.name] = np.swapaxes(read, axis, ranks).astype(numpy_dtype(value.dtype))
    run.body(sort.ranks)
    for part, rank, value in sort.rank_reads:
        if isinstance(rank, Value):
            wanted = np.broadcast_to(run.known[rank.name], (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
            row_value = np.take_along_axis(ranked[part], wanted, axis)
        else:
            row_value = ranked[part].take([rank], axis=axis)
        run.known[value.name] = row_value.astype(numpy_dtype(value.dtype))


# -- rows that go by in parts


def parts(run: KernelRun) -> list[slice]:
    """The columns in two parts."""
    n = run.axes[run.columns[0]] if run.columns else 1
    return [slice(0, n // 2), slice(n // 2, n)] if n > 1 else [slice(0, n)]


def _loop(run: KernelRun, phase: Phase) -> None:
    """Loop over the columns, part by part; scans and sorts take the whole row."""
    whole = bool(phase.scans or phase.sort or phase.ranks or phase.column_reductions)
    states = {use: run.identity(use) for use in phase.folds}
    for part in [slice(0, run.axes[run.columns[0]])] if whole else parts(run):
        run.part = part
        run.read()
        for inner in phase.tile_phases:
            work(run, inner)
            for use in inner.folds:
                run.known |= _named(use, run.folded(use, run.columns))
            finish_row(run, inner)
        if not phase.tile_phases:
            work(run, phase)
        for use in phase.folds:
            tile = [run.known[v.name] for v in use.inputs] if phase.tile_phases else None
            axes = run.ranks if phase.ranks else run.columns
            states[use] = run.merged(use, states[use], tile if tile is not None else run.folded(use, axes))
    run.part = slice(0, run.axes[run.columns[0]])
    for use, state in states.items():
        require(len(state) == len(use.accumulators), "a fold has its state", use.name)
        run.known |= _named(use, state)
    finish_row(run, phase)
