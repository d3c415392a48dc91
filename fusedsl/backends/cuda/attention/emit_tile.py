"""Emits the softmax of a key tile: phases with and without masks, row reductions, and the state update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import takewhile

from ....kernel_ir.attention import AttentionBody, WeightedSum
from ....kernel_ir.kernel import AttentionKernel
from ....kernel_ir.phase import Body, Phase, Reduction, Value
from ..emit.source_text import either, reduction_source
from .emit_fragment import COLUMN, ELEMENT, OUTPUT, ROW, FragmentEmitter
from .emit_paged_kv import emit_valid_flags
from .emit_random_mask import emit_index_mask
from .sm90_schedule import ABSENT, AttentionTiling, operands_of
from .sm90_tile_shape import is_index_mask, is_random_mask


class TileEmitter(FragmentEmitter):
    """Emitter of the phases of one key tile."""

    def __init__(self, kernel: AttentionKernel, schedule: AttentionTiling, packed: int | None = None):
        found = operands_of(kernel)
        assert found is not None
        self.stream: AttentionBody = kernel.attention
        self.score, self.has_output = self.stream.scores[0], bool(self.stream.weighted_sums)
        super().__init__(kernel, found.query_axis, self.weighted_sum.axis if self.has_output else ABSENT, packed)
        self.tiling, self.operands = schedule, found
        self.row_reductions: dict[str, str] = {}  # labels of reductions over the threads of a row

    @property
    def weighted_sum(self) -> WeightedSum:
        """The weighted sum p·v (kernels with an output only)."""
        return self.stream.weighted_sums[0]

    @property
    def has_block_mask(self) -> bool:
        return self.stream.block_mask is not None

    @property
    def is_warp_block_mask(self) -> bool:
        """True if each warp evaluates the block mask itself: it reads no memory along the kv axis."""
        sieve = self.stream.block_mask
        return sieve is not None and all(x.axis != self.kv_axis for x in sieve.bounds)

    def emit_tile(self, first: bool = False) -> list[str]:
        """Lines that compute p of a key tile and update the state; the first tile counts as partial."""
        start = [f"column_from = tile * {self.tiling.columns}"]
        if first:
            return [*start, *self.emit_hoisted(), *self.emit_partial(beyond=True)]
        return [*start, *self.emit_phases(self.full_test())]

    def full_test(self) -> str:
        """The test for a full tile at `column_from`."""
        if self.stream.block_mask is None:
            return f"column_from + {self.tiling.columns} <= n{self.kv_axis}"
        return "(full >> (tile & 31)) & 1"

    def emit_phases(self, test: str) -> list[str]:
        """The phases of a tile, without masks if `test` holds."""
        common, partial = self.emit_hoisted(), self.emit_partial(beyond=True)
        if self.has_block_mask and not self._full_phases:
            return [*common, *partial]
        whole = self.emit_full()
        return [*common, *either(test, whole, partial)]

    def emit_partial(self, beyond: bool) -> list[str]:
        """The phases of a partial tile, which may reach `beyond` the last key."""
        return self.lines_of(lambda: self._phases(self.stream.tile_phases, beyond, {}))

    def emit_full(self) -> list[str]:
        """The phases of a full tile."""
        sieve = self.stream.block_mask
        phases, names = (sieve.full_phases, dict(sieve.full_names)) if sieve else (self.stream.tile_phases, {})
        return self.lines_of(lambda: self._phases(phases, False, names))

    @property
    def hoists_common(self) -> bool:
        """True if the common part of partial and full tiles is hoisted before the branch."""
        return False

    @cached_property
    def _hoisted_count(self) -> int:
        """The number of phases hoisted before the branch: they reduce nothing and load nothing."""
        read = {body.results[0].name for body in self.stream.mask_inputs}

        def same(pair: tuple[Phase, Phase]) -> bool:
            return pair[0] == pair[1] and not pair[0].folds and read.isdisjoint(v.name for v in pair[0].element.args)

        pairs = zip(self.stream.tile_phases[:-1], self._full_phases or self.stream.tile_phases)
        return sum(1 for _ in takewhile(same, pairs)) if self.hoists_common else 0

    @property
    def _full_phases(self) -> tuple[Phase, ...]:
        """The phases of full tiles, if they differ from those of partial tiles."""
        return self.stream.block_mask.full_phases if self.stream.block_mask and self.has_full_phases else ()

    @property
    def has_full_phases(self) -> bool:
        """True if full tiles have code of their own."""
        return True

    @property
    def has_index_masks(self) -> bool:
        """True if the kernel evaluates index masks as bits."""
        return any(is_index_mask(self.kernel, body) for body in self.stream.mask_inputs)

    @property
    def masks_before_branch(self) -> bool:
        """True if index masks of all tiles are evaluated before the branch, once in the file."""
        return False

    def emit_index_masks(self) -> list[str]:
        """Lines that evaluate index masks: they do not wait for scores."""
        return self._lines_before_branch(self._emit_all_masks)

    def emit_hoisted(self) -> list[str]:
        """Lines that compute the hoisted phases."""
        return self._lines_before_branch(lambda: self._hoist(self.stream.tile_phases[: self._hoisted_count]))

    def _lines_before_branch(self, write: Callable[[], None]) -> list[str]:
        """The lines that `write` emits before the branch on full tiles."""
        for place in self.kernel.positions:
            if place.axis == self.kv_axis:
                self.domain.pop(place.value.name, None)  # of the previous tile
        before, self.code = self.code, []
        write()
        made, self.code = self.code, before
        return made

    def _emit_all_masks(self) -> None:
        self._column_indices({v.name for body in self._shared_masks for v in body.args}, False)
        for body in self._shared_masks:
            self._load_input(body)

    def _hoist(self, phases: Sequence[Phase]) -> None:
        self.domain[self.score.value.name] = ELEMENT
        self._column_indices({v.name for phase in phases for v in phase.element.args}, False)
        for number, phase in enumerate(phases):
            self.load_leaves(v.name for v in phase.element.args)
            self.call(f"early_{number}", phase.element, ELEMENT)

    @cached_property
    def _shared_masks(self) -> list[Body]:
        """Index masks that partial and full tiles both read: evaluated in one loop before the branch."""
        if not self.masks_before_branch:
            return []
        kinds = (self.stream.tile_phases, self._full_phases) if self._full_phases else (self.stream.tile_phases,)
        read = [{v.name for p in phases for v in p.element.args} for phases in kinds]
        drawn = [body for body in self.stream.mask_inputs if is_index_mask(self.kernel, body)]
        return [body for body in drawn if all(body.results[0].name in names for names in read)]

    def _phases(self, phases: Sequence[Phase], partial: bool, names: dict[str, str]) -> None:
        """Emit the phases of a tile and the state update; `names` maps partial tiles' values to those of full tiles."""
        stream, kind = self.stream, "partial" if phases is self.stream.tile_phases else "whole"
        phases = phases[self._hoisted_count :]
        first = next((phase for phase in phases if phase.folds), None)
        self.domain[self.score.value.name] = ELEMENT
        wanted = {v.name for phase in phases for v in phase.element.args}
        self._column_indices(wanted, partial)
        emit_valid_flags(self, wanted)
        for body in stream.mask_inputs:
            if body.results[0].name in wanted:
                self._mask_input(body)
        for number, phase in enumerate(phases):
            self.load_leaves(v.name for v in phase.element.args)
            self.call(f"{kind}_{number}", phase.element, ELEMENT)
            for use in phase.folds:
                self._row_reduce(use, partial)
            if phase is first:
                self._update_row_max()
            if phase.row:
                self.load_leaves(v.name for v in phase.row.args)
                self.call(f"row_{kind}_{number}", phase.row, ROW)
        for weight in (w.p for w in stream.weighted_sums):
            shown = names.get(weight.name, weight.name)
            if partial:
                self._mask_out(weight.name, weight, f"{weight.dtype.name}(0)")
            elif shown != weight.name:
                self.code.append(f"{weight.name} = {shown}")
        self._combine_tile()

    def _update_row_max(self) -> None:
        """Emit the update of the row maximum, and the choice of the reference that the tile is measured from."""
        stream = self.stream
        if stream.update_row_max is None or not stream.update_row_max.results:
            return
        made = self.call("join", stream.update_row_max, ROW, self.row_maxima)
        folded = [v.name for v in stream.state.inputs[: len(made)]]
        self.code += [f"{name} = {value}" for name, value in zip(folded, made)]
        if self.row_maxima and stream.choose_reference is not None:
            self.domain |= dict.fromkeys(folded, ROW)
            self.code += [f"{self.row_maxima[v.name]} = {name}" for v, name in zip(stream.state.accumulators, folded)]
            made = self.call("rise", stream.choose_reference, ROW)
            self.code += [f"{name} = {value}" for name, value in zip(folded, made)]

    def _mask_input(self, body: Body) -> None:
        """Emit an input of each element: a load or an index mask."""
        if body not in self._shared_masks:
            self._load_input(body)
        if is_index_mask(self.kernel, body) and is_random_mask(body):
            self._unpack_bits(body, kept=True)

    def _load_input(self, body: Body) -> None:
        """Emit an element's mask inputs. Index masks are evaluated in a loop into bit words; random masks stay packed,
        others are unpacked at once (LLVM keeps no words)."""
        self.load_leaves(v.name for v in body.args)
        if not is_index_mask(self.kernel, body):
            self.call(f"read_{body.results[0].name}", body, ELEMENT)
            return
        emit_index_mask(self, body)
        if not is_random_mask(body):
            self._unpack_bits(body)

    def _unpack_bits(self, body: Body, kept: bool = False) -> None:
        (value,) = body.results
        name, how = ("unpack_packed_bits", "packed=True") if kept else ("unpack_bits", "")
        made = f"{name} = score_fragment.unpack_bits({how})"
        self.top += [] if made in self.top else [made]
        self.code.append(f"{value.name} = {name}({value.name})")
        self.domain[value.name] = ELEMENT

    def _column_indices(self, wanted: set[str], partial: bool) -> None:
        """Emit column indices and their bounds check; indices of computed loads are clamped."""
        computed = {
            v.name for b in self.stream.mask_inputs if b.instructions and b.results[0].name in wanted for v in b.args
        }
        places = {p.value.name for p in self.kernel.positions if p.axis == self.kv_axis}
        if (computed | wanted) & places:
            self.code.append("column = columns_from(column_from)")
        self.in_bounds = "there" if partial else "True"
        if partial:
            self.code.append(f"there = in_bounds(column_from, n{self.kv_axis})")
            if computed & places:
                clamped = ["return minimum(j, n - 1)"]
                self.define("clamp_columns", COLUMN, "int64, int64 -> int64", "j, n", clamped)
                self.code.append(f"column = clamp_columns(column, n{self.kv_axis})")

    def _row_reduce(self, use: Reduction, partial: bool) -> None:
        """Emit a reduction along the rows of a thread's elements, and over the quad unless it can be deferred."""
        label = self.function_name(("fold", use.combine, use.identity), f"{use.name}_{len(self.function_names)}")
        if label not in self.row_reductions.values():
            self.functions += reduction_source(use, label)
            reductions = f"score_fragment.fold(reduction_{label}), quad_all_reduce(reduction_{label})"
            self.functions.append(f"fold_{label}, all_reduce_{label} = {reductions}")
        self.row_reductions[use.accumulators[0].name] = label
        lifted = [v.name for v in use.inputs]
        if partial:
            lifted = [f"{name}_there" for name in lifted]
            for name, value, identity in zip(lifted, use.inputs, use.identity):
                self._mask_out(name, value, identity)
        call = f"fold_{label}({', '.join(lifted)})"
        if not self.reduces_late(use):
            call = f"all_reduce_{label}({call})" if len(use.accumulators) == 1 else f"all_reduce_{label}(*{call})"
        self.code.append(f"{', '.join(v.name for v in use.accumulators)} = {call}")
        self.domain |= {v.name: ROW for v in use.accumulators}

    def reduces_late(self, use: Reduction) -> bool:
        """True if the quad reduction is deferred to the epilogue: nothing reads the row sum before."""
        read = {v.name for phase in self.stream.tile_phases if phase.row for v in phase.row.args}
        folds = {v.name for v in (self.stream.update_row_max.args if self.stream.update_row_max else ())}
        return use.name == "sum" and len(use.accumulators) == 1 and use.accumulators[0].name not in read | folds

    def _mask_out(self, target: str, value: Value, identity: str) -> None:
        """Emit an element's value if it is in bounds, else the identity."""
        d = value.dtype.name
        name = self.function_name(("hide", d, identity), f"hide_{len(self.function_names)}")
        self.define(name, ELEMENT, f"bool, {d} -> {d}", "there, x", [f"return select(there, x, {identity})"])
        self.code.append(f"{target} = {name}(there, {value.name})")
        self.domain[target] = ELEMENT

    def _combine_tile(self) -> None:
        """The state with that of the tile; the factors that move sums stay for afterwards."""
        use = self.stream.state
        if use.accumulators:
            self.load_leaves(v.name for v in use.combine.args)
            made = self.call("merge", use.combine, ROW)
            self.code += [f"{v.name} = {name}" for name, v in zip(made, use.accumulators)]

    @property
    def row_maxima(self) -> dict[str, str]:
        """Names of the true row maxima by those of the references that may stay below them."""
        return {}

    def final_rescale(self) -> list[str]:
        """Lines that rescale the state to the true row maxima after the last tile."""
        use = self.stream.state

        def write() -> None:
            for v, state in zip(use.inputs, use.accumulators):
                extreme = self.row_maxima.get(state.name)
                self.code.append(f"{v.name} = {extreme or f'splat_{v.dtype.name}({v.dtype.name}(0))'}")
                self.domain[v.name] = ROW
            self._combine_tile()

        return [*self.lines_of(write), *self.rescale_output()] if self.row_maxima else []

    def rescale_output(self) -> list[str]:
        """Lines that rescale the output accumulator to the tile's reference."""
        if not self.has_output or not self.weighted_sum.combine_tile.instructions:
            return []
        merge, own = self.weighted_sum.combine_tile, self.weighted_sum.state.name

        def write() -> None:
            moving = self.stream.state.combine.results[len(self.stream.state.accumulators) :]
            self.domain |= {own: OUTPUT} | {v.name: ROW for v in moving}
            (made,) = self.call("move", merge, OUTPUT)
            self.code.append(f"{own} = {made}")

        return self.lines_of(write)
