"""Rows on threads: a row in the registers of 1 to 1024 threads, or a loop over rows that are longer or scattered."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ..fusion.lines import instructions, special_functions
from ..hardware import Hardware, blocks_for, registers_for
from .access import ACCESS_BYTES, vector_width
from .kernel import Kernel
from .pressure import Tiling, element_work, needed, predicted
from .ranking import Ranking
from .registers import held, row_loads, words
from .split import finishes_at_once

WARP = 32
HELD_WORDS = {256: 80, 512: 72, 1024: 36}  # registers a thread that may hold a row, for teams up to this size
MOST_NEEDED = 168  # registers a thread, by estimate, beyond which a row gets more threads
FULL_WORDS, PACKED_WORDS = 64, 40  # … and so many before a larger team is tried; of pairs, which are unpacked beside
EARLY_WORDS = {
    16: 32,
    128: 48,
    1024: 32,
}  # registers of the row and all that later phases read, for teams up to this size
PIECE_FROM, PIECE_WORDS = 60, 24  # … and how many make a last phase of 16-bit rows work in pieces, of how many
LONG_BODIES = 14  # instructions an element, from which on rows want longer threads; of 4 bytes, for each array
ROW_WORK = 40  # instructions of a row, from which on its threads should be few
FETCHING = 64  # registers from which on what fetches, and keeps addresses beside elements, takes more threads
FEW_THREADS, CROWDED = 8, 80  # teams of fewer threads get more of them where each needs more registers
IN_FLIGHT = 64 << 10  # bytes of loads that an SM should have under way
VECTOR_CLASSES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
LONG_CLASSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # of rows of which there are few lengths
SHARED_BLOCK, SHARED_ELEMENTS = 256, 16  # threads of a block that keeps a row in shared memory, and a tile of each
SHARED_BLOCKS = 3  # of which so many share an SM
BLOCK_BYTES = 4 << 10  # bytes that a block moves at least: an H200 begins one every 0.64 ns
TEAMS = ((512, 2), (256, 3), (256, 2))  # threads of a block of a cluster, and such blocks on an SM
LEAST_ON_SM = 72 << 10  # bytes of rows that an SM has to hold in registers, or shared memory is better
SPARE = 8  # registers that phases in pieces need less than is predicted, and values of float32 in a cluster more
STREAMS_MUCH = 4  # registers an element of what a phase streams, with which a row should not be alone on an SM
LONG_ROW = 16384  # elements, beyond which a row should not be alone on an SM
SHARED_RESERVE = 4 << 10  # bytes of shared memory beside the row: the system's, and states that blocks merge
COPY_BYTES, COPY_FROM = (4, 8, 16), (8, 0)  # what cp.async copies, and the architecture that has it
LOOP_ELEMENTS = 8  # a thread's tile in a loop over single elements
LOOP_BLOCK = 128  # threads of a block whose rows are looped over by a warp or less
STREAM_FROM = 12 << 10  # columns of rows that are read once and rather streamed than held
STREAM_ROWS = 4  # … if there are so many for each SM
MOST_REREADING = 512  # threads of a row that is read again
STREAMING, MOST_STREAMING = 768, 128  # threads of an SM that stream rows, and those of a row where there are many
TURNS = 8  # tiles of a row for each of its threads, at least
LONG_TILE_NEED = 128  # registers, at most, with which a tile has 128 bytes


@dataclass(frozen=True)
class RowSchedule:
    """`threads` work on a row, `rows` rows share a block; a thread holds `vectors` vectors of `width` elements.

    `whole` of the vectors are always there, the others are checked. Where `across`, neighbouring threads belong to
    neighbouring rows. Where `early`, what later phases load is loaded at once; where there is a `piece`, the last
    phase takes so many vectors at a time. Not `resident`: every phase loops over the row. Where `blocked`, the vectors
    of a thread are neighbours. Where `linked`, every tile of a row is a block's, which hands its state on. Where
    `shared`, what the phases read again is copied to shared memory first. Where there is a `cluster` of so many blocks,
    `threads` of each of them work on the row. Where there is `room`, for so many threads in a block, how many of them
    work on a row is not compiled: the launch says it.
    """

    resident: bool
    width: int
    vectors: int
    whole: int
    threads: int
    rows: int
    blocks: int
    across: bool = False
    early: bool = False
    piece: int = 0
    cluster: int = 1
    shared: bool = False
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)  # a thread, by estimate
    blocked: bool = False
    ranking: Ranking | None = None
    linked: bool = False
    room: int = 0

    @property
    def binary(self) -> RowSchedule:
        """What of it machine code depends on."""
        return replace(self, threads=0, rows=0) if self.room else self

    @property
    def step(self) -> int:
        """Elements between one vector of a thread and its next."""
        return self.width if self.blocked else self.width * self.threads * self.cluster

    @property
    def apart(self) -> int:
        """Elements between the first of a thread and that of the next."""
        return self.width * self.vectors if self.blocked else self.width

    @property
    def span(self) -> int:
        """Elements that a team works on at once."""
        return self.width * self.vectors * self.threads * self.cluster

    @property
    def block(self) -> int:
        return self.threads * self.rows


def schedule_row(kernel: Kernel, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule:
    """How a row kernel runs. If a `resident` kernel does not fit, the schedule is not `resident`: build it anew."""
    if kernel.resident:
        found = _resident(kernel, extents, hardware) if contiguous(kernel) else None
    else:
        found = _shared(kernel, extents, hardware)
    return found or _looped(kernel, extents, hardware)


def contiguous(kernel: Kernel) -> bool:
    """One column axis, along which an array that is read or written in full is contiguous."""
    whole = _full(kernel)
    return kernel.column_axes == 1 and (not whole or any(kernel.operands[k].strides[-1] == "1" for k in whole))


def streams(kernel: Kernel, extents: tuple[int, ...], hardware: Hardware) -> bool:
    """Whether a kernel that is not `resident` is better for these rows than one that is: it reads each element once as
    well, and its teams, which wait for nobody, are at different places of their rows.

    Measured on an H200 (cross-entropy in bfloat16): rows of 16,384 take 135 us instead of 170, rows of 8192 132 us
    instead of 130. Sums and variances, which take no special functions, are 2-4 % faster if they are held.
    """
    if not kernel.row_axes or kernel.kept or kernel.steady or extents[-1] < STREAM_FROM:
        return False
    many = prod(extents[: kernel.row_axes]) >= STREAM_ROWS * hardware.multiprocessors
    dear = any(special_functions(part.element.lines) for phase in kernel.phases for part in phase.passes)
    return many and dear and contiguous(kernel) and finishes_at_once(kernel) and not _alone(kernel)


def _full(kernel: Kernel) -> list[int]:
    rows = row_loads(kernel)
    return [k for k in range(len(kernel.operands)) if k not in rows]


def row_width(kernel: Kernel) -> int:
    """Elements of a vector."""
    if kernel.steady:
        return kernel.steady
    if all(operand.access == "element" for operand in kernel.operands):
        return 1
    return vector_width([o.dtype for o in kernel.operands], [o.strides for o in kernel.operands])


def reach_of(kernel: Kernel, columns: int, width: int) -> int:
    """Columns that a row may cover once it is aligned down."""
    return columns + (width - 1 if any(o.access == "anchor" for o in kernel.operands) else 0)


def _resident(kernel: Kernel, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule | None:
    """A row in the registers of a block, or of a cluster's blocks where an SM would hold but one row."""
    width, columns = row_width(kernel), extents[-1]
    reach = reach_of(kernel, columns, width)
    per_element, once = per_element_of(kernel, width), dear_rows(kernel)
    longer = reach > columns or once or long_bodies(kernel, width)
    alone, single = _alone(kernel), None
    addresses = {x.value.name for x in kernel.pointers}
    fetching = any(v.name in addresses for phase in kernel.phases for v in phase.element.args)
    threads = _threads(reach, width, per_element, longer, once, reach > columns, most_threads(kernel, width))
    while threads is not None:
        cap = FETCHING if fetching else CROWDED if threads < FEW_THREADS else MOST_NEEDED
        found, need = _tiled(kernel, columns, reach, width, threads, 1, per_element, hardware)
        room = registers_for(hardware, 1, found.block)
        if need <= min(cap, room) or (found.vectors == 1 and need <= min(MOST_NEEDED, room)):
            if alone or _overlaps(kernel, columns, found, need, hardware):
                return found
            single = found if width < 8 else None
            break
        threads = threads * 2 if threads < hardware.block_threads else None
    return single if alone or fetching else _clustered(kernel, extents, reach, per_element, hardware) or single


