"""The attend skeleton: tiles of rows, whose scores, weights and sums stay in registers; one group of warps copies.

A group of four warps has 64 rows. Its products of a tile of scores run while the sums of the tile before take up its
weights; folds go along the rows of fragments (intrinsics/fragment.py), and what a score is computed from its
neighbours never leaves the thread. Blocks take one item (a tile of rows) after another; the copies run ahead of the
results.
"""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.parameters import WINDOW_WORDS, kernel_params
from ....kernel_ir.phase import Store
from ..emit.source_text import header, indented
from .block_mask_inputs import asks_memory
from .emit_block_mask import kept_classes, left_extremes
from .emit_fragment import QUICK, ROW
from .sm90_mainloop import AHEAD, MOVED, TAKEN, ItemTiles
from .sm90_producer import BESIDE, copy_lines, kept_place
from .sm90_schedule import ALIGNMENT, GROUP, ORDER_BYTES, TILE_NOTES, AttendSchedule, boxed_results, note_bytes
from .sm90_skip_tiles import aside
from .sm90_tile_scheduler import leave_order, place_lines
from .sm90_tile_shape import registers_of
from .sm90_tma_store import send_results

KINDS = {"bfloat16": "bf16", "float16": "f16"}


def attend_source(kernel: KernelIR, schedule: AttendSchedule) -> str:
    """The generated file of a pass over scores."""
    return AttendWriter(kernel, schedule).source()


