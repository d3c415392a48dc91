"""Reads and writes of a few neighbouring elements in global memory: whole, predicated as one, or one by one."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.types import DType
from ..backend import F32, F64, GLOBAL, I8, I16, I32, I64, SHARED, VOID, Emitter, ir, types

ACCESS_BYTES = 16
SKIP = "PARTS_DONE_${:uid}"
# Results stay in the L2 as long as they may: whoever reads them next finds a part of them there, and less is written
# back while the inputs stream in (2 % of the time of large rows and maps on an H200).
KEEP = "createpolicy.fractional.L2::evict_last.b64 {}, 1.0;"


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
    if dtype.kind == "b" or dtype.storage:
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


def read_shared(e: Emitter, dtype: DType, width: int, address: ir.Value) -> list[ir.Value]:
    """`width` neighbouring elements in shared memory, 16 bytes at most, as `stored_type` holds them."""
    return _elements(e, dtype, width, _read_whole(e, dtype, width, address, SHARED))


def write_shared(e: Emitter, dtype: DType, width: int, address: ir.Value, values: list[ir.Value]) -> None:
    """The inverse of `read_shared`."""
    b, units = e.builder, _units(e, dtype, width, values)
    kind = units[0].type if len(units) == 1 else ir.VectorType(units[0].type, len(units))
    value = units[0]
    if len(units) > 1:
        value = ir.Constant(kind, ir.Undefined)
        for k, unit in enumerate(units):
            value = b.insert_element(value, unit, I32(k))
    b.store(value, b.inttoptr(address, kind.as_pointer(SHARED)), align=width * dtype.itemsize)


def _read_whole(e: Emitter, dtype: DType, width: int, address: ir.Value, space: int = GLOBAL) -> list[ir.Value]:
    b, bits = e.builder, _unit_bits(dtype, width)
    count = width * dtype.itemsize * 8 // bits
    kind = ir.IntType(bits) if count == 1 else ir.VectorType(ir.IntType(bits), count)
    loaded = b.load(b.inttoptr(address, kind.as_pointer(space)), align=width * dtype.itemsize)
    return [loaded] if count == 1 else [b.extract_element(loaded, I32(k)) for k in range(count)]


def _write_whole(e: Emitter, address: ir.Value, units: list[ir.Value]) -> None:
    b, count, unit = e.builder, len(units), units[0].type
    if count == 1:
        b.store(units[0], b.inttoptr(address, unit.as_pointer(GLOBAL)), align=unit.width // 8)
        return
    register = _register(unit.width)
    if e.cc >= (8, 0):
        policy = e.asm(I64, KEEP.format("$0"), "=l", [])
        hint, place, inputs = ".L2::cache_hint", f", ${count + 1}", [policy]
    else:
        hint, place, inputs = "", "", []
    values = _braced([f"${k}" for k in range(count)])
    text = f"st.global{hint}{_suffix(count, unit.width)} [${count}], {values}{place};"
    constraints = ",".join([register] * count + ["l"] * (1 + len(inputs)) + ["~{memory}"])
    e.asm(VOID, text, constraints, [*units, address, *inputs], effect=True)


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
    """The whole vector where any of its elements exists: it is one aligned block of memory."""
    bits = _unit_bits(dtype, width)
    count = width * dtype.itemsize * 8 // bits
    there = e.builder.icmp_signed(">", room.room, I32(0))
    if room.split and room.skip is not None:
        there = e.builder.and_(there, e.builder.icmp_signed("<", room.skip, I32(width)))
    return _read_if(e, there, count, bits, address)


def _read_if(
    e: Emitter, wanted: ir.Value, count: int, bits: int, address: ir.Value, effect: bool = True
) -> list[ir.Value]:
    """`count` registers from an address; zeros, and nothing is read, where they are not wanted.

    Without `effect` the compiler may move the read, or do it once for many: nothing may write there meanwhile.
    """
    outs = [f"${k}" for k in range(count)]
    lines = [".reg .pred wanted;", f"setp.ne.b32 wanted, ${count + 1}, 0;"]
    lines += [f"mov.b{max(bits, 16)} {out}, 0;" for out in outs]
    lines.append(f"@wanted ld.global{_suffix(count, bits)} {_braced(outs)}, [${count}];")
    unit = ir.IntType(max(bits, 16))
    result = unit if count == 1 else ir.LiteralStructType([unit] * count)
    constraints = ",".join([f"=&{_register(bits)}"] * count + ["l", "r"] + ["~{memory}"] * effect)
    text = "{\n" + "\n".join(lines) + "\n}"
    loaded = e.asm(result, text, constraints, [address, e.builder.zext(wanted, I32)], effect=effect)
    found = [loaded] if count == 1 else e.unpack(loaded, count)
    return [e.builder.trunc(found[0], I8)] if bits == 8 else found


def read_wanted(e: Emitter, dtype: DType, address: ir.Value, wanted: ir.Value) -> ir.Value:
    """One element of an array that this kernel does not write, as `stored_type` holds it; 0 where it is not wanted."""
    units = _read_if(e, wanted, 1, _unit_bits(dtype, 1), address, effect=False)
    return _elements(e, dtype, 1, units)[0]


def read_shifted(e: Emitter, dtype: DType, width: int, base: ir.Value, skipped: int, room: Room | None):
    """`read` at any address: 16 bytes out of the two aligned blocks that hold them, shifted together.

    For elements below 4 bytes whose vectors have 16 bytes; `skipped` bytes of whole vectors come before this one.
    Elements that do not exist are whatever stands there; no block without any that does is read.
    """
    b, size = e.builder, dtype.itemsize
    blocks = [b.and_(place, I64(-ACCESS_BYTES)) for place in (base, b.add(base, I64(ACCESS_BYTES - 1)))]
    if room is not None:
        address = b.add(base, I64(skipped))
        places = [address, b.add(address, I64(ACCESS_BYTES - 1))]
        last = b.add(address, b.sext(b.mul(b.sub(room.room, I32(1)), I32(size)), I64))
        places = [b.select(b.icmp_unsigned("<", place, last), place, last) for place in places]
        if room.skip is not None:
            first = b.add(address, b.sext(b.mul(room.skip, I32(size)), I64))
            places = [b.select(b.icmp_unsigned(">", place, first), place, first) for place in places]
        blocks, skipped = [b.and_(place, I64(-ACCESS_BYTES)) for place in places], 0
    words = [word for block in blocks for word in _read_whole(e, dtype, width, b.add(block, I64(skipped)))]
    off = b.and_(b.trunc(base, I32), I32(ACCESS_BYTES - 1))
    for step, left in ((8, 6), (4, 5)):
        shifted = b.icmp_unsigned("!=", b.and_(off, I32(step)), I32(0))
        words = [b.select(shifted, words[k + step // 4], words[k]) for k in range(left)]
    bits = b.shl(b.and_(off, I32(3)), I32(3))
    text = "shf.r.wrap.b32 $0, $1, $2, $3;"
    return _elements(e, dtype, width, [e.asm(I32, text, "=r,r,r,r", [words[k], words[k + 1], bits]) for k in range(4)])


def _write_checked(e: Emitter, dtype: DType, width: int, address: ir.Value, units: list[ir.Value], room: Room) -> None:
    bits, size, b = _unit_bits(dtype, width), dtype.itemsize, e.builder
    if bits == 8:
        units = [b.zext(units[0], I16)]
    ins = [f"${k}" for k in range(len(units))]
    at = f"${len(units)}"
    kept = e.cc >= (8, 0) and len(units) > 1
    whole = [".reg .b64 keep;", KEEP.format("keep")] if kept else []
    hint, policy = (".L2::cache_hint", ", keep") if kept else ("", "")
    whole.append(f"@whole st.global{hint}{_suffix(len(units), bits)} [{at}], {_braced(ins)}{policy};")
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
