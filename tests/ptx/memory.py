"""Memory with exact bounds: a global arena of allocations, and the shared memory of blocks with a check for races.

Addresses are 64-bit numbers. Global memory begins at `GLOBAL`; a shared address is a number below 2**24, with the rank
of a block in its cluster plus one above it where it may be another block's; windows tell the spaces apart where an
address is generic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

GLOBAL = 0x7F0000000000
SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW = 0x10000000000, 0x20000000000, 0x30000000000
SHARED_BASE = 1024  # the first shared address: what is below belongs to nobody, so that a null pointer is noticed
RANK_SHIFT = 24
ALIGNMENT = 256
SPACING, _numbers = 1 << 32, itertools.count()
ABSENT, FRESH, WRITTEN = 0, 1, 2  # states of a byte
_FULL = {n: np.frombuffer(bytes([WRITTEN]) * n, f"u{n}")[0] for n in (1, 2, 4, 8)}

Report = Callable[[str, int], Exception]
"""What makes an error of a message and the number (among those that access) of the thread at fault."""


def _rows(buffer: np.ndarray, offsets: np.ndarray, size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The buffer as vectors of `count` words, and which of them begin at these offsets."""
    words = buffer.view(f"u{size}")
    if count == 1:
        return words, offsets // size
    return words.reshape(-1, count), offsets // (size * count)


def _read(buffer: np.ndarray, offsets: np.ndarray, size: int, count: int) -> list[np.ndarray]:
    words, rows = _rows(buffer, offsets, size, count)
    found = words[rows]
    return [found] if count == 1 else [np.ascontiguousarray(found[:, k]) for k in range(count)]


def _write(buffer: np.ndarray, offsets: np.ndarray, size: int, values: list[np.ndarray]) -> None:
    words, rows = _rows(buffer, offsets, size, len(values))
    words[rows] = values[0] if len(values) == 1 else np.stack(np.broadcast_arrays(*values), axis=-1)