def aim_of(width: int, longer: bool) -> int:
    """Elements of a thread."""
    return width * 8 if longer else max(width * 4, 16)


def most_threads(kernel: Kernel, width: int) -> int:
    """Threads of a row, beyond which waiting for each other costs more than larger tiles."""
    return 512 if width < 8 and _streamed(kernel) < 4 else 256


def _clustered(
    kernel: Kernel, extents: tuple[int, ...], reach: int, per_element: float, hardware: Hardware
) -> RowSchedule | None:
    """A row in the registers of blocks that share their SMs with those of other rows; None where that is too little.

    Measured on an H200, rows of 32768 … 262144: what an SM holds of all rows decides. With 128 KB it is at 1.00 … 0.95
    of the speed of a copy, with 96 KB at 0.99 … 0.90, with 64 KB at 0.83 … 0.62: below the speed of shared memory.
    Then small clusters are best, and of teams the larger one where weights are streamed beside the row (by 2-5 %), else
    the smaller one (by up to 12 %).
    """
    rows, columns, width = prod(extents[: kernel.row_axes]), extents[-1], row_width(kernel)
    scattered = width == 1 or any(kernel.operands[k].strides[-1] == "s" for k in _full(kernel))
    if hardware.cc < COPY_FROM or columns <= LONG_ROW or scattered or (reach > columns and not _dear(kernel)):
        return None
    teams = TEAMS if _streamed(kernel) else tuple(reversed(TEAMS))
    best, most = None, LEAST_ON_SM - 1
    for cluster in _clusters(hardware.cluster):
        for threads, blocks in teams:
            size = blocks * columns // cluster * max(kernel.operands[k].dtype.itemsize for k in _full(kernel))
            if size <= most or reach > VECTOR_CLASSES[-1] * width * threads * cluster:
                continue
            found, need = _tiled(kernel, columns, reach, width, threads, cluster, per_element, hardware, blocks)
            spare = SPARE if found.piece else 0 if width >= 8 or _streamed(kernel) else -SPARE
            if need <= registers_for(hardware, blocks, threads) + spare and rows * cluster >= hardware.multiprocessors:
                best, most = found, size
    return best


