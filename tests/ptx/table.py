"""The instructions that compute: a row for each opcode, which says what NumPy does for it.

A builder takes an Instruction and returns its step; it refuses (Unsupported) what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import numbers as n
from .convert import KINDS, PAIRS, conversion, floating
from .operands import Step, parts, reader, type_of, writer
from .syntax import Immediate, Instruction, Unsupported

BUILDERS: dict[str, Callable[[Instruction], Step]] = {}
U4, F4 = np.dtype(np.uint32), np.dtype(np.float32)
FLOAT_WORDS = ("rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full", "NaN")


def build(*names: str):
    """Decorator: the builder of these opcodes."""

    def keep(builder):
        BUILDERS.update(dict.fromkeys(names, builder))
        return builder

    return keep


def simple(ins: Instruction, function: Callable, kinds: list[np.dtype], result: np.dtype) -> Step:
    """The step that writes function(sources)."""
    reads = [reader(operand, kind) for operand, kind in zip(ins.operands[1:], kinds, strict=True)]
    write = writer(ins.operands[0], result)
    return lambda m, at: write(m, at, function(*[read(m, at) for read in reads]))


def typed(ins: Instruction, function: Callable) -> Step:
    """All operands of the instruction's type; .ftz and .sat around the function."""
    kind = type_of(ins)
    words = set(ins.modifiers)
    if "ftz" in words and kind == F4:
        inner = function
        function = lambda *xs: n.flushed(inner(*map(n.flushed, xs)))  # noqa: E731
    if "sat" in words:
        if not floating(kind):
            raise Unsupported(ins.text)
        before = function
        function = lambda *xs: n.saturated(before(*xs))  # noqa: E731
    return simple(ins, function, [kind] * (len(ins.operands) - 1), kind)


def rounding(ins: Instruction) -> str:
    return next((w for w in ins.modifiers if w in n.ROUNDINGS), "rn")


# ---- sums, products, quotients


@build("add", "sub")
def _add(ins: Instruction) -> Step:
    if "cc" in ins.modifiers:
        return _carrying(ins)
    ins.allow(*FLOAT_WORDS)
    way = rounding(ins)
    if way == "rn":
        return typed(ins, np.add if ins.name == "add" else np.subtract)
    return typed(ins, lambda a, b: n.add(a, b if ins.name == "add" else -b, way))


@build("mul")
def _multiply(ins: Instruction) -> Step:
    ins.allow(*FLOAT_WORDS, "lo", "hi", "wide")
    kind = type_of(ins)
    if floating(kind):
        return typed(ins, lambda a, b: n.multiply(a, b, rounding(ins)))
    if "wide" in ins.modifiers:
        wide = np.dtype(f"{kind.kind}{2 * kind.itemsize}")
        return simple(ins, lambda a, b: a.astype(wide) * b.astype(wide), [kind, kind], wide)
    return typed(ins, n.high_product if "hi" in ins.modifiers else np.multiply)


@build("mad", "fma")
def _multiply_add(ins: Instruction) -> Step:
    ins.allow(*FLOAT_WORDS, "lo", "hi", "wide", "cc")
    kind = type_of(ins)
    if "cc" in ins.modifiers:
        return _carrying(ins)
    if floating(kind):
        return typed(ins, lambda a, b, c: n.fma(a, b, c, rounding(ins)))
    if "wide" in ins.modifiers:
        wide = np.dtype(f"{kind.kind}{2 * kind.itemsize}")
        return simple(ins, lambda a, b, c: a.astype(wide) * b.astype(wide) + c, [kind, kind, wide], wide)
    product = n.high_product if "hi" in ins.modifiers else np.multiply
    return typed(ins, lambda a, b, c: product(a, b) + c)


