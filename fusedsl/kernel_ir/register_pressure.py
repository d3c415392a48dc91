"""How many registers a thread needs: a kernel's tiles and bodies walked in the order in which they are written.

A value of a body stands for a tile: as many registers as a thread has elements. Loads arrive one after the other and
are worked on as far as what is there allows; equal lines of two phases are one value, as the compiler makes them, and
so are the widened forms of a 16-bit load. Calibrated on kernels of random programs (benchmarks/registers.py): the
least registers with which the compiler spills nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..hardware import Hardware, registers_for
from ..ir.types import DType
from .instruction import Instruction
from .instruction_cost import instruction_cost, total_cost, varying
from .kernel import KernelIR
from .liveness import last_uses, register_count
from .phase import Body, Phase

BASE = 14  # registers beside tiles and bodies: addresses, counters, the state of a fold
TILED = 8  # registers beside a loop whose states are counted
LOOPED = 16  # registers beside a loop over columns: carried states, and the rest of the row
PLACED = 3  # registers for each vector that is addressed along several axes
FLOAT64 = 8  # registers for the slow paths of float64 functions
PACKED_FROM = 48  # elements of a thread from which on 16-bit rows stay packed
STREAMED = 2  # vectors of a load that are on their way while others are worked on
SLOW = {"divide", "sqrt", "sin", "cos", "tan", "power", "fmod", "remainder", "floor_divide", "cbrt", "hypot", "lgamma"}
SLOW |= {"arctan2"}
SPARE = 10  # what the compiler takes at least beyond the need of a map with functions or narrow elements, where it may
BYTE_SHARE = 1.45  # factor on a map over 1-byte elements, four of which it unpacks at once
ROW_SPARE, ROW_SHARE = 12, 1.5  # registers, and a factor, on rows, whose phases are interleaved


@dataclass(frozen=True)
class Tiling:
    """What of a schedule decides how many registers are live: `vectors` of `width` elements a thread.

    `load_all_first` loads everything before the first phase; `epilogue_vectors` is how many vectors the last phase
    takes at a time. Where `prefetch`, the next tile of a loop is loaded while one is worked on.
    """

    width: int
    vectors: int
    load_all_first: bool = False
    epilogue_vectors: int = 0
    prefetch: bool = False

    @property
    def elements(self) -> int:
        return self.width * self.vectors


def instructions_per_element(kernel: KernelIR) -> int:
    """Instructions an element of all bodies and folds."""
    fixed = [value.name for value in kernel.scalars]
    bodies = [varying(phase.element.instructions, fixed) for phase in kernel.phases]
    merges = [fold.combine.instructions for phase in kernel.phases for fold in phase.folds]
    return sum(map(total_cost, (*bodies, *merges)))


def required_registers(kernel: KernelIR, tiling: Tiling) -> int:
    """Registers of a thread that make it possible to spill nothing."""
    phases = tuple(part for phase in kernel.phases for part in phase.passes)
    reloads = not kernel.resident  # each phase loads anew
    if reloads:
        most = max(
            _most(kernel, phase.passes, tiling) + _running(phase) + tiling.prefetch * _next(kernel, phase, tiling)
            for phase in kernel.phases
        )
    else:
        most = _most(kernel, phases, tiling)
    split = any(operand.access == "peeled" for operand in kernel.operands)
    has_index = kernel.axes > 1 and not kernel.row_axes
    wide = any(v.dtype.bits == 64 and v.dtype.kind == "f" for phase in phases for v in phase.results)
    extra = 2 * tiling.width * split + PLACED * tiling.vectors * has_index + FLOAT64 * wide
    if reloads and kernel.row_axes > 0:
        extra += TILED if any(phase.tile_phases for phase in kernel.phases) else LOOPED
    return round(BASE + most + extra)


def folding_registers(kernel: KernelIR, tiling: Tiling) -> int:
    """The same of a loop over tiles: where it only folds elements of a byte, all vectors but one stay packed."""
    sizes = [kernel.operands[x.operand].dtype.itemsize for x in kernel.element_loads]
    if tiling.prefetch or kernel.resident or set(sizes) != {1} or any(phase.stores for phase in kernel.phases):
        return required_registers(kernel, tiling)
    others = (tiling.vectors - 1) * max(1, tiling.width // 4) * len(sizes)
    return required_registers(kernel, replace(tiling, vectors=1)) + others


def row_share(need: int) -> int:
    """Registers that the compiler takes for a row at most, where it may, of a thread that needs so many."""
    return round(ROW_SHARE * need) + ROW_SPARE


def predicted_registers(kernel: KernelIR, hardware: Hardware, need: int, blocks: int, threads: int) -> int:
    """Registers of a thread at most: what so many blocks leave it, if it can use that.

    Of a map, the compiler may begin the next element's body before it ends one: the values of another are alive then.
    """
    bodies = [body for phase in kernel.phases for body in phase.bodies]
    sizes = [operand.dtype.itemsize for operand in kernel.operands]
    plain = min(sizes, default=4) >= 4 and not any(map(has_functions, bodies))
    if kernel.row_axes:
        useful = row_share(need)
    else:
        spare = max(max(map(body_registers_of, bodies)), SPARE * (not plain))
        useful = max(need + spare, round(BYTE_SHARE * need) * (1 in sizes))
    return min(registers_for(hardware, blocks, threads), useful)


def stays_packed(kernel: KernelIR, dtype: DType, width: int, vectors: int) -> bool:
    """Whether resident rows of this type stay packed in pairs between phases, which widen them again.

    That takes instructions, of which rows that are not aligned have none to spare, and short ones better uses: on an
    H200 layer norm over bfloat16 rows of 4096 is 3 % slower for it, over rows of 16384 5 % faster.
    """
    packed = register_count([dtype], packed=width > 1) < 1 and width * vectors >= PACKED_FROM
    return packed and kernel.row_axes > 0 and not any(operand.access == "peeled" for operand in kernel.operands)


def _running(phase: Phase) -> float:
    """The joint state of a phase that is worked tile by tile, beside the tile's own."""
    return register_count([v.dtype for use in phase.folds for v in use.accumulators]) if phase.tile_phases else 0