def per_element_of(kernel: Kernel, width: int) -> float:
    """Registers of an element that is held."""
    return max(words(held(kernel), packed=width > 1), words([kernel.operands[0].dtype], packed=width > 1))


def dear_rows(kernel: Kernel) -> bool:
    """Whether there is much to do once a row, which every thread does."""
    return sum(instructions(phase.row.lines) for phase in kernel.phases if phase.row is not None) >= ROW_WORK


def long_bodies(kernel: Kernel, width: int) -> bool:
    """Whether there is much to do for each element."""
    return element_work(kernel) >= LONG_BODIES * (1 if width >= 8 else len(_full(kernel)))


def _alone(kernel: Kernel) -> bool:
    """Whether a row has to be one block's: other blocks share its launch, or a row is put in order or scanned."""
    return kernel.part or any(phase.scans or phase.select or phase.ranks for phase in kernel.phases)


def _dear(kernel: Kernel) -> bool:
    """Whether a phase holds for later ones what takes special functions to compute again."""
    for number, phase in enumerate(kernel.phases[:-1]):
        made = {value.name for value in phase.element.results} - {value.name for value in phase.element.args}
        later = {value.name for other in kernel.phases[number + 1 :] for value in other.reads}
        if made & later and special_functions(phase.element.lines):
            return True
    return False


def _clusters(most: int) -> list[int]:
    return [size for size in (1, 2, 4, 8, 16) if size <= most]


