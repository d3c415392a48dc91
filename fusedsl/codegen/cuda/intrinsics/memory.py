"""Reads and writes of a few neighbouring elements in global memory: whole, predicated as one, or one by one."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.types import DType
from ..backend import F32, F64, GLOBAL, I8, I16, I32, I64, VOID, Emitter, ir, types

ACCESS_BYTES = 16
SKIP = "PARTS_DONE_${:uid}"


@dataclass(frozen=True)
class Room:
    """Which elements of a vector exist: those at `skip` and beyond, and below `room` (int32; skip None is 0).

    `split` says that a vector may be there in part; otherwise it is there or not as one.
    """

    room: ir.Value
    skip: ir.Value | None = None
    split: bool = False

    def after(self, builder: ir.IRBuilder, elements: int) -> Room:
        """The same, counted from a later element."""
        if not self.split or not elements:
            return self
        skip = None if self.skip is None else builder.sub(self.skip, I32(elements))
        return Room(builder.sub(self.room, I32(elements)), skip, True)

    def holds(self, builder: ir.IRBuilder, element: int) -> ir.Value:
        """Does this element exist?"""
        found = builder.icmp_signed(">", self.room, I32(element if self.split else 0))
        if self.split and self.skip is not None:
            found = builder.and_(found, builder.icmp_signed("<=", self.skip, I32(element)))
        return found


def element_type(dtype: DType) -> ir.Type:
    """How one element of an array is held in LLVM: floats narrower than 32 bits and bool as their bits."""
    if dtype.kind == "f" and dtype.bits >= 32:
        return F32 if dtype.bits == 32 else F64
    return ir.IntType(dtype.itemsize * 8)


def stored_type(dtype: DType, count: int, width: int) -> types.UniTuple:
    """The tuple that `count` loaded elements are held in: 16-bit floats stay packed in pairs."""
    if dtype.kind == "f" and dtype.bits == 16:
        return types.UniTuple(types.uint32, count // 2) if width % 2 == 0 else types.UniTuple(types.uint16, count)
    if dtype.kind == "b":
        return types.UniTuple(types.uint8, count)
    return types.UniTuple(getattr(types, dtype.name), count)


def is_packed(dtype: DType, width: int) -> bool:
    return dtype.kind == "f" and dtype.bits == 16 and width % 2 == 0


def read(e: Emitter, dtype: DType, width: int, address: ir.Value, room: Room | None) -> list[ir.Value]:
    """`width` neighbouring elements, as `stored_type` holds them; those that do not exist are 0 and are not read."""
    chunk = min(width, ACCESS_BYTES // dtype.itemsize)
    found: list[ir.Value] = []
    for begin in range(0, width, chunk):
        at = e.builder.add(address, I64(begin * dtype.itemsize))
        if room is None:
            units = _read_whole(e, dtype, chunk, at)
        else:
            units = _read_checked(e, dtype, chunk, at, room.after(e.builder, begin))
        found += _elements(e, dtype, chunk, units)
    return found


def write(e: Emitter, dtype: DType, width: int, address: ir.Value, values: list[ir.Value], room: Room | None) -> None:
    """The inverse of `read`: values as `stored_type` holds them; those that do not exist are not written."""
    chunk = min(width, ACCESS_BYTES // dtype.itemsize)
    per_chunk = len(values) * chunk // width
    for number, begin in enumerate(range(0, width, chunk)):
        at = e.builder.add(address, I64(begin * dtype.itemsize))
        units = _units(e, dtype, chunk, values[number * per_chunk : (number + 1) * per_chunk])
        if room is None:
            _write_whole(e, at, units)
        else:
            _write_checked(e, dtype, chunk, at, units, room.after(e.builder, begin))


def _unit_bits(dtype: DType, width: int) -> int:
    """Registers that an access moves: 64 bits for 8-byte elements, else 32, less for a lone narrow element."""
    return 64 if dtype.itemsize == 8 else min(32, 8 * dtype.itemsize * width)


def _suffix(count: int, bits: int) -> str:
    return f"{f'.v{count}' if count > 1 else ''}.b{bits}"


def _braced(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}" if len(names) > 1 else names[0]


def _register(bits: int) -> str:
    return {64: "l", 32: "r", 16: "h", 8: "h"}[bits]


def _read_whole(e: Emitter, dtype: DType, width: int, address: ir.Value) -> list[ir.Value]:
    b, bits = e.builder, _unit_bits(dtype, width)
    count = width * dtype.itemsize * 8 // bits
    kind = ir.IntType(bits) if count == 1 else ir.VectorType(ir.IntType(bits), count)
    loaded = b.load(b.inttoptr(address, kind.as_pointer(GLOBAL)), align=width * dtype.itemsize)
    return [loaded] if count == 1 else [b.extract_element(loaded, I32(k)) for k in range(count)]


def _write_whole(e: Emitter, address: ir.Value, units: list[ir.Value]) -> None:
    b, count, unit = e.builder, len(units), units[0].type
    value = units[0]
    if count > 1:
        value = ir.Constant(ir.VectorType(unit, count), ir.Undefined)
        for k, piece in enumerate(units):
            value = b.insert_element(value, piece, I32(k))
    b.store(value, b.inttoptr(address, value.type.as_pointer(GLOBAL)), align=count * unit.width // 8)


def _predicates(width: int, room: Room, first: int, whole: list[str]) -> tuple[list[str], list[str], list[ir.Value]]:
    """PTX that does `whole` where a vector is all there and, where a part is, sets p0, p1 … for its elements.

    `first` is the number of the first input operand; also the names of the predicates and the inputs.
    """
    inputs = [room.room] + ([room.skip] if room.split and room.skip is not None else [])
    if not room.split or width == 1:
        lines = [".reg .pred whole;", f"setp.gt.s32 whole, ${first}, 0;"]
        if len(inputs) > 1:
            lines.append(f"setp.le.and.s32 whole, ${first + 1}, 0, whole;")
        return lines + whole, [], inputs
    names = [f"p{k}" for k in range(width)]
    lines = [f".reg .pred whole, part, {', '.join(names)};", f"setp.ge.s32 whole, ${first}, {width};"]
    if len(inputs) > 1:
        lines.append(f"setp.le.and.s32 whole, ${first + 1}, 0, whole;")
    lines += whole
    lines.append(f"setp.gt.and.s32 part, ${first}, 0, !whole;")
    if len(inputs) > 1:
        lines.append(f"setp.lt.and.s32 part, ${first + 1}, {width}, part;")
    lines.append(f"@!part bra {SKIP};")  # most warps have no vector that is there in part
    for k, name in enumerate(names):
        if len(inputs) > 1:
            lines.append(f"setp.le.and.s32 {name}, ${first + 1}, {k}, part;")
        lines.append(f"setp.gt.and.s32 {name}, ${first}, {k}, {name if len(inputs) > 1 else 'part'};")
    return lines, names, inputs


def _read_checked(e: Emitter, dtype: DType, width: int, address: ir.Value, room: Room) -> list[ir.Value]:
    bits = _unit_bits(dtype, width)
    count = width * dtype.itemsize * 8 // bits
    outs = [f"${k}" for k in range(count)]
    at = f"${count}"
    whole = [f"mov.b{max(bits, 16)} {out}, 0;" for out in outs]
    whole.append(f"@whole ld.global{_suffix(count, bits)} {_braced(outs)}, [{at}];")
    lines, names, inputs = _predicates(width, room, count + 1, whole)
    lines += [*_read_parts(dtype, width, bits, outs, at, names), f"{SKIP}:"] if names else []
    unit = ir.IntType(max(bits, 16))
    result = unit if count == 1 else ir.LiteralStructType([unit] * count)
    constraints = ",".join([f"=&{_register(bits)}"] * count + ["l"] + ["r"] * len(inputs) + ["~{memory}"])
    text = "{\n" + "\n".join(lines) + "\n}"
    loaded = e.asm(result, text, constraints, [address, *inputs], effect=True)
    found = [loaded] if count == 1 else e.unpack(loaded, count)
    return [e.builder.trunc(found[0], I8)] if bits == 8 else found


def _read_parts(dtype: DType, width: int, bits: int, outs: list[str], at: str, names: list[str]) -> list[str]:
    """PTX that reads the elements of a vector one by one, each under its own predicate."""
    size = dtype.itemsize
    places = [f"[{at}+{k * size}]" for k in range(width)]
    if size * 8 == bits:
        return [f"@{p} ld.global.b{bits} {out}, {place};" for p, out, place in zip(names, outs, places)]
    lines = [f".reg .b16 h<{width}>;", ".reg .b32 w<3>;"]
    lines += [f"mov.b16 h{k}, 0;" for k in range(width)]
    lines += [f"@{p} ld.global.b{size * 8} h{k}, {place};" for k, (p, place) in enumerate(zip(names, places))]
    if size == 2:
        return lines + [f"mov.b32 {out}, {{h{2 * k}, h{2 * k + 1}}};" for k, out in enumerate(outs)]
    for number, out in enumerate(outs):  # bytes: shift them together
        lines.append("mov.b32 w0, 0;")
        for k in range(min(4, width)):
            source = 4 * number + k
            lines += [f"cvt.u32.u16 w1, h{source};", f"shl.b32 w2, w1, {8 * k};", "or.b32 w0, w0, w2;"]
        lines.append(f"mov.b32 {out}, w0;" if bits == 32 else f"cvt.u16.u32 {out}, w0;")
    return lines


def _write_checked(e: Emitter, dtype: DType, width: int, address: ir.Value, units: list[ir.Value], room: Room) -> None:
    bits, size, b = _unit_bits(dtype, width), dtype.itemsize, e.builder
    if bits == 8:
        units = [b.zext(units[0], I16)]
    ins = [f"${k}" for k in range(len(units))]
    at = f"${len(units)}"
    whole = [f"@whole st.global{_suffix(len(units), bits)} [{at}], {_braced(ins)};"]
    lines, names, inputs = _predicates(width, room, len(units) + 1, whole)
    if names and size * 8 == bits:
        lines += [f"@{p} st.global.b{bits} [{at}+{k * size}], {ins[k]};" for k, p in enumerate(names)]
    elif names:
        lines.append(".reg .b32 w;\n.reg .b16 h;")
        for k, p in enumerate(names):
            source, shift = ins[k * size * 8 // bits], k * size * 8 % bits
            lines += [f"{'shr.b32' if bits == 32 else 'shr.b16'} {'w' if bits == 32 else 'h'}, {source}, {shift};"]
            lines += ["cvt.u16.u32 h, w;"] if bits == 32 else []
            lines.append(f"@{p} st.global.b{size * 8} [{at}+{k * size}], h;")
    if names:
        lines.append(f"{SKIP}:")
    constraints = ",".join([_register(bits)] * len(units) + ["l"] + ["r"] * len(inputs) + ["~{memory}"])
    text = "{\n" + "\n".join(lines) + "\n}"
    e.asm(VOID, text, constraints, [*units, address, *inputs], effect=True)


def _elements(e: Emitter, dtype: DType, width: int, units: list[ir.Value]) -> list[ir.Value]:
    """Registers as `stored_type` holds them."""
    b, kind, size = e.builder, element_type(dtype), dtype.itemsize
    if size >= 4 or is_packed(dtype, width) or width == 1:
        return [b.bitcast(unit, kind) if size >= 4 else unit for unit in units]
    per_unit = units[0].type.width // (8 * size)
    return [b.trunc(b.lshr(unit, unit.type(8 * size * k)), kind) for unit in units for k in range(per_unit)]


def _units(e: Emitter, dtype: DType, width: int, values: list[ir.Value]) -> list[ir.Value]:
    """The inverse of `_elements`."""
    b, size = e.builder, dtype.itemsize
    if size >= 4 or is_packed(dtype, width) or width == 1:
        word = ir.IntType(8 * size)
        return [b.bitcast(value, word) if size >= 4 else value for value in values]
    unit = ir.IntType(_unit_bits(dtype, width))
    per_unit = unit.width // (8 * size)
    units = []
    for begin in range(0, len(values), per_unit):
        gathered = b.zext(values[begin], unit) if unit.width > 8 * size else values[begin]
        for k in range(1, per_unit):
            gathered = b.or_(gathered, b.shl(b.zext(values[begin + k], unit), unit(8 * size * k)))
        units.append(gathered)
    return units