def _next(kernel: KernelIR, phase: Phase, tiling: Tiling) -> float:
    """The words of a phase's next tile."""
    read = {value.name for part in phase.passes for value in part.reads}
    loads = [x for x in kernel.element_loads if x.value.name in read]
    return tiling.elements * register_count([kernel.operands[x.operand].dtype for x in loads], packed=tiling.width > 1)


def _most(kernel: KernelIR, phases: Sequence[Phase], tiling: Tiling) -> float:
    """The most words that phases hold, the body of one element included."""
    values = _Values(kernel, phases, tiling)
    return max(
        _live_words(values, number) + max(map(body_registers_of, phase.bodies)) for number, phase in enumerate(phases)
    )


class _Values:
    """Element values of phases: the words of each, the phase that makes it, the last one that reads it, its steps."""

    def __init__(self, kernel: KernelIR, phases: Sequence[Phase], tiling: Tiling):
        self.kernel, self.phases, self.tiling = kernel, phases, tiling
        self.loads = {x.value.name: kernel.operands[x.operand] for x in kernel.element_loads}
        self.sizes: dict[str, float] = {}
        self.begin: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.names: list[dict[str, str]] = []  # by phase: what stands for a name of its body
        self.steps: list[list[tuple[str, list[str]]]] = []  # by phase: (value, what it is computed from)
        self._known: dict[tuple[int | None, Instruction], str] = {}  # values of instructions, by what they compute
        for number in range(len(phases)):
            self._read_phase(number)

    def _read_phase(self, number: int) -> None:
        phase = self.phases[number]
        self.names.append({})
        self.steps.append([])
        for body, step in zip(phase.bodies, (None, *phase.scans)):
            for use in step.scans if step is not None else ():
                read = [self._read(value.name, number) for value in use.inputs]
                for state in use.accumulators:
                    self._make(state.name, register_count([state.dtype]), read, number)
            self._read_body(body, number)
        for store in phase.stores:
            self._use(self.names[number].get(store.value, store.value), number, computed=False)
        for lifted in (value for fold in phase.folds for value in fold.inputs):
            self._read(lifted.name, number)

    def _read_body(self, body: Body, number: int) -> None:
        names = self.names[number]
        kinds = {value.name: value.dtype for value in (*body.args, *body.results)}
        for i in body.instructions:
            again = number if any(map(self._widened_again, i.names)) else None
            form = (again, replace(i, target="", args=i.renamed(names).args, comment=""))
            if form in self._known:
                names[i.target] = self._known[form]
                continue
            read = [self._read(name, number) for name in i.names]
            size = register_count([kinds[i.target]]) if i.target in kinds else 1
            self._known[form] = self._make(i.target, size, read, number)

    def _make(self, name: str, size: float, read: list[str], number: int) -> str:
        """A value of its own for a name of a phase, computed from others."""
        value = name if name not in self.begin else f"{name}@{number}"
        self.names[number][name], self.begin[value], self.sizes[value] = value, number, size
        self.steps[number].append((value, read))
        return value

    def _read(self, name: str, number: int) -> str:
        return self._use(self.names[number].get(name, name), number, computed=True)

    def _use(self, name: str, number: int, computed: bool) -> str:
        """The value that is read: of a 16-bit load that is computed with, its widened form."""
        if name in self.loads:
            name = self._load(name, self.loads[name].dtype, number, computed)
        if name in self.begin:
            self.last[name] = max(self.last.get(name, 0), number)
        return name

    def _load(self, name: str, dtype: DType, number: int, computed: bool) -> str:
        self.sizes[name] = register_count([dtype], packed=self.tiling.width > 1)
        self.begin.setdefault(name, 0 if self.tiling.load_all_first else number)
        unpacked = self.tiling.epilogue_vectors and number == len(self.phases) - 1
        if not computed or dtype is dtype.compute or unpacked:
            return name
        wide = f"{name} widened"
        if self._widened_again(name):
            wide += f" by {number}"
        self.sizes[wide] = register_count([dtype.compute])
        if self.begin.setdefault(wide, number) == number:
            self.steps[number].append((wide, [name]))
        self.last[name] = max(self.last.get(name, 0), self.begin[wide])
        return wide

    def _widened_again(self, name: str) -> bool:
        return name in self.loads and stays_packed(
            self.kernel, self.loads[name].dtype, self.tiling.width, self.tiling.vectors
        )

    def here(self, number: int, names: Iterable[str]) -> set[str]:
        """Those of the names of a phase that it makes itself."""
        own = {self.names[number].get(name, name) for name in names}
        return {name for name in own if self.begin.get(name) == number}

    def total(self, names: Iterable[str], elements: int) -> float:
        return elements * sum(self.sizes[name] for name in names)

    def arriving(self, number: int, live_in: set[str], fresh: Sequence[str], wanted: set[str]) -> float:
        """Words live while the loads of a phase arrive."""
        count, width = self.tiling.elements, self.tiling.width
        missing, most = set(fresh), self.total(live_in, count)
        for name in fresh:
            there = live_in | (set(fresh) - missing)
            worked = self.total(self._frontier(number, missing, there, wanted), count)
            missing.discard(name)
            coming = min(count, STREAMED * width) * max(1.0, self.sizes[name]) + self.total(missing, width)
            most = max(most, min(worked, self.total(there, count)) + coming)
        return most

    def _frontier(self, number: int, missing: set[str], there: set[str], wanted: set[str]) -> set[str]:
        """What is there, or computed of that, and still read once the missing loads have come."""
        late, early = set(missing), set(there)
        for value, read in self.steps[number]:
            (late if late & set(read) else early).add(value)
        needed = {name for value, read in self.steps[number] if value in late for name in read} | wanted
        later = {name for name in there if self.last.get(name, -1) > number}
        return {name for name in early & (needed | later) if name in self.sizes}


