"""Where threads part and meet: branches, barriers of blocks and clusters, and instructions of whole warps.

A control ends a basic block: `control(machine, at)` sends the threads on, or holds them until others have come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .convert import KINDS
from .operands import Step, parts, reader, type_of, writer
from .syntax import Immediate, Instruction, Special
from .table import build

WARP = 32
CLUSTER = 1 << 20  # stands for the cluster's barrier among the numbers of barriers
U4 = np.dtype(np.uint32)
CONTROLS = ("bra", "ret", "exit", "trap", "brkpt", "bar", "barrier", "shfl", "vote", "match", "redux", "elect")
MATRICES = {"ldmatrix": WARP, "stmatrix": WARP, "mma": WARP, "wgmma": 4 * WARP}  # threads that take part


def ends_block(ins: Instruction) -> bool:
    """Whether an instruction is a control."""
    return ins.name in CONTROLS or (ins.name in MATRICES and (ins.name != "wgmma" or "mma_async" in ins.modifiers))


def fall_through(place: int) -> Step:
    return lambda m, at: m.go(at, place)


def control(ins: Instruction, here: int, labels: dict[str, int]) -> Any:
    """What ends basic block `here`, whose last instruction this is."""
    if ins.name == "bra":
        target = ins.operands[0]
        assert isinstance(target, Special)
        return _branch(ins, here, labels[target.name])
    if ins.name in ("ret", "exit"):
        return _split(ins, lambda m, at: m.exit(at), here)
    if ins.name in ("trap", "brkpt"):
        return _split(ins, _trap(ins), here)
    if ins.name in ("bar", "barrier") and "warp" not in ins.modifiers:
        return ClusterWait(ins, here) if "cluster" in ins.modifiers else Barrier(ins, here)
    return Together(ins, here) if ins.name in MATRICES else Collective(ins, here)


def _trap(ins: Instruction) -> Step:
    def stop(m, at):
        raise m.report(ins, at)("trap", 0)

    return stop


def _split(ins: Instruction, action: Step, here: int) -> Step:
    """Those whose guard holds act, the others go on."""
    if ins.guard is None:
        return action
    number, negated = ins.guard[0].number, ins.guard[1]

    def run(m, at):
        lanes = m.which(at)
        mask = m.registers[number][lanes] ^ negated
        if mask.any():
            action(m, lanes[mask])
        if not mask.all():
            m.go(lanes[~mask], here + 1)

    return run


def _branch(ins: Instruction, here: int, target: int) -> Step:
    back = target <= here
    if ins.guard is None:
        return lambda m, at: m.go(at, target, back)
    number, negated = ins.guard[0].number, ins.guard[1]

    def run(m, at):
        value = m.registers[number]
        mask = (value if at is None else value[at]) ^ negated
        if mask.all():
            m.go(at, target, back)
        elif not mask.any():
            m.go(at, here + 1)
        else:
            lanes = m.which(at)
            m.go(lanes[mask], target, back)
            m.go(lanes[~mask], here + 1)

    return run


# ---- barriers


class Barrier:
    """bar.sync, bar.red and bar.arrive: all threads of a block, or so many as the instruction says."""

    def __init__(self, ins: Instruction, here: int) -> None:
        ins.allow("sync", "red", "arrive", "cta", "aligned", "or", "and", "popc")
        self.ins, self.here = ins, here
        self.arrive, self.reduce = "arrive" in ins.modifiers, "red" in ins.modifiers
        operands = list(ins.operands)
        self.result = (
            writer(operands.pop(0), KINDS["u32" if "popc" in ins.modifiers else "pred"]) if self.reduce else None
        )
        vote = operands.pop() if self.reduce else None
        self.vote = reader(vote, KINDS["pred"]) if vote is not None else None
        self.number = reader(operands[0], U4) if operands else reader(Immediate(0), U4)
        self.count = reader(operands[1], U4) if len(operands) > 1 else None
        self.enter = _split(ins, self._enter, here)

    def __call__(self, m, at) -> None:
        self.enter(m, at)

    def _enter(self, m, at) -> None:
        lanes = m.which(at)
        numbers = np.broadcast_to(self.number(m, at), len(lanes)).astype(int)
        if self.count is not None:
            counts = np.broadcast_to(self.count(m, at), len(lanes)).astype(int)
            for key in {*zip(m.block[lanes].tolist(), numbers.tolist(), counts.tolist())}:
                m.needed[key[:2]] = key[2]
        if self.arrive:
            for key in zip(m.block[lanes].tolist(), numbers.tolist()):
                m.arrivals[key] = m.arrivals.get(key, 0) + 1
            m.go(at, self.here + 1)
        else:
            m.park(lanes, self.here)
            m.barrier[lanes] = numbers
        release_barriers(m, set(numbers.tolist()))

    def resume(self, m, lanes: np.ndarray) -> None:
        """All have come."""
        if self.result is not None and self.vote is not None:
            votes = self.vote(m, lanes)
            yes = np.bincount(m.block[lanes], votes, len(m.block_epoch))[m.block[lanes]]
            all_of = np.bincount(m.block[lanes], None, len(m.block_epoch))[m.block[lanes]]
            words = self.ins.modifiers
            self.result(m, lanes, yes.astype(U4) if "popc" in words else yes > 0 if "or" in words else yes == all_of)
        m.wake(lanes, self.here + 1)


def release_barriers(m, numbers: set[int]) -> bool:
    """Let those go whose block has all come to one of these barriers; whether there were any."""
    woken = False
    for number in numbers - {-1, CLUSTER}:
        waiting = np.flatnonzero(m.barrier == number)
        here = np.bincount(m.block[waiting], None, len(m.block_epoch))
        alive = np.bincount(m.block[m.alive], None, len(m.block_epoch))
        for block in np.flatnonzero(here):
            key = (int(block), number)
            if here[block] + m.arrivals.get(key, 0) < m.needed.get(key, alive[block]):
                continue
            lanes = waiting[m.block[waiting] == block]
            m.block_epoch[block] += 1
            m.arrivals.pop(key, None)
            m.needed.pop(key, None)
            _resume(m, lanes)
            woken = True
    return woken


def _resume(m, lanes: np.ndarray) -> None:
    places = m.parked[lanes]
    for place in np.unique(places):
        m.program.blocks[place].control.resume(m, lanes[places == place])


class ClusterWait:
    """barrier.cluster.wait, and arrive, after which the thread goes on."""

    def __init__(self, ins: Instruction, here: int) -> None:
        ins.allow("cluster", "arrive", "wait", "relaxed", "release", "acquire", "aligned")
        self.here, self.arrive = here, "arrive" in ins.modifiers
        self.enter = _split(ins, self._enter, here)

    def __call__(self, m, at) -> None:
        self.enter(m, at)

    def _enter(self, m, at) -> None:
        if self.arrive:
            m.cluster_arrivals[m.which(at)] += 1
            m.go(at, self.here + 1)
        else:
            m.park(at, self.here)
            m.barrier[m.which(at)] = CLUSTER
        release_clusters(m)

    def resume(self, m, lanes: np.ndarray) -> None:
        m.wake(lanes, self.here + 1)


def release_clusters(m) -> bool:
    """Let those go whose whole cluster has arrived as often as they have; whether there were any."""
    clusters = len(m.cluster_epoch)
    arrivals = np.where(m.alive, m.cluster_arrivals, np.iinfo(np.int64).max)
    m.cluster_epoch[:] = arrivals.reshape(clusters, -1).min(axis=1)
    waiting = np.flatnonzero(m.barrier == CLUSTER)
    epochs = m.cluster_epoch[m.block[waiting] // m.grid.cluster]
    ready = waiting[m.cluster_arrivals[waiting] <= epochs]
    if len(ready):
        _resume(m, ready)
    return len(ready) > 0


def release(m) -> bool:
    """Nobody runs: let those go whom exits have set free; whether there are any."""
    barriers = release_barriers(m, set(np.unique(m.barrier).tolist()))
    return release_clusters(m) or barriers


# ---- warps


class Collective:
    """An instruction that the named threads of a warp run together; those who come early wait."""

    def __init__(self, ins: Instruction, here: int) -> None:
        self.ins, self.here = ins, here
        self.members = reader(ins.operands[-1], U4) if ins.name not in MATRICES else None
        self.act = COLLECTIVES["warp" if ins.name in ("bar", "barrier") else ins.name](ins)
        self.enter = _split(ins, self._enter, here)

    def __call__(self, m, at) -> None:
        self.enter(m, at)

    def _enter(self, m, at) -> None:
        lanes = m.which(at)
        m.park(lanes, self.here)
        here = lanes if len(lanes) == m.lanes else np.flatnonzero(m.parked == self.here)
        warp, lane = here // WARP, here % WARP
        bits = np.left_shift(1, lane)
        members = np.broadcast_to(self.members(m, here), len(here)).astype(np.int64) & m.existing[warp]
        if (members & bits == 0).any():
            raise m.report(self.ins, here)("is not among the threads it names", int((members & bits == 0).argmax()))
        present = np.bincount(warp, bits, m.lanes // WARP).astype(np.int64)[warp]
        ready = (present & members) == members
        if ready.any():
            self.act(m, here[ready], members[ready])
            m.wake(here[ready], self.here + 1)


class Together(Collective):
    """An instruction of whole warps, or of groups of four, that names no threads."""

    def __init__(self, ins: Instruction, here: int) -> None:
        super().__init__(ins, here)
        self.size = MATRICES[ins.name]

    def _enter(self, m, at) -> None:
        lanes = m.which(at)
        m.park(lanes, self.here)
        here = np.flatnonzero(m.parked == self.here)
        ready = here[np.bincount(here // self.size)[here // self.size] == self.size]
        if len(ready):
            self.act(m, ready, None)
            m.wake(ready, self.here + 1)


def _shuffle(ins: Instruction) -> Callable:
    ins.allow("sync", "up", "down", "bfly", "idx")
    way = next(w for w in ins.modifiers if w in ("up", "down", "bfly", "idx"))
    targets = parts(ins.operands[0])
    write = writer(targets[0], U4)
    inside = writer(targets[1], KINDS["pred"]) if len(targets) > 1 else None
    value, step, clamp = (reader(operand, U4) for operand in ins.operands[1:4])

    def act(m, at, members):
        lane = at % WARP
        b, c = (np.broadcast_to(read(m, at), len(at)).astype(np.int64) for read in (step, clamp))
        segment = c >> 8 & 31
        low = lane & segment
        high = low | (c & 31 & ~segment)
        b &= 31
        source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | (b & ~segment)}[way]
        there = source >= high if way == "up" else source <= high
        source = np.where(there, source, lane)
        if (members >> source & 1 == 0).any():
            raise m.report(ins, at)("reads a thread that takes no part", int((members >> source & 1 == 0).argmax()))
        write(m, at, np.broadcast_to(value(m, at - lane + source), len(at)))
        if inside is not None:
            inside(m, at, there)

    return act


def _by_warp(
    at: np.ndarray, function: Callable[[np.ndarray], Any], values: np.ndarray, members: np.ndarray
) -> np.ndarray:
    """function(values of the threads that take part together), for each thread."""
    found = np.empty(len(at), object)
    groups: dict[tuple[int, int], list[int]] = {}
    for k, key in enumerate(zip((at // WARP).tolist(), members.tolist())):
        groups.setdefault(key, []).append(k)
    for rows in groups.values():
        found[rows] = function(values[rows])
    return found


def _vote(ins: Instruction) -> Callable:
    ins.allow("sync", "all", "any", "uni", "ballot", "pred")
    way = next(w for w in ins.modifiers if w in ("all", "any", "uni", "ballot"))
    read = reader(ins.operands[1], KINDS["pred"])
    write = writer(ins.operands[0], U4 if way == "ballot" else KINDS["pred"])

    def act(m, at, members):
        votes = np.broadcast_to(read(m, at), len(at))
        bits = (
            np.bincount(at // WARP, votes * 2.0 ** (at % WARP), m.lanes // WARP).astype(np.int64)[at // WARP] & members
        )
        uniform = (bits == 0) | (bits == members)
        write(m, at, {"ballot": bits.astype(U4), "any": bits != 0, "all": bits == members, "uni": uniform}[way])

    return act


REDUCTIONS = {
    "add": lambda x: x.sum(dtype=x.dtype), "min": np.min, "max": np.max,
    "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce,
}  # fmt: skip


def _redux(ins: Instruction) -> Callable:
    ins.allow("sync", *REDUCTIONS)
    kind = type_of(ins)
    function = next(REDUCTIONS[w] for w in ins.modifiers if w in REDUCTIONS)
    read, write = reader(ins.operands[1], kind), writer(ins.operands[0], kind)

    def act(m, at, members):
        write(m, at, _by_warp(at, function, np.broadcast_to(read(m, at), len(at)), members).astype(kind))

    return act


def _match(ins: Instruction) -> Callable:
    ins.allow("sync", "any", "all")
    targets = parts(ins.operands[0])
    kind = type_of(ins)
    read, write = reader(ins.operands[1], kind), writer(targets[0], U4)
    agreed = writer(targets[1], KINDS["pred"]) if len(targets) > 1 else None

    def act(m, at, members):
        values = np.broadcast_to(read(m, at), len(at))
        same = np.empty(len(at), U4)
        for k in range(len(at)):
            alike = (at // WARP == at[k] // WARP) & (values == values[k]) & (members == members[k])
            same[k] = np.bitwise_or.reduce(np.left_shift(1, at[alike] % WARP))
        whole = same == members.astype(U4)
        write(m, at, np.where(whole, same, U4.type(0)) if "all" in ins.modifiers else same)
        if agreed is not None:
            agreed(m, at, whole)

    return act


def _elect(ins: Instruction) -> Callable:
    ins.allow("sync")
    number, chosen = parts(ins.operands[0])
    write, elected = writer(number, U4), writer(chosen, KINDS["pred"])

    def act(m, at, members):
        first = np.log2((members & -members).astype(float)).astype(np.int64)
        write(m, at, first.astype(U4))
        elected(m, at, at % WARP == first)

    return act


def _warp_barrier(ins: Instruction) -> Callable:
    ins.allow("warp", "sync")

    def act(m, at, members):
        m.warp_epoch[np.unique(at // WARP)] += 1

    return act


COLLECTIVES: dict[str, Callable[[Instruction], Callable]] = {
    "shfl": _shuffle, "vote": _vote, "redux": _redux, "match": _match, "elect": _elect, "warp": _warp_barrier,
}  # fmt: skip


@build("activemask")
def _active(ins: Instruction) -> Step:
    write = writer(ins.operands[0], U4)

    def step(m, at):
        lanes = m.which(at)
        bits = np.bincount(lanes // WARP, 2.0 ** (lanes % WARP), m.lanes // WARP).astype(np.int64)
        write(m, at, bits[lanes // WARP].astype(U4))

    return step
