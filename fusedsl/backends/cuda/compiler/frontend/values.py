"""Values of generated files as LLVM has them: their types, conversions, and variables on a stack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..numba_backend import I1, I64, VOID, Emitter, Words, ir, types


class UnsupportedForm(Exception):
    """A form, or a mix of types, that is left to Numba."""


def llvm_type(kind: types.Type) -> ir.Type:
    """What holds a value of this type."""
    if kind == types.boolean:
        return I1
    if isinstance(kind, types.Integer):
        return ir.IntType(kind.bitwidth)
    if kind in (types.float32, types.float64):
        return ir.FloatType() if kind == types.float32 else ir.DoubleType()
    if isinstance(kind, types.UniTuple):
        return ir.ArrayType(llvm_type(kind.dtype), kind.count)
    if isinstance(kind, types.BaseTuple):
        return ir.LiteralStructType([llvm_type(x) for x in kind])
    if isinstance(kind, Words):
        return ir.ArrayType(I64, kind.count)
    if kind == types.void:
        return VOID
    raise UnsupportedForm(str(kind))


def converted(b: ir.IRBuilder, value: ir.Value, source: types.Type, target: types.Type) -> ir.Value:
    """A number as one of another type."""
    want = llvm_type(target)
    signed = isinstance(source, types.Integer) and source.signed
    if isinstance(source, types.Float):
        if isinstance(target, types.Float) and isinstance(value, ir.Constant):
            return ir.Constant(want, value.constant)  # rounded where it is written
        if isinstance(target, types.Float):
            return b.fpext(value, want) if target.bitwidth > source.bitwidth else b.fptrunc(value, want)
        if isinstance(target, types.Integer):
            return b.fptosi(value, want) if target.signed else b.fptoui(value, want)
        return b.fcmp_unordered("!=", value, ir.Constant(value.type, 0.0))
    if source != types.boolean and not isinstance(source, types.Integer):
        raise UnsupportedForm(f"{source} to {target}")
    if isinstance(target, types.Float):
        return b.sitofp(value, want) if signed else b.uitofp(value, want)
    if target == types.boolean:
        return b.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
    if want.width == value.type.width:
        return value
    if want.width < value.type.width:
        return b.trunc(value, want)
    return b.sext(value, want) if signed else b.zext(value, want)


Slots = dict[tuple[str, types.Type], ir.Value]
"""Where variables of these types are on the stack."""


class Frame:
    """A function that is being written: what is known of its variables, and places on a stack, which LLVM makes
    registers of, for those that paths bring values of."""

    def __init__(self, unit: Emitter, known: dict[str, ir.Value]):
        self.unit, self.known = unit, known
        self.slots: Slots = {}

    @property
    def builder(self) -> ir.IRBuilder:
        return self.unit.builder

    def _slot(self, slots: Slots, name: str, kind: types.Type) -> ir.Value:
        if (name, kind) not in slots:
            with self.builder.goto_entry_block():
                slots[name, kind] = self.builder.alloca(llvm_type(kind))
        return slots[name, kind]

    def get(self, name: str, kind: types.Type) -> ir.Value:
        """A variable's value: that which is known here, or what its place has."""
        value = self.known.get(name)
        return self.builder.load(self._slot(self.slots, name, kind)) if value is None else value

    def store_for_join(self, kinds: Mapping[str, types.Type], *where: Slots) -> None:
        """Store variables for where paths meet, each in all these places, made in this order: LLVM orders code by
        it."""
        for name, kind in kinds.items():
            value = self.get(name, kind)
            for slots in where:
                self.builder.store(value, self._slot(slots, name, kind))

    def load_from(self, slots: Slots) -> None:
        self.slots = dict(slots)

    def assign(self, name: str, kind: types.Type, value: ir.Value) -> None:
        self.known[name] = value

    def ret(self, result: ir.Value) -> None:
        """Return a result: it is stored where the first argument points."""
        self.builder.store(result, self.builder.function.args[0])
        self.builder.ret_void()

    def floor_quotient(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """x // y, and 0 where y is."""
        b, zero = self.builder, ir.Constant(x.type, 0)
        nothing = b.icmp_signed("==", y, zero)
        divisor = b.select(nothing, ir.Constant(x.type, 1), y)
        quotient, rest = b.sdiv(x, divisor), b.srem(x, divisor)
        below = b.and_(b.icmp_signed("!=", rest, zero), b.icmp_signed("<", b.xor(divisor, rest), zero))
        return b.select(nothing, zero, b.select(below, b.sub(quotient, ir.Constant(x.type, 1)), quotient))

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.known.pop(name, None)