class Arena:
    """Global memory: allocations that start at multiples of 256 bytes with absent bytes between them.

    `tails` allows a load that begins in an array to end beyond it, where nobody has written or nothing is: rows that
    are not aligned read the whole aligned blocks, of 16 bytes at most, that they touch.
    """

    def __init__(self, size: int = 1 << 28, tails: bool = False, fresh: bool = True) -> None:
        self.base = GLOBAL + next(_numbers) * SPACING  # no address is in two arenas
        self.bytes = np.zeros(size, np.uint8)
        self.state = np.zeros(size, np.uint8)
        self.tails, self.fresh = tails, fresh
        self.live: dict[int, int] = {}
        self.variables: dict[tuple[str, str], int] = {}  # (kernel, name): address
        self.top = 0

    def allocate(self, size: int) -> int:
        """The address of so many bytes."""
        if not self.live:
            self.top = 0
        begin = self.top + ALIGNMENT
        self.top = begin + -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        if self.top + ALIGNMENT > len(self.bytes):
            raise MemoryError(f"{size} bytes")
        self.live[begin] = size
        self.bytes[begin : begin + size] = 0xCD
        self.state[begin : begin + size] = FRESH
        return self.base + begin

    def free(self, address: int) -> None:
        begin = address - self.base
        size = self.live.pop(begin)
        self.state[begin : begin + size] = ABSENT
        if begin + -(-max(size, 1) // ALIGNMENT) * ALIGNMENT == self.top:
            self.top = begin - ALIGNMENT

    def place(self, address: int, size: int) -> np.ndarray:
        """The bytes at an address, for the host."""
        begin = address - self.base
        if size and not self.state[begin : begin + size].all():
            raise MemoryError(f"{size} bytes at {address:#x} are not allocated")
        return self.bytes[begin : begin + size]

    def write(self, address: int, data: bytes) -> None:
        """The host writes bytes."""
        self.place(address, len(data))[:] = np.frombuffer(data, np.uint8)
        self.state[address - self.base :][: len(data)] = WRITTEN

    def offsets(self, addresses: np.ndarray, span: int, report: Report) -> np.ndarray:
        """Places in the arena; each is aligned to the access."""
        found = addresses - np.uint64(self.base)
        odd = (found & np.uint64(span - 1)) != 0
        if odd.any():
            k = int(odd.argmax())
            raise report(f"{int(addresses[k]):#x} is not a multiple of {span}", k)
        outside = found >= np.uint64(len(self.bytes))
        if outside.any():
            k = int(outside.argmax())
            raise report(f"{int(addresses[k]):#x} is not a global address", k)
        return found.astype(np.int64)

    def load(self, addresses: np.ndarray, size: int, count: int, report: Report) -> list[np.ndarray]:
        """`count` words of `size` bytes from each address."""
        at = self.offsets(addresses, size * count, report)
        for words in _read(self.state, at, size, count):
            if not (words == _FULL[size]).all():
                self._complain(at, size * count, report)
                break
        return _read(self.bytes, at, size, count)

    def store(self, addresses: np.ndarray, size: int, values: list[np.ndarray], report: Report) -> None:
        span = size * len(values)
        at = self.offsets(addresses, span, report)
        states = self.state[at[:, None] + np.arange(span)]
        if not states.all():
            k = int((states == ABSENT).any(axis=1).argmax())
            raise report(f"writes {span} bytes at {self.describe(at[k])}", k)
        _write(self.bytes, at, size, values)
        _write(self.state, at, size, [np.full(len(at), _FULL[size])] * len(values))

    def _complain(self, at: np.ndarray, span: int, report: Report) -> None:
        """Raise for bytes that are absent or were never written."""
        states = self.state[at[:, None] + np.arange(span)]
        absent = states == ABSENT
        bad = absent.all(axis=1) if self.tails else absent.any(axis=1)
        if bad.any():
            k = int(bad.argmax())
            raise report(f"reads {span} bytes at {self.describe(at[k])}", k)
        bad = (states != WRITTEN).all(axis=1) if self.tails else (states == FRESH).any(axis=1)
        if self.fresh and bad.any():
            k = int(bad.argmax())
            raise report(f"reads {span} bytes that nobody has written, at {self.describe(at[k])}", k)

    def describe(self, offset: int) -> str:
        """An address in the words of the nearest allocation."""
        below = max((b for b in self.live if b <= offset), default=None)
        if below is None:
            return f"{offset + self.base:#x}, before all allocations"
        return f"byte {offset - below} of an allocation of {self.live[below]} bytes"


# A stamp of an access to shared memory, in one int64: thread, and how many barriers it had passed.
_LANE_BITS, _WARP_BITS, _BLOCK_BITS = 22, 13, 14
_LANES, _WARPS = np.int64(1) << 61, np.int64(1) << 62  # marks: other lanes of the warp read too, other warps did


class Shared:
    """The shared memory of the blocks that run at the same time: `size` bytes each.

    A word that one thread writes and another one reads or writes, with no barrier between them, is a race. Barriers
    are counted: those of the block, those of its cluster, and those of a warp.
    """

    def __init__(self, blocks: int, size: int, unit: int) -> None:
        self.size = size
        self.pitch = -(-size // 128) * 128
        self.unit = unit
        self.bytes = np.full(blocks * self.pitch, 0xCD, np.uint8)
        self.state = np.full(blocks * self.pitch, FRESH, np.uint8)
        cells = blocks * self.pitch // unit
        self.writers = np.full(cells, -1, np.int64)
        self.readers = np.full(cells, -1, np.int64)
        self.hidden = np.zeros(cells, bool)  # from the copy engine: stored, and no fence of its writer since

    def offsets(self, blocks: np.ndarray, addresses: np.ndarray, span: int, report: Report) -> np.ndarray:
        """Places of shared addresses in these blocks."""
        inside = (addresses & np.int64((1 << RANK_SHIFT) - 1)) - SHARED_BASE
        odd = (inside % span != 0) | (inside < 0) | (inside + span > self.size)
        if odd.any():
            k = int(odd.argmax())
            why = f"is not a multiple of {span}" if inside[k] % span else f"is outside of {self.size} bytes"
            raise report(f"shared address {int(inside[k])} {why}", k)
        return blocks * self.pitch + inside

    def load(self, at: np.ndarray, size: int, count: int, stamps: np.ndarray, report: Report) -> list[np.ndarray]:
        cells = self._cells(at, size * count)
        self._check_written(at, size * count, report)
        stamps = np.broadcast_to(stamps[:, None], cells.shape)
        self._check(self.writers[cells], stamps, "reads", at, report)
        self._remember_readers(cells, stamps)
        return _read(self.bytes, at, size, count)

    def _check_written(self, at: np.ndarray, span: int, report: Report) -> None:
        fresh = (self.state[at[:, None] + np.arange(span)] != WRITTEN).any(axis=1)
        if fresh.any():
            k = int(fresh.argmax())
            raise report(f"reads shared byte {at[k] % self.pitch} before anybody has written it", k)

    def _remember_readers(self, cells: np.ndarray, stamps: np.ndarray) -> None:
        """The last reader of each cell, and whether others read it since the last barrier."""
        before = self.readers[cells]
        self.readers[cells] = stamps | _company(before, stamps)
        now = self.readers[cells]
        company = _company(now, stamps)
        if company.any():  # several threads read a cell at once
            np.bitwise_or.at(self.readers, cells.ravel(), company.ravel())

    def store(self, at: np.ndarray, size: int, values: list[np.ndarray], stamps: np.ndarray, report: Report) -> None:
        cells = self._cells(at, size * len(values))
        stamps = np.broadcast_to(stamps[:, None], cells.shape)
        self._check(self.writers[cells], stamps, "overwrites", at, report)
        self._check(self.readers[cells], stamps, "writes after another thread's read", at, report)
        self.writers[cells], self.hidden[cells] = stamps, True
        _write(self.bytes, at, size, values)
        self.state[at[:, None] + np.arange(size * len(values))] = WRITTEN
        if (self.writers[cells] != stamps).any():  # threads wrote the same place together
            seen = _read(self.bytes, at, size, len(values))
            bad = np.any([found != value for found, value in zip(seen, values)], axis=0)
            if bad.any():
                k = int(bad.argmax())
                raise report(f"two threads write different values to shared byte {at[k] % self.pitch} at once", k)

    def show(self, lanes: np.ndarray) -> None:
        """The copy engine sees what these threads stored."""
        own = np.isin(self.writers & np.int64((1 << _LANE_BITS) - 1), lanes)
        self.hidden[own] = False

    def check_shown(self, at: np.ndarray, size: int, report: Report) -> None:
        """Raise where the copy engine may see what was there before."""
        hidden = self.hidden[self._cells(at, size)].any(axis=1)
        if hidden.any():
            raise report(f"sends shared byte {at[hidden.argmax()] % self.pitch} with no fence.proxy.async after it", 0)

    def load_atomic(self, at: np.ndarray, size: int, report: Report) -> list[np.ndarray]:
        """What nobody races for: atomics, and the copies and products that barriers in memory order."""
        self._check_written(at, size, report)
        return _read(self.bytes, at, size, 1)

    def store_atomic(self, at: np.ndarray, size: int, values: list[np.ndarray]) -> None:
        _write(self.bytes, at, size, values)
        _write(self.state, at, size, [np.full(len(at), _FULL[size])])

    def _cells(self, at: np.ndarray, span: int) -> np.ndarray:
        return at[:, None] // self.unit + np.arange(max(span // self.unit, 1))

    def _check(self, before: np.ndarray, stamps: np.ndarray, what: str, at: np.ndarray, report: Report) -> None:
        bad = ((before >= 0) & _unordered(before, stamps)).any(axis=1)
        if bad.any():
            k = int(bad.argmax())
            old = int(before[k][_unordered(before[k], stamps[k])][0])
            other = old & ((1 << _LANE_BITS) - 1)
            message = f"{what} shared byte {at[k] % self.pitch} with no barrier since thread {other} (of all) was there"
            raise report(message, k)


def stamps(lanes: np.ndarray, warp_epoch: np.ndarray, block_epoch: np.ndarray, cluster_epoch: np.ndarray) -> np.ndarray:
    """Who accesses shared memory, and after which barriers."""
    found = lanes.astype(np.int64) | ((warp_epoch.astype(np.int64) & ((1 << _WARP_BITS) - 1)) << _LANE_BITS)
    found |= (block_epoch.astype(np.int64) & ((1 << _BLOCK_BITS) - 1)) << (_LANE_BITS + _WARP_BITS)
    return found | (cluster_epoch.astype(np.int64) & 0xFFF) << (_LANE_BITS + _WARP_BITS + _BLOCK_BITS)


def _unordered(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether the accesses with stamps a, or those that their marks stand for, and b may come in either order."""
    others, same_warp, same_turn = _relation(a, b)
    mates = same_warp & same_turn & (others | ((a & _LANES) != 0))
    return _same_epoch(a, b) & (~same_warp | mates | ((a & _WARPS) != 0))


def _company(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The marks of reads b after unordered reads a."""
    others, same_warp, same_turn = _relation(a, b)
    there = (a >= 0) & _same_epoch(a, b)
    lanes = there & same_warp & same_turn & (others | ((a & _LANES) != 0))
    warps = there & (~same_warp | ((a & _WARPS) != 0))
    return np.where(lanes, _LANES, np.int64(0)) | np.where(warps, _WARPS, np.int64(0))


def _relation(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether two stamps are of different threads, of one warp, and between the same barriers of warps."""
    low = a ^ b
    lanes, turns = (1 << _LANE_BITS) - 1, (1 << _WARP_BITS) - 1
    return (low & lanes) != 0, ((low & lanes) >> 5) == 0, (low >> _LANE_BITS & turns) == 0


def _same_epoch(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a ^ b) & ~(_LANES | _WARPS)) >> (_LANE_BITS + _WARP_BITS) == 0
