"""Emits the block mask: bits (any active, all active) of 32 key tiles, computed by a warp or kept in shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....ir.types import BOOL
from ....kernel_ir.attention import BlockMask, TileBounds
from ..emit.intrinsic import Named
from ..emit.source_builder import indented, names_in
from ..tile import ThreadGroup, ThreadGroupIntrinsics, reduction
from .emit_fragment import Domain, FragmentEmitter
from .sm90_schedule import WORK_INFOS

LOAD_MASK_BITS = [
    "",
    "",
    '@uniform("int32, int32 -> int32, int32")',
    "def block_mask(at, word):",
    "    return ld_shared(at + 8 * word), ld_shared(at + 8 * word + 4)",
]


class BlockMaskBits:
    """Evaluates the block mask of a work tile and key tiles; the values of its lines are those of a tile, scalars."""

    def __init__(self, values: FragmentEmitter, mask: BlockMask):
        self.values, self.facts, self.mask, self.columns = values, values.facts, mask, values.facts.tiling.columns
        self.n, self.row_bounds = f"n{self.facts.kv_axis}", [x for x in mask.bounds if x.axis != self.facts.kv_axis]
        self.kv_bounds, self.kv_bounds_axes = values.kernel.kv_bounds, values.kernel.kv_bounds_axes
        self.warps = self.facts.tiling.block_threads // 32
        self.call = ""  # of the function that evaluates 32 key tiles

    # -- by a warp

    def warp_bits(self, word: str, in_smem: bool = False) -> str:
        """The call of a function that evaluates 32 key tiles, one per lane. Bounds along the kv axis are loaded if they
        are `in_smem`, and those of rows then known; else they are computed for each key tile."""
        self.call = self.call or self._define_warp_bits(in_smem)
        return self.call.format(word=word)

    def _define_warp_bits(self, in_smem: bool) -> str:
        values = self.values
        lines = ["tile = word * 32 + (thread_idx() & 31)"]
        if in_smem and self.kv_bounds:
            lines.append(f"position = minimum(tile, int32(({self.n} - 1) // {self.columns}))")
        with values.collected() as evaluation:
            self._begin(kv=True, rows=True)
            if in_smem:
                self._load_smem_bounds()
            else:
                self._emit_bounds(self.mask.bounds, spread=False)
            any_active, all_active = values.apply("tile_mask", self.mask.body, Domain.SCALAR)
        full = f"{all_active} & (first + {self.columns} <= {self.n})"
        lines += [*evaluation, f"here = first < {self.n}", f"return ballot(here & {any_active}), ballot(here & {full})"]
        types = self._outer_types() | {"row_from": "int32", "row_end": "int32"}
        if in_smem:
            types |= {"bounds_at": "int32"}
            types |= {v.name: v.dtype.name for x in self.row_bounds for v in (x.lower, x.upper)}
        used = names_in(lines)
        given = [name for name in types if name in used]
        kinds = ", ".join(["int32", *(types[name] for name in given)])
        parameters = ", ".join(["word", *given])
        values.define("block_mask", Domain.SCALAR, f"{kinds} -> int32, int32", parameters, lines)
        return f"block_mask({', '.join(['{word}', *given])})"

    def _load_smem_bounds(self) -> None:
        for k, bounds in enumerate(self.kv_bounds):
            for j, value in enumerate((bounds.lower, bounds.upper)):
                word = f"ld_shared(bounds_at + position * {8 * len(self.kv_bounds)} + {8 * k + 4 * j})"
                shown = f"{word} != 0" if value.dtype is BOOL else f"{value.dtype.name}({word})"
                self.values.emit(f"{value.name} = {shown}")

    def _outer_types(self) -> dict[str, str]:
        """Types of the names defined before the first work tile, and of a work tile's coordinates."""
        kernel = self.values.kernel
        types = dict.fromkeys(self.facts.names.parameters(), "int64")
        types |= dict.fromkeys((f"c{a}" for a in self.facts.outer), "int32")
        return types | {v.name: v.dtype.name for v in (*kernel.scalars, *(p.value for p in kernel.pointers))}

    # -- in shared memory

    def store_bits(self) -> list[str]:
        """Lines by which the warps of a block store the bits of all key tiles in shared memory, each a tile."""
        values, tiling = self.values, self.facts.tiling
        values.source.functions += LOAD_MASK_BITS
        with values.collected() as before:
            self._begin(rows=True)
            self._emit_bounds(self.row_bounds, spread=True)
            with values.collected() as tile:
                values.emit(*self._tile_ends(kv=True))
                self._emit_bounds([x for x in self.mask.bounds if x not in self.row_bounds], spread=True)
                any_active, all_active = values.apply("tile_mask", self.mask.body, Domain.SCALAR)
                full = f"{all_active} & (first + {self.columns} <= {self.n})"
                values.emit(
                    f"any_active, all_active = int32({any_active}), int32({full})",
                    "if (thread_idx() & 31) == 0:",
                    "    or_shared(block_mask_at + 8 * (tile >> 5), any_active << (tile & 31))",
                    "    or_shared(block_mask_at + 8 * (tile >> 5) + 4, all_active << (tile & 31))",
                    f"tile = int32(tile + {self.warps})",
                )
        return [
            "word = thread_idx()",
            f"while word * {32 * self.columns} < {self.n}:",
            "    st_shared(block_mask_at + 8 * word, 0)",
            "    st_shared(block_mask_at + 8 * word + 4, 0)",
            f"    word = int32(word + {tiling.block_threads})",
            "barrier()",
            *before,
            "tile = int32(thread_idx() >> 5)",
            f"while tile * {self.columns} < {self.n}:",
            *indented(tile),
        ]

    def store_bounds(self) -> list[str]:
        """Lines by which the warps of a block store the bounds of all key tiles in shared memory, for all positions on
        the axes that they depend on."""
        values, size = self.values, 8 * len(self.kv_bounds)
        with values.collected() as tile:
            self._begin(kv=True)
            for k, bounds in enumerate(self.kv_bounds):
                self._emit_bounds([bounds], spread=True, most=self.columns)
                values.emit("if (thread_idx() & 31) == 0:")
                for j, value in enumerate((bounds.lower, bounds.upper)):
                    address = f"{self._smem_bounds} + entry * {size} + {8 * k + 4 * j}"
                    values.emit(f"    st_shared({address}, int32({value.name}))")
        coordinates, rest = [], "position"
        for a in reversed(self.kv_bounds_axes):
            coordinates += [f"rest = udiv({rest}, int32(n{a}))", f"c{a} = int32({rest} - rest * n{a})"]
            rest = "rest"
        return [
            f"entry, tiles = int32(thread_idx() >> 5), int32(({self.n} + {self.columns - 1}) // {self.columns})",
            f"while entry < tiles * {' * '.join(f'n{a}' for a in self.kv_bounds_axes) or '1'}:",
            "    position = udiv(entry, tiles)",
            "    tile = int32(entry - position * tiles)",
            *indented([*coordinates, *tile]),
            f"    entry = int32(entry + {self.warps})",
        ]

    def work_tile_bounds(self) -> list[str]:
        """Lines of a warp that compute the bounds of a work tile's rows, and the address of those along the kv axis."""
        if not self.mask.bounds:
            return []
        with self.values.collected() as lines:
            self._begin(rows=True)
            self._emit_bounds(self.row_bounds, spread=True)
        if not self.kv_bounds:
            return lines
        first, *others = self.kv_bounds_axes or (None,)
        index = "0" if first is None else f"c{first}"
        for a in others:
            index = f"({index}) * n{a} + c{a}"
        tiles = f"(({self.n} + {self.columns - 1}) // {self.columns})"
        offset = f"({index}) * {tiles} * {8 * len(self.kv_bounds)}"
        return [*lines, f"bounds_at = int32({self._smem_bounds} + {offset})"]

    @property
    def _smem_bounds(self) -> str:
        """The address of the bounds in shared memory: behind the bits."""
        columns = 32 * self.columns
        return f"block_mask_at + {8 * WORK_INFOS} * int32(({self.n} + {columns - 1}) // {columns})"

    # -- one tile

    def _begin(self, kv: bool = False, rows: bool = False) -> None:
        """Begin with the names defined before the first work tile, and the ranges of tiles on some axes."""
        kernel = self.values.kernel
        names = (*kernel.scalars, *(p.value for p in kernel.pointers), *(v for _, *vs in self.mask.ranges for v in vs))
        self.values.domain = {v.name: Domain.SCALAR for v in names}
        self.values.emit(*(self._tile_ends(kv=True) if kv else []), *(self._tile_ends(kv=False) if rows else []))

    def _tile_ends(self, kv: bool) -> list[str]:
        """Lines with the first and the last position of a tile on the kv axis, or on the others."""
        facts, columns = self.facts, self.columns
        first, last = "int64(row_from)", f"int64(row_from) + {facts.tiling.rows - 1}, int64({facts.row_limit}) - 1"
        ends = {facts.kv_axis: ("first", "last"), facts.query_axis: (first, f"minimum({last})")}
        if facts.packed_gqa_axis is not None:
            ends |= {a: ("int64(0)", f"n{a} - 1") for a in (facts.query_axis, facts.packed_gqa_axis)}
        lines = []
        if kv:
            lines += [f"first = int64(tile * {columns})", f"last = minimum(first + {columns - 1}, {self.n} - 1)"]
        for axis, low, high in self.mask.ranges:
            if (axis == facts.kv_axis) is kv:
                first, last = ends.get(axis, (f"int64(c{axis})", f"int64(c{axis})"))
                lines += [f"{low.name} = {first}", f"{high.name} = {last}"]
        return lines

    def _emit_bounds(self, bounds: Iterable[TileBounds], spread: bool, most: int = 0) -> None:
        """Emit minima and maxima of values along one axis of a tile, by a thread or `spread` over a warp.

        If a tile has at most `most` positions, the loop is unrolled: positions beyond the end repeat the last one, so
        all loads are issued at once.
        """
        for each in bounds:
            low, high, dtype = each.lower.name, each.upper.name, each.lower.dtype
            first, last = next((a.name, b.name) for axis, a, b in self.mask.ranges if axis == each.axis)
            operators = ("{} & {}", "{} | {}") if dtype is BOOL else ("minimum({}, {})", "maximum({}, {})")
            inner = self._bounds_step(each, operators)
            start, step = (f"{first} + (thread_idx() & 31)", 32) if spread else (first, 1)
            source, identities = self.values.source, _identities(each)
            source.assign(f"{low}, {high}", ", ".join(identities))
            for k in range(0, most, step):
                source.emit(f"step = minimum({start} + {k}, {last})", *inner)
            if not most:
                source.emit(f"step = {start}", f"while step <= {last}:", *indented([*inner, f"step += {step}"]))
            if spread:
                self._share(each, operators, identities)
            self.values.domain |= {low: Domain.SCALAR, high: Domain.SCALAR}

    def _bounds_step(self, bounds: TileBounds, operators: tuple[str, str]) -> list[str]:
        """Lines that combine the bounds with the value at `step`."""
        values, (low, high) = self.values, (bounds.lower.name, bounds.upper.name)
        with values.collected() as lines:
            values.loop_positions = {bounds.axis: "step"}
            (value,) = values.apply(f"lift_{low}", bounds.body, Domain.SCALAR)
            values.loop_positions = {}
            values.emit(*(f"{name} = {op.format(name, value)}" for name, op in zip((low, high), operators)))
        return lines

    def _share(self, bounds: TileBounds, operators: tuple[str, str], identities: Sequence[str]) -> None:
        """Emit the reduction of bounds over the lanes of a warp."""
        source = self.values.source
        for name, operator, identity in zip((bounds.lower.name, bounds.upper.name), operators, identities):
            op = reduction(bounds.lower.dtype.name, Named(f"combine_{name}"), Named(f"identity_{name}"))
            source.functions += ["", "", f"def identity_{name}():", f"    return {identity}"]
            source.functions += ["", "", f"def combine_{name}(a, b):", f"    return {operator.format('a', 'b')}"]
            source.functions += ["", ""]
            warp = ThreadGroupIntrinsics(str(ThreadGroup(threads=32)))
            source.assign(name, source.bind(f"all_reduce_{name}", warp.all_reduce(op), source.functions)(name))


def _identities(bounds: TileBounds) -> tuple[str, str]:
    """What minima and maxima of a value start from."""
    dtype = bounds.lower.dtype
    if dtype is BOOL:
        return "True", "False"
    bits = dtype.bits - (dtype.kind == "i")
    return f"{dtype}({(1 << bits) - 1})", f"{dtype}({-(1 << bits) if dtype.kind == 'i' else 0})"
