"""LLVM scalars with Python operators: the notation of the functions in math/ and of the vocabulary."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache

from llvmlite import ir
from llvmlite.ir.instructions import Instruction

from ...ir.types import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType

CONTRACT = ("contract",)


@cache
def llvm_type(d: DType) -> ir.Type:
    """The LLVM type of a value of `d` in a register."""
    if d.kind == "f":
        return {32: ir.FloatType(), 64: ir.DoubleType()}[d.bits]
    return ir.IntType(d.bits)


def literal(d: DType, value) -> ir.Constant:
    """`value` as an LLVM constant; floats are printed by their bits, so that they are exact."""
    if d.kind == "f":
        if d is FLOAT32:
            value = struct.unpack("f", struct.pack("f", value))[0]
        return ir.Constant(llvm_type(d), float(value))
    return ir.Constant(llvm_type(d), int(value) & ((1 << d.bits) - 1))


def _binary(floating: str, signed: str, unsigned: str = "", swap: bool = False) -> Callable[..., LLVMValue]:
    """A method: the operation of LLVM's builder of these names, by the kind of the type."""

    def method(self: LLVMValue, other) -> LLVMValue:
        a, b = (self.like(other), self) if swap else (self, self.like(other))
        name = {"f": floating, "i": signed}.get(self.dtype.kind, unsigned or signed)
        flags = {"flags": CONTRACT} if self.dtype.kind == "f" else {}
        return LLVMValue(self.builder, self.dtype, getattr(self.builder, name)(a.value, b.value, **flags))

    return method


def _comparison(operator: str) -> Callable[..., LLVMValue]:
    """A method: a comparison; with NaN only != holds."""
    of_floats = "fcmp_unordered" if operator == "!=" else "fcmp_ordered"

    def method(self: LLVMValue, other) -> LLVMValue:
        name = {"f": of_floats, "i": "icmp_signed"}.get(self.dtype.kind, "icmp_unsigned")
        return LLVMValue(self.builder, BOOL, getattr(self.builder, name)(operator, self.value, self.like(other).value))

    return method


class LLVMValue:
    """A scalar of type `dtype` in the function that `builder` writes. Plain Python numbers take the other's type."""

    __slots__ = ("builder", "dtype", "value")

    def __init__(self, builder: ir.IRBuilder, dtype: DType, value):
        self.builder, self.dtype, self.value = builder, dtype, value

    def like(self, other) -> LLVMValue:
        """`other`, an LLVMValue or a Python number, in this type."""
        if isinstance(other, LLVMValue):
            assert other.dtype is self.dtype, (self.dtype, other.dtype)
            return other
        return LLVMValue(self.builder, self.dtype, literal(self.dtype, other))

    __add__, __radd__ = _binary("fadd", "add"), _binary("fadd", "add", swap=True)
    __sub__, __rsub__ = _binary("fsub", "sub"), _binary("fsub", "sub", swap=True)
    __mul__, __rmul__ = _binary("fmul", "mul"), _binary("fmul", "mul", swap=True)
    __truediv__, __rtruediv__ = _binary("fdiv", "none"), _binary("fdiv", "none", swap=True)
    # the truncated quotient of integers, and its remainder; undefined for a divisor of 0
    __floordiv__, __mod__ = _binary("none", "sdiv", "udiv"), _binary("none", "srem", "urem")
    __and__, __or__, __xor__ = _binary("none", "and_"), _binary("none", "or_"), _binary("none", "xor")
    __lshift__, __rshift__ = _binary("none", "shl"), _binary("none", "ashr", "lshr")
    __lt__, __le__, __gt__, __ge__ = _comparison("<"), _comparison("<="), _comparison(">"), _comparison(">=")
    __eq__, __ne__ = _comparison("=="), _comparison("!=")  # type: ignore[assignment]

    def __neg__(self):
        if self.dtype.kind == "f":
            return LLVMValue(self.builder, self.dtype, self.builder.fneg(self.value))
        return self.like(0) - self

    def __invert__(self):
        return self ^ (1 if self.dtype is BOOL else -1)

    __hash__ = None  # type: ignore[assignment]

    def bits(self) -> LLVMValue:
        """The representation of a float as a signed integer."""
        return self.reinterpret(INT32 if self.dtype is FLOAT32 else INT64)

    def reinterpret(self, d: DType) -> LLVMValue:
        """The same bits as another type of the same width."""
        if llvm_type(d) == self.value.type:
            return LLVMValue(self.builder, d, self.value)
        return LLVMValue(self.builder, d, self.builder.bitcast(self.value, llvm_type(d)))

    def to(self, d: DType) -> LLVMValue:
        """Converted: integers wrap, floats round; never float to integer (see `convert.saturate`)."""
        b, source, target = self.builder, self.dtype, llvm_type(d)
        if source is d:
            return self
        if d is BOOL:
            return self != 0
        if source.kind == "f":
            assert d.kind == "f"
            if (value := constant_of(self)) is not None:
                return LLVMValue(b, d, literal(d, value))
            return LLVMValue(b, d, b.fpext(self.value, target) if d is FLOAT64 else b.fptrunc(self.value, target))
        if d.kind == "f":
            return LLVMValue(b, d, (b.sitofp if source.kind == "i" else b.uitofp)(self.value, target))
        if d.bits == source.bits:
            return LLVMValue(b, d, self.value)
        if d.bits < source.bits:
            return LLVMValue(b, d, b.trunc(self.value, target))
        return LLVMValue(b, d, (b.sext if source.kind == "i" else b.zext)(self.value, target))


