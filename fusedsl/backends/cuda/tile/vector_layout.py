"""Vector layout of a thread: the start, the addresses and the valid elements of each vector."""

from __future__ import annotations

from dataclasses import dataclass

from ..compiler.numba_backend import GLOBAL, I8, I32, I64, Emitter, ir, types
from . import memory
from .element import paired, unpaired
from .element_registers import register_bits, unpack_registers
from .valid_elements import ValidElements

INDEX = (types.int32, types.int64)


@dataclass(frozen=True)
class VectorBegin:
    """Where a vector begins: so many elements beyond `begin`; `scattered` if that is an offset in memory."""

    begin: ir.Value
    skipped: ir.Value
    scattered: bool


@dataclass(frozen=True)
class VectorLayout:
    """`vectors` vectors of `width` neighbouring elements a thread, `step` elements apart.

    With step 0, vectors are ntid.x * width elements apart; `along_y`: ntid.y vectors apart. `checks` has a letter per
    vector: "." full; "v" valid or not as a whole; "t" the tail may be out of bounds; "h" the head; "b" both; "e" as
    "v", but every vector has a start of its own: `start` is a tuple. Partial loads end with the last valid element if
    `exact`, otherwise with its aligned block: 16-bit rows have no time for more.
    """

    width: int
    vectors: int
    checks: str
    step: int = 0
    exact: bool = True
    along_y: bool = False

    @property
    def count(self) -> int:
        """The elements of a thread."""
        return self.width * self.vectors

    def valid_of(self, e: Emitter, kind: types.Type, start: ir.Value, limit: ir.Value) -> list[ValidElements | None]:
        """The valid elements of each vector, for vectors from `start` on in a row of `limit` elements."""
        return [self.valid(e, kind, start, limit, number) for number in range(self.vectors)]

    def starts(self, e: Emitter, kind: types.Type, start: ir.Value) -> list[ir.Value]:
        """First element of each vector; `start` is that of the thread's first, or a tuple with all."""
        if isinstance(kind, types.UniTuple):
            return e.unpack(start, self.vectors)
        return [e.builder.add(start, self.offset_of(e, k, start.type)) for k in range(self.vectors)]

    def offset_of(self, e: Emitter, number: int, kind: ir.Type) -> ir.Value:
        """Elements between the first vector of a thread and vector `number`."""
        if self.step or not number:
            return kind(number * self.step)
        b = e.builder
        if self.along_y:
            offset = b.mul(e.special_register("ntid.y"), I32(number))
        else:
            offset = b.mul(e.special_register("ntid.x"), I32(number * self.width))
        return offset if kind == I32 else b.zext(offset, kind)

    def valid(
        self, e: Emitter, kind: types.Type, start: ir.Value, limit: ir.Value, number: int
    ) -> ValidElements | None:
        """Valid elements of a vector; None: all."""
        check, b = self.checks[number], e.builder
        if check == "e":
            return ValidElements(_int32(b, b.sub(limit, e.unpack(start, self.vectors)[number])))
        if check == "." or kind not in INDEX:
            return None
        if check in "hb":
            skip = _int32(b, b.neg(b.add(start, self.offset_of(e, number, start.type))))
            return ValidElements(None if check == "h" else self._left(e, start, limit, number), skip, True, self.exact)
        return ValidElements(self._left(e, start, limit, number), None, check == "t", self.exact)

    def _left(self, e: Emitter, start: ir.Value, limit: ir.Value, number: int) -> ir.Value:
        """Elements between the start of a vector and the limit."""
        return _int32(e.builder, e.builder.sub(limit, e.builder.add(start, self.offset_of(e, number, start.type))))

    def begin(self, e, form, start, number) -> VectorBegin:
        """Where a vector begins: `start` is where the thread's first one does, or a tuple with all."""
        b, scattered = e.builder, isinstance(form, types.UniTuple)
        begin = b.extract_value(start, number) if scattered else start
        begin = begin if begin.type == I64 else b.sext(begin, I64)
        skipped = I64(0) if scattered else self.offset_of(e, number, I64)
        return VectorBegin(begin, skipped, scattered and self.checks[number] != "e")

    def addresses(self, e, kind, stride_kind, address, start, stride) -> list[ir.Value]:
        """Address of a vector, or of each element if they are not contiguous.

        All vectors count from one 64-bit base, so that the distances between them become immediate offsets.
        """
        b, begin, skipped, scattered = e.builder, start.begin, start.skipped, start.scattered
        if stride_kind != "s":
            base = b.add(address, b.mul(begin, I64(kind.itemsize)))
            return [b.add(base, b.mul(skipped, I64(kind.itemsize)))]
        size = b.mul(stride, I64(kind.itemsize))
        base = b.add(address, b.mul(begin, I64(kind.itemsize) if scattered else size))
        return [b.add(base, b.mul(b.add(skipped, I64(k)), size)) for k in range(self.width)]

    def column_addresses(self, e, kind, address, start, stride, limit=None, first=False) -> list[ir.Value]:
        """The addresses of vectors across a column; where there is a limit, those beyond are its last one, or the
        thread's `first`.

        Each is as far from the one before as all are, and an instruction adds that product to it.
        """
        b, size = e.builder, kind.itemsize
        step = b.mul(_int64(b, stride), I64(size))

        def at(number: ir.Value) -> ir.Value:
            return b.add(address, b.mul(_int64(b, number), step))

        def after(end: ir.Value) -> ir.Value:
            levels = self.offset_of(e, 1, stride.type)
            if stride.type == I32:
                step_bytes = b.mul(levels, I32(size))
                return e.asm(I64, "mad.wide.s32 $0, $1, $2, $3;", "=l,r,r,l", [stride, step_bytes, end])
            return b.add(end, b.mul(levels, step))

        addresses: list[ir.Value] = []
        for number, check in enumerate(self.checks):
            if limit is None or check == ".":
                addresses.append(after(addresses[-1]) if addresses else at(start))
                continue
            begin, final = b.add(start, self.offset_of(e, number, start.type)), b.sub(limit, limit.type(1))
            instead = start if first else final
            addresses.append(at(b.select(b.icmp_signed("<=", begin, final), begin, instead)))
        return addresses

    def load_vector(self, e, kind, stride_kind, addresses, room) -> list[ir.Value]:
        if stride_kind == "1":
            return memory.load_vector(e, kind, self.width, addresses[0], room)
        if stride_kind == "0":
            return paired(e, kind, memory.load_vector(e, kind, 1, addresses[0], None) * self.width)
        elements = []
        for k, address in enumerate(addresses):
            valid = room and ValidElements(e.builder.zext(room.has(e.builder, k), I32))
            elements += memory.load_vector(e, kind, 1, address, valid)
        return paired(e, kind, elements)

    def store_vector(self, e, kind, stride_kind, addresses, values, room) -> None:
        if stride_kind == "1":
            memory.store_vector(e, kind, self.width, addresses[0], values, room)
            return
        for k, (address, value) in enumerate(zip(addresses, unpaired(e, kind, values, self.width))):
            valid = room and ValidElements(e.builder.zext(room.has(e.builder, k), I32))
            memory.store_vector(e, kind, 1, address, [value], valid)

    def load_aligned(self, e, kind, address, displacement: int, alignment: int) -> list[ir.Value]:
        """An element so many bytes from an address, there aligned: LLVM joins loads of its neighbours to its own."""
        b, unit = e.builder, ir.IntType(register_bits(kind, 1))
        pointer = b.gep(b.inttoptr(address, I8.as_pointer(GLOBAL)), [I64(displacement)], inbounds=True)
        loaded = b.load(b.bitcast(pointer, unit.as_pointer(GLOBAL)), align=alignment)
        return paired(e, kind, unpack_registers(e, kind, 1, [loaded]) * self.width)


def _int64(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return value if value.type == I64 else b.sext(value, I64)


def _int32(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A count that is compared with at most a vector's width: clamped, where it is wider."""
    if value.type == I32:
        return value
    low, high = I64(-64), I64(64)
    value = b.select(b.icmp_signed("<", value, low), low, value)
    return b.trunc(b.select(b.icmp_signed(">", value, high), high, value), I32)
