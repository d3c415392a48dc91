"""Runs one launch: threads of several blocks at once, each with its own place in the program.

The threads whose place is the lowest run a basic block together, so that they meet again behind branches. A thread
that has gone round loops often yields to those that have not, so that one may wait in a loop for another. Barriers and
instructions of whole warps hold threads until all that they are for have come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .bulk import Transfers
from .memory import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_BASE,
    SHARED_WINDOW,
    Arena,
    Shared,
    stamps,
)
from .operands import POISON, RAW
from .program import Program
from .sync import release
from .syntax import Instruction, Unsupported, Variable

WARP = 32
DONE = np.int64(1) << 62
PATIENCE = 6  # log2 of the turns of loops after which a thread lets others go first
MOST_LANES = 1 << 15
MOST_DELAY = 64  # turns, in units of a thread's patience, that a launch is waited for


class Fault(Exception):
    """A kernel did what it must not: the message names the instruction and the thread."""


@dataclass(frozen=True)
class Grid:
    """A launch: blocks, threads of each, blocks of a cluster, bytes of dynamic shared memory, whether all blocks are
    there at the same time, and the lines that the threads of a block stand in."""

    blocks: int
    threads: int
    cluster: int = 1
    shared: int = 0
    cooperative: bool = False
    lines: int = 1

    @property
    def side(self) -> int:
        """Threads of a line of a block."""
        return self.threads // self.lines


@dataclass(frozen=True)
class Copies:
    """Copies to shared memory that are under way, with the thread and the group that each belongs to."""

    ins: Instruction
    lanes: np.ndarray
    groups: np.ndarray
    into: np.ndarray
    source: np.ndarray
    size: int
    lengths: np.ndarray  # bytes that are read

    def only(self, mask: np.ndarray) -> Copies:
        """Those of a mask."""
        return Copies(self.ins, *(x[mask] for x in (self.lanes, self.groups, self.into, self.source)), self.size,
                      self.lengths[mask])  # fmt: skip


def run(program: Program, arena: Arena, grid: Grid, parameters: bytes, seed: int = 0, limit: int = 1 << 22) -> None:
    """Run a launch to its end. Raises Fault for what hardware would not forgive, or would not notice.

    Blocks run together, in groups as large as memory allows; `limit` basic blocks are taken for a program that hangs.
    """
    if grid.blocks % grid.cluster:
        raise Fault(f"{grid.blocks} blocks do not make clusters of {grid.cluster}")
    if program.threads and grid.threads > program.threads:
        raise Fault(f"{grid.threads} threads, and the kernel is bounded by {program.threads}")
    if len(parameters) < program.kernel.parameter_bytes:
        raise Fault(f"{len(parameters)} bytes of parameters of {program.kernel.parameter_bytes}")
    padded = -(-grid.threads // WARP) * WARP
    together = grid.blocks if grid.cooperative else max(MOST_LANES // padded // grid.cluster, 1) * grid.cluster
    for first in range(0, grid.blocks, together):
        count = min(together, grid.blocks - first)
        with np.errstate(all="ignore"):
            Machine(program, arena, grid, parameters, first, count, seed).run(limit)


class Machine(Transfers):
    """The blocks `first … first + count` of a launch, and all that they hold."""

    def __init__(
        self, program: Program, arena: Arena, grid: Grid, parameters: bytes, first: int, count: int, seed: int
    ) -> None:
        self.program, self.arena, self.grid, self.parameters = program, arena, grid, parameters
        self.random = np.random.default_rng(seed)
        padded = -(-grid.threads // WARP) * WARP
        self.lanes = lanes = count * padded
        number = np.arange(lanes)
        self.block = number // padded  # among those here
        self.thread = number % padded
        self.first = first
        self.poison = {size: np.full(lanes, POISON[size], RAW[size]) for size in RAW}
        self.registers = [self.poison[size] for size in program.register_sizes]  # until they are written
        self.carry = np.zeros(lanes, bool)
        self.key = np.where(self.thread < grid.threads, np.int64(0), DONE)  # turns of loops, then the place
        self.turns = np.zeros(lanes, np.int64)
        self.alive = self.thread < grid.threads
        self.parked = np.full(lanes, -1)  # the block of the program at whose end a thread waits
        self.barrier = np.full(lanes, -1)  # the number of the barrier that it waits at
        self.arrivals: dict[tuple[int, int], int] = {}  # (block, barrier): threads that do not wait
        self.needed: dict[tuple[int, int], int] = {}  # (block, barrier): threads, where the instruction says how many
        self.existing = (self.alive.reshape(-1, WARP) << np.arange(WARP)).sum(axis=1)
        self.warp_epoch = np.zeros(lanes // WARP, np.int64)
        self.block_epoch = np.zeros(count, np.int64)
        self.cluster_epoch = np.zeros(count // grid.cluster, np.int64)
        self.cluster_arrivals = np.zeros(lanes, np.int64)
        size = program.shared_bytes + grid.shared
        self.shared = Shared(count, size, program.shared_unit)
        self.local = np.full((lanes, -(-program.local_bytes // 16) * 16), 0xCD, np.uint8)
        self.copies: list[Copies] = []
        self.groups = np.zeros(lanes, np.int64)  # of copies that each thread has committed
        self.steps = 0
        self.begin_transfers()

    # ---- threads

    def run(self, limit: int) -> None:
        blocks = self.program.blocks
        while True:
            low = self.key.min()
            if low == DONE:
                if not self.alive.any():
                    return
                if not release(self):
                    raise Fault(self._stuck())
                continue
            at: Any = np.flatnonzero(self.key == low)
            at = None if len(at) == self.lanes else at
            block = blocks[int(low & 0xFFFFFFFF)]
            self.steps += 1
            if self.steps > limit:
                raise Fault(f"{self.program.kernel.name}: no end after {limit} basic blocks")
            for step in block.steps:
                step(self, at)
            block.control(self, at)

    def _stuck(self) -> str:
        at = np.flatnonzero(self.alive)
        places = {int(p) for p in self.parked[at]}
        texts = [self.program.blocks[p].text for p in places if p >= 0]
        return f"{self.program.kernel.name}: {len(at)} threads wait for ever, at {texts}"

    def which(self, at) -> np.ndarray:
        """The threads' numbers."""
        return np.arange(self.lanes) if at is None else at

    def count(self, at) -> int:
        return self.lanes if at is None else len(at)

    def go(self, at, place: int, back: bool = False) -> None:
        """These threads go on at a basic block; `back` where that is a turn of a loop."""
        if at is None:
            self.turns += back
            self.key = (self.turns >> PATIENCE << 32) | place
        else:
            if back:
                self.turns[at] += 1
            self.key[at] = (self.turns[at] >> PATIENCE << 32) | place

    def delay(self, at) -> None:
        """The warps of these threads let others go first, each for a time of its own."""
        late = self.random.integers(0, MOST_DELAY, self.lanes // WARP) << PATIENCE
        lanes = self.which(at)
        self.turns[lanes] += late[lanes // WARP]

    def park(self, at, place: int) -> None:
        """These threads wait at the end of a basic block."""
        self.key[self.which(at)] = DONE
        self.parked[self.which(at)] = place

    def wake(self, at: np.ndarray, place: int) -> None:
        self.parked[at] = -1
        self.barrier[at] = -1
        self.go(at, place)

    def exit(self, at) -> None:
        lanes = self.which(at)
        self.key[lanes] = DONE
        self.alive[lanes] = False
        for batch in self.copies:
            early = batch.lanes[~self.alive[batch.lanes]]
            if len(early):
                raise Fault(f"{self.program.kernel.name}: thread {self.name(early[0])} ends before its copies")
        if what := self.unfinished():
            raise Fault(f"{self.program.kernel.name}: a thread ends before {what}")

    def name(self, lane: int) -> str:
        return f"{self.thread[lane]} of block {self.block[lane] + self.first}"

    def report(self, ins: Instruction, at):
        lanes = self.which(at)

        def made(message: str, k: int) -> Fault:
            return Fault(f"{self.program.kernel.name}: {ins.text}: thread {self.name(lanes[k])}: {message}")

        return made

    def special(self, name: str) -> Any:
        """A special register, of every thread or of all alike; uint32 or uint64."""
        grid, register = self.grid, name[1:]
        lane = self.thread % WARP
        block = self.block + self.first
        found = {
            "tid.x": self.thread % grid.side, "ntid.x": grid.side,
            "tid.y": self.thread // grid.side, "ntid.y": grid.lines, "ctaid.x": block, "nctaid.x": grid.blocks,
            "laneid": lane, "warpid": self.thread // WARP, "smid": block % 4, "nsmid": 4,
            "cluster_ctarank": block % grid.cluster, "cluster_ctaid.x": block % grid.cluster,
            "cluster_nctarank": grid.cluster, "cluster_nctaid.x": grid.cluster,
            "clusterid.x": block // grid.cluster, "nclusterid.x": grid.blocks // grid.cluster,
            "is_explicit_cluster": int(grid.cluster > 1), "dynamic_smem_size": grid.shared,
            "lanemask_eq": 1 << lane, "lanemask_lt": (1 << lane) - 1, "lanemask_le": (2 << lane) - 1,
            "lanemask_gt": 0xFFFFFFFF & ~((2 << lane) - 1), "lanemask_ge": 0xFFFFFFFF & ~((1 << lane) - 1),
            "clock": self.steps, "clock64": self.steps, "globaltimer": self.steps,
        }.get(register)  # fmt: skip
        if found is None:
            if register.endswith((".y", ".z")):
                return np.uint32(1 if register.startswith("n") else 0)
            raise Unsupported(name)
        return np.asarray(found).astype(np.uint64 if register in ("clock64", "globaltimer") else np.uint32)

    # ---- memory

    def address_of(self, variable: Variable) -> int:
        """Where a variable begins, in its own space."""
        if variable.space == "param":
            return variable.offset
        if variable.space == "shared":
            return SHARED_BASE + self.program.places[variable.name]
        if variable.space == "local":
            return self.program.places[variable.name]
        return self.program.global_address(self.arena, variable)

    def load(self, ins: Instruction, at, space: str, where: np.ndarray, size: int, count: int, atomic: bool = False):
        """`count` words of `size` bytes at each address, as unsigned integers."""
        space, where = self._space(ins, at, space, where)
        report = self.report(ins, at)
        if space == "global":
            return self.arena.load(where.view(np.uint64), size, count, report)
        if space == "shared":
            lanes, blocks = self.which(at), self._owners(at, where)
            offsets = self.shared.offsets(blocks, where, size * count, report)
            if atomic:
                return self.shared.load_atomic(offsets, size, report)
            return self.shared.load(offsets, size, count, self._stamps(lanes, blocks), report)
        if space == "param":
            data = np.frombuffer(self.parameters + bytes(-len(self.parameters) % 16), f"u{size}")
            if ((where < 0) | (where + size * count > len(self.parameters))).any():
                raise report(f"parameter bytes at {int(where[0])} of {len(self.parameters)}", 0)
            return [data[where // size + k] for k in range(count)]
        return [self._local(ins, at, where, size)[self.which(at), where // size + k] for k in range(count)]

    def store(self, ins: Instruction, at, space: str, where, size: int, values: list, atomic: bool = False) -> None:
        space, where = self._space(ins, at, space, where)
        report = self.report(ins, at)
        if space == "global":
            self.arena.store(where.view(np.uint64), size, values, report)
        elif space == "shared":
            lanes, blocks = self.which(at), self._owners(at, where)
            offsets = self.shared.offsets(blocks, where, size * len(values), report)
            if atomic:
                self.shared.store_atomic(offsets, size, values)
            else:
                self.shared.store(offsets, size, values, self._stamps(lanes, blocks), report)
        elif space == "local":
            for k, value in enumerate(values):
                self._local(ins, at, where, size)[self.which(at), where // size + k] = value
        else:
            raise report(f"stores to {space} memory", 0)

    def _local(self, ins: Instruction, at, where: np.ndarray, size: int) -> np.ndarray:
        if ((where < 0) | (where + size > self.program.local_bytes) | (where % size != 0)).any():
            raise self.report(ins, at)(f"local bytes at {int(where.min())} … {int(where.max())}", 0)
        return self.local.view(f"u{size}")

    def _space(self, ins: Instruction, at, space: str, where: np.ndarray) -> tuple[str, np.ndarray]:
        """The space, and addresses within it; generic addresses are all of one space."""
        if space in ("shared::cta", "shared::cluster"):
            return "shared", where
        if space == "const":
            return "global", where
        if space:
            return space, where
        windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
        for name, base in windows.items():
            inside = (where >> 40) == base >> 40
            if inside.all():
                return name, where - base
            if inside.any():
                raise self.report(ins, at)(f"generic addresses in {name} memory and elsewhere", int(inside.argmax()))
        return "global", where

    def _owners(self, at, where: np.ndarray) -> np.ndarray:
        """The block, among those here, whose shared memory each address is in."""
        own = self.block[self.which(at)]
        rank = where >> RANK_SHIFT
        return np.where(rank > 0, own // self.grid.cluster * self.grid.cluster + rank - 1, own)

    def _stamps(self, lanes: np.ndarray, blocks: np.ndarray) -> np.ndarray:
        cluster = self.cluster_epoch[blocks // self.grid.cluster]
        return stamps(lanes, self.warp_epoch[lanes // WARP], self.block_epoch[blocks], cluster)

    def map_shared(self, ins: Instruction, at, address: np.ndarray, rank: np.ndarray) -> np.ndarray:
        if (rank >= self.grid.cluster).any():
            raise self.report(ins, at)(f"block {int(rank.max())} of a cluster of {self.grid.cluster}", 0)
        return (address & ((1 << RANK_SHIFT) - 1)).astype(np.int64) | (rank.astype(np.int64) + 1) << RANK_SHIFT

    # ---- asynchronous copies

    def start_copies(self, ins: Instruction, at, into: np.ndarray, source: np.ndarray, size: int, lengths) -> None:
        lanes = self.which(at)
        self.copies.append(Copies(ins, lanes, self.groups[lanes], into, source, size, lengths))

    def commit_copies(self, at) -> None:
        self.groups[self.which(at)] += 1

    def finish_copies(self, at, left: int, everything: bool = False) -> None:
        """Make the copies of all committed groups but the last `left` ones, or of all."""
        due = np.full(self.lanes, -1)  # groups before this one
        lanes = self.which(at)
        due[lanes] = np.iinfo(np.int64).max if everything else self.groups[lanes] - left
        kept = []
        for batch in self.copies:
            now = batch.groups < due[batch.lanes]
            if now.any():
                self._copy(batch.only(now))
            if not now.all():
                kept.append(batch.only(~now))
        self.copies = kept

    def _copy(self, batch: Copies) -> None:
        """Bytes beyond `lengths` become 0."""
        size = batch.size
        for length in np.unique(batch.lengths).tolist():
            part = batch.only(batch.lengths == length)
            each = min(size, 8) if length in (0, size) else 1
            words = []
            for k in range(0, size, each):
                if k < length:
                    words += self.load(part.ins, part.lanes, "global", part.source + k, each, 1)
                else:
                    words.append(np.zeros(len(part.lanes), f"u{each}"))
            if length and ((part.source | part.into) % size).any():
                raise self.report(part.ins, part.lanes)(f"a copy of {size} bytes that is not aligned", 0)
            for k, word in enumerate(words):
                self.store(part.ins, part.lanes, "shared", part.into + k * each, each, [word])
