"""Emits what elements of a key tile read beside scores: column indices, loads, index masks as bits, valid pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from ....ir.types import INT64, UINT64
from ....kernel_ir.instruction import needed
from ....kernel_ir.phase import Body, Value
from ..emit.file_builder import signature
from ..emit.intrinsic import Binding, Function
from ..emit.source_builder import indented
from ..peephole.gathers import split_at_gathers
from .emit_fragment import SCORE, Domain, FragmentEmitter
from .sm90_tile_shape import is_index_mask, is_random_mask

OFFSETS = ("add", "convert")  # what an operand offsets by as much


class ElementMask:
    """Mask inputs of the elements of a key tile."""

    def __init__(self, values: FragmentEmitter):
        self.values, self.facts, self.body = values, values.facts, values.facts.body

    def emit_columns(self, wanted: set[str], bounded: bool) -> None:
        """Emit column indices and their bounds check; indices of computed loads are clamped."""
        values, n = self.values, f"n{self.facts.kv_axis}"
        masks = [body for body in self.body.mask_inputs if body.instructions and body.results[0].name in wanted]
        computed = {v.name for body in masks for v in body.args}
        indices = {p.value.name for p in values.kernel.positions if p.axis == self.facts.kv_axis}
        if (computed | wanted) & indices:
            values.emit("column = columns_from(column_from)")
        values.in_bounds = "valid" if bounded else "True"
        if bounded:
            values.emit(f"valid = in_bounds(column_from, {n})")
            if computed & indices:
                clamped = ["return minimum(j, n - 1)"]
                values.define("clamp_columns", Domain.COLUMN, "int64, int64 -> int64", "j, n", clamped)
                values.emit(f"column = clamp_columns(column, {n})")

    def emit_inputs(self, wanted: set[str]) -> None:
        """Emit the mask inputs of these names: validity of paged rows, loads and index masks."""
        values = self.values
        for v in self.body.paged.valid if self.body.paged else ():
            if v.name in wanted:
                values.source.bind("valid_flags", SCORE.flags())
                values.emit(f"{v.name} = valid_flags({v.name}_words)")
                values.domain[v.name] = Domain.COLUMN
        for body in self.body.mask_inputs:
            if body.results[0].name not in wanted:
                continue
            if body not in self._shared:
                self._emit_input(body)
            if is_index_mask(values.kernel, body) and is_random_mask(body):
                self._unpack_bits(body, SCORE.unpack_bits(packed=True), "unpack_packed_bits")

    def emit_before_branch(self) -> None:
        """Evaluate the index masks of partial and full tiles: they do not wait for scores."""
        self.values.forget_columns()
        self.emit_columns({v.name for body in self._shared for v in body.args}, False)
        for body in self._shared:
            self._emit_input(body)

    @cached_property
    def _shared(self) -> list[Body]:
        """Index masks that partial and full tiles both read: evaluated in one loop before the branch."""
        if not self.facts.masks_before_branch:
            return []
        tiles = filter(None, (self.body.tile_phases, self.facts.full_phases))
        read = [{v.name for phase in phases for v in phase.element.args} for phases in tiles]
        return [body for body in self.facts.index_masks if all(body.results[0].name in names for names in read)]

    def _emit_input(self, body: Body) -> None:
        """Emit a mask input. Index masks are evaluated in a loop into bit words; random masks stay packed, others are
        unpacked at once (LLVM keeps no words)."""
        values, (result,) = self.values, body.results
        if not is_index_mask(values.kernel, body):
            values.apply(f"read_{result.name}", body, Domain.ELEMENT)
            return
        values.load_leaves(v.name for v in body.args)
        if not self._emit_random_mask(body):
            values.call(f"evaluate_{result.name}", body, Domain.INDEX_MASK)
        if not is_random_mask(body):
            self._unpack_bits(body, SCORE.unpack_bits())

    def _unpack_bits(self, body: Body, binding: Binding[Function], name: str = "unpack_bits") -> None:
        values, (result,) = self.values, body.results
        values.emit(f"{result.name} = {values.source.bind(name, binding)(result.name)}")
        values.domain[result.name] = Domain.ELEMENT

    # -- random masks: all four numbers of a Philox counter are used

    def _emit_random_mask(self, body: Body) -> bool:
        """Emit an index mask with one random number whose counter advances with the column; False for other masks."""
        values, (result,), (stages, condition) = self.values, body.results, split_at_gathers(body)
        if len(stages) != 1 or [fetch.kind for fetch in stages[0].fetches] != ["philox_word"]:
            return False
        (fetch,), counter = stages[0].fetches, stages[0].where
        columns = [k for k, v in enumerate(counter.args) if values.domain_of(v.name) is Domain.COLUMN]
        others = [v for v in condition.args if v.name != fetch.name]
        if len(columns) != 1 or not self._is_counter_of_column(counter, columns[0], fetch.given, others):
            return False
        name, number = f"evaluate_{result.name}", Value(fetch.name, fetch.stored.compute)
        if values.function_name(("random mask", body), name) == name:
            counter_types = signature((v.dtype for v in counter.args), (v.dtype for v in counter.results))
            types = signature((v.dtype for v in (number, *others)), (result.dtype,))
            values.define_lines(
                name,
                f"def counter_{result.name}({_listed(counter.args)}):",
                *indented([*counter.lines, f"return {_listed(counter.results)}"]),
                *("", ""),
                f'@philox_mask(score_fragment, counter_{result.name}, "{counter_types}", {columns[0]}, "{types}")',
                f"def {name}({_listed((number, *others))}):",
                *indented([*values.body_lines(condition), f"return {result.name}"]),
            )
        values.emit(f"{result.name} = {name}({_listed((*counter.args, *others))})")
        return True

    def _is_counter_of_column(
        self, counter: Body, column: int, given: Sequence[Value], others: Sequence[Value]
    ) -> bool:
        """True if the counter is the column plus row values, and the rest of the mask has one value for all columns."""
        domains = {v.name: self.values.domain_of(v.name) for v in counter.args}
        position, *same = given
        uniform = needed(counter.instructions, {v.name for v in same}) & domains.keys()
        return (
            {Domain.ELEMENT, Domain.COLUMN}.isdisjoint(self.values.domain_of(v.name) for v in others)
            and Domain.ELEMENT not in domains.values()
            and all(domains[name] is Domain.SCALAR for name in uniform)
            and _is_column_plus_invariant(counter, counter.args[column].name, position.name)
        )


def _listed(values: Iterable[Value]) -> str:
    return ", ".join(v.name for v in values)


def _is_column_plus_invariant(body: Body, column: str, position: str) -> bool:
    """True if a position is the column plus values that do not depend on it."""
    column_dependent = {column}
    for i in body.instructions:
        terms = [name for name in i.names if name in column_dependent]
        if not terms:
            continue
        if len(terms) > 1 or i.op not in OFFSETS or i.dtype not in (INT64, UINT64) or not i.reads_names_only:
            return False
        column_dependent.add(i.target)
    return position in column_dependent
