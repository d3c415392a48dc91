"""Runs looped phases of kernel plans on NumPy, tile by tile: what generated loops do, in fifty lines."""

from __future__ import annotations

import numpy as np

from fusedsl.ir.ops import OPS
from fusedsl.ir.types import numpy_dtype

WORDS = {name: op.meaning for name, op in OPS.items()}
WORDS |= {"select": np.where, "not_": np.logical_not, "mul_rn": np.multiply, "nan": np.nan, "inf": np.inf}
WORDS |= {"quotient": lambda x, divisor, scale, inverse: x * scale / divisor, "divisor_scale": np.ones_like}
WORDS |= {kind.__name__: kind for kind in (np.float32, np.float64, np.int32, np.int64)}


class Row:
    """One row of a plan's arrays: elements by load, and the row values that phases make."""

    def __init__(self, plan, elements: dict, rows: dict):
        self.plan, self.elements, self.values = plan, elements, dict(rows)
        self.stored: dict[int, object] = {}

    def run(self, columns: int, tile: int) -> dict[int, object]:
        """What every output holds in the end, an array of elements or a row value."""
        with np.errstate(all="ignore"):
            for phase in self.plan.looped:
                states = [[_run_text(text, {}) for text in use.identity] for use in phase.folds]
                for first in range(0, columns, tile):
                    part = slice(first, min(first + tile, columns))
                    states = [self._collect(phase, use, s, part) for use, s in zip(phase.folds, states)]
                    if not phase.folds:
                        self._elements(phase, part)
                for use, state in zip(phase.folds, states):
                    self.values |= {value.name: x for value, x in zip(use.accumulators, state)}
                self._rows(phase)
        return self.stored

    def _collect(self, phase, use, state, part):
        if phase.tile_phases:
            for inner in phase.tile_phases:
                known = self._elements(inner, part)
                for fold in inner.folds:
                    self.values |= {v.name: x for v, x in zip(fold.accumulators, _folded(fold, known, part))}
                self._rows(inner)
            found = [self.values[value.name] for value in use.inputs]
        else:
            found = _folded(use, self._elements(phase, part), part)
        return _merged(use, state, found)

    def _elements(self, phase, part):
        known = self.values | {name: x[part] for name, x in self.elements.items()}
        _run_body(phase.element, known)
        for store in phase.stores:
            whole = self.stored.setdefault(store.operand, {})
            whole[part.start] = np.broadcast_to(known[store.value], (part.stop - part.start,))
        return known

    def _rows(self, phase):
        if phase.row is not None:
            _run_body(phase.row, self.values)
        for store in phase.row_stores:
            self.stored[store.operand] = self.values[store.value]


def _folded(use, known, part):
    lifted = [np.broadcast_to(known[value.name], (part.stop - part.start,)) for value in use.inputs]
    state = [x[0] for x in lifted]
    for k in range(1, part.stop - part.start):
        state = _merged(use, state, [x[k] for x in lifted])
    return state


def _merged(use, a, b):
    known = dict(zip([value.name for value in use.combine.args], [*a, *b]))
    _run_body(use.combine, known)
    return [known[value.name] for value in use.combine.results]


def _run_body(body, known) -> None:
    for i in body.instructions:
        known[i.target] = _run_text(i.expression, known)
    for value in body.results:
        known[value.name] = np.asarray(known[value.name]).astype(numpy_dtype(value.dtype.compute))


def _run_text(text, known):
    return eval(text, {"__builtins__": {}}, {**WORDS, **known})


def joined(stored):
    """The stored elements of a row, in order."""
    return np.concatenate([stored[k] for k in sorted(stored)]) if isinstance(stored, dict) else stored