@build("addc", "subc", "madc")
def _carrying(ins: Instruction) -> Step:
    """Sums with the carry that another instruction left, or that leave one (.cc)."""
    ins.allow("lo", "hi", "cc")
    kind = np.dtype(f"u{type_of(ins).itemsize}")
    reads = [reader(operand, kind) for operand in ins.operands[1:]]
    write, takes, leaves = writer(ins.operands[0], kind), ins.name.endswith("c"), "cc" in ins.modifiers
    one, minus = kind.type(1), ins.name.startswith("sub")

    def step(m, at):
        values = [read(m, at) for read in reads]
        if ins.name.startswith("mad"):
            product = n.high_product if "hi" in ins.modifiers else np.multiply
            values = [product(*values[:2]), values[2]]
        a, b = values
        b = ~b if minus else b
        first = a + b
        carry = (m.carry[m.which(at)] ^ minus).astype(kind) if takes else kind.type(minus)
        total = first + carry
        write(m, at, total)
        if leaves:
            m.carry[m.which(at)] = ((first < a) | ((total < first) & (carry == one))) ^ minus

    return step


@build("div")
def _divide(ins: Instruction) -> Step:
    ins.allow(*FLOAT_WORDS)
    kind = type_of(ins)
    if not floating(kind):
        return typed(ins, n.divided)
    if rounding(ins) != "rn":
        raise Unsupported(ins.text)
    return typed(ins, np.divide)


@build("rem")
def _remainder(ins: Instruction) -> Step:
    ins.allow()
    return typed(ins, n.remainder)


@build("neg", "abs")
def _sign(ins: Instruction) -> Step:
    ins.allow("ftz")
    return typed(ins, np.negative if ins.name == "neg" else np.abs)


@build("min", "max")
def _extreme(ins: Instruction) -> Step:
    """With `xorsign.abs`, of magnitudes, which get the product's sign."""
    ins.allow("ftz", "NaN", "xorsign", "abs")
    function = n.minimum if ins.name == "min" else n.maximum
    nan, half, sizes = "NaN" in ins.modifiers, PAIRS.get(ins.types[0]), "abs" in ins.modifiers
    if len(ins.operands) > 3 or sizes != ("xorsign" in ins.modifiers) or (sizes and half is None):
        raise Unsupported(ins.text)
    if half is None:
        return typed(ins, lambda a, b: function(a, b, nan))

    def pairs(a, b):
        sides = [np.ascontiguousarray(word).view(half) for word in np.broadcast_arrays(a, b)]
        found = function(*(map(np.abs, sides) if sizes else sides), nan).astype(half).view(U4)
        return found & 0x7FFF7FFF | (a ^ b) & 0x80008000 if sizes else found

    return typed(ins, pairs)


def _through_double(function: Callable) -> Callable:
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


FUNCTIONS = {
    "rcp": lambda x: x.dtype.type(1) / x,
    "sqrt": np.sqrt,
    "rsqrt": _through_double(lambda x: 1 / np.sqrt(x)),
    "ex2": _through_double(np.exp2),
    "lg2": _through_double(np.log2),
    "sin": _through_double(np.sin),
    "cos": _through_double(np.cos),
    "tanh": _through_double(np.tanh),
}


@build(*FUNCTIONS)
def _function(ins: Instruction) -> Step:
    """Rounded correctly, where the hardware approximates."""
    ins.allow("approx", "ftz", "rn")
    return typed(ins, FUNCTIONS[ins.name])


@build("copysign")
def _copysign(ins: Instruction) -> Step:
    ins.allow()
    return typed(ins, lambda sign, x: np.copysign(x, sign))


# ---- bits


@build("and", "or", "xor")
def _bitwise(ins: Instruction) -> Step:
    ins.allow("pred")
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[ins.name]
    return typed(ins, function)


@build("not")
def _not(ins: Instruction) -> Step:
    ins.allow("pred")
    return typed(ins, np.invert)


@build("shl", "shr")
def _shift(ins: Instruction) -> Step:
    ins.allow()
    kind = type_of(ins)
    return simple(ins, lambda a, b: n.shifted(a, b, ins.name == "shl"), [kind, U4], kind)


@build("shf")
def _funnel(ins: Instruction) -> Step:
    ins.allow("l", "r", "wrap", "clamp")
    left, clamp = "l" in ins.modifiers, "clamp" in ins.modifiers
    return simple(ins, lambda a, b, c: n.funnel(a, b, c, left, clamp), [U4] * 3, U4)


