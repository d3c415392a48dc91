"""Matrix instructions of warps and of groups of four warps: ldmatrix, stmatrix, mma.sync and wgmma.

Fragments are laid out as the PTX ISA manual draws them ("Matrix Fragments for mma", "Asynchronous Warpgroup Level
Matrix"): lane = 4 g + t holds of A the rows g and g + 8, of B the column g, of C pairs of columns from 2 t on. Products
are summed in float64 and rounded once, where the hardware keeps fewer bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .operands import address, parts, reader, writer
from .sync import COLLECTIVES, WARP
from .syntax import Instruction, Unsupported
from .table import build

U2, U4, U8 = (np.dtype(f"u{n}") for n in (2, 4, 8))
GROUP = 4 * WARP
ELEMENTS = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "s8": np.dtype(np.int8), "u8": np.dtype(np.uint8),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
_LANE = np.arange(WARP)
_G, _T = _LANE // 4, _LANE % 4


def _matrix_access(ins: Instruction) -> tuple[list, Any, bool]:
    """The registers, the address, and whether matrices are turned."""
    ins.allow("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta")
    if "m8n8" not in ins.modifiers or "b16" not in ins.modifiers:
        raise Unsupported(ins.text)
    load = ins.name == "ldmatrix"
    registers = list(parts(ins.operands[0 if load else 1]))
    return registers, address(ins.operands[1 if load else 0]), "trans" in ins.modifiers


def _load_matrices(ins: Instruction) -> Callable:
    """Lane 8 i + r has the address of row r of matrix i."""
    registers, where, turned = _matrix_access(ins)
    writes = [writer(r, U4) for r in registers]

    def act(m, at, members):
        lanes = at.reshape(-1, WARP)[:, : 8 * len(writes)].ravel()
        words = np.stack(m.load(ins, lanes, "shared", where(m, lanes), 4, 4), axis=1)
        rows = np.ascontiguousarray(words.reshape(-1, len(writes), 8, 4))
        if turned:
            rows = np.ascontiguousarray(rows.view(U2).swapaxes(2, 3)).view(U4)
        for i, write in enumerate(writes):
            write(m, at, rows[:, i].reshape(-1))

    return act


def _store_matrices(ins: Instruction) -> Callable:
    registers, where, turned = _matrix_access(ins)
    reads = [reader(r, U4) for r in registers]

    def act(m, at, members):
        lanes = at.reshape(-1, WARP)[:, : 8 * len(reads)].ravel()
        rows = np.stack([read(m, at).reshape(-1, 8, 4) for read in reads], axis=1)
        if turned:
            rows = np.ascontiguousarray(np.ascontiguousarray(rows).view(U2).swapaxes(2, 3)).view(U4)
        words = rows.reshape(-1, 4)
        m.store(ins, lanes, "shared", where(m, lanes), 4, [np.ascontiguousarray(words[:, k]) for k in range(4)])

    return act


# ---- fragments


def _elements(words: np.ndarray, kind: str) -> np.ndarray:
    """(…, registers) of words as (…, registers, elements of each), in float64 or int64."""
    if kind == "tf32":
        words = words & U4.type(0xFFFFE000)
    found = np.ascontiguousarray(words)[..., None].view(ELEMENTS[kind])
    return found.astype(np.int64 if found.dtype.kind in "iu" else np.float64)


def rows_fragment(words: np.ndarray, kind: str) -> np.ndarray:
    """A: (warps, 32, registers) of words to (warps, 16, k); 8 rows of a single register of float64."""
    held = _elements(words, kind)
    count, each = held.shape[2:]
    high = 1 if kind == "f64" and count == 1 else 2
    found = np.empty((len(held), 8 * high, 4 * each * count // high), held.dtype)
    for r in range(count):
        for i in range(each):
            found[:, _G + 8 * (r % high), _T * each + i + r // high * 4 * each] = held[:, :, r, i]
    return found


def columns_fragment(words: np.ndarray, kind: str) -> np.ndarray:
    """B: (warps, 32, registers) of words to (warps, k, 8)."""
    held = _elements(words, kind)
    count, each = held.shape[2:]
    found = np.empty((len(held), 4 * each * count, 8), held.dtype)
    for r in range(count):
        for i in range(each):
            found[:, _T * each + i + r * 4 * each, _G] = held[:, :, r, i]
    return found


def _gathered(reads: list, m, at) -> np.ndarray:
    """(warps, 32, registers)."""
    return np.stack([np.broadcast_to(read(m, at), len(at)).reshape(-1, WARP) for read in reads], axis=-1)


@dataclass(frozen=True)
class Sums:
    """An accumulator: its registers, and their type."""

    reads: list
    writes: list
    kind: str

    @classmethod
    def of(cls, to: Any, source: Any, kind: str) -> Sums:
        word = U8 if kind == "f64" else U4
        return cls([reader(r, word) for r in parts(source)], [writer(r, word) for r in parts(to)], kind)

    @property
    def _high(self) -> int:
        """Rows of a lane in a block of 8 columns."""
        return 1 if self.kind == "f64" and len(self.writes) == 2 else 2

    def read(self, m, at) -> np.ndarray:
        """(warps, rows, columns)."""
        words = _gathered(self.reads, m, at)
        kind = {"f32": np.dtype("f4"), "s32": np.dtype("i4"), "f64": np.dtype("f8"), "f16": np.dtype("f2")}[self.kind]
        held = np.ascontiguousarray(words)[..., None].view(kind)
        held = held.reshape(*held.shape[:2], -1)  # pairs of columns, of row g, then of row g + 8, for each 8 columns
        high = self._high
        found = np.empty((len(held), 8 * high, held.shape[2] // high * 4), np.float64 if kind.kind == "f" else np.int64)
        for k in range(held.shape[2]):
            block, pair = divmod(k, 2 * high)
            found[:, _G + 8 * (pair // 2), 8 * block + 2 * _T + pair % 2] = held[:, :, k]
        return found

    def write(self, m, at, value: np.ndarray) -> None:
        kind = {"f32": np.dtype("f4"), "s32": np.dtype("i4"), "f64": np.dtype("f8"), "f16": np.dtype("f2")}[self.kind]
        high = self._high
        count = value.shape[2] // 4 * high
        held = np.empty((len(value), WARP, count), kind)
        for k in range(count):
            block, pair = divmod(k, 2 * high)
            held[:, :, k] = value[:, _G + 8 * (pair // 2), 8 * block + 2 * _T + pair % 2].astype(kind)
        words = held.view(U8 if self.kind == "f64" else U4)
        for k, write in enumerate(self.writes):
            write(m, at, np.ascontiguousarray(words[:, :, k]).reshape(-1))


_MMA = {"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m8n8k4"}


def _multiply(ins: Instruction) -> Callable:
    """mma.sync: D = A B + C."""
    shape = next((w for w in ins.modifiers if re.fullmatch(r"m\d+n\d+k\d+", w)), "")
    kinds = [w for w in ins.modifiers if w in ELEMENTS or w in ("f32", "s32")]
    if shape not in _MMA or len(kinds) != 4 or (shape == "m8n8k4" and kinds[1] != "f64"):
        raise Unsupported(ins.text)
    ins.allow("sync", "aligned", shape, "row", "col", "satfinite", *ELEMENTS)
    word = U8 if kinds[1] == "f64" else U4
    a, b = ([reader(r, word) for r in parts(operand)] for operand in ins.operands[1:3])
    sums = Sums.of(ins.operands[0], ins.operands[3], kinds[0])

    def act(m, at, members):
        left, right = rows_fragment(_gathered(a, m, at), kinds[1]), columns_fragment(_gathered(b, m, at), kinds[2])
        sums.write(m, at, left @ right + sums.read(m, at))

    return act


# ---- groups of four warps


@dataclass(frozen=True)
class Matrix:
    """A matrix in shared memory as a descriptor says: where element (row or column `line`, k) stands."""

    start: int
    leading: int  # bytes
    stride: int
    swizzle: int  # bytes of a row: 16 (none), 32, 64, 128

    @classmethod
    def of(cls, word: int) -> Matrix:
        field = lambda begin: (word >> begin & 0x3FFF) << 4  # noqa: E731
        if word >> 49 & 7:
            raise Unsupported("a base offset in a matrix descriptor")
        return cls(field(0), field(16), field(32), {0: 16, 3: 32, 2: 64, 1: 128}[word >> 62])

    def addresses(self, lines: np.ndarray, depths: np.ndarray, size: int, turned: bool) -> np.ndarray:
        """Of elements of `size` bytes; `turned` where lines lie next to each other in memory, not depths."""
        width = self.swizzle
        if not turned:
            along = depths * size
            if width == 16:
                inner = lines % 8 * 16 + along % 16 + along // 16 * self.leading
            else:
                inner = lines % 8 * width + along
            place = self.start + inner + lines // 8 * self.stride
        else:
            along = lines * size
            far, deep = (self.stride, self.leading) if width == 16 else (self.leading, self.stride)
            place = self.start + along % width + depths % 8 * width + along // width * far + depths // 8 * deep
        bits = {16: 0, 32: 1, 64: 3, 128: 7}[width]
        return place ^ (place >> 7 & bits) << 4


def _group_multiply(ins: Instruction) -> Callable:
    """wgmma.mma_async: carried out when its group is waited for, so that a wait that is missing shows."""
    shape = next((w for w in ins.modifiers if re.fullmatch(r"m64n\d+k\d+", w)), "")
    kinds = [w for w in ins.modifiers if w in ELEMENTS or w in ("f32", "s32")]
    if not shape or len(kinds) != 3:
        raise Unsupported(ins.text)
    ins.allow("mma_async", "sync", "aligned", shape, *ELEMENTS)
    columns, depth = (int(n) for n in re.findall(r"\d+", shape)[1:])
    to, a, b, scale, *literals = ins.operands
    signs = [int(x.value) for x in literals[:2]] or [1, 1]  # integers have none
    turns = [bool(x.value) for x in literals[2:]]
    in_registers = isinstance(a, tuple)
    turns = [False, *turns] if in_registers else (turns or [False, False])
    turns += [False] * (2 - len(turns))
    sums = Sums.of(to, to, kinds[0])
    a_reads = [reader(r, U4) for r in a] if in_registers else [reader(a, U8)]
    b_read, keep = reader(b, U8), reader(scale, np.dtype(bool))

    def shared(m, lanes, word: int, kind: str, lines: int, turned: bool) -> np.ndarray:
        """(lines, depth), read by the group's first thread."""
        size = ELEMENTS[kind].itemsize
        line, deep = np.divmod(np.arange(lines * depth), depth)
        where = Matrix.of(word).addresses(line, deep, size, turned).astype(np.int64)
        (words,) = m.load(ins, np.repeat(lanes[:1], len(where)), "shared", where, size, 1, atomic=True)
        return _elements(words, kind).reshape(lines, depth)

    def act(m, at, members):
        for lanes in at.reshape(-1, GROUP):
            words = [np.broadcast_to(read(m, lanes), GROUP).copy() for read in a_reads]
            right = int(np.broadcast_to(b_read(m, lanes), GROUP)[0])
            kept = bool(np.broadcast_to(keep(m, lanes), GROUP)[0])
            m.start_products(lanes, lambda *given, p=(lanes, words, right, kept): finish(m, *p))

    def finish(m, lanes, words, right: int, kept: bool) -> None:
        if in_registers:
            left = rows_fragment(np.stack(words, axis=-1).reshape(4, WARP, -1), kinds[1]).reshape(64, depth)
        else:
            left = shared(m, lanes, int(words[0][0]), kinds[1], 64, turns[0])
        product = signs[0] * left @ (signs[1] * shared(m, lanes, right, kinds[2], columns, turns[1]).T)
        before = sums.read(m, lanes).reshape(64, columns) if kept else 0
        sums.write(m, lanes, (product + before).reshape(4, 16, columns))

    return act


COLLECTIVES.update(ldmatrix=_load_matrices, stmatrix=_store_matrices, mma=_multiply, wgmma=_group_multiply)


@build("wgmma")
def _group_order(ins: Instruction):
    """wgmma.fence, commit_group and wait_group."""
    ins.allow("fence", "commit_group", "wait_group", "sync", "aligned")
    word = ins.modifiers[0]
    if word == "fence":
        return lambda m, at: None
    if word == "commit_group":
        return lambda m, at: m.commit_products(at)
    left = int(ins.operands[0].value)
    return lambda m, at: m.finish_products(at, left)
