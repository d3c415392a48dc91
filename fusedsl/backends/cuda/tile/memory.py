"""Vector loads and stores in global memory: whole, predicated as one, or element by element."""

from __future__ import annotations

from ....ir.types import DType
from ..compiler.numba_backend import GLOBAL, I8, I16, I32, I64, SHARED, VOID, Emitter, ir
from .element_registers import pack_registers, register_bits, unpack_registers
from .valid_elements import ValidElements

ACCESS_BYTES, HALF = 16, 8
SKIP = "PARTS_DONE_${:uid}"
# What is read stays in the L2 longer than what is written: results then leave for memory as they come, instead of when
# inputs push them out. On an H200 that is 3 % of the time of large rows and 4 % of large maps, whatever the L2 held
# before; reads that leave first, or results that stay, are slower, and nothing outlives the next large kernel.
KEEP = "createpolicy.fractional.L2::evict_last.b64 {}, 1.0;"


def load_vector(e: Emitter, dtype: DType, width: int, address: ir.Value, room: ValidElements | None) -> list[ir.Value]:
    """`width` neighbouring elements, as `stored_type` holds them; those that do not exist are 0 and are not read."""
    chunk = min(width, ACCESS_BYTES // dtype.itemsize)
    elements: list[ir.Value] = []
    for begin in range(0, width, chunk):
        at = e.builder.add(address, I64(begin * dtype.itemsize))
        if room is None:
            units = _read_whole(e, dtype, chunk, at)
        else:
            units = _read_checked(e, dtype, chunk, at, room.after(e.builder, begin))
        elements += unpack_registers(e, dtype, chunk, units)
    return elements


def store_vector(
    e: Emitter, dtype: DType, width: int, address: ir.Value, values: list[ir.Value], room: ValidElements | None
) -> None:
    """The inverse of `load_vector`: values as `stored_type` holds them; those that do not exist are not written."""
    chunk = min(width, ACCESS_BYTES // dtype.itemsize)
    per_chunk = len(values) * chunk // width
    for number, begin in enumerate(range(0, width, chunk)):
        at = e.builder.add(address, I64(begin * dtype.itemsize))
        units = pack_registers(e, dtype, chunk, values[number * per_chunk : (number + 1) * per_chunk])
        if room is None:
            _write_whole(e, at, units)
        else:
            _write_checked(e, dtype, chunk, at, units, room.after(e.builder, begin))


def _suffix(count: int, bits: int) -> str:
    return f"{f'.v{count}' if count > 1 else ''}.b{bits}"


def _braced(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}" if len(names) > 1 else names[0]


def _register(bits: int) -> str:
    return {64: "l", 32: "r", 16: "h", 8: "h"}[bits]


def ld_shared(e: Emitter, dtype: DType, width: int, address: ir.Value) -> list[ir.Value]:
    """`width` neighbouring elements in shared memory, 16 bytes at most, as `stored_type` holds them."""
    return unpack_registers(e, dtype, width, _read_whole(e, dtype, width, address, SHARED))


def st_shared(e: Emitter, dtype: DType, width: int, address: ir.Value, values: list[ir.Value]) -> None:
    """The inverse of `ld_shared`."""
    b, units = e.builder, pack_registers(e, dtype, width, values)
    kind = units[0].type if len(units) == 1 else ir.VectorType(units[0].type, len(units))
    value = units[0]
    if len(units) > 1:
        value = ir.Constant(kind, ir.Undefined)
        for k, unit in enumerate(units):
            value = b.insert_element(value, unit, I32(k))
    b.store(value, b.inttoptr(address, kind.as_pointer(SHARED)), align=width * dtype.itemsize)


def _read_whole(e: Emitter, dtype: DType, width: int, address: ir.Value, space: int = GLOBAL) -> list[ir.Value]:
    b, bits = e.builder, register_bits(dtype, width)
    count = width * dtype.itemsize * 8 // bits
    if count == 1 or e.cc < (8, 0) or space != GLOBAL:
        kind = ir.IntType(bits) if count == 1 else ir.VectorType(ir.IntType(bits), count)
        loaded = b.load(b.inttoptr(address, kind.as_pointer(space)), align=width * dtype.itemsize)
        return [loaded] if count == 1 else [b.extract_element(loaded, I32(k)) for k in range(count)]
    policy, outs = e.asm(I64, KEEP.format("$0"), "=l", []), [f"${k}" for k in range(count)]
    text = f"ld.global.L2::cache_hint{_suffix(count, bits)} {_braced(outs)}, [${count}], ${count + 1};"
    constraints = ",".join([f"={_register(bits)}"] * count + ["l", "l", "~{memory}"])
    result = ir.LiteralStructType([ir.IntType(bits)] * count)
    return e.unpack(e.asm(result, text, constraints, [address, policy], side_effect=True), count)


def _write_whole(e: Emitter, address: ir.Value, units: list[ir.Value]) -> None:
    b, count, unit = e.builder, len(units), units[0].type
    if count == 1:
        b.store(units[0], b.inttoptr(address, unit.as_pointer(GLOBAL)), align=unit.width // 8)
        return
    text = f"st.global{_suffix(count, unit.width)} [${count}], {_braced([f'${k}' for k in range(count)])};"
    constraints = ",".join([_register(unit.width)] * count + ["l", "~{memory}"])
    e.asm(VOID, text, constraints, [*units, address], side_effect=True)


def _predicates(width: int, room: ValidElements, first: int, whole: str) -> tuple[list[str], list[str], list[ir.Value]]:
    """PTX that does `whole` where a vector is all there and, where a part is, sets p0, p1 … for its elements.

    `first` is the number of the first input operand; also the names of the predicates and the inputs.
    """
    inputs, ends, begins = [], "", ""
    if room.count is not None:
        ends = f"${first}"
        inputs.append(room.count)
    if room.partial and room.skip is not None:
        begins = f"${first + len(inputs)}"
        inputs.append(room.skip)
    if not room.partial or width == 1:
        return [".reg .pred whole;", *_within("whole", ends, 1, begins, 0), whole], [], inputs
    names = [f"p{k}" for k in range(width)]
    lines = [f".reg .pred whole, part, {', '.join(names)};", *_within("whole", ends, width, begins, 0), whole]
    lines += _within("part", ends, 1, begins, width - 1, "!whole")
    lines.append(f"@!part bra {SKIP};")  # most warps have no vector that is there in part
    for k, name in enumerate(names):
        lines += _within(name, ends, k + 1, begins, k, "part")
    return lines, names, inputs


def _within(name: str, ends: str, least: int, begins: str, most: int, given: str = "") -> list[str]:
    """PTX that sets a predicate where `ends` >= least and `begins` <= most (operands, if named) and `given` holds."""
    lines = []
    for how, operand, limit in (("ge", ends, least), ("le", begins, most)):
        if operand:
            kind, also = (".and", f", {given}") if given else ("", "")
            lines.append(f"setp.{how}{kind}.s32 {name}, {operand}, {limit}{also};")
            given = name
    return lines


def _read_checked(e: Emitter, dtype: DType, width: int, address: ir.Value, room: ValidElements) -> list[ir.Value]:
    """A vector of which any element exists: all of its aligned block or, if it is to be exact, up to its last one."""
    bits = register_bits(dtype, width)
    count = width * dtype.itemsize * 8 // bits
    if not room.exact or not room.partial or room.count is None or width == 1:
        return _read_if(e, room.any(e.builder, width), count, bits, address)
    return _read_up_to(e, dtype, width, address, room)


def _read_if(
    e: Emitter, wanted: ir.Value, count: int, bits: int, address: ir.Value, side_effect: bool = True
) -> list[ir.Value]:
    """`count` registers from an address; zeros, and nothing is read, where they are not wanted.

    Without `side_effect` the compiler may move the read, or do it once for many: nothing may write there meanwhile.
    """
    lines = [".reg .pred wanted;", f"setp.ne.b32 wanted, ${count + 1}, 0;", *_zeros(count, bits), *_keep(e, count)]
    lines.append(_load_block(e, "wanted", count, bits))
    return _loaded(e, lines, count, bits, [address, e.builder.zext(wanted, I32)], side_effect)


def _read_up_to(e: Emitter, dtype: DType, width: int, address: ir.Value, room: ValidElements) -> list[ir.Value]:
    """The registers of an aligned block that is there in part: no byte beyond its last element is read.

    Threads whose vector does not end early read all of it; only those at the end of an array go register by register.
    """
    bits = register_bits(dtype, width)
    count = width * dtype.itemsize * 8 // bits
    end, begin = f"${count + 1}", f"${count + 2}" if room.skip is not None else ""
    lines = [".reg .pred whole, part, some;", *_zeros(count, bits), *_keep(e, count)]
    lines += _within("whole", end, width, begin, width - 1)
    lines.append(_load_block(e, "whole", count, bits))
    lines += [f"setp.lt.s32 part, {end}, {width};", *_within("part", end, 1, begin, width - 1, "part")]
    lines.append(f"@!part bra {SKIP};")
    for k in range(count):
        lines += _load_end(dtype, k, count, bits, end)
    inputs = [address, room.count] + ([room.skip] if room.skip is not None else [])
    return _loaded(e, [*lines, f"{SKIP}:"], count, bits, inputs)


def _load_end(dtype: DType, k: int, count: int, bits: int, end: str) -> list[str]:
    """PTX that loads what exists of register `k`: all of it, or 1, 2 or 3 bytes."""
    size, address = bits // 8, f"${count}+{k * bits // 8}"
    last = (k + 1) * size // dtype.itemsize
    lines = [f"setp.ge.s32 some, {end}, {last};", f"@some ld.global.b{bits} ${k}, [{address}];"]
    for there in range(dtype.itemsize, size, dtype.itemsize):
        lines.append(f"setp.eq.s32 some, {end}, {(k * size + there) // dtype.itemsize};")
        lines.append(f"@some ld.global.u{16 if there > 1 else 8} ${k}, [{address}];")
        if there == 3:
            lines += ["{", f".reg .b{bits} third;", f"@some ld.global.u8 third, [{address}+2];"]
            lines += [f"@some shl.b{bits} third, third, 16;", f"@some or.b{bits} ${k}, ${k}, third;", "}"]
    return lines


def _zeros(count: int, bits: int) -> list[str]:
    return [f"mov.b{max(bits, 16)} ${k}, 0;" for k in range(count)]


def _keep(e: Emitter, count: int) -> list[str]:
    """PTX that defines the policy `keep`, where loads of so many registers name one."""
    return [".reg .b64 keep;", KEEP.format("keep")] if e.cc >= (8, 0) and count > 1 else []


def _load_block(e: Emitter, predicate: str, count: int, bits: int) -> str:
    """PTX that loads registers $0 … from the address after them, where a predicate holds."""
    outs = _braced([f"${k}" for k in range(count)])
    hint, policy = (".L2::cache_hint", ", keep") if e.cc >= (8, 0) and count > 1 else ("", "")
    return f"@{predicate} ld.global{hint}{_suffix(count, bits)} {outs}, [${count}]{policy};"


def _loaded(
    e: Emitter, lines: list[str], count: int, bits: int, inputs: list[ir.Value], side_effect: bool = True
) -> list[ir.Value]:
    """The registers that these lines of PTX fill; the inputs, an address and int32s, stand after them."""
    unit = ir.IntType(max(bits, 16))
    result = unit if count == 1 else ir.LiteralStructType([unit] * count)
    constraints = ",".join(
        [f"=&{_register(bits)}"] * count + ["l"] + ["r"] * (len(inputs) - 1) + ["~{memory}"] * side_effect
    )
    loaded = e.asm(result, "{\n" + "\n".join(lines) + "\n}", constraints, inputs, side_effect=side_effect)
    registers = [loaded] if count == 1 else e.unpack(loaded, count)
    return [e.builder.trunc(registers[0], I8)] if bits == 8 else registers


def load_predicated(e: Emitter, dtype: DType, address: ir.Value, wanted: ir.Value) -> ir.Value:
    """One element of an array that this kernel does not write, as `stored_type` holds it; 0 where it is not wanted."""
    units = _read_if(e, wanted, 1, register_bits(dtype, 1), address, side_effect=False)
    return unpack_registers(e, dtype, 1, units)[0]


def load_unaligned(e: Emitter, dtype: DType, width: int, base: ir.Value, skipped: int, room: ValidElements | None):
    """`load_vector` at any address: 16 bytes out of the three aligned 8 bytes that hold them, shifted together.

    For elements below 4 bytes whose vectors have 16 bytes; `skipped` bytes of whole vectors come before this one.
    Elements that do not exist are whatever stands there; no 8 bytes without any that does are read. (Of two aligned 16
    bytes one word more is to be chosen, three times as often: on an H200 layer norm of bfloat16 rows of 100 to 1000
    columns, one schedule for all, takes 5 % longer so.)
    """
    b, size = e.builder, dtype.itemsize
    ends = (0, HALF, ACCESS_BYTES - 1)
    addresses = [b.add(base, I64(end)) for end in ends]
    if room is not None and room.partial:
        addresses = [b.add(edge, I64(skipped)) for edge in addresses]
        skipped, address = 0, addresses[0]
        if room.count is not None:
            last = b.add(address, b.sext(b.mul(b.sub(room.count, I32(1)), I32(size)), I64))
            addresses = [b.select(b.icmp_unsigned("<", edge, last), edge, last) for edge in addresses]
        if room.skip is not None:
            first = b.add(address, b.sext(b.mul(room.skip, I32(size)), I64))
            addresses = [b.select(b.icmp_unsigned(">", edge, first), edge, first) for edge in addresses]
    words: list[ir.Value] = []
    for edge in addresses:
        half = b.add(b.and_(edge, I64(-HALF)), I64(skipped))
        if room is None or room.partial:
            words += _read_whole(e, dtype, width // 2, half)
        else:
            words += _read_if(e, room.any(b, width), HALF // 4, 32, half)
    off = b.and_(b.trunc(base, I32), I32(HALF - 1))
    shifted = b.icmp_unsigned("!=", b.and_(off, I32(4)), I32(0))
    words = [b.select(shifted, words[k + 1], words[k]) for k in range(5)]
    bits = b.shl(b.and_(off, I32(3)), I32(3))
    text = "shf.r.wrap.b32 $0, $1, $2, $3;"
    return unpack_registers(
        e, dtype, width, [e.asm(I32, text, "=r,r,r,r", [words[k], words[k + 1], bits]) for k in range(4)]
    )


def copy(e: Emitter, target: ir.Value, source: ir.Value, size: int, room: ValidElements | None, dtype: DType) -> None:
    """Begin to copy a vector of `size` bytes (4, 8 or 16) to shared memory; bytes that do not exist become 0."""
    b, policy, width = e.builder, e.asm(I64, KEEP.format("$0"), "=l", []), size // dtype.itemsize
    there: ir.Value = I32(size)
    if room is not None:
        left = there
        if room.partial and room.count is not None:
            left = b.select(b.icmp_signed("<", room.count, I32(width)), room.count, I32(width))
            left = b.mul(left, I32(dtype.itemsize))
        there = b.select(room.any(b, width), left, I32(0))
    how = "cg" if size == ACCESS_BYTES else "ca"
    text = f"cp.async.{how}.shared.global.L2::cache_hint [$0], [$1], {size}, $2, $3;"
    e.asm(VOID, text, "r,l,r,l,~{memory}", [target, source, there, policy], side_effect=True)


def _write_checked(
    e: Emitter, dtype: DType, width: int, address: ir.Value, units: list[ir.Value], room: ValidElements
) -> None:
    bits, size, b = register_bits(dtype, width), dtype.itemsize, e.builder
    if bits == 8:
        units = [b.zext(units[0], I16)]
    ins = [f"${k}" for k in range(len(units))]
    at = f"${len(units)}"
    whole = f"@whole st.global{_suffix(len(units), bits)} [{at}], {_braced(ins)};"
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
    e.asm(VOID, text, constraints, [*units, address, *inputs], side_effect=True)
