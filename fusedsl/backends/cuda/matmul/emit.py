"""Emits a matmul: a block accumulates an output tile from K-slices in shared memory, then runs the epilogue.

Any strides, bounds and alignment: each element is loaded from its own address if it is in bounds, and is 0 otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....ir.types import BOOL
from ....kernel_ir.instruction import Constant, Instruction
from ....kernel_ir.kernel import KernelIR, Load, Position
from ....kernel_ir.matmul_axes import matmul_axes
from ....kernel_ir.phase import Body, Value
from ..emit.source_text import SourceBuilder, header, indented
from .schedule import CHAIN, DEPTH, EDGE, PADDED, MatmulSchedule, unique_factors

PARTS = 4  # columns of a thread, which are finished one after another
ROW, COLUMN, STEP = "row", "column", "step"


def emit_matmul(kernel: KernelIR, schedule: MatmulSchedule) -> str:
    """The generated file of a kernel that sums products."""
    return MatmulEmitter(kernel, schedule).source()


class MatmulEmitter:
    def __init__(self, kernel: KernelIR, schedule: MatmulSchedule):
        found = matmul_axes(kernel)
        assert found is not None
        self.kernel, self.schedule, self.sides = kernel, schedule, found
        self.scope = SourceBuilder(kernel)
        steps = tuple(range(kernel.row_axes, kernel.axes))
        self.axes = {ROW: found.rows, COLUMN: found.columns, STEP: steps}
        self.packed = unique_factors(found)
        self.folds = kernel.phases[0].folds

    def source(self) -> str:
        scope = self.scope
        scope.top.append('tile = Tile(width=1, vectors=4, step=1, checks="....")')
        scope.read_scalars()
        self._find_square()
        for k, (_, body) in enumerate(self.packed):
            scope.top.append(f"strip{k} = shared_bytes({DEPTH * PADDED * body.results[0].dtype.itemsize})")
            scope.code.append(f"strip{k}_at = strip{k}()")
        self._sum()
        for part in range(PARTS):
            self._finish(part)
        opening = header(self.kernel, f"products of matrices; each block computes {EDGE} × {EDGE} elements", "")
        return scope.text(opening, "Sum the products of strips, step by step; then finish the square's elements.")

    # -- where the block stands

    def _find_square(self) -> None:
        """Split the block's number into a batch and a square, and find each operand's first element."""
        names, code = self.scope.names, self.scope.code
        for kind, axes in self.axes.items():
            code.append(f"{kind}s = " + " * ".join(names.extent(a) for a in axes))
        code.append(f"rest = int64({self.scope.block})")
        for kind in (COLUMN, ROW):
            code.append(f"{kind}_squares = ({kind}s + {EDGE - 1}) >> {EDGE.bit_length() - 1}")
            code.append(f"further = udiv64(rest, {kind}_squares)")
            code.append(f"{kind}_from = (rest - further * {kind}_squares) * {EDGE}")
            code.append("rest = further")
        code += self._split("rest", self.sides.batch)
        for k, operand in enumerate(self.kernel.operands):
            offset = self._offset(k, self.sides.batch)
            size = operand.dtype.itemsize
            code.append(f"{self._base(k)} = {names.pointer(k)}" + (f" + ({offset}) * {size}" if offset else ""))
        for p in self.kernel.positions:
            if p.axis in self.sides.batch:
                code.append(f"{p.value.name} = {p.value.dtype.name}(c{p.axis})")

    def _base(self, k: int) -> str:
        return f"{self.scope.names.operand(k)}_base"

    def _split(self, number: str, axes: Sequence[int]) -> list[str]:
        """Lines that split a number into positions c0, c1 … on axes."""
        lines = []
        for a in reversed(axes):
            if a == axes[0]:
                lines.append(f"c{a} = {number}")
                continue
            size = self.scope.names.extent(a)
            lines += [f"q{a} = udiv64({number}, {size})", f"c{a} = {number} - q{a} * {size}"]
            number = f"q{a}"
        return lines

    def _offset(self, k: int, axes: Iterable[int]) -> str:
        """The offset of an operand at the positions on axes, in elements; "" for none."""
        letters = self.kernel.operands[k].strides
        terms = {"1": "c{0}", "s": "c{0} * {1}"}
        found = [terms[letters[a]].format(a, self.scope.names.stride(k, a)) for a in axes if letters[a] != "0"]
        return " + ".join(found)

    def _strides(self, k: int, axes: Iterable[int]) -> list[str]:
        letters = self.kernel.operands[k].strides
        return [self.scope.names.stride(k, a) for a in axes if letters[a] == "s"]

    def _place(self, name: str, kinds: tuple[str, str], operands: Sequence[int], positions: Sequence[Position]) -> str:
        """Write the function from two indices within the square to addresses and positions; its further arguments."""
        axes = [a for kind in kinds for a in self.axes[kind]]
        several = [self.scope.names.extent(a) for kind in kinds for a in self.axes[kind][1:]]
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
        decorator = f'@tile.elementwise("{", ".join(["int64"] * len(given))} -> {", ".join(types)}")'
        head = ["", "", decorator, f"def {name}({', '.join(given)}):"]
        self.scope.define([*head, *indented([*lines, f"return {', '.join(results)}"])])
        call = f"{name}({', '.join([*(f'{kind}s_here' for kind in kinds), *arguments])})"
        return f"{', '.join(results)} = {call}"

    def _address(self, k: int) -> str:
        return f"{self.scope.names.operand(k)}_address"

    # -- values

    def _read(self, names: set[str], kinds: tuple[str, str], function: str) -> list[str]:
        """Lines that give the loads and positions of these names their values at the places at hand."""
        loads = [load for load in self.kernel.loads if load.value.name in names]
        axes = {a for kind in kinds for a in self.axes[kind]}
        positions = [p for p in self.kernel.positions if p.value.name in names and p.axis in axes]
        operands = sorted({load.operand for load in loads} | self._stored(function))
        lines = [self._place(function, kinds, operands, positions)]
        return lines + [self._gathered(load) for load in loads]

    def _stored(self, function: str) -> set[int]:
        return {store.operand for store in self.kernel.phases[0].row_stores} if function == "find_element" else set()

    def _gathered(self, load: Load) -> str:
        name, kind = load.value.name, self.kernel.operands[load.operand].dtype
        self.scope.stored[name] = kind
        define = f'{name}_gather = tile.gather("{kind.name}")'
        if define not in self.scope.top:
            self.scope.top.append(define)
        return f"{name} = {name}_gather({self._address(load.operand)}, wanted)"

    # -- the sums

    def _sum(self) -> None:
        """Products of strips, in chains whose sums are added up."""
        code, names = self.scope.code, [f"products{k}" for k in range(len(self.folds))]
        for k, use in enumerate(self.folds):
            d = use.accumulators[0].dtype.name
            makers = ", ".join(
                f'{name}("{d}")' for name in ("zero_accumulators", "add_accumulators", "multiply_k_slices")
            )
            self.scope.top.append(f"none{k}, add{k}, multiply{k} = {makers}")
            code.append(f"total{k} = none{k}()")
        strips: list[str] = []
        self.scope.code = strips
        for k, (kind, body) in enumerate(self.packed):
            self._strip(k, kind, body)
        strips.append("barrier()")
        for k, pair in enumerate(self.sides.factors):
            left, right = (self.packed.index(one) for one in zip((ROW, COLUMN), pair))
            strips.append(f"{names[k]} = multiply{k}(strip{left}_at, strip{right}_at, {names[k]})")
        strips += ["barrier()", f"step_from += {DEPTH}"]
        chain = [f"{name} = none{k}()" for k, name in enumerate(names)]
        chain += [f"chain = minimum(step_from + {CHAIN}, steps)", "while step_from < chain:", *indented(strips)]
        chain += [f"total{k} = add{k}(total{k}, {name})" for k, name in enumerate(names)]
        self.scope.code = code
        code += ["step_from = int64(0)", "while step_from < steps:", *indented(chain)]

    def _strip(self, k: int, kind: str, body: Body) -> None:
        """Compute this thread's elements of a factor, and put them into shared memory."""
        scope, along, d = self.scope, self.schedule.k_contiguous[k], body.results[0].dtype
        scope.top.append(f'places{k}, put{k} = k_slice_coordinates({along}), store_k_slice("{d.name}", {along})')
        scope.code.append(f"{kind}s_here, steps_here = places{k}()")
        scope.code += self._read({v.name for v in body.args}, (kind, STEP), f"find{k}")
        value = f"factor{k}"
        kept = Instruction(value, "where", ("wanted", body.results[0].name, Constant(d, "0")), d)
        whole = Body((*body.args, Value("wanted", BOOL)), (Value(value, d),), (*body.instructions, kept))
        scope.map_plain(f"compute{k}", whole, tile="tile")
        scope.code.append(f"put{k}(strip{k}_at, {value})")

    # -- after the sums

    def _finish(self, part: int) -> None:
        """What follows the sums, for the elements of one of a thread's columns."""
        scope, phase = self.scope, self.kernel.phases[0]
        body = phase.row or Body((), (), ())
        scope.top.append(f"places_of{part}, take{part} = output_coordinates({part}), sums.slice({4 * part}, 4)")
        if not part:
            scope.top.insert(-1, 'sums = Tile(width=1, vectors=16, step=1, checks="................")')
        scope.wide.clear()
        scope.code.append(f"rows_here, columns_here = places_of{part}()")
        names = {v.name for v in body.args} | {store.value for store in phase.row_stores}
        scope.code += self._read(names, (ROW, COLUMN), "find_element")
        scope.code += [f"{use.accumulators[0].name} = take{part}(total{k})" for k, use in enumerate(self.folds)]
        scope.map_plain("finish", body, tile="tile")
        for number, store in enumerate(phase.row_stores):
            d = self.kernel.operands[store.operand].dtype
            if not part:
                scope.top.append(f'store{number} = scatter(tile, "{d.name}")')
            value = scope.element(store.value)
            scope.code.append(f"store{number}({self._address(store.operand)}, {value}, wanted)")
