"""Emits the online softmax: the state of rows, the phases of a key tile with and without masks, the state update.

A row belongs to a quad of four threads (mma/fragment.py): reductions run along the rows of fragments, and a
score and the values computed from it stay in one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile

from ....kernel_ir.phase import Phase, Reduction, Value
from ..emit.intrinsic import Named
from ..emit.source_builder import reduction_source
from ..mma import quad_all_reduce, splat_rows
from .emit_element_mask import ElementMask
from .emit_fragment import SCORE, Domain, FragmentEmitter


class OnlineSoftmax:
    """The softmax state of a work tile's rows, and how a key tile updates it."""

    def __init__(self, values: FragmentEmitter, masks: ElementMask):
        self.values, self.masks, self.facts, self.body = values, masks, values.facts, values.facts.body
        self.row_reductions: dict[str, str] = {}  # labels of reductions over the threads of a row

    def emit_state(self) -> None:
        """Emit the loads of each row, and the initial state."""
        values, state = self.values, self.body.state
        self._emit_row_inputs()
        for dtype in dict.fromkeys(v.dtype.name for v in state.accumulators):
            values.source.bind(f"splat_{dtype}", splat_rows(dtype))
        values.emit(*(f"{v.name} = splat_{v.dtype.name}({x})" for v, x in zip(state.accumulators, state.identity)))
        values.emit(*(f"{row_max} = {name}" for name, row_max in self.facts.row_maxima.items()))
        values.domain |= {v.name: Domain.ROW for v in state.accumulators}
        values.emit(*(f"{w.state.name} = zero_output()" for w in self.body.weighted_sums))

    def _emit_row_inputs(self) -> None:
        """Emit the loads of each row and of scalars."""
        values = self.values
        wanted = {v.name for body in self.facts.bodies() for v in body.args}
        if self.facts.loads_epilogue_late:
            wanted -= self.facts.epilogue_inputs
        domains = {name: values.leaf_domain(name) for name in wanted}
        if self.body.row_inputs or not {Domain.ROW, Domain.ELEMENT}.isdisjoint(domains.values()):
            values.emit_row_indices()
        values.load_leaves(name for name, domain in domains.items() if domain in (Domain.ROW, Domain.SCALAR))
        for body in self.body.row_inputs:
            values.apply(f"read_{body.results[0].name}", body, Domain.ROW)

    # -- key tile

    def emit_tile(self, is_full: str, bounded: bool) -> None:
        """Emit a key tile, without masks if the condition `is_full` holds (empty: no tile is known to be full);
        `bounded` tiles may end beyond the last key."""
        self.emit_hoisted()
        if not is_full:
            self.emit_partial(bounded)
            return
        with self.values.source.if_else(is_full) as (full, partial):
            with partial:
                self.emit_partial(bounded)
            with full:
                self._emit_full()

    def emit_partial(self, bounded: bool) -> None:
        """Emit a partial tile, which may end beyond the last key if it is `bounded`."""
        with self.values.scope():
            self._emit_phases("partial", self.body.tile_phases, bounded, {})

    def _emit_full(self) -> None:
        if self.body.block_mask is None:
            self.emit_partial(bounded=False)
            return
        with self.values.scope():
            names = dict(self.body.block_mask.full_names)
            self._emit_phases("full", self.body.block_mask.full_phases, False, names)

    def emit_hoisted(self) -> None:
        """Emit the phases that partial and full tiles share, before the branch."""
        values, phases = self.values, self.body.tile_phases[: self._hoisted_count]
        values.forget_columns()
        values.domain[self.facts.score.value.name] = Domain.ELEMENT
        self.masks.emit_columns({v.name for phase in phases for v in phase.element.args}, False)
        for number, phase in enumerate(phases):
            values.apply(f"hoisted_{number}", phase.element, Domain.ELEMENT)

    @cached_property
    def _hoisted_count(self) -> int:
        """The number of phases hoisted before the branch: they reduce nothing and load nothing."""
        inputs = {body.results[0].name for body in self.body.mask_inputs}

        def is_common(pair: tuple[Phase, Phase]) -> bool:
            phase, other = pair
            return phase == other and not phase.folds and inputs.isdisjoint(v.name for v in phase.element.args)

        pairs = zip(self.body.tile_phases[:-1], self.facts.full_phases or self.body.tile_phases)
        return sum(1 for _ in takewhile(is_common, pairs)) if self.facts.hoists_common else 0

    def _emit_phases(self, kind: str, phases: Sequence[Phase], bounded: bool, names: dict[str, str]) -> None:
        """Emit the phases of a tile and the state update; `names` maps partial tiles' values to those of full tiles."""
        values = self.values
        phases = phases[self._hoisted_count :]
        first = next((phase for phase in phases if phase.folds), None)
        values.domain[self.facts.score.value.name] = Domain.ELEMENT
        wanted = {v.name for phase in phases for v in phase.element.args}
        self.masks.emit_columns(wanted, bounded)
        self.masks.emit_inputs(wanted)
        for number, phase in enumerate(phases):
            values.apply(f"{kind}_{number}", phase.element, Domain.ELEMENT)
            for fold in phase.folds:
                self._emit_row_reduction(fold, bounded)
            if phase is first:
                self._update_row_max()
            if phase.row:
                values.apply(f"row_{kind}_{number}", phase.row, Domain.ROW)
        for p in (w.p for w in self.body.weighted_sums):
            if bounded:
                self._mask_out(p.name, p, f"{p.dtype.name}(0)")
            elif names.get(p.name, p.name) != p.name:
                values.emit(f"{p.name} = {names[p.name]}")
        self._combine_tile()

    def _update_row_max(self) -> None:
        """Emit the update of the row maximum, and the choice of the reference that the tile is measured from."""
        body, values, row_maxima = self.body, self.values, self.facts.row_maxima
        if body.update_row_max is None or not body.update_row_max.results:
            return
        results = values.call("update_row_max", body.update_row_max, Domain.ROW, row_maxima)
        references = [v.name for v in body.state.inputs[: len(results)]]
        values.emit(*(f"{name} = {result}" for name, result in zip(references, results)))
        if row_maxima and body.choose_reference is not None:
            values.domain |= dict.fromkeys(references, Domain.ROW)
            values.emit(*(f"{row_maxima[v.name]} = {x}" for v, x in zip(body.state.accumulators, references)))
            results = values.call("choose_reference", body.choose_reference, Domain.ROW)
            values.emit(*(f"{name} = {result}" for name, result in zip(references, results)))

    def _emit_row_reduction(self, fold: Reduction, bounded: bool) -> None:
        """Emit a reduction along the rows of a thread's elements, and over the quad unless it can be deferred."""
        values = self.values
        label = values.function_name(("fold", fold.combine, fold.identity), f"{fold.name}_{len(values.function_names)}")
        if label not in self.row_reductions.values():
            functions, op = values.source.functions, Named(f"reduction_{label}")
            functions += reduction_source(fold, label)
            reductions = {f"fold_{label}": SCORE.fold(op), f"all_reduce_{label}": quad_all_reduce(op)}
            values.source.bind_several(reductions, functions)
        self.row_reductions[fold.accumulators[0].name] = label
        elements = [v.name for v in fold.inputs]
        if bounded:
            elements = [f"{name}_valid" for name in elements]
            for name, value, identity in zip(elements, fold.inputs, fold.identity):
                self._mask_out(name, value, identity)
        call = f"fold_{label}({', '.join(elements)})"
        if not self._reduces_late(fold):
            call = f"all_reduce_{label}({call})" if len(fold.accumulators) == 1 else f"all_reduce_{label}(*{call})"
        values.emit(f"{', '.join(v.name for v in fold.accumulators)} = {call}")
        values.domain |= {v.name: Domain.ROW for v in fold.accumulators}

    def _reduces_late(self, fold: Reduction) -> bool:
        """True if the quad reduction is deferred to the epilogue: nothing reads the row sum before."""
        read = {v.name for phase in self.body.tile_phases if phase.row for v in phase.row.args}
        read |= {v.name for v in (self.body.update_row_max.args if self.body.update_row_max else ())}
        return fold.name == "sum" and len(fold.accumulators) == 1 and fold.accumulators[0].name not in read

    def late_reductions(self) -> dict[str, str]:
        """Labels of the reductions of state values that are still to be reduced over the quad."""
        folds = {fold.accumulators[0].name: fold for phase in self.body.tile_phases for fold in phase.folds}
        return {
            value.name: self.row_reductions[x.name]
            for value, x in zip(self.body.state.accumulators, self.body.state.inputs)
            if x.name in folds and self._reduces_late(folds[x.name])
        }

    def _mask_out(self, target: str, value: Value, identity: str) -> None:
        """Emit an element's value if it is in bounds, else the identity."""
        dtype = value.dtype.name
        name = self.values.function_name(("mask_out", dtype, identity), f"mask_out_{len(self.values.function_names)}")
        lines = [f"return select(valid, x, {identity})"]
        self.values.define(name, Domain.ELEMENT, f"bool, {dtype} -> {dtype}", "valid, x", lines)
        self.values.emit(f"{target} = {name}(valid, {value.name})")
        self.values.domain[target] = Domain.ELEMENT

    # -- state

    def _combine_tile(self) -> None:
        """Emit the state combined with that of the tile; the factors that rescale sums stay for afterwards."""
        state = self.body.state
        if state.accumulators:
            results = self.values.apply("combine_tile", state.combine, Domain.ROW)
            self.values.emit(*(f"{v.name} = {name}" for name, v in zip(results, state.accumulators)))

    def emit_final_rescale(self) -> None:
        """Rescale the state to the true row maxima after the last tile."""
        state, row_maxima = self.body.state, self.facts.row_maxima
        if not row_maxima:
            return
        with self.values.scope():
            for v, accumulator in zip(state.inputs, state.accumulators):
                dtype = v.dtype.name
                row_max = row_maxima.get(accumulator.name, f"splat_{dtype}({dtype}(0))")
                self.values.source.assign(v.name, row_max)
                self.values.domain[v.name] = Domain.ROW
            self._combine_tile()
        self.emit_rescale()

    @property
    def rescale_factors(self) -> list[str]:
        """The row values that the state update results in for the output accumulator."""
        return [v.name for v in self.body.state.combine.results[len(self.body.state.accumulators) :]]

    def emit_rescale(self) -> None:
        """Rescale the output accumulator to the tile's reference."""
        if not self.facts.has_output or not self.facts.weighted_sum.combine_tile.instructions:
            return
        values, output = self.values, self.facts.output
        with values.scope():
            values.domain |= {output: Domain.OUTPUT} | dict.fromkeys(self.rescale_factors, Domain.ROW)
            (result,) = values.call("rescale_output", self.facts.weighted_sum.combine_tile, Domain.OUTPUT)
            values.source.assign(output, result)
