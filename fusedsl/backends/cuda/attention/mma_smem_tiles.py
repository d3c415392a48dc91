"""Emits loads of operand tiles of mma attention to shared memory: by cp.async, element by element, or paged rows.

Each warp looks up the addresses of paged k and v rows, one or two rows a lane. Names of the next tile have the suffix
"_ahead": the validity of the current tile's rows is read until its softmax is done.
"""

from __future__ import annotations

from ....kernel_ir.attention import PagedOperands
from ..mma import copy_rows, put_rows, row_addresses
from ..tile import Tile
from .emit_facts import AttentionFacts
from .emit_fragment import Domain, FragmentEmitter, IndexSpace
from .intrinsics import PagedLookup, PagedLookupIntrinsics
from .mma_schedule import MmaAttentionSchedule

ELEMENTS_PER_LOAD = 8  # elements per thread and step if an operand is loaded element by element
LOOKUP = PagedLookupIntrinsics("lookup")


class SmemTiles:
    """Loads of operand tiles to shared memory: by cp.async, or element by element from any strides."""

    def __init__(self, values: FragmentEmitter, schedule: MmaAttentionSchedule):
        self.values, self.facts, self.schedule = values, values.facts, schedule

    def load(self, name: str, first: str) -> list[str]:
        """Lines that load a tile of "q", "k" or "v", from row `first` on."""
        s, facts, is_q = self.schedule, self.facts, name == "q"
        number = ("q", "k", "v").index(name)
        k = facts.operands.qkv[number]
        rows, axis = (s.rows, facts.query_axis) if is_q else (s.columns, facts.kv_axis)
        inner, width = (facts.value_axis, s.head_dim_v) if name == "v" else (facts.score.axis, s.head_dim)
        size, step = facts.kernel.operands[k].dtype.itemsize, facts.step(k, axis)
        if not s.cp_async[number]:
            return self._load_elements(name, k, (axis, inner), first)
        bind, copied = self.values.source.bind, (width * size, s.row_bytes(width), s.block_threads)
        if facts.paged_row(name) is not None:
            return [bind(f"copy_{name}", LOOKUP.copy(*copied))(f"{name}_at", f"{name}_rows")]
        source = f"{name}_at", facts.base_address(k), f"{step} * {size}", first
        if is_q and facts.packed_gqa_axis is not None:
            heads = f"{facts.step(k, facts.packed_gqa_axis)} * {size}", f"n{axis}"
            return [bind("copy_q", copy_rows(rows, *copied, True))(*source, facts.row_limit, *heads)]
        return [bind(f"copy_{name}", copy_rows(rows, *copied))(*source, f"n{axis}")]

    def _load_elements(self, name: str, k: int, axes: tuple[int, int], first: str) -> list[str]:
        """Lines that load a tile element by element; `axes` are those of its rows and columns."""
        s, facts, operand = self.schedule, self.facts, self.facts.kernel.operands[k]
        rows = s.rows if name == "q" else s.columns
        columns = s.row_bytes(s.head_dim_v if name == "v" else s.head_dim) // s.itemsize
        row_steps, limits = ", ".join(facts.step(k, a) for a in axes), ", ".join(f"n{a}" for a in axes)
        transposed = operand.strides[axes[0]] == "1"
        bind = self.values.source.bind
        bind("P", Tile(width=1, vectors=ELEMENTS_PER_LOAD, step=1, checks="." * ELEMENTS_PER_LOAD))
        elements = bind(f"{name}_elements", row_addresses(rows, columns, s.block_threads, transposed))
        write = bind(f"store_{name}", put_rows(s.smem_dtype, rows, columns))
        address = f"at + ((first + row) * row_step + column * column_step) * {operand.dtype.itemsize}"
        self.values.define_lines(
            f"read_{name}",
            f'@P.elementwise("{", ".join(["int64"] * 8)} -> {operand.dtype.compute.name}")',
            f"def read_{name}(row, column, at, first, row_step, column_step, rows, columns):",
            "    wanted = (first + row < rows) & (column < columns)",
            f"    return fetch_{operand.dtype.name}({address}, wanted)",
        )
        return [
            "element = int32(0)",
            f"while element < {rows * columns}:",
            f"    rows_here, columns_here = {elements('element')}",
            f"    elements = read_{name}(rows_here, columns_here, "
            f"{facts.base_address(k)}, int64({first}), {row_steps}, {limits})",
            f"    {write(f'{name}_at', 'rows_here', 'columns_here', 'elements')}",
            f"    element = int32(element + {ELEMENTS_PER_LOAD * s.block_threads})",
        ]


def paged_space(facts: AttentionFacts) -> IndexSpace:
    """The index space of the paged rows of a key tile."""
    kv = facts.kv_axis
    return IndexSpace({kv: "kv_row_next"}, lambda axes: Domain.PAGED_ROW if kv in axes else Domain.SCALAR, "_next")


class PagedLookups:
    """The lookups of paged k and v rows, key tile by key tile."""

    def __init__(self, tile: FragmentEmitter, paged: PagedOperands):
        self.paged, self.facts = paged, tile.facts
        self.values = tile.in_space(paged_space(tile.facts), approx=False)

    def lookup(self, first: str) -> list[str]:
        """Lines that look up the rows of the key tile that begins at index `first`."""
        values, n = self.values, f"n{self.facts.kv_axis}"
        values.source.bind("lookup", PagedLookup(self.facts.tiling.columns))
        values.source.bind_several({"paged_rows": LOOKUP.places(), "valid_words": LOOKUP.words()})
        values.define("clamp_kv_rows", Domain.PAGED_ROW, "int64, int64 -> int64", "j, n", ["return minimum(j, n - 1)"])
        with values.collected() as lines:
            values.source.assign("kv_rows", f"paged_rows({first})")
            values.source.assign("kv_row_next", f"clamp_kv_rows(kv_rows, {n})")
            values.apply("look_up", self.paged.body, Domain.PAGED_ROW)
            types, row = "int64, bool, int64, int64 -> int64", ["return select(wanted & (j < n), at, int64(0))"]
            values.define("row_start", Domain.PAGED_ROW, types, "at, wanted, j, n", row)
            for name in ("k", "v"):
                if paged := self.facts.paged_row(name):
                    address, predicate = values.named(paged.address.name), values.named(paged.predicate.name)
                    values.source.assign(f"{name}_rows", f"row_start({address}, {predicate}, kv_rows, {n})")
            for v in self.paged.valid:
                values.source.assign(f"{v.name}_next_words", f"valid_words({values.named(v.name)})")
        return lines

    def keep_validity(self) -> list[str]:
        """Lines that keep the validity words of a tile before the next one is looked up."""
        return [f"{v.name}_words = {v.name}_next_words" for v in self.paged.valid]