def constant_of(x: LLVMValue) -> float | None:
    """The value of a float literal."""
    known = isinstance(x.value, ir.Constant) and isinstance(x.value.constant, float)
    return x.value.constant if known else None


def integer_of_literal(x: LLVMValue) -> int | None:
    """The value of an integer literal."""
    known = x.value.constant if isinstance(x.value, ir.Constant) else None
    if x.dtype.kind == "f" or not isinstance(known, int):
        return None
    known &= (1 << x.dtype.bits) - 1
    return known - (1 << x.dtype.bits) if x.dtype.kind == "i" and known >> (x.dtype.bits - 1) else known


def select(condition: LLVMValue, a, b) -> LLVMValue:
    """a if `condition`, else b; one of them may be a Python number."""
    if not isinstance(a, LLVMValue):
        a = b.like(a)
    b = a.like(b)
    return LLVMValue(a.builder, a.dtype, a.builder.select(condition.value, a.value, b.value))


def frozen(x: LLVMValue) -> LLVMValue:
    """Freeze: x, or any one value of its type if x is poison (LLVM Language Reference, `freeze`).

    What may be poison in an arm of a `select` that is not chosen is still poison to what LLVM does with that arm: it
    divides by it before it selects, once it has seen that the value is never 0.
    """
    instruction = Instruction(x.builder.block, x.value.type, "freeze", [x.value])  # llvmlite's builder has no freeze
    x.builder._insert(instruction)
    return LLVMValue(x.builder, x.dtype, instruction)


def intrinsic(
    name: str, *args: LLVMValue, result: DType | None = None, suffixes: tuple[DType, ...] | None = None
) -> LLVMValue:
    """A call of `llvm.name`, overloaded on the type of the first argument unless `suffixes` say otherwise."""
    result = result or args[0].dtype
    overloads = suffixes if suffixes is not None else (args[0].dtype,)
    mangled = ".".join(["llvm", name, *((("f" if d.kind == "f" else "i") + str(d.bits)) for d in overloads)])
    return call(mangled, *args, result=result)


def call(symbol: str, *args: LLVMValue, result: DType | None = None) -> LLVMValue:
    """A call of an external function without side effects."""
    builder, result = args[0].builder, result or args[0].dtype
    module = builder.module
    function = module.globals.get(symbol)
    if function is None:
        kind = ir.FunctionType(llvm_type(result), [llvm_type(a.dtype) for a in args])
        function = ir.Function(module, kind, symbol)
    return LLVMValue(builder, result, builder.call(function, [a.value for a in args]))


def fma(a: LLVMValue, b, c) -> LLVMValue:
    """a * b + c, rounded once."""
    return intrinsic("fma", a, a.like(b), a.like(c))


def multiply_rounded(a: LLVMValue, b) -> LLVMValue:
    """a * b without contraction: the product is rounded, and overflows, before it is added to anything."""
    return LLVMValue(a.builder, a.dtype, a.builder.fmul(a.value, a.like(b).value))


def polynomial(x: LLVMValue, coefficients) -> LLVMValue:
    """Σ coefficients[i] · x^i, in Horner's form."""
    total = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


def even_odd_polynomial(x: LLVMValue, coefficients) -> LLVMValue:
    """The same as two independent chains (even and odd powers), for coefficients that decrease fast."""
    square = x * x
    return fma(polynomial(square, coefficients[1::2]), x, polynomial(square, coefficients[::2]))


def rint(x: LLVMValue) -> LLVMValue:
    return intrinsic("rint", x)


def sqrt(x: LLVMValue) -> LLVMValue:
    return intrinsic("sqrt", x)


def absolute(x: LLVMValue) -> LLVMValue:
    return intrinsic("fabs", x)


def copysign(x: LLVMValue, sign: LLVMValue) -> LLVMValue:
    return intrinsic("copysign", x, sign)