def _tiled(
    kernel: Kernel,
    columns: int,
    reach: int,
    width: int,
    threads: int,
    cluster: int,
    per_element: float,
    hardware: Hardware,
    blocks: int = 0,
) -> tuple[RowSchedule, int]:
    """The schedule of a row in the registers of so many threads, and the registers that each of them needs.

    Where no `blocks` on an SM are asked for, as many as that leaves room for.
    """
    step = width * threads * cluster
    classes = LONG_CLASSES if columns > LONG_ROW else VECTOR_CLASSES
    vectors = next(v for v in classes if v * step >= reach)
    below = max((v for v in classes if v < vectors and v * step <= columns), default=0)
    rows = _rows(kernel, columns, threads, vectors, hardware) if threads <= WARP else 1
    later, split = later_of(kernel) * vectors, reach > columns
    limit = next(words for size, words in EARLY_WORDS.items() if threads <= size)
    early = later > 0 and (per_element * vectors + later) * width <= limit and not split
    piece = _piece(kernel, vectors, width) if (per_element * vectors + later) * width > PIECE_FROM else 0
    need = needed(kernel, Tiling(width, vectors, early, piece))
    blocks = blocks or blocks_for(hardware, need, threads * rows)
    registers = predicted(kernel, hardware, need, blocks, threads * rows)
    team = f"{threads} threads" if cluster == 1 else f"{threads} threads in each of a cluster of {cluster} blocks"
    reason = (
        f"a row of {columns} fits {team}: {vectors} vectors of {width} each, at most {registers} registers; "
        f"rows of {below * step + 1} to {vectors * step - (reach - columns)} may share it"
    )
    if early:
        reason += "; what later phases read is loaded with the row"
    found = RowSchedule(True, width, vectors, below, threads, rows, blocks, False, early, piece)
    return replace(found, cluster=cluster, reason=reason, registers=registers), need


def _overlaps(kernel: Kernel, columns: int, found: RowSchedule, need: int, hardware: Hardware) -> bool:
    """Whether an SM reads a row while it computes another; if not, a cluster or shared memory makes room for that.

    Measured on an H200 with rows of 64 KB, one in the registers of an SM at a time: 0.98 of the speed of a copy in
    float32 (0.87 where two arrays are streamed beside it), but 0.73 in bfloat16, which computes twice as long.
    """
    if hardware.cc < COPY_FROM or columns <= LONG_ROW or blocks_for(hardware, need, found.block) > 1:
        return True
    return found.width < 8 and _streamed(kernel) < STREAMS_MUCH


