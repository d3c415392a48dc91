"""The instructions that reach memory: loads, stores, atomics and asynchronous copies, in every space."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import numbers as n
from .bulk import bulk, sent
from .convert import KINDS
from .memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from .operands import Step, address, parts, reader, type_of, writer
from .syntax import SPACES, Address, Immediate, Instruction, Unsupported, Variable
from .table import build

HINTS = (
    *("relaxed", "acquire", "release", "acq_rel", "weak", "volatile", "gpu", "cta", "cluster", "sys", "nc"),
    *("ca", "cg", "cs", "cv", "wb", "wt", "lu", "L1::evict_last", "L1::no_allocate", "L1::evict_first"),
    *("L1::evict_normal", "L1::evict_unchanged", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"),
    *("L2::evict_last", "L2::evict_first", "L2::evict_normal", "v2", "v4", "v8"),
)
SPACE_WORDS = (*SPACES, "shared::cta", "shared::cluster")


def space_of(ins: Instruction) -> str:
    """The space that an access names; "" for a generic address."""
    return next((m for m in ins.modifiers if m in SPACE_WORDS), "")


@build("ld", "ldu")
def _load(ins: Instruction) -> Step:
    ins.allow(*HINTS, *SPACE_WORDS)
    kind = type_of(ins)
    targets = [writer(t, kind) for t in parts(ins.operands[0])]
    source = ins.operands[1]
    assert isinstance(source, Address)
    if isinstance(source.base, Variable) and source.base.space == "param":
        begin, size = source.base.offset + source.offset, kind.itemsize
        return _parameter(targets, begin, size, kind)
    where, space, size = address(source), space_of(ins), kind.itemsize

    def step(m, at):
        for write, value in zip(targets, m.load(ins, at, space, where(m, at), size, len(targets))):
            write(m, at, value.view(kind))

    return step


def _parameter(targets: list, begin: int, size: int, kind: np.dtype) -> Step:
    """A load whose place in the parameter block is written in the text."""

    def step(m, at):
        for k, write in enumerate(targets):
            data = m.parameters[begin + k * size : begin + (k + 1) * size]
            write(m, at, np.frombuffer(data, kind)[0])

    return step


@build("st")
def _store(ins: Instruction) -> Step:
    if ins.modifiers[0] == "async":
        return sent(ins)
    ins.allow(*HINTS, *SPACE_WORDS)
    kind = np.dtype(f"u{type_of(ins).itemsize}")
    where, space = address(ins.operands[0]), space_of(ins)
    reads = [reader(source, kind) for source in parts(ins.operands[1])]

    def step(m, at):
        values = [np.broadcast_to(read(m, at), m.count(at)) for read in reads]
        m.store(ins, at, space, where(m, at), kind.itemsize, values)

    return step


ATOMIC: dict[str, Callable] = {
    "add": lambda old, x: old + x,
    "min": lambda old, x: n.minimum(old, x),
    "max": lambda old, x: n.maximum(old, x),
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "exch": lambda old, x: x,
    "inc": lambda old, x: old.dtype.type(0) if old >= x else old + old.dtype.type(1),
    "dec": lambda old, x: x if old == 0 or old > x else old - old.dtype.type(1),
}


@build("atom", "red")
def _atomic(ins: Instruction) -> Step:
    """Threads take their turns in an order that the machine's seed decides."""
    ins.allow(*HINTS, *SPACE_WORDS, *ATOMIC, "cas", "noftz")
    kind = type_of(ins)
    name = next(m for m in ins.modifiers if m in ATOMIC or m == "cas")
    space, operands = space_of(ins), ins.operands
    write = writer(operands[0], kind) if ins.name == "atom" else None
    first = 1 if ins.name == "atom" else 0
    where = address(operands[first])
    count = 2 if name == "cas" else 1
    reads = [reader(operand, kind) for operand in operands[first + 1 : first + 1 + count]]

    def step(m, at):
        lanes, places = m.which(at), where(m, at)
        values = [np.broadcast_to(read(m, at), len(lanes)) for read in reads]
        found = np.empty(len(lanes), kind)
        for k in m.random.permutation(len(lanes)):
            one = lanes[k : k + 1]
            (old,) = m.load(ins, one, space, places[k : k + 1], kind.itemsize, 1, atomic=True)
            found[k] = old = old.view(kind)[0]
            given = [value[k] for value in values]
            new = (given[1] if old == given[0] else old) if name == "cas" else ATOMIC[name](old, given[0])
            word = np.array([new], kind).view(f"u{kind.itemsize}")
            m.store(ins, one, space, places[k : k + 1], kind.itemsize, [word], atomic=True)
        if write is not None:
            write(m, at, found)

    return step


