"""A pass over scores as data: its scores, its tiles, what they weigh, and the results."""

from __future__ import annotations

from dataclasses import dataclass

from .phase import Body, Phase, Reduction, Store, Value


@dataclass(frozen=True)
class Score:
    """`value`, an element of a stream: the sum along iteration axis `axis` of left * right.

    The results of the bodies are elements of the two operands: left depends on rows, right on no lane.
    """

    value: Value
    axis: int
    left: Body
    right: Body


@dataclass(frozen=True)
class Weighing:
    """A state with the iteration axis `axis` of its own: the sum over the stream of `weight` times right's result.

    `state` is its name once the stream is over. `merge` takes row values, the state so far and that of a tile (`sides`)
    and gives the state of both. Elements where `kept` is False weigh nothing, whatever they weigh; None: all count.
    `parts` does what `merge` does with the states of two parts of a stream that were worked apart.
    """

    axis: int
    weight: Value
    right: Body
    state: Value
    sides: tuple[Value, Value]
    merge: Body
    kept: Body | None = None
    parts: Body | None = None


@dataclass(frozen=True)
class Ending:
    """Stores of values with the iteration axis `axis` beside the rows, once the stream is over."""

    axis: int
    body: Body
    stores: tuple[Store, ...]


@dataclass(frozen=True)
class Extreme:
    """The least and the greatest of what a body computes along axis `axis` of a tile: of conditions, all and any."""

    axis: int
    body: Body
    least: Value
    greatest: Value


@dataclass(frozen=True)
class Sieve:
    """What a kernel asks of a tile before it works on it: `body` says whether anything in it counts, and whether
    everything does; then its phases are `whole` (none: that is never known), whose values have other `names` than those
    of partial tiles.

    `ends` name the first and the last position on the axes of a tile.
    """

    ends: tuple[tuple[int, Value, Value], ...]
    extremes: tuple[Extreme, ...]
    body: Body
    whole: tuple[Phase, ...]
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Line:
    """The lines of array `operand` along its own axis `inner`: where one begins, and whether it is wanted; else it is
    all 0."""

    operand: int
    inner: int
    address: Value
    wanted: Value


@dataclass(frozen=True)
class Gather:
    """Right operands whose lines are read at computed places: of a place on the stream, `body` results in what there is
    to say of the line of each, and in conditions that elements are computed with (`there`)."""

    body: Body
    right: Line | None
    weighed: Line | None
    there: tuple[Value, ...]


@dataclass(frozen=True)
class Stream:
    """One pass over a stream of scores (rewrite/online/), a tile after the other, for a tile of rows at a time.

    The stream is the iteration axis behind the rows; axes of scores and weighings come after it. `lanes` are the row
    axes that no right operand depends on, of which a tile of rows takes some. `tile` phases make a tile's state as if
    it were a row, `state` says what of it is kept and how it merges (its body also results in row values that the
    merges of weighings read); then come `row`, its stores, and the endings.
    """

    lanes: tuple[int, ...]
    scores: tuple[Score, ...]
    tile: tuple[Phase, ...]
    state: Reduction
    weighings: tuple[Weighing, ...]
    row: Body | None
    row_stores: tuple[Store, ...]
    endings: tuple[Ending, ...]
    sieve: Sieve | None = None
    inputs: tuple[Body, ...] = ()  # what is read for each element of a tile, whatever is made of it; a result each
    row_inputs: tuple[Body, ...] = ()  # … and for each row
    join: Body | None = None  # where a tile is `level` with all so far: its folds' values, joined to theirs first
    rise: Body | None = None  # … and from where it is measured, where references may stay behind
    parts: Reduction | None = None  # what `state` says, of two parts of the stream that were worked apart
    gather: Gather | None = None  # right operands that are no arrays as they lie
    told: str = ""  # which tiles are skipped or need no masks, in words

    @property
    def level(self) -> bool:
        """Whether tiles are measured from the references of all so far: what they weigh is added as it is, to states
        that the merges of weighings have moved."""
        return self.join is not None