def _rows(kernel: Kernel, columns: int, threads: int, vectors: int, hardware: Hardware) -> int:
    """Rows of a block: as few as keep enough bytes in flight, so that rows end and begin at different times; but blocks
    that move more than is moved until the next one has begun."""
    block = max(WARP, IN_FLIGHT // (hardware.blocks * ACCESS_BYTES * vectors))
    if vectors == 1:  # so little work that blocks begin as fast as they end: pairs of float64 take 5 % longer
        block *= 2
    moved = columns * sum(kernel.operands[k].dtype.itemsize for k in _full(kernel))
    while block < LOOP_BLOCK and block // threads * moved < BLOCK_BYTES:
        block *= 2
    return max(1, block // threads)


def _piece(kernel: Kernel, vectors: int, width: int) -> int:
    """Vectors of a piece of the last phase; 0 where the phase is better, or has to be, worked on as a whole."""
    last, later = kernel.phases[-1], later_of(kernel)
    given = {value.name for value in last.element.args}
    simple = last.stores and not last.folds and not any(store.value in given for store in last.stores)
    if width < 8 or not later or not simple or given & {p.value.name for p in kernel.positions}:
        return 0
    pieces = -(-vectors // max(1, int(PIECE_WORDS / (later * width))))
    return -(-vectors // pieces)


def later_of(kernel: Kernel) -> float:
    """Registers an element of the loads that only a later phase needs."""
    first = {value.name for value in kernel.phases[0].element.args}
    rows = row_loads(kernel)
    later = [x.operand for x in kernel.loads if x.value.name not in first and x.operand not in rows]
    return words([kernel.operands[k].dtype for k in later], packed=True)


def _streamed(kernel: Kernel) -> float:
    """Registers an element that those take beside what is held: two vectors of each at a time."""
    return 2 * later_of(kernel)


def _threads(
    reach: int, width: int, per_element: float, longer: bool, once: bool, split: bool, most: int
) -> int | None:
    """Threads a row; None if its registers do not hold it.

    Measured on an H200: four vectors a thread (16 float32, 32 16-bit elements) keep enough loads in flight and enough
    rows on an SM (of float32, two are 1-2 % faster in teams up to 64); teams beyond 256 (512 for 4-byte elements)
    wait for each other more than larger tiles cost; a phase that streams two arrays beside the row wants the registers
    of 256. Rows whose vectors are split at the ends want few, long threads, since each checks its first and last
    vector; so do 16-bit rows with long bodies, and all with much to do once a row, which every thread does.
    """
    aim, slack = aim_of(width, longer), (1.25 if split else 1)
    threads = 1
    while threads < most and reach > slack * aim * threads:
        threads *= 2
    while threads < 64 and not (split or once) and width < 8 and reach > aim // 2 * threads:
        threads *= 2
    full = FULL_WORDS if per_element >= 1 else PACKED_WORDS
    while threads < 1024 and reach * per_element > slack * full * threads:
        threads *= 2
    held_words = -(-reach // (width * threads)) * width * per_element
    limit = next(words for size, words in HELD_WORDS.items() if threads <= size)
    return threads if held_words <= limit else None


def kept_operands(kernel: Kernel) -> list[int]:
    """Arrays that several phases read, in vectors that can be copied to shared memory as they are."""
    width, found = row_width(kernel), []
    for load in kernel.loads:
        operand = kernel.operands[load.operand]
        readers = sum(any(load.value in part.reads for part in phase.passes) for phase in kernel.phases)
        shared = operand.strides[kernel.row_axes if kernel.steady else 0 :]  # what rows share, too
        whole = operand.access != "element" and "0" not in shared and operand.strides[-1] == "1"
        if whole and readers > 1 and width * operand.dtype.itemsize in COPY_BYTES:
            found.append(load.operand)
    return found


def shared_bytes(schedule: RowSchedule, kernel: Kernel, columns: int) -> int:
    """Dynamic shared memory of a block whose team keeps its part of a row there."""
    if not schedule.shared:
        return 0
    turns = -(-reach_of(kernel, columns, schedule.width) // schedule.span)
    each = sum(kernel.operands[k].dtype.itemsize for k in kept_operands(kernel))
    return turns * schedule.vectors * schedule.width * schedule.threads * each


def _shared(kernel: Kernel, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule | None:
    """A row in the shared memory of a block or of a cluster's blocks, as few as let two of them share an SM.

    Measured on an H200: a row costs more the more blocks wait for each other (2 % with two, 6 % with four, 10 % with
    eight, 16 % with sixteen, of which an SM's group has no more than one or two), so the smallest cluster is best. Two
    blocks of the largest on an SM are slower than reading a row twice (softmax of 393,216 float32: 5398 and 4666 us).
    """
    columns, width = extents[-1], row_width(kernel)
    if hardware.cc < COPY_FROM or _alone(kernel) or not contiguous(kernel) or not kept_operands(kernel):
        return None
    made = [_shared_by(size, kernel, width, hardware) for size in _clusters(hardware.cluster)]
    needs = [shared_bytes(schedule, kernel, columns) for schedule in made]
    fits = [schedule for schedule, need in zip(made, needs) if need <= hardware.block_shared - SHARED_RESERVE]
    if not fits:
        return None
    ample = [s for s, need in zip(made, needs) if need + SHARED_RESERVE <= hardware.shared // 2]
    chosen = (ample or fits[-1:])[0]
    crowded = chosen.cluster == made[-1].cluster > 1 and needs[-1] > hardware.shared // SHARED_BLOCKS
    if crowded and len(kernel.phases) <= 2:
        return None
    where = "a block" if chosen.cluster == 1 else f"each of a cluster of {chosen.cluster} blocks"
    need = shared_bytes(chosen, kernel, columns)
    reason = (
        f"{columns} columns do not fit registers: {need} bytes of shared memory in {where} keep the row, "
        f"and phases loop over it there, {chosen.threads} threads each"
    )
    return replace(chosen, reason=reason)


def _shared_by(cluster: int, kernel: Kernel, width: int, hardware: Hardware) -> RowSchedule:
    vectors, threads = max(1, SHARED_ELEMENTS // width), SHARED_BLOCK
    need = needed(kernel, Tiling(width, vectors))
    blocks = min(SHARED_BLOCKS, blocks_for(hardware, need, threads))
    found = RowSchedule(False, width, vectors, 0, threads, 1, blocks)
    registers = predicted(kernel, hardware, need, blocks, threads)
    return replace(found, shared=True, cluster=cluster, registers=registers)


def _looped(kernel: Kernel, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule:
    columns, rows = prod(extents[kernel.row_axes :]), prod(extents[: kernel.row_axes])
    full = _full(kernel)
    inner = full and all(kernel.operands[k].strides[-1] != "1" for k in full)
    if inner and rows >= WARP:
        width, threads, across = 1, _loop_threads(columns, 32), True
    else:
        width, across = row_width(kernel), False
        most = MOST_STREAMING if finishes_at_once(kernel) else MOST_REREADING
        threads = _team(columns, rows, width * _loop_vectors(kernel, width), most, hardware)
    vectors = _loop_vectors(kernel, width)
    shared_rows = WARP if across else max(1, LOOP_BLOCK // threads) if threads <= WARP else 1
    need = needed(kernel, Tiling(width, vectors, ahead=not across))
    while threads > WARP and (
        need > registers_for(hardware, 1, threads * shared_rows)
        or threads * blocks_for(hardware, need, threads) < threads // 2 * blocks_for(hardware, need, threads // 2)
    ):
        threads //= 2
    blocks = blocks_for(hardware, need, threads * shared_rows)
    registers = predicted(kernel, hardware, need, blocks, threads * shared_rows)
    how = "neighbouring rows on neighbouring threads" if across else f"{threads} threads a row"
    if contiguous(kernel) and finishes_at_once(kernel):
        reason = f"rows of {columns} are read once: {how} stream them, the next tile under way"
    else:
        reason = f"{columns} columns do not stay in registers or are scattered: each phase loops over them, {how}"
    loop = RowSchedule(False, width, vectors, 0, threads, shared_rows, blocks, across)
    return replace(loop, reason=reason, registers=registers)


def _loop_vectors(kernel: Kernel, width: int) -> int:
    """Vectors of a tile: 64 bytes of loads a thread, and as many under way, which keep an SM's memory busy; twice that
    of one 16-bit array, if there are registers for it (measured on an H200: 4 % for rows of 16,384)."""
    if width == 1:
        return LOOP_ELEMENTS
    rows = row_loads(kernel)
    loads = sum(load.operand not in rows for load in kernel.loads)
    if loads <= 1:
        long = width >= 8 and needed(kernel, Tiling(width, 8, ahead=True)) <= LONG_TILE_NEED
        return 8 if long else 4
    return 2 if loads <= 3 else 1


def _team(columns: int, rows: int, tile: int, most: int, hardware: Hardware) -> int:
    """Threads that stream a row, `tile` elements of each at once; `most` for many rows. What is read again should be
    in few hands, so that part of it is still in L2.

    Many that read neighbouring places please the memory; few wait little for each other, and turn often (measured on
    an H200, bfloat16: rows of 16,384 take 136 us in warps, 138 in teams of 64, 144 of 128 and 182 of 256, which turn
    twice; two arrays of rows of 128,256 take 1037 us in warps and 960 in teams of 64; 4096 rows of 65,536 take 168 in
    warps, which come in little more than one wave, and 136 in teams of 128).
    """
    threads = 1
    while threads < WARP and columns > threads * tile:
        threads *= 2
    while threads >= WARP and threads < most and columns >= 2 * TURNS * threads * tile:
        threads *= 2
    places = hardware.multiprocessors * STREAMING
    while threads >= WARP and threads < 1024 and rows * threads < 2 * places and columns >= TURNS * threads * tile:
        threads *= 2
    return threads


def _loop_threads(pieces: int, most: int) -> int:
    threads = 1
    while threads < most and pieces >= 2 * LOOP_ELEMENTS * threads:
        threads *= 2
    return threads


def row_grid(schedule: RowSchedule, rows: int) -> int:
    """Blocks of the launch."""
    return max(1, -(-rows // schedule.rows)) * schedule.cluster
