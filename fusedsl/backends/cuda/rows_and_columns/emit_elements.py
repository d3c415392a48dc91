"""Elements of a row in row-and-column kernels: what a thread loads once, ahead or anew, computes, reduces, stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....kernel_ir.kernel import Load, Position
from ....kernel_ir.phase import Phase, Reduction, Store
from ..emit.intrinsic import Named
from ..emit.phase_emitter import UNDEFINED, PhaseEmitter, ReductionIntrinsics
from ..emit.source_builder import TILE, SourceBuilder
from ..peephole import rewritten
from ..tile import divide, load_value, reduce_tile, reduction, store_value, uniform
from .schedule import RowColumnSchedule


@dataclass
class RowColumnElements:
    """The elements of a row that a thread holds: loaded once for all rows, prefetched, carried, or loaded anew."""

    src: SourceBuilder
    schedule: RowColumnSchedule
    bases: dict[int, str] = field(default_factory=dict)  # operand -> variable: where its line begins
    once: list[Load] = field(default_factory=list)  # for all rows
    prefetched: list[Load] = field(default_factory=list)  # through shared memory
    carried: list[Load] = field(default_factory=list)  # loaded into registers while the row before is worked on
    anew: list[Load] = field(default_factory=list)  # in each phase

    row_function = uniform

    def __post_init__(self) -> None:
        self.kernel, self.index = self.src.kernel, self.src.kernel.index
        read = {v.name for phase in self.kernel.phases for v in phase.element.args}
        read |= {v.name for phase in self.kernel.phases if phase.row for v in phase.row.args}
        read |= {store.value for phase in self.kernel.phases for store in phase.row_stores}
        s, rows = self.schedule, self.kernel.row_operands
        for load in (load for load in self.kernel.loads if load.value.name in read):
            still = set(self.kernel.operands[load.operand].strides[: self.kernel.row_axes]) <= {"0"}
            if load.operand in s.prefetched:
                self.prefetched.append(load)
            elif still and (load.operand in s.hoisted or load.operand in rows):
                self.once.append(load)
            else:
                (self.anew if still else self.carried).append(load)

    def base(self, k: int, suffix: str = "") -> str:
        return self.bases[k] if self.bases[k] == self.src.names.pointer(k) else self.bases[k] + suffix

    def forget(self) -> None:
        """What stands in shared memory is read again in each phase rather than held in registers."""
        for load in self.prefetched + self.anew:
            self.src.ready.discard(load.value.name)
            self.src.wide.pop(load.value.name, None)

    def load(self, load: Load) -> None:
        if load in self.prefetched:
            self.src.stored[load.value.name] = self.kernel.operands[load.operand].dtype
            self.src.assign(load.value.name, f"load_{self.src.names.operand(load.operand)}(stage)")
        else:
            self.load_row(load)

    def load_row(self, load: Load, suffix: str = "") -> None:
        """A tile, or one value of a row, into registers."""
        src, name, k = self.src, load.value.name, load.operand
        dtype = self.kernel.operands[k].dtype
        src.ready.add(name)
        if k in self.kernel.row_operands:
            call = src.bind(f"load_{name}", load_value(dtype.name))(self.base(k, suffix))
        else:
            src.stored[name] = dtype
            kind, stride = src.access(k, self.schedule.width)
            read = src.bind(f"load_{name}", TILE.load(dtype.name, kind))
            call = read(self.base(k, suffix), "start", "columns", *stride)
        src.assign(f"{name}{suffix}", call)

    def position(self, position: Position) -> None:
        name, kind = position.value.name, position.value.dtype.name
        if position.axis < self.kernel.row_axes:
            self.src.assign(name, f"{kind}(row{position.axis})")
        else:
            self.src.assign(name, self.src.bind(f"at_{name}", TILE.positions(kind))("start"))

    def store(self, name: str, store: Store, value: str) -> str:
        kind, stride = self.src.access(store.operand, self.schedule.width)
        write = self.src.bind(name, TILE.store(self.kernel.operands[store.operand].dtype.name, kind))
        return write(self.base(store.operand), "start", value, "start", "columns", *stride)

    def store_row(self, name: str, store: Store) -> str:
        write = self.src.bind(name, store_value(self.kernel.operands[store.operand].dtype.name))
        return write(self.base(store.operand), store.value, "thread_in_row == 0")

    def compute(self, emitter: PhaseEmitter, number: int | str, phase: Phase) -> None:
        for value in phase.element.args:
            emitter.provide(value)
        self.src.map_body(f"phase_{number}", rewritten(self.kernel, phase))

    def define_reduction(self, use: Reduction, name: str) -> ReductionIntrinsics:
        """A reduction of rows."""
        src, op = self.src, self.reduce_op(use)
        reduce = src.bind(f"reduce_{name}", reduce_tile(TILE, op), src.functions)
        return ReductionIntrinsics(name, op, {"tile": reduce}, UNDEFINED)

    def reduce_op(self, use: Reduction) -> Named:
        """The combine and the identity as scalar functions, and the ReduceOp made of them."""
        src, merge, key = self.src, use.combine, reduction_key(use)
        lines = [*merge.lines, f"return {', '.join(v.name for v in merge.results)}"]
        combine = src.function("", f"combine_{key}", (v.name for v in merge.args), lines)
        identity = src.function("", f"identity_{key}", (), [f"return {', '.join(use.identity)}"])
        src.functions += ["", ""]
        kinds = ", ".join(value.dtype.name for value in use.accumulators)
        return src.bind(f"reduction_{key}", reduction(kinds, combine, identity), src.functions)

    def reduce(self, use: Reduction, intrinsics: ReductionIntrinsics) -> str:
        return intrinsics.reduce["tile"](*self.src.lifted(use), "start", "columns")

    # Rows.

    def find_row(self, row: str, suffix: str, operands: Sequence[int]) -> None:
        """Place a row: its index on each axis, and where it begins in the operands."""
        src, names, axes, rest = self.src, self.src.names, self.kernel.row_axes, row
        for axis in range(axes - 1, 0, -1):
            size = f"{self.index}({names.extent(axis)})"
            quotient = f"row0{suffix}" if axis == 1 else f"quotient{axis}{suffix}"
            src.assign(quotient, divide(rest, size, names.magic(axis)))
            src.assign(f"row{axis}{suffix}", f"{rest} - {quotient} * {size}")
            rest = quotient
        if axes == 1:
            src.assign(f"row0{suffix}", row)
        for k in operands:
            operand = self.kernel.operands[k]
            strided = [axis for axis in range(axes) if operand.strides[axis] == "s"]
            if strided:
                offset = " + ".join(f"row{axis}{suffix} * {names.stride(k, axis)}" for axis in strided)
                size = f" * {operand.dtype.itemsize}" if operand.dtype.itemsize > 1 else ""
                self.bases[k] = f"{names.operand(k)}_row"
                src.assign(f"{names.operand(k)}_row{suffix}", f"{names.pointer(k)} + ({offset}){size}")


def reduction_key(use: Reduction) -> str:
    """What tells a reduction from the others of its kernel."""
    return use.accumulators[0].name
