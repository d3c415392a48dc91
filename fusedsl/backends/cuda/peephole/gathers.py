"""Gathers in element bodies: the body is split there, so that whole tiles are gathered between its parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ....ir.types import BOOL, INT64, UINT64, DType
from ....kernel_ir.instruction import Constant, Instruction, needed, result_type
from ....kernel_ir.instruction_cost import total_cost
from ....kernel_ir.phase import Body, Value

NO_RUNS: Mapping[int, Collection[str]] = MappingProxyType({})
DRAWN = ("philox_word", "philox_pair")
PAIR_WORK = 24  # instructions that are worth computing for a pair of elements together


@dataclass(frozen=True)
class GatherCall:
    """A value of a tile's element that is not computed from that element alone, held as `stored`.

    `how` is the tile's method: gather (from an address, where it is wanted), gather_alike (from one address for all
    elements of a vector) or random (of a position, seed and stream).
    `kind` is its argument, `given` are names of a body. Pairs of elements mostly share what has a `halved` position.
    """

    name: str
    how: str
    kind: str
    stored: DType
    given: tuple[Value, ...]
    halved: bool = False
    run: int = 1  # elements beside each other that share an address and whether it is wanted


@dataclass(frozen=True)
class GatherStage:
    """Fetches that need nothing of each other, and the body that computes where they read."""

    where: Body
    fetches: tuple[GatherCall, ...]


def alike_in_vectors(body: Body, width: int, lines: Collection[str], fixed: Collection[str]) -> set[str]:
    """The values that all elements of a vector share: what is `fixed`, and multiples of their positions on `lines`.

    Vectors begin at multiples of their width there, so that a shift by as many bits gives all of them one number.
    """
    alike, positions = set(fixed), set(lines)
    for i in body.instructions:
        if i.op in ("convert", "cast") and i.dtype.kind in "iu" and positions.issuperset(i.names):
            positions.add(i.target)
        shared = bool(i.names) and alike.issuperset(i.names) and i.op not in DRAWN
        match i.op, i.args:
            case "right_shift", (str(position), Constant() as bits) if position in positions:
                shared = 1 << int(bits.value) >= width
        if shared:
            alike.add(i.target)
    return alike


def split_at_gathers(
    body: Body,
    fetched: Mapping[str, Value] | None = None,
    alike: Collection[str] = (),
    runs: Mapping[int, Collection[str]] = NO_RUNS,
) -> tuple[list[GatherStage], Body]:
    """A body without its fetches, whose values are arguments, and the stages that come before it.

    What is `fetched` is there: its row has read it for itself. `alike` are values that all elements of a vector share,
    `runs` those that so many neighbours share.
    """
    halved = {i.target for i in body.instructions if _halves(i)}
    all_fetches = [fetch for i in body.instructions if (fetch := _fetch(i, halved, alike))]
    all_fetches = [replace(f, run=_run(f, runs)) if f.how == "gather" else f for f in all_fetches]
    fetched = {f.name: fetched[f.name] for f in all_fetches if fetched and f.name in fetched}
    fetches = [f for f in all_fetches if f.name not in fetched]
    names = {f.name for f in fetches}
    rest = tuple(i for i in body.instructions if i.target not in names | set(fetched))
    computed = {value.name: value for value in body.args} | fetched
    stages = []
    while fetches:
        free = [f for f in fetches if not (names - set(computed)) & needed(rest, {value.name for value in f.given})]
        wanted = tuple(dict.fromkeys(value for f in free for value in f.given))
        stages.append(GatherStage(slice_of(rest, computed, wanted), tuple(free)))
        computed |= {f.name: Value(f.name, f.stored.compute) for f in free}
        fetches = [f for f in fetches if f not in free]
    return stages, slice_of(rest, computed, body.results)


def split_at_pairs(body: Body, drawn: Collection[str], fixed: Collection[str]) -> tuple[Body | None, Body]:
    """(what a body computes of values that pairs of elements share, and of nothing else; the body that takes that).

    None where that is too little; `fixed` are the same for all elements.
    """
    shared: set[str] = set(drawn)
    for i in body.instructions:
        if i.op != "fetch" and shared.intersection(i.names) and shared.union(fixed).issuperset(i.names):
            shared.add(i.target)
    shared -= set(drawn)
    work = {i.target: i for i in body.instructions if i.target in shared}
    read = {v.name for v in body.results} | {n for i in body.instructions if i.target not in shared for n in i.names}
    kinds = {name: result_type(i) for name, i in work.items() if name in read}
    if total_cost(work.values()) < PAIR_WORK or None in kinds.values():
        return None, body
    results = tuple(Value(name, kind) for name, kind in kinds.items() if kind is not None)
    given = {value.name: value for value in body.args}
    rest = tuple(i for i in body.instructions if i.target not in shared)
    together = slice_of(tuple(work.values()), given, results)
    return together, slice_of(rest, given | {v.name: v for v in results}, body.results)


def _halves(i: Instruction) -> bool:
    """Whether it halves a position."""
    return i.op == "right_shift" and isinstance(i.args[1], Constant) and i.args[1].value == 1


def _run(fetch: GatherCall, runs: Mapping[int, Collection[str]]) -> int:
    """Neighbours that share what is given to a fetch, at most."""
    given = {value.name for value in fetch.given}
    return max((run for run, shared in runs.items() if given.issubset(shared)), default=1)


def _fetch(i: Instruction, halved: Collection[str], alike: Collection[str]) -> GatherCall | None:
    """What an instruction fetches or draws, at an address or of a position that is computed."""
    if not i.reads_names_only:
        return None
    if i.op == "fetch":
        given = tuple(map(Value, i.names, (INT64, BOOL)))
        how = "gather_alike" if set(i.names).issubset(alike) else "gather"
        return GatherCall(i.target, how, i.dtype.name, i.dtype, given)
    if i.op in DRAWN:
        given = tuple(Value(name, UINT64) for name in i.names)
        return GatherCall(i.target, "random", i.op, UINT64, given, i.names[0] in halved)
    return None


def slice_of(instructions: Sequence[Instruction], given: Mapping[str, Value], results: tuple[Value, ...]) -> Body:
    """The body of the instructions that compute these results."""
    names = needed(instructions, {value.name for value in results})
    kept = tuple(i for i in instructions if i.target in names)
    return Body(tuple(value for name, value in given.items() if name in names), results, kept)
