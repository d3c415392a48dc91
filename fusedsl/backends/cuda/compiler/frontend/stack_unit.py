"""The front end as attention was measured with it: variables on the stack, results by value, 64-bit comparisons.

Its machine code is not that of `Unit`, which writes what Numba writes. It goes when `Unit` has been measured for
attention (benchmarks/lowering.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..numba_backend import ScalarFunction, ir, types
from .unit import Unit
from .values import Frame, Places, llvm_type


class StackFrame(Frame):
    """Variables are stored where they are assigned."""

    def assign(self, name: str, kind: types.Type, value: ir.Value) -> None:
        self.builder.store(value, self._place(self.places, name, kind))
        super().assign(name, kind, value)

    def stand_on(self, places: Places) -> None:
        pass

    def leave(self, kinds: Mapping[str, types.Type], *where: Places) -> None:
        pass

    def give(self, result: ir.Value) -> None:
        self.builder.ret(result)

    def compared_as(self, kind: types.Type) -> types.Type:
        if not isinstance(kind, types.Integer):
            return kind
        return types.int64 if kind.signed else types.uint64

    def floor_quotient(self, x: ir.Value, y: ir.Value) -> ir.Value:
        b, zero = self.builder, ir.Constant(x.type, 0)
        nothing = b.icmp_signed("==", y, zero)
        divisor = b.select(nothing, ir.Constant(x.type, 1), y)
        quotient = b.sdiv(x, divisor)
        rest = b.sub(x, b.mul(quotient, divisor))
        below = b.and_(b.icmp_signed("!=", rest, zero), b.icmp_signed("<", b.xor(rest, divisor), zero))
        return b.select(nothing, zero, b.sub(quotient, b.zext(below, x.type)))


class StackUnit(Unit):
    """A scalar function returns its result."""

    frame = StackFrame

    def form(self, scalar: ScalarFunction) -> ir.FunctionType:
        return ir.FunctionType(llvm_type(scalar.result), [llvm_type(kind) for kind in scalar.arguments])

    def result_of(self, scalar: ScalarFunction, function: ir.Function, values: Sequence[ir.Value]) -> ir.Value:
        return self.builder.call(function, list(values))
