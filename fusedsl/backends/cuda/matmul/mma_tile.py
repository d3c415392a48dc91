"""Products on tensor cores: a warp's mma.sync over a K-slice of two operand tiles, and its accumulators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import F32, I32, Emitter, emitted, intrinsic, ir, numba_type, types
from ..mma.fragment import INSTRUCTIONS, mma_sync
from ..tile.element_registers import element_type
from ..tile.memory import ld_shared, st_shared
from .operand_fragments import Fragments, PaddedFragments, halves
from .tile_shapes import MmaTileShape

PRODUCTS = {1: ((0, 0),), 2: ((1, 0), (0, 1), (0, 0))}  # of which parts, the small ones first
i32 = types.int32


@dataclass(frozen=True)
class MmaTile(MmaTileShape):
    """The accumulators of a block.

    A thread has four of each 16 x 8 of its warp, row by row of these blocks: columns 2 t and 2 t + 1 of row g, then of
    row g + 8, for lane 4 g + t.
    """

    @property
    def kind(self) -> DType:
        return dtype(self.accumulator_dtype)

    def _types(self) -> types.UniTuple:
        return types.UniTuple(numba_type(self.accumulator_dtype), self.count)

    def _warp(self, e: Emitter) -> tuple[ir.Value, ir.Value, ir.Value]:
        """(lane, the first row of the warp, its first column)"""
        b, thread = e.builder, e.special_register("tid.x")
        lane, warp = b.and_(thread, I32(31)), b.lshr(thread, I32(5))
        row, column = b.urem(warp, I32(self.warps[0])), b.udiv(warp, I32(self.warps[0]))
        return lane, b.mul(row, I32(self.warp_rows)), b.mul(column, I32(self.warp_columns))

    def zeros(self) -> Callable:
        """`zeros()`: accumulators of 0."""
        zero = element_type(self.kind)(0)
        return intrinsic(0)(lambda: (self._types(), lambda e: e.pack(self._types(), [zero] * self.count)))

    def _fragment_types(self) -> types.UniTuple:
        size = dtype(self.dtype).itemsize
        return types.UniTuple(types.float64 if size == 8 else i32, self.fragment_words * 4 // max(4, size))

    def fragments(self, left: str, right: str, step: int) -> Callable:
        """`fragments(left, right)`: a thread's fragments of a step of two tiles of these layouts."""

        @emitted(self._fragment_types(), 2)
        def emit(e, left_at, right_at, *, kinds):
            read = self._reader(e, (e.cast(left_at, kinds[0], i32), e.cast(right_at, kinds[1], i32)), (left, right))
            return e.pack(self._fragment_types(), read(step))

        return emit

    def multiply(self, left: str, right: str, ahead: bool = False, parts: int = 1, guarded: bool = False) -> Callable:
        """`multiply(left, right, accumulators, fragments)`: adds the products of all steps of a K-slice but the last.

        The fragments of its first step are given; `ahead`, those of a step are read while the one before is multiplied.
        """

        @emitted(self._types(), 4)
        def emit(e, left_at, right_at, so_far, first, *, kinds):
            accumulators, following = e.unpack(so_far, self.count), e.unpack(first, self._fragment_types().count)
            read = self._reader(e, (e.cast(left_at, kinds[0], i32), e.cast(right_at, kinds[1], i32)), (left, right))
            for step in range(self.steps - 1):
                fragments, more = following, step + 2 < self.steps
                if ahead and more:
                    following = read(step + 1)
                self._add_products(e, fragments, accumulators, parts, guarded)
                if not ahead and more:
                    following = read(step + 1)
            return e.pack(self._types(), accumulators)

        return emit

    @emitted(lambda self: self._types())
    def multiply_fragments(self, e, so_far, given, *, parts: int = 1, guarded: bool = False):
        """`multiply_fragments(accumulators, fragments)`: adds the products of one step.

        In two `parts`, each float32 is a TF32 number and a smaller one: two products of both and the one of the larger.
        If `guarded`, what is not finite enters the last one alone: nothing is left of it.
        """
        accumulators = e.unpack(so_far, self.count)
        self._add_products(e, e.unpack(given, self._fragment_types().count), accumulators, parts, guarded)
        return e.pack(self._types(), accumulators)

    def _add_products(
        self, e: Emitter, fragments: list[ir.Value], accumulators: list[ir.Value], parts: int, guarded: bool
    ) -> None:
        words = len(fragments) * 16 // (self.warp_rows + self.warp_columns)
        blocks = [fragments[k : k + words] for k in range(0, len(fragments), words)]
        lefts, rights = blocks[: self.warp_rows // 16], blocks[self.warp_rows // 16 :]
        rights = [part for words in rights for part in halves(words)]
        for m, n in PRODUCTS[parts]:
            if guarded:
                x, y = ([_guarded_parts(e, v, (m, n) == (0, 0)) for v in side] for side in (lefts, rights))
            elif (m, n) == PRODUCTS[parts][0]:
                x, y = ([self._parts(e, v, parts) for v in side] for side in (lefts, rights))
            self._accumulate(e, [one[m] for one in x], [one[n] for one in y], accumulators)

    def _fragments(self, e: Emitter, side: str, layout: str) -> Fragments | PaddedFragments:
        lanes = self.rows if side == "left" else self.columns
        if layout == "padded":
            return PaddedFragments(e, side, lanes, dtype(self.dtype))
        return Fragments(e, side, layout, self.block_k)

    def _reader(
        self, e: Emitter, tiles: tuple[ir.Value, ir.Value], layouts: tuple[str, str]
    ) -> Callable[[int], list[ir.Value]]:
        """The function that reads the fragments of a step: of the warp's rows, then of its columns."""
        lane, row, column = self._warp(e)
        left, right = (self._fragments(e, side, layout) for side, layout in zip(("left", "right"), layouts))
        left.start(tiles[0], row, lane)
        right.start(tiles[1], column, lane)

        def read(step: int) -> list[ir.Value]:
            rows = [word for k in range(self.warp_rows // 16) for word in left.read(step, k)]
            return rows + [word for k in range(self.warp_columns // 16) for word in right.read(step, k)]

        return read

    def _parts(self, e: Emitter, words: list[ir.Value], parts: int) -> list[list[ir.Value]]:
        """A fragment as the instruction takes it, which cuts float32 off to TF32.

        In two parts: TF32, to nearest, then what is left of it likewise.
        """
        if parts == 1:
            return [words]
        b, tf32_parts = e.builder, list[list[ir.Value]]()
        for _ in range(parts):
            tf32_parts.append([e.asm(I32, "cvt.rna.tf32.f32 $0, $1;", "=r,r", [word]) for word in words])
            left = [b.fsub(*(b.bitcast(w, F32) for w in pair)) for pair in zip(words, tf32_parts[-1])]
            words = [b.bitcast(value, I32) for value in left]
        return tf32_parts

    @emitted(types.boolean)
    def any_nonfinite(self, e, held):
        """`any_nonfinite(accumulators)`: whether a sum of the block's is not finite; all threads arrive here."""
        b, zero, chains = e.builder, ir.Constant(F32, 0.0), [ir.Constant(F32, 0.0)] * 4
        for k, value in enumerate(e.unpack(held, self.count)):  # NaN or an infinity times 0 is NaN
            chains[k % 4] = e.call(F32, "llvm.fma.f32", [value, zero, chains[k % 4]])
        total = b.fadd(b.fadd(chains[0], chains[1]), b.fadd(chains[2], chains[3]))
        own = b.zext(b.fcmp_unordered("uno", total, total), I32)
        return b.icmp_unsigned("!=", e.call(I32, "llvm.nvvm.barrier0.or", [own]), I32(0))

    def _accumulate(
        self, e: Emitter, x: list[list[ir.Value]], y: list[list[ir.Value]], accumulators: list[ir.Value]
    ) -> None:
        """Add the products of all fragments of a step; neighbours in time share one."""
        for i, a in enumerate(x):
            for j in range(len(y))[:: 1 if i % 2 == 0 else -1]:
                own = slice(4 * (i * len(y) + j), 4 * (i * len(y) + j) + 4)
                accumulators[own] = self._mma(e, a, y[j], accumulators[own])

    def _mma(self, e: Emitter, a: list[ir.Value], b: list[ir.Value], c: list[ir.Value]) -> list[ir.Value]:
        if self.dtype == "float64" and e.cc < (9, 0):
            for half in range(2):
                own = slice(2 * half, 2 * half + 2)
                c[own] = mma_sync(e, "m8n8k4.row.col.f64.f64.f64.f64", [a[half]], b, c[own])
            return c
        return mma_sync(e, INSTRUCTIONS[self.dtype], a, b, c)

    @emitted(types.void)
    def add_accumulators(self, e, to, held, is_first, *, kinds):
        """`add(to, accumulators, is_first)`: adds them to those in shared memory; the first ones are stored."""
        b, accumulators, first = e.builder, e.unpack(held, self.count), e.cast(is_first, kinds[2], types.boolean)
        add = b.fadd if self.kind.kind == "f" else b.add
        addresses = self._pairs(e, e.cast(to, kinds[0], i32))
        with b.if_else(first) as (then, otherwise):
            with then:
                for at, k in addresses:
                    st_shared(e, self.kind, 2, at, accumulators[k : k + 2])
            with otherwise:
                for at, k in addresses:
                    before = ld_shared(e, self.kind, 2, at)
                    st_shared(e, self.kind, 2, at, [add(x, y) for x, y in zip(before, accumulators[k : k + 2])])

    def _pairs(self, e: Emitter, to: ir.Value) -> list[tuple[ir.Value, int]]:
        """The address of each pair of a thread's accumulators in shared memory, and the number of its first."""
        b, size, (lane, row, column) = e.builder, self.kind.itemsize, self._warp(e)
        row = b.add(row, b.lshr(lane, I32(2)))
        column = b.add(column, b.shl(b.and_(lane, I32(3)), I32(1)))
        start = b.add(to, b.mul(b.add(b.mul(row, I32(self.pitch)), column), I32(size)))
        across, pairs = self.warp_columns // 8, []
        for k in range(0, self.count, 2):
            block, half = divmod(k // 2, 2)
            i, j = divmod(block, across)
            pairs.append((b.add(start, I32(((16 * i + 8 * half) * self.pitch + 8 * j) * size)), k))
        return pairs


def _guarded_parts(e: Emitter, words: list[ir.Value], is_last: bool) -> list[list[ir.Value]]:
    """Both parts of float32, cut off, so that no finite number becomes infinite.

    What is not finite has a larger part only in the last product, and no smaller one.
    """
    b, parts = e.builder, (list[ir.Value](), list[ir.Value]())
    for word in words:
        large = b.and_(word, I32(-0x2000))
        finite = b.icmp_unsigned("<", b.and_(word, I32(0x7FFFFFFF)), I32(0x7F800000))
        small = b.bitcast(b.fsub(b.bitcast(word, F32), b.bitcast(large, F32)), I32)
        parts[0].append(large if is_last else b.select(finite, large, I32(0)))
        parts[1].append(b.select(finite, small, I32(0)))
    return [*parts]