@build("cp")
def _copy(ins: Instruction) -> Step:
    """cp.async: the copy is made when its thread waits for it, so that a wait that is missing shows."""
    words = ins.modifiers
    if words[:1] != ("async",) or "mbarrier" in words:
        raise Unsupported(ins.text)
    if words[1] == "bulk":
        return bulk(ins)
    if words[1] == "commit_group":
        return lambda m, at: m.commit_copies(at)
    if words[1] == "wait_all":
        return lambda m, at: m.finish_copies(at, 0, everything=True)
    if words[1] == "wait_group":
        (left,) = ins.operands
        assert isinstance(left, Immediate)
        return lambda m, at: m.finish_copies(at, int(left.value))
    ins.allow("async", *HINTS, *SPACE_WORDS)
    return _copy_later(ins)


def _copy_later(ins: Instruction) -> Step:
    to, source, size, *more = ins.operands
    assert isinstance(size, Immediate)
    hinted = "L2::cache_hint" in ins.modifiers
    limit = more[0] if len(more) > hinted else size
    into, out_of, read = address(to), address(source), reader(limit, np.dtype(np.uint32))
    total = int(size.value)

    def step(m, at):
        lengths = np.broadcast_to(read(m, at), m.count(at)).astype(int)
        m.start_copies(ins, at, into(m, at), out_of(m, at), total, lengths)

    return step


@build("mapa")
def _map(ins: Instruction) -> Step:
    """The address of another block of the cluster's shared memory."""
    ins.allow("shared::cluster")
    kind = type_of(ins)
    if "shared::cluster" not in ins.modifiers:
        raise Unsupported(ins.text)
    read, rank, write = (
        reader(ins.operands[1], kind),
        reader(ins.operands[2], KINDS["u32"]),
        writer(ins.operands[0], kind),
    )
    return lambda m, at: write(m, at, m.map_shared(ins, at, read(m, at), rank(m, at)).astype(kind))


@build("isspacep")
def _is_in_space(ins: Instruction) -> Step:
    space = space_of(ins)
    read, write = reader(ins.operands[1], KINDS["u64"]), writer(ins.operands[0], KINDS["pred"])
    windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}

    def step(m, at):
        window = read(m, at) >> np.uint64(40)
        inside = [window == np.uint64(base >> 40) for base in windows.values()]
        write(m, at, ~np.any(inside, axis=0) if space == "global" else window == np.uint64(windows[space] >> 40))

    return step


@build("stacksave")
def _stack_save(ins: Instruction) -> Step:
    """The stack pointer: it stands behind the variables of local memory, since alloca is refused."""
    ins.allow()
    write, kind = writer(ins.operands[0], type_of(ins)), type_of(ins)
    return lambda m, at: write(m, at, kind.type(m.program.local_bytes))


@build("stackrestore")
def _stack_restore(ins: Instruction) -> Step:
    """A fault, unless the stack pointer is the one that was saved."""
    ins.allow()
    read = reader(ins.operands[0], type_of(ins))

    def step(m, at):
        moved = np.broadcast_to(read(m, at) != m.program.local_bytes, len(m.which(at)))
        if moved.any():
            raise m.report(ins, at)("the stack pointer was not saved", int(np.argmax(moved)))

    return step
