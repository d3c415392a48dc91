"""Barriers in memory (mbarrier) and the copies that report to them: cp.async.bulk, with tensor maps too.

A copy from global memory is made when a thread first asks its barrier; a copy to global memory when its thread waits.
What is read too early is then not there yet.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from .image_map import ImageMap, swizzled
from .memory import RANK_SHIFT, SHARED_BASE
from .operands import Step, address, parts, reader, type_of, writer
from .syntax import Instruction, Unsupported
from .table import build

U4, U8, PRED = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(bool)
WORDS = (
    *("shared", "shared::cta", "shared::cluster", "global", "cta", "cluster", "release", "acquire", "relaxed"),
    *("arrive", "init", "inval", "expect_tx", "complete_tx", "try_wait", "test_wait", "parity", "noComplete"),
)
MOST_IDLE = 1 << 14  # waits in turn, while other threads compute


@dataclass
class Mbarrier:
    """Phases end when all have arrived and all bytes have come."""

    count: int
    pending: int
    bytes: int = 0
    phase: int = 0


@build("mbarrier")
def _mbarrier(ins: Instruction) -> Step:
    ins.allow(*WORDS)
    word = ins.modifiers[0]
    if word in ("try_wait", "test_wait"):
        return _wait(ins)
    place = next(k for k, operand in enumerate(ins.operands) if type(operand).__name__ == "Address")
    where = address(ins.operands[place])
    token = writer(ins.operands[0], U8) if place else None
    read = reader(ins.operands[place + 1], U4) if len(ins.operands) > place + 1 else lambda m, at: U4.type(1)
    expects = "expect_tx" in ins.modifiers

    def step(m, at):
        values = np.broadcast_to(read(m, at), m.count(at)).astype(int).tolist()
        phases = []
        for key, value in zip(m.barrier_keys(ins, at, where(m, at)), values):
            if word == "init":
                m.start_barrier(key, value)
                continue
            held = m.mbarrier(ins, at, key)
            phases.append(held.phase)
            if word in ("expect_tx", "complete_tx") or expects:
                held.bytes += -value if word == "complete_tx" else value
            if word == "arrive":
                held.pending -= 1 if expects else value
            m.settle(key)
        if token is not None:
            token(m, at, np.array(phases, U8))

    return step


def _wait(ins: Instruction) -> Step:
    write, where, read = writer(ins.operands[0], PRED), address(ins.operands[1]), reader(ins.operands[2], U4)
    parity = "parity" in ins.modifiers

    def step(m, at):
        wanted = np.broadcast_to(read(m, at), m.count(at)).astype(int).tolist()
        found = []
        for key, phase in zip(m.barrier_keys(ins, at, where(m, at)), wanted):
            m.make_copies(key)
            held = m.mbarrier(ins, at, key)
            found.append((held.phase & 1) != phase if parity else held.phase != phase)
        m.idle = 0 if any(found) else m.idle + 1
        if m.idle > MOST_IDLE:
            raise m.report(ins, at)(f"no phase of a barrier has ended in {MOST_IDLE} waits", 0)
        write(m, at, np.array(found))

    return step


# ---- copies

_FORMS = {"shared::cluster", "shared::cta", "shared", "global", "mbarrier::complete_tx::bytes", "bulk_group", "tile"}
_FORMS |= {"im2col", "bulk", "async", "tensor", "multicast::cluster", "L2::cache_hint", "L2", "prefetch", "read"}
_FORMS |= {f"{rank}d" for rank in range(1, 6)}


def bulk(ins: Instruction) -> Step:
    """cp.async.bulk in all its forms."""
    words = set(ins.modifiers)
    if "commit_group" in words:
        return lambda m, at: m.commit_bulk(at)
    if "wait_group" in words:
        left = int(ins.operands[0].value)
        return lambda m, at: m.finish_bulk(at, left)
    if words - _FORMS:
        raise Unsupported(ins.text)
    if "prefetch" in words:
        return lambda m, at: None
    to_shared = ins.modifiers.index("global") > min(
        ins.modifiers.index(w) for w in ("shared::cluster", "shared::cta", "shared") if w in words
    )
    if "tensor" in words:
        return _tensor_in(ins) if to_shared else _tensor_out(ins)
    return _bulk_in(ins) if to_shared else _bulk_out(ins)


def sent(ins: Instruction) -> Step:
    """st.async: a store to a block of the cluster, which tells a barrier there of its bytes."""
    ins.allow("async", "shared::cluster", "mbarrier::complete_tx::bytes")
    size = type_of(ins).itemsize
    into, read, where = (
        address(ins.operands[0]),
        reader(ins.operands[1], np.dtype(f"u{size}")),
        address(ins.operands[2]),
    )

    def step(m, at):
        value = np.broadcast_to(read(m, at), m.count(at))
        m.store(ins, at, "shared", into(m, at), size, [value], atomic=True)
        for key in m.barrier_keys(ins, at, where(m, at)):
            m.mbarrier(ins, at, key).bytes -= size
            m.settle(key)

    return step


def _bulk_in(ins: Instruction) -> Step:
    to, source, size, barrier, *more = ins.operands
    into, out_of, count, where = address(to), address(source), reader(size, U4), address(barrier)
    mask = reader(more[0], np.dtype("u2")) if "multicast::cluster" in ins.modifiers else None

    def step(m, at):
        lanes = m.which(at)
        sizes = np.broadcast_to(count(m, at), len(lanes)).astype(int)
        masks = np.broadcast_to(mask(m, at), len(lanes)) if mask else np.zeros(len(lanes), int)
        rows = zip(lanes, into(m, at), out_of(m, at), sizes, m.barrier_keys(ins, at, where(m, at)), masks)
        for lane, target, begin, length, key, chosen in rows:
            if (target | begin | length) % 16:
                raise m.report(ins, lane[None])("a bulk copy that is not aligned to 16 bytes", 0)
            places = begin + np.arange(0, length, 8)
            m.copy_in(ins, lane, target, places, np.arange(0, length, 8), (8, False), int(length), key, int(chosen))

    return step


def _bulk_out(ins: Instruction) -> Step:
    to, source, size = ins.operands[:3]
    into, out_of, count = address(to), address(source), reader(size, U4)

    def step(m, at):
        sizes = np.broadcast_to(count(m, at), m.count(at)).astype(int)
        for lane, target, begin, length in zip(m.which(at), into(m, at), out_of(m, at), sizes):
            if (target | begin | length) % 16:
                raise m.report(ins, lane[None])("a bulk copy that is not aligned to 16 bytes", 0)
            offsets = np.arange(0, length, 8)
            m.copy_out(ins, lane, target + offsets, begin + offsets, 8)

    return step


# ---- tensor maps

MAP = struct.Struct("<Q4sIII5II5Q5I4x")
MAGIC = b"map:"
MAP_SIZES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4}  # CUtensorMapDataType: bytes
TF32 = 11  # its float32 is rounded as it is loaded
assert MAP.size <= 128


@dataclass(frozen=True)
class TensorMap:
    """What cuTensorMapEncodeTiled was told; axes from the innermost outwards, strides in bytes."""

    size: int
    swizzle: int  # bytes: 16 (none), 32, 64, 128
    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    rounds: bool = False  # float32 to TF32

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a box."""
        return self.box[0] * self.size

    def encode(self) -> bytes:
        fill = lambda values: (*values, *[0] * (5 - len(values)))  # noqa: E731
        numbers = (self.base, MAGIC, len(self.shape), self.size, self.swizzle)
        sizes = (*fill(self.shape), int(self.rounds), *fill(self.strides), *fill(self.box))
        return MAP.pack(*numbers, *sizes).ljust(128, b"\0")

    @classmethod
    def decode(cls, data: bytes) -> TensorMap:
        base, magic, rank, size, swizzle, *rest = MAP.unpack(data[: MAP.size])
        if magic != MAGIC:
            raise Unsupported("a tensor map that cuTensorMapEncodeTiled did not make")
        rounds = bool(rest.pop(5))
        return cls(size, swizzle, base, *(tuple(rest[k : k + rank]) for k in (0, 5, 10)), rounds)

    def elements(self, corner: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(whether each element of the box is in the array, its address, its byte in an unswizzled box)."""
        axes = np.indices(self.box[::-1]).reshape(len(self.box), -1)[::-1]
        at = axes + np.array(corner)[:, None]
        shape = np.array(self.shape)[:, None]
        inside = ((at >= 0) & (at < shape)).all(axis=0)
        return inside, self.base + np.array(self.strides) @ at, np.arange(at.shape[1]) * self.size

    def swizzled(self, address: np.ndarray) -> np.ndarray:
        """Where chunks of 16 bytes lie."""
        return swizzled(address, self.swizzle)


def _corner(operand: Any):
    """(reader of the map's address, readers of the coordinates): [map, {c0, c1, …}]."""
    return address(operand[0]), [reader(c, np.dtype(np.int32)) for c in parts(operand[1])]


def _maps(m, ins: Instruction, at, where: np.ndarray) -> list:
    """The tensor maps at some addresses, of the kind that the instruction reads."""
    kind = ImageMap if "im2col" in ins.modifiers else TensorMap
    words = m.load(ins, at, "", where, 8, 1), *(m.load(ins, at, "", where + 8 * k, 8, 1) for k in range(1, 16))
    data = np.stack([w[0] for w in words], axis=1)
    return [kind.decode(row.tobytes()) for row in data]


def _tensor_in(ins: Instruction) -> Step:
    to, source, barrier, *more = ins.operands
    into, (place, corner), where = address(to), _corner(source), address(barrier)
    if "im2col" in ins.modifiers:
        corner += [reader(offset, np.dtype("u2")) for offset in parts(more.pop(0))]
    mask = reader(more[0], np.dtype("u2")) if "multicast::cluster" in ins.modifiers else None

    def step(m, at):
        lanes = m.which(at)
        corners = np.stack([np.broadcast_to(read(m, at), len(lanes)) for read in corner], axis=1).tolist()
        masks = np.broadcast_to(mask(m, at), len(lanes)) if mask else np.zeros(len(lanes), int)
        maps, keys = _maps(m, ins, at, place(m, at)), m.barrier_keys(ins, at, where(m, at))
        for lane, target, box, begin, key, chosen in zip(lanes, into(m, at), maps, corners, keys, masks):
            _check(m, ins, lane, target, box)
            try:
                inside, places, offsets = box.elements(begin)
            except ValueError as fault:
                raise m.report(ins, lane[None])(str(fault), 0) from None
            offsets = box.swizzled(target - SHARED_BASE + offsets) - (target - SHARED_BASE)
            total = len(offsets) * box.size
            form = box.size, box.rounds
            m.copy_in(ins, lane, target, np.where(inside, places, 0), offsets, form, total, key, int(chosen))

    return step


def _tensor_out(ins: Instruction) -> Step:
    to, source = ins.operands[:2]
    (place, corner), out_of = _corner(to), address(source)

    def step(m, at):
        lanes = m.which(at)
        corners = np.stack([np.broadcast_to(read(m, at), len(lanes)) for read in corner], axis=1).tolist()
        for lane, begin, box, at_corner in zip(lanes, out_of(m, at), _maps(m, ins, at, place(m, at)), corners):
            _check(m, ins, lane, begin, box)
            if min(at_corner) < 0:  # CUDA programming guide, "Using TMA to transfer multi-dimensional arrays"
                raise m.report(ins, lane[None])(f"a box to an array that begins before it, at {at_corner}", 0)
            inside, places, offsets = box.elements(at_corner)
            held = box.swizzled(begin - SHARED_BASE + offsets) + SHARED_BASE
            m.copy_out(ins, lane, places[inside], held[inside], box.size)

    return step


def _check(m, ins: Instruction, lane, place: int, box: TensorMap | ImageMap) -> None:
    inside = (int(place) & ((1 << RANK_SHIFT) - 1)) - SHARED_BASE
    width = box.row_bytes
    if inside % 128 or width % 16 or (box.swizzle > 16 and width > box.swizzle):
        raise m.report(ins, lane[None])(f"a box with rows of {width} bytes at shared byte {inside}", 0)


# ---- what a machine holds of them


class Transfers:
    """Barriers in memory, bulk copies and products that are under way: a part of a machine."""

    def begin_transfers(self) -> None:
        self.idle = 0  # waits since a phase has ended, or one of them
        self.mbarriers: dict[int, Mbarrier] = {}  # by their byte in the shared memory of all blocks
        self.incoming: dict[int, list] = {}
        self.outgoing: list[tuple[int, int, Any]] = []  # (thread, group, copy)
        self.bulk_groups = np.zeros(self.lanes, np.int64)  # type: ignore[attr-defined]
        self.products: list[tuple[np.ndarray, np.ndarray, Any]] = []  # (threads, their groups, product)
        self.product_groups = np.zeros(self.lanes, np.int64)  # type: ignore[attr-defined]

    def barrier_keys(self: Any, ins: Instruction, at, where: np.ndarray) -> list[int]:
        _, where = self._space(ins, at, "" if (where >> 40).any() else "shared", where)
        return self.shared.offsets(self._owners(at, where), where, 8, self.report(ins, at)).tolist()

    def start_barrier(self: Any, key: int, count: int) -> None:
        self.mbarriers[key] = Mbarrier(count, count)
        self.shared.store_atomic(np.array([key]), 8, [np.zeros(1, U8)])

    def mbarrier(self: Any, ins: Instruction, at, key: int) -> Mbarrier:
        if key not in self.mbarriers:
            raise self.report(ins, at)("a barrier that was not initialised", 0)
        return self.mbarriers[key]

    def settle(self: Any, key: int) -> None:
        """End the phase if it is over; what came before is then seen by those who wait."""
        held = self.mbarriers[key]
        if held.pending == 0 and held.bytes == 0:
            held.phase, held.pending, self.idle = held.phase + 1, held.count, 0
            self.block_epoch[key // self.shared.pitch] += 1

    def copy_in(self: Any, ins, lane, target, places, offsets, form: tuple, total: int, key: int, chosen: int) -> None:
        """To the block of the address, or to the same place in all blocks of a mask, with their barriers. The `form` is
        the size of elements, and whether they are rounded to TF32."""
        own = self.block[lane]
        first = own // self.grid.cluster * self.grid.cluster
        ranks = [r for r in range(self.grid.cluster) if chosen >> r & 1] if chosen else [None]
        for rank in ranks:
            there, where = key, int(target)
            if rank is not None:
                there = key + (first + rank - key // self.shared.pitch) * self.shared.pitch
                where = (where & ((1 << RANK_SHIFT) - 1)) | (rank + 1) << RANK_SHIFT
            copy = (ins, np.array([lane]), where + offsets, places, form, total)
            self.incoming.setdefault(there, []).append(copy)

    def make_copies(self: Any, key: int) -> None:
        """Make the copies that report to a barrier; elements at address 0 are zeros."""
        for ins, one, into, places, (size, rounds), total in self.incoming.pop(key, []):
            lanes = np.repeat(one, len(places))
            real = places != 0
            words = np.zeros(len(places), f"u{size}")
            if real.any():
                (words[real],) = self.load(ins, lanes[real], "global", places[real], size, 1)
            if rounds:
                words = np.where(np.isfinite(words.view("f4")), words + U4.type(0x1000) & U4.type(0xFFFFE000), words)
            self.store(ins, lanes, "shared", into, size, [words], atomic=True)
            self.mbarriers[key].bytes -= total
            self.settle(key)

    def copy_out(self: Any, ins, lane, places, held, size: int) -> None:
        if len(held):
            lanes, report = np.full(len(held), lane), self.report(ins, np.array([lane]))
            at = self.shared.offsets(self._owners(lanes, held), held, size, report)
            self.shared.check_shown(at, size, report)
        self.outgoing.append((int(lane), int(self.bulk_groups[lane]), (ins, places, held, size)))

    def commit_bulk(self: Any, at) -> None:
        self.bulk_groups[self.which(at)] += 1

    def finish_bulk(self: Any, at, left: int) -> None:
        waiting = set(self.which(at).tolist())
        rest = []
        for lane, group, copy in self.outgoing:
            if lane not in waiting or group >= self.bulk_groups[lane] - left:
                rest.append((lane, group, copy))
                continue
            ins, places, held, size = copy
            lanes = np.full(len(places), lane)
            words = self.load(ins, lanes, "shared", held, size, 1, atomic=True)
            self.store(ins, lanes, "global", places, size, words)
        self.outgoing = rest

    def start_products(self: Any, lanes: np.ndarray, product) -> None:
        self.products.append((lanes, self.product_groups[lanes].copy(), product))

    def commit_products(self: Any, at) -> None:
        self.product_groups[self.which(at)] += 1

    def finish_products(self: Any, at, left: int) -> None:
        due = np.full(self.lanes, -1)
        due[self.which(at)] = self.product_groups[self.which(at)] - left
        for lanes, groups, product in self.products:
            if (groups < due[lanes]).any():
                product(self)
        self.products = [p for p in self.products if not (p[1] < due[p[0]]).any()]

    def unfinished(self: Any) -> str | None:
        """What a thread that has ended left under way."""
        ended = ~self.alive
        if any(ended[lane] for lane, _, _ in self.outgoing):
            return "a bulk copy to global memory"
        return "a product" if any(ended[lanes].any() for lanes, _, _ in self.products) else None


def encode_image_map(kind: int, base: int, arrays: tuple, channels: int, pixels: int, swizzle: int) -> bytes:
    """The 128 bytes of cuTensorMapEncodeIm2col's answer, of shape, strides, both corners and steps."""
    shape, strides, lower, upper, steps = arrays
    corners = (tuple(lower), tuple(upper), tuple(steps))
    form = ((16, 32, 64, 128)[swizzle], base, tuple(shape), (MAP_SIZES[kind], *strides), *corners, channels, pixels)
    return ImageMap(MAP_SIZES[kind], *form, kind == TF32).encode()


def encode_map(kind: int, rank: int, base: int, shape, strides, box, steps, interleave, swizzle) -> bytes:
    """The 128 bytes of cuTensorMapEncodeTiled's answer; strides are those of the outer axes."""
    if any(step != 1 for step in steps) or interleave or rank != len(shape):
        raise Unsupported("a tensor map with element strides or interleaved")
    size = MAP_SIZES[kind]
    width = (16, 32, 64, 128)[swizzle]
    return TensorMap(size, width, base, tuple(shape), (size, *strides), tuple(box), kind == TF32).encode()