@build("bfe")
def _field(ins: Instruction) -> Step:
    ins.allow()
    kind = type_of(ins)
    return simple(ins, n.field, [kind, U4, U4], kind)


@build("bfi")
def _insert(ins: Instruction) -> Step:
    ins.allow()
    kind = type_of(ins)
    return simple(ins, n.inserted, [kind, kind, U4, U4], kind)


@build("prmt")
def _permute(ins: Instruction) -> Step:
    ins.allow()
    return typed(ins, n.permuted)


@build("lop3")
def _logic(ins: Instruction) -> Step:
    ins.allow()
    table = ins.operands[-1]
    assert isinstance(table, Immediate)
    plain = Instruction(ins.name, ins.modifiers, ins.operands[:-1], ins.guard, ins.text)
    return typed(plain, lambda a, b, c: n.logic(a, b, c, int(table.value)))


@build("clz", "popc", "brev", "bfind")
def _count(ins: Instruction) -> Step:
    ins.allow()
    kind = type_of(ins)
    if ins.name == "bfind":
        bits = np.uint32(8 * kind.itemsize - 1)
        magnitude = lambda a: np.where(a < 0, ~a, a).view(f"u{kind.itemsize}")  # noqa: E731
        return simple(ins, lambda a: bits - n.leading_zeros(magnitude(a)), [kind], U4)
    function = {"clz": n.leading_zeros, "popc": lambda a: np.bitwise_count(a).astype(U4), "brev": n.reversed_bits}
    return simple(ins, function[ins.name], [kind], kind if ins.name == "brev" else U4)


@build("dp4a", "dp2a")
def _dot(ins: Instruction) -> Step:
    """Four products of bytes, or two of 16-bit halves and the low or high bytes, added to a third operand."""
    ins.allow(*("lo", "hi") if ins.name == "dp2a" else ())
    a_kind, b_kind = (KINDS[t] for t in ins.types)
    result = np.dtype("i4") if "i" in (a_kind.kind, b_kind.kind) else U4
    count = int(ins.name[2])
    first = 2 if "hi" in ins.modifiers else 0

    def dot(a, b, c):
        left = np.atleast_1d(a).view(f"{a_kind.kind}{4 // count}").reshape(-1, count).astype(np.int64)
        right = np.atleast_1d(b).view(f"{b_kind.kind}1").reshape(-1, 4)[:, first : first + count]
        return ((left * right).sum(axis=1) + c.astype(np.int64)).astype(result)

    return simple(ins, dot, [U4, U4, result], result)


# ---- moves, choices, conversions


@build("mov")
def _move(ins: Instruction) -> Step:
    ins.allow("pred")
    target, source = ins.operands
    if not isinstance(target, tuple) and not isinstance(source, tuple):
        kind = type_of(ins)
        read, write = reader(source, kind), writer(target, kind)
        return lambda m, at: write(m, at, read(m, at).copy())
    size = type_of(ins).itemsize
    return _pack(target, source, size) if isinstance(source, tuple) else _unpack(target, source, size)


def _pack(target, source: tuple, size: int) -> Step:
    """The first member fills the low bits."""
    whole, each = np.dtype(f"u{size}"), size // len(source)
    reads, write = [reader(s, np.dtype(f"u{each}")) for s in source], writer(target, whole)

    def step(m, at):
        write(m, at, sum(read(m, at).astype(whole) << whole.type(8 * each * k) for k, read in enumerate(reads)))

    return step


def _unpack(target: tuple, source, size: int) -> Step:
    whole, part = np.dtype(f"u{size}"), np.dtype(f"u{size // len(target)}")
    read, writes = reader(source, whole), [writer(t, part) for t in target]

    def step(m, at):
        value = read(m, at)
        for k, write in enumerate(writes):
            write(m, at, (value >> whole.type(8 * part.itemsize * k)).astype(part))

    return step


@build("cvt")
def _convert(ins: Instruction) -> Step:
    function, kind = conversion(ins)
    return simple(ins, function, [kind] * (len(ins.operands) - 1), KINDS[ins.types[0]])