class AttendWriter(ItemTiles):
    def __init__(self, kernel: KernelIR, schedule: AttendSchedule):
        super().__init__(kernel, schedule)
        self.kind = kernel.operands[self.operands.left].dtype.name
        results = boxed_results(kernel, self.lane) if schedule.boxed else None
        self.boxed = results[0] if results else None  # the operand whose elements leave through shared memory

    # -- the file

    def source(self) -> str:
        s, short = self.schedule, KINDS[self.kind]
        columns, width, out = s.columns, _whole(s.width, 16), _whole(s.out_width, 16)
        quick, (copying, computing) = (*QUICK, "tanh"), registers_of(self.kernel, s.groups, s.spilled)
        self.top += [
            f"S, O = Fragment({columns}), Fragment({out})",
            f"{', '.join(quick)} = {', '.join(f'quick({name!r})' for name in quick)}",
            f'begin_scores = score_product("{short}", {s.rows}, {columns}, {width})',
            f'begin_sums = weighed_product("{short}", {columns}, {out})',
            f"far_matrix_of, pack = far_matrix({columns}), S.pack({self.kind!r})",
            "finish_scores, finish, no_sums = await_products(1), await_products(0), O.zeros()",
            'rows_from, columns_from, below = row_positions("int64"), S.positions("int64"), S.below()',
            f"take, give = more_registers({computing}), fewer_registers({copying})",
        ]
        if self.beside:
            kind = self.kernel.operands[self.kernel.windows[BESIDE].operand].dtype.name
            self.top.append(f'read_beside, wide_beside = S.box({s.rows}), S.unpack("{kind}")')
        for number, window in enumerate(self.kernel.windows):
            place = next(
                k for k, slot in enumerate(kernel_params(self.kernel)) if (slot.kind, slot.index) == ("window", number)
            )
            way = "send" if window.operand == self.boxed else "copy"
            self.top.append(f"map{number}, {way}{number} = parameter_at({place}), {way}_box({len(window.axes)})")
        self.scalars()
        self._begin()
        working = self.written(self._compute)
        self.code += ["if group < 0:", "    give()", *indented(copy_lines(self))]
        self.code += ["else:", *indented(working)]
        opening = header(self.kernel, self.schedule.reason.partition(":")[0], "")
        comment = f"Tiles of {s.rows} rows; scores of {columns} of the stream at a time."
        kernel = [*self._signature(), *indented([f'"""{comment}"""', *self.code])]
        return "\n".join([*opening, "", *self.top, *self.functions, "", "", *kernel]) + "\n"

    def _signature(self) -> list[str]:
        """The parameters; those of maps stand where the copy engine reads them."""
        lines, maps = [], len(self.kernel.windows) * WINDOW_WORDS
        for line in self.names.signature():
            names = line.strip().rstrip(",").split(", ")
            if names[0].startswith("map0_") and len(names) == maps:
                lines += [f"    {', '.join(names[k : k + WINDOW_WORDS])}," for k in range(0, maps, WINDOW_WORDS)]
            else:
                lines.append(line)
        return lines

    # -- shared memory, and which tiles of rows a block has

    def _begin(self) -> None:
        """The block's shared memory and barriers, and how many items there are."""
        s, b = self.schedule, self.schedule.stages
        keys, values = self.tile_bytes()
        sizes = {"left_at": s.left_stages * self.row_bytes(), "right_at": b * keys, "weighed_at": b * values}
        sizes |= {"beside_at": s.beside_stages * self.beside_bytes()}
        sizes |= {"results_at": s.tile_bytes(s.rows, s.out_width) if s.boxed else 0}
        sizes |= dict.fromkeys(("left_full", "left_empty"), 8 * s.left_stages)
        sizes |= dict.fromkeys(("beside_full", "beside_empty"), 8 * s.beside_stages)
        sizes |= dict.fromkeys(("place_full", "place_empty"), 8)
        sizes |= dict.fromkeys(("right_full", "right_empty", "weighed_full", "weighed_empty"), 8 * b)
        self.top.append(f"memory = dynamic_start({ALIGNMENT})")
        self.code.append("left_at = memory()")
        at = 0
        for name, size in sizes.items():
            self.code += [f"{name} = int32(left_at + {at})"] if at and size else []
            at += size
        self.code += [
            f"order_at = int32(left_at + {at})",
            f"tiles_at = int32(left_at + {at + ORDER_BYTES})",
            f"places_at = int32(left_at + {at + ORDER_BYTES + 4 * TILE_NOTES})",
            f"classes_at = int32(left_at + {at + note_bytes(self.kernel)})",
            "group = int32(same(thread_idx() >> 7) - 1)",
            "if thread_idx() == 0:",
            "    init_barrier(place_full, 1)",
            "    init_barrier(place_empty, 1)",
            f"    for k in range({s.left_stages}):",
            "        init_barrier(left_full + 8 * k, 1)",
            f"        init_barrier(left_empty + 8 * k, {s.groups})",
            f"    for k in range({b}):",
            "        init_barrier(right_full + 8 * k, 1)",
            "        init_barrier(weighed_full + 8 * k, 1)",
            f"        init_barrier(right_empty + 8 * k, {s.groups})",
            f"        init_barrier(weighed_empty + 8 * k, {s.groups})",
            *(f"    {line}" for line in self._begin_beside()),
            "    show_barriers()",
            *indented(leave_order(self)),
            *(left_extremes(self, s) if s.resident and asks_memory(self.kernel) else []),
            "barrier()",
        ]
        if self.sieved and not s.resident:
            self.code += ["item = block_idx()", *place_lines(self), *kept_classes(self, s), "barrier()"]

    def _begin_beside(self) -> list[str]:
        """Lines that make the barriers of what is beside scores: a warp at a time has read it."""
        s = self.schedule
        if not self.beside:
            return []
        return [
            f"for k in range({s.beside_stages}):",
            "    init_barrier(beside_full + 8 * k, 1)",
            f"    init_barrier(beside_empty + 8 * k, {s.groups * GROUP // 32})",
        ]

    # -- groups that compute

    def _compute(self) -> None:
        s = self.schedule
        self.code += ["take()", f"lead = (thread_idx() & {GROUP - 1}) == 0", "note = int32(-32)"]
        if s.turns:
            self.code += [f"if group == {s.groups - 1}:", "    tell_group(1, 256)"]
        self.code += ["taken = int32(0)", *self._arrived(), *self._begin_scores(AHEAD), f"{AHEAD} = finish({AHEAD})"]
        work = self.written(self._work)
        self.code += ["more = True", "while more:", *indented(work)] if s.resident else work
        if s.turns:
            self.code += ["if group == 0:", "    meet_group(1, 256)"]
        self.code += ["await_sent()"] if s.boxed else []

    def _arrived(self) -> list[str]:
        """Lines that wait for an item's rows and first tile of the stream."""
        return [
            f"await_phase(left_full + {self.left_slot()} * 8, {self.left_phase()})",
            *self.tile_arrived(),
            *aside(self, TAKEN, MOVED),
        ]

    def _work(self) -> None:
        """One item, whose first scores are there: sums of its tiles, the next item's first scores, and its results."""
        self.code += kept_place(self, TAKEN)
        self.begin_state()
        self.code += [*self._loop(), *self._last(), *self.catch_up()]
        self.exact()
        self.code += [*kept_place(self, TAKEN), *self._rows()]
        if self.schedule.resident:
            self.code += self._next_item()
        self.results()
        if self.schedule.resident:
            self.code.append(f"{AHEAD} = finish({AHEAD})")

    def store(self, store: Store, axis: int) -> None:
        if store.operand == self.boxed:
            send_results(self, store.value)
        else:
            super().store(store, axis)

    @property
    def reads_late(self) -> bool:
        """Threads of three groups have the fewest registers."""
        return self.schedule.groups > 2

    @property
    def row_limit(self) -> str:
        return "row_end"

    def place_again(self) -> list[str]:
        """Where the item is, read anew: between its uses no register holds it."""
        return kept_place(self, TAKEN)

    def _rows(self) -> list[str]:
        """Where the rows of a thread stand: 32 bits hold it, so that conditions compare so many."""
        clamp = "return int64(minimum(int32(i), int32(n - 1)))"
        self.define("clamp_rows", ROW, "int64, int64 -> int64", "i, n", [clamp])
        return super()._rows()

    def _next_item(self) -> list[str]:
        """The next item's first scores begin: they are summed while the results of this one are stored. After the last
        item they are its own scores again, for nothing."""
        ahead = [f"taken = int32({TAKEN} + 1)", *self._arrived()]
        return ["more = note & 4 == 0", "if more:", *indented(ahead), *self._begin_scores(AHEAD)]


def _whole(n: int, step: int) -> int:
    return -(-n // step) * step