def _live_words(values: _Values, number: int) -> float:
    """The most words that a phase holds: while its loads arrive, or when all that it makes is there."""
    phase, tiling, count = values.phases[number], values.tiling, values.tiling.elements
    final = number == len(values.phases) - 1 and number > 0
    live_in = {n for n, begin in values.begin.items() if begin < number <= values.last.get(n, -1)}
    live_out = {n for n, begin in values.begin.items() if begin <= number < values.last.get(n, -1)}
    stored = values.here(number, (s.value for s in phase.stores)) - live_out - set(values.loads)
    fresh = [n for n in values.loads if values.begin.get(n) == number]
    if final and tiling.epilogue_vectors:
        piece = tiling.epilogue_vectors * tiling.width
        computed_words = values.total(stored, piece) / (1 if any(map(has_slow_functions, phase.bodies)) else 2)
        return values.total(live_in, count) + max(values.total(fresh, piece), computed_words)
    after = values.total(live_out | stored, count)
    if number == 0:  # all of its loads are to be in flight at once
        doubles = any(values.sizes[n] > 1 for n in fresh) and any(map(has_slow_functions, phase.bodies))
        looped = doubles and not values.kernel.resident
        return max(values.total(live_in | set(fresh) | (stored if looped else set()), count), after)
    plain = max(values.arriving(number, live_in, fresh, live_out | stored), after)
    if not any(map(has_slow_functions, phase.bodies)) or any(values.sizes[n] > 1 for n in (*live_in, *fresh)):
        return plain
    results = values.here(number, (v.name for v in phase.results)) - set(values.loads)
    every = values.total(live_in | set(fresh) | results | live_out | stored, count)
    return every if all(values.sizes[n] >= 1 for n in fresh) else (plain + every) / 2


def has_slow_functions(body: Body) -> bool:
    """Whether a body has slow paths: the compiler moves no work across them, and holds what goes in and comes out."""
    return any(i.op in SLOW for i in body.instructions)


def has_functions(body: Body) -> bool:
    """Whether a body calls more than conversions: what is longer than an instruction holds values of its own."""
    return any(instruction_cost(i) > 2 for i in body.instructions)


def body_registers_of(body: Body) -> int:
    """The most words of a scalar body's own values alive at once, its lines in order; its arguments are not counted."""
    last = last_uses(body)
    alive: set[str] = set()
    most = 0
    for number, i in enumerate(body.instructions):
        alive.add(i.target)
        most = max(most, len(alive))
        alive = {name for name in alive if last.get(name, -1) > number}
    return most * (2 if any(v.dtype.bits == 64 for v in (*body.args, *body.results)) else 1)