@build("selp")
def _select(ins: Instruction) -> Step:
    ins.allow("pred")
    kind = type_of(ins)
    return simple(ins, lambda a, b, p: np.where(p, a, b), [kind, kind, KINDS["pred"]], kind)


COMPARE: dict[str, Callable] = {
    **dict.fromkeys(("eq", "equ"), np.equal),
    **dict.fromkeys(("ne", "neu"), np.not_equal),
    **dict.fromkeys(("lt", "lo", "ltu"), np.less),
    **dict.fromkeys(("le", "ls", "leu"), np.less_equal),
    **dict.fromkeys(("gt", "hi", "gtu"), np.greater),
    **dict.fromkeys(("ge", "hs", "geu"), np.greater_equal),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}


def comparison(word: str, kind: np.dtype) -> Callable:
    """A comparison; of floats that are NaN it is false, or true where the word ends in u."""
    function = COMPARE[word]
    if not floating(kind) or word in ("num", "nan"):
        return function
    unordered = word.endswith("u")
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), unordered, function(a, b))


@build("setp")
def _compare(ins: Instruction) -> Step:
    ins.allow(*COMPARE, "ftz", "and", "or", "xor")
    kind, pred = type_of(ins), KINDS["pred"]
    function = comparison(ins.modifiers[0], kind)
    targets = [writer(t, pred) for t in parts(ins.operands[0])]
    reads = [reader(operand, kind) for operand in ins.operands[1:3]]
    combine = next((w for w in ins.modifiers[1:] if w in ("and", "or", "xor")), None)
    joined = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(combine or "")
    other = reader(ins.operands[3], pred) if joined else None
    flush = n.flushed if "ftz" in ins.modifiers else (lambda x: x)

    def step(m, at):
        found = function(*[flush(read(m, at)) for read in reads])
        both = [found, ~found] if len(targets) > 1 else [found]
        for write, value in zip(targets, both):
            write(m, at, joined(value, other(m, at)) if joined else value)

    return step


@build("set")
def _set(ins: Instruction) -> Step:
    ins.allow(*COMPARE, "ftz")
    to, kind = (KINDS[t] for t in ins.types)
    function = comparison(ins.modifiers[0], kind)
    true = to.type(1) if floating(to) else ~to.type(0)
    return simple(ins, lambda a, b: np.where(function(a, b), true, to.type(0)), [kind, kind], to)


@build("testp")
def _test(ins: Instruction) -> Step:
    ins.allow("finite", "infinite", "notanumber", "number")
    tests = {"finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": lambda x: ~np.isnan(x)}
    return simple(ins, tests[ins.modifiers[0]], [type_of(ins)], KINDS["pred"])


@build("cvta")
def _generic(ins: Instruction) -> Step:
    """Addresses of one space as generic ones, and back."""
    from .operands import WINDOWS

    ins.allow("to", *WINDOWS)
    space = next(w for w in ins.modifiers if w in WINDOWS)
    kind = type_of(ins)
    shift = kind.type(WINDOWS[space])
    return typed(ins, (lambda a: a - shift) if "to" in ins.modifiers else (lambda a: a + shift))


@build("createpolicy", "prefetch", "prefetchu", "applypriority", "discard", "nanosleep", "setmaxnreg")
def _hint(ins: Instruction) -> Step:
    """What changes time alone."""
    if ins.name != "createpolicy":
        return lambda m, at: None
    write = writer(ins.operands[0], np.dtype(np.uint64))
    return lambda m, at: write(m, at, np.uint64(0))


@build("griddepcontrol")
def _dependent_launch(ins: Instruction) -> Step:
    """A warp that waits for the launch before goes on some time later than another one, in no order."""
    if "wait" not in ins.modifiers:
        return lambda m, at: None
    return lambda m, at: m.delay(at)


@build("fence", "membar")
def _fence(ins: Instruction) -> Step:
    """Accesses take effect in the order in which they run, but that the copy engine sees only what is shown to it."""
    if "proxy" in ins.modifiers and "async" in ins.modifiers:
        return lambda m, at: m.shared.show(m.which(at))
    return lambda m, at: None
