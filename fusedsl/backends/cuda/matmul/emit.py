"""Emits a matmul: a block accumulates an output tile from K-slices in shared memory, then runs the epilogue.

Any strides, bounds and alignment: each element is loaded from its own address if it is in bounds, and is 0 otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....ir.types import BOOL
from ....kernel_ir.instruction import Constant, Instruction
from ....kernel_ir.kernel import KernelIR, Position
from ....kernel_ir.matmul_axes import matmul_axes
from ....kernel_ir.phase import Body, Value
from ..elementwise import shared_bytes
from ..emit.source_text import TILE, SourceBuilder, header
from ..tile import Tile, TileIntrinsics, barrier
from . import (
    add_accumulators,
    k_slice_coordinates,
    multiply_k_slices,
    output_coordinates,
    scatter,
    store_k_slice,
    udiv64,
    zero_accumulators,
)
from .schedule import CHAIN, DEPTH, EDGE, PADDED, MatmulSchedule, unique_factors

PARTS = 4  # columns of a thread, which are finished one after another
SUMS = TileIntrinsics("sums")
ROW, COLUMN, STEP = "row", "column", "step"


def emit_matmul(kernel: KernelIR, schedule: MatmulSchedule) -> str:
    """The generated file of a kernel that sums products."""
    return MatmulEmitter(kernel, schedule).source()


class MatmulEmitter:
    def __init__(self, kernel: KernelIR, schedule: MatmulSchedule):
        found = matmul_axes(kernel)
        assert found is not None
        self.kernel, self.schedule, self.sides = kernel, schedule, found
        self.src = SourceBuilder(kernel)
        steps = tuple(range(kernel.row_axes, kernel.axes))
        self.axes = {ROW: found.rows, COLUMN: found.columns, STEP: steps}
        self.packed = unique_factors(found)
        self.folds = kernel.phases[0].folds

    def source(self) -> str:
        src = self.src
        src.bind("tile", Tile(width=1, vectors=4, step=1, checks="...."))
        src.read_scalars()
        self._find_square()
        for k, (_, body) in enumerate(self.packed):
            strip = src.bind(f"strip{k}", shared_bytes(DEPTH * PADDED * body.results[0].dtype.itemsize))
            src.assign(f"strip{k}_at", strip())
        self._sum()
        for part in range(PARTS):
            self._finish(part)
        opening = header(self.kernel, f"products of matrices; each block computes {EDGE} × {EDGE} elements", "")
        return src.text(opening, "Sum the products of strips, step by step; then finish the square's elements.")

    # -- where the block stands

    def _find_square(self) -> None:
        """Split the block's number into a batch and a square, and find each operand's first element."""
        src, names = self.src, self.src.names
        for kind, axes in self.axes.items():
            src.assign(f"{kind}s", " * ".join(names.extent(a) for a in axes))
        src.assign("rest", f"int64({src.block})")
        for kind in (COLUMN, ROW):
            src.assign(f"{kind}_squares", f"({kind}s + {EDGE - 1}) >> {EDGE.bit_length() - 1}")
            src.assign("further", udiv64("rest", f"{kind}_squares"))
            src.assign(f"{kind}_from", f"(rest - further * {kind}_squares) * {EDGE}")
            src.assign("rest", "further")
        src.emit(*self._split("rest", self.sides.batch))
        for k, operand in enumerate(self.kernel.operands):
            offset, pointer = self._offset(k, self.sides.batch), names.pointer(k)
            src.assign(self._base(k), f"{pointer} + ({offset}) * {operand.dtype.itemsize}" if offset else pointer)
        for p in self.kernel.positions:
            if p.axis in self.sides.batch:
                src.assign(p.value.name, f"{p.value.dtype.name}(c{p.axis})")

    def _base(self, k: int) -> str:
        return f"{self.src.names.operand(k)}_base"

    def _split(self, number: str, axes: Sequence[int]) -> list[str]:
        """Lines that split a number into positions c0, c1 … on axes."""
        lines = []
        for a in reversed(axes):
            if a == axes[0]:
                lines.append(f"c{a} = {number}")
                continue
            size = self.src.names.extent(a)
            lines += [f"q{a} = {udiv64(number, size)}", f"c{a} = {number} - q{a} * {size}"]
            number = f"q{a}"
        return lines

    def _offset(self, k: int, axes: Iterable[int]) -> str:
        """The offset of an operand at the positions on axes, in elements; "" for none."""
        letters = self.kernel.operands[k].strides
        terms = {"1": "c{0}", "s": "c{0} * {1}"}
        found = [terms[letters[a]].format(a, self.src.names.stride(k, a)) for a in axes if letters[a] != "0"]
        return " + ".join(found)

    def _strides(self, k: int, axes: Iterable[int]) -> list[str]:
        letters = self.kernel.operands[k].strides
        return [self.src.names.stride(k, a) for a in axes if letters[a] == "s"]

    def _place(self, name: str, kinds: tuple[str, str], operands: Sequence[int], positions: Sequence[Position]) -> None:
        """The addresses and positions of two indices within the square, by a function of these and others."""
        axes = [a for kind in kinds for a in self.axes[kind]]
        several = [self.src.names.extent(a) for kind in kinds for a in self.axes[kind][1:]]
        taken = [s for k in operands for s in self._strides(k, axes)]
        arguments = [*(f"{kind}_from" for kind in kinds), *(f"{kind}s" for kind in kinds), *several, *taken]
        arguments += [self._base(k) for k in operands]
        arguments = list(dict.fromkeys(arguments))
        lines = [f"{kind}_number = {kind}_from + {kind}" for kind in kinds]
        lines.append("wanted = " + " & ".join(f"({kind}_number < {kind}s)" for kind in kinds))
        for kind in kinds:
            lines += self._split(f"{kind}_number", self.axes[kind])
        for k in operands:
            offset, size = self._offset(k, axes), self.kernel.operands[k].dtype.itemsize
            lines.append(f"{self._address(k)} = {self._base(k)}" + (f" + ({offset}) * {size}" if offset else ""))
        lines += [f"{p.value.name} = {p.value.dtype.name}(c{p.axis})" for p in positions]
        results = ["wanted", *(self._address(k) for k in operands), *(p.value.name for p in positions)]
        types = ["bool", *("int64" for _ in operands), *(p.value.dtype.name for p in positions)]
        given = [*kinds, *arguments]
        decorator = TILE.elementwise(f"{', '.join(['int64'] * len(given))} -> {', '.join(types)}")
        place = self.src.function(decorator, name, given, [*lines, f"return {', '.join(results)}"])
        self.src.assign(", ".join(results), place(*(f"{kind}s_here" for kind in kinds), *arguments))

    def _address(self, k: int) -> str:
        return f"{self.src.names.operand(k)}_address"

    # -- values

    def _read(self, names: set[str], kinds: tuple[str, str], function: str) -> None:
        """Give the loads and positions of these names their values at the places at hand."""
        loads = [load for load in self.kernel.loads if load.value.name in names]
        axes = {a for kind in kinds for a in self.axes[kind]}
        positions = [p for p in self.kernel.positions if p.value.name in names and p.axis in axes]
        operands = sorted({load.operand for load in loads} | self._stored(function))
        self._place(function, kinds, operands, positions)
        for load in loads:
            name, kind = load.value.name, self.kernel.operands[load.operand].dtype
            self.src.stored[name] = kind
            gather = self.src.bind(f"{name}_gather", TILE.gather(kind.name))
            self.src.assign(name, gather(self._address(load.operand), "wanted"))

    def _stored(self, function: str) -> set[int]:
        return {store.operand for store in self.kernel.phases[0].row_stores} if function == "find_element" else set()

    # -- the sums

    def _sum(self) -> None:
        """Products of strips, in chains whose sums are added up."""
        src, multiplications = self.src, []
        for k, use in enumerate(self.folds):
            makers = {"none": zero_accumulators, "add": add_accumulators, "multiply": multiply_k_slices}
            dtype = use.accumulators[0].dtype.name
            none, add, multiply = src.bind_several({f"{name}{k}": maker(dtype) for name, maker in makers.items()})
            multiplications.append((f"products{k}", none, add, multiply))
            src.assign(f"total{k}", none())
        src.assign("step_from", "int64(0)")
        with src.while_("step_from < steps"):
            for products, none, *_ in multiplications:
                src.assign(products, none())
            src.assign("chain", f"minimum(step_from + {CHAIN}, steps)")
            with src.while_("step_from < chain"):
                for k, (kind, body) in enumerate(self.packed):
                    self._strip(k, kind, body)
                src.emit(barrier())
                for (products, _, _, multiply), pair in zip(multiplications, self.sides.factors):
                    left, right = (self.packed.index(one) for one in zip((ROW, COLUMN), pair))
                    src.assign(products, multiply(f"strip{left}_at", f"strip{right}_at", products))
                src.emit(barrier(), f"step_from += {DEPTH}")
            for k, (products, _, add, _) in enumerate(multiplications):
                src.assign(f"total{k}", add(f"total{k}", products))

    def _strip(self, k: int, kind: str, body: Body) -> None:
        """Compute this thread's elements of a factor, and put them into shared memory."""
        src, along, dtype = self.src, self.schedule.k_contiguous[k], body.results[0].dtype
        made = {f"places{k}": k_slice_coordinates(along), f"put{k}": store_k_slice(dtype.name, along)}
        places, put = src.bind_several(made)
        src.assign(f"{kind}s_here, steps_here", places())
        self._read({v.name for v in body.args}, (kind, STEP), f"find{k}")
        value = f"factor{k}"
        kept = Instruction(value, "where", ("wanted", body.results[0].name, Constant(dtype, "0")), dtype)
        whole = Body((*body.args, Value("wanted", BOOL)), (Value(value, dtype),), (*body.instructions, kept))
        src.apply(TILE.elementwise, f"compute{k}", whole)
        src.emit(put(f"strip{k}_at", value))

    # -- after the sums

    def _finish(self, part: int) -> None:
        """What follows the sums, for the elements of one of a thread's columns."""
        src, phase = self.src, self.kernel.phases[0]
        body = phase.row or Body((), (), ())
        src.bind("sums", Tile(width=1, vectors=16, step=1, checks="." * 16))
        made = {f"places_of{part}": output_coordinates(part), f"take{part}": SUMS.slice(4 * part, 4)}
        places, take = src.bind_several(made)
        src.wide.clear()
        src.assign("rows_here, columns_here", places())
        self._read({v.name for v in body.args} | {s.value for s in phase.row_stores}, (ROW, COLUMN), "find_element")
        for k, use in enumerate(self.folds):
            src.assign(use.accumulators[0].name, take(f"total{k}"))
        src.apply(TILE.elementwise, "finish", body)
        for number, store in enumerate(phase.row_stores):
            dtype = self.kernel.operands[store.operand].dtype
            write = src.bind(f"store{number}", scatter(TILE, dtype.name))
            src.emit(write(self._address(store.operand), src.element(store.value), "wanted"))
