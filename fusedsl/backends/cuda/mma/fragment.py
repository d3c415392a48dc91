"""Fragment: the accumulator elements of a thread in a warpgroup's 64-row product; maps and row reductions over them."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import dtype
from ..compiler.numba_backend import (
    F32,
    F64,
    I1,
    I32,
    VOID,
    Emitter,
    ScalarFunction,
    emitted,
    ir,
    numba_type,
    types,
)
from ..math import convert
from ..tile.element import narrowed_value, pair, unpaired
from ..tile.element_registers import element_type
from ..tile.loops import looped
from ..tile.reduce import ReduceOp
from ..tile.scalar_functions import elements_of, mapped, scalar_function
from ..tile.thread_index import thread_here
from .fragment_layout import ROWS, FragmentLayout
from .row_states import chained, chained_in_order, packed_states, row_states

INSTRUCTIONS = {  # mma.sync of a dtype
    "bfloat16": "m16n8k16.row.col.f32.bf16.bf16.f32",
    "float16": "m16n8k16.row.col.f32.f16.f16.f32",
    "float32": "m16n8k8.row.col.f32.tf32.tf32.f32",
    "int8": "m16n8k32.row.col.s32.s8.s8.s32",
    "uint8": "m16n8k32.row.col.s32.u8.u8.s32",
    "float64": "m16n8k4.row.col.f64.f64.f64.f64",
}
LETTERS = {F32: "f", I32: "r", F64: "d"}  # of registers, by their type
STEP = 8  # elements of a chunk of `in_chunks`


class Fragment(FragmentLayout):
    """The elements of a thread in 64 rows of `columns` columns.

    Row values are tuples of 2; a thread has a quarter of the columns, and elements of both rows in each.
    """

    def broadcast_to_elements(self, values: list[ir.Value]) -> list[ir.Value]:
        """Values by element."""
        if len(values) == self.count:
            return values
        if len(values) == ROWS:
            return [values[k // 2 % 2] for k in range(self.count)]
        assert len(values) == self.count // 2
        return [values[k // 4 * 2 + k % 2] for k in range(self.count)]

    def _elements(self, e: Emitter, value: ir.Value, kind: types.Type, want: types.Type) -> list[ir.Value]:
        if isinstance(kind, types.BaseTuple):
            return self.broadcast_to_elements([e.cast(v, kind.dtype, want) for v in e.unpack(value, len(kind))])
        return [e.cast(value, kind, want)] * self.count

    def elementwise(self, signature: str) -> Callable[[Callable], Callable]:
        """Decorator: a scalar function over elements, with row values, column values and scalars among its arguments;
        a result is a tuple of elements."""
        return self._mapped(signature, self.count)

    def in_chunks(self, signature: str) -> Callable[[Callable], Callable]:
        """Decorator: the same in chunks of a few elements, so that loads do not fill registers all at once."""
        return self._mapped(signature, self.count, STEP)

    def index_mask(self, signature: str) -> Callable[[Callable], Callable]:
        """Decorator: a condition of scalars, row values and column indices, evaluated in a loop over elements: words
        with a bit for each."""
        words = -(-self.count // 32)

        def wrap(function: Callable) -> Callable:
            body = scalar_function(signature, function)
            result = types.UniTuple(types.uint32, words)

            @emitted(result, len(body.arguments))
            def emit(e, *values, kinds):
                lists = [self.element_reader(e, v, k, w) for v, k, w in zip(values, kinds, body.arguments)]
                return e.pack(
                    result, [_bits(e, body, lists, k, min(32, self.count - k)) for k in range(0, self.count, 32)]
                )

            return emit

        return wrap

    def element_reader(self, e: Emitter, value: ir.Value, kind: types.Type, want: types.Type) -> Callable:
        """The function that returns an argument of an element, by the element's number."""
        b = e.builder
        if not isinstance(kind, types.BaseTuple):
            scalar = e.cast(value, kind, want)
            return lambda k: scalar
        if len(kind) == ROWS:
            upper, lower = (e.cast(v, kind.dtype, want) for v in e.unpack(value, ROWS))
            return lambda k: b.select(b.icmp_unsigned("!=", b.and_(k, I32(2)), I32(0)), lower, upper)
        first = e.unpack(value, len(kind))[0]

        def value_of(k):
            step = b.or_(b.shl(b.lshr(k, I32(2)), I32(3)), b.and_(k, I32(1)))
            return e.cast(b.add(first, e.cast(step, types.int32, kind.dtype)), kind.dtype, want)

        return value_of

    @emitted(lambda self: types.UniTuple(types.boolean, self.count))
    def unpack_bits(self, e, given, *, kinds, packed: bool = False):
        """`unpack_bits(words)`: the conditions of an index mask as elements. `packed` words stay in registers until an
        element is read: LLVM would otherwise shift each bit into a register early."""
        b, words = e.builder, e.unpack(given, len(kinds[0]))
        asked = [(words[k // 32], I32(1 << k % 32)) for k in range(self.count)]
        if packed:
            bits = [e.asm(I32, "and.b32 $0, $1, $2;", "=r,r,n", [*pair], side_effect=True) for pair in asked]
        else:
            bits = [b.and_(*pair) for pair in asked]
        return [b.icmp_unsigned("!=", x, I32(0)) for x in bits]

    def rowwise(self, signature: str) -> Callable[[Callable], Callable]:
        """Decorator: a scalar function over row values and scalars."""
        return self._mapped(signature, ROWS)

    def columnwise(self, signature: str) -> Callable[[Callable], Callable]:
        """Decorator: … over column values and scalars."""
        return self._mapped(signature, self.count // 2)

    def _mapped(self, signature: str, count: int, step: int = 0) -> Callable[[Callable], Callable]:
        def values_of(e, value, kind, want):
            if count == self.count:
                return self._elements(e, value, kind, want)
            return elements_of(e, value, kind, want, count)

        return mapped(signature, count, values_of, step)

    @emitted(lambda rule_of: row_states(rule_of), lambda rule_of: len(rule_of.state))
    def fold(self, e, *values, kinds, rule_of: ReduceOp, ordered: bool = False):
        """`fold(lifted…)`: the reduction of this thread's elements of each row; `ordered`: identities are the last."""
        lists = [self._elements(e, v, k, w) for v, k, w in zip(values, kinds, rule_of.state)]
        states = []
        for row in range(ROWS):
            own = [k for k in range(self.count) if k // 2 % 2 == row]
            chain = chained_in_order if ordered and rule_of.follow else chained
            states.append(chain(e, rule_of, [[elements[k] for elements in lists] for k in own]))
        return packed_states(e, rule_of, states)

    @emitted(lambda self, name: types.UniTuple(numba_type(name), self.count))
    def zeros(self, e, *, name: str = "float32"):
        """`zeros()`: accumulators of 0."""
        return [ir.Constant(element_type(dtype(name)), 0.0 if dtype(name).kind == "f" else 0)] * self.count

    @emitted(lambda self: types.UniTuple(types.uint32, self.count // 2))
    def pack(self, e, values, *, kinds, name: str):
        """`pack(values)`: elements rounded to 16 bits, in pairs: the A operand of a product over the columns."""
        kind = dtype(name)
        elements = [narrowed_value(e, kind, v, kinds[0].dtype) for v in e.unpack(values, self.count)]
        return [pair(e, kind, *elements[k : k + 2]) for k in range(0, self.count, 2)]

    @emitted(lambda self: types.UniTuple(types.uint32, self.count // 2))
    def load_smem(self, e, at, *, kinds, rows: int):
        """`load_smem(at)`: load 16-bit elements, packed, of a warp's rows of a TMA box in shared memory.

        The box has `rows` rows per panel; `at` is the address of the warpgroup's first row.
        """
        addresses = self.box_addresses(e, e.cast(at, kinds[0], types.int32), rows, e.special_register("tid.x"))
        return [word for address in addresses for word in matrices(e, address)]

    @emitted(types.void)
    def store_smem(self, e, at, values, *, kinds, name: str, rows: int):
        """`store_smem(at, values)`: store elements, rounded to 16 bits, to a warp's rows of such a box.

        Their addresses are rematerialised each time, so that no register holds them in loops.
        """
        kind = dtype(name)
        elements = [narrowed_value(e, kind, v, kinds[1].dtype) for v in e.unpack(values, self.count)]
        words = [pair(e, kind, *elements[k : k + 2]) for k in range(0, self.count, 2)]
        text = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};"
        thread = thread_here(e)
        for k, address in enumerate(self.box_addresses(e, e.cast(at, kinds[0], types.int32), rows, thread)):
            e.asm(VOID, text, "r,r,r,r,r,~{memory}", [address, *words[4 * k : 4 * k + 4]], side_effect=True)

    @emitted(lambda self: types.UniTuple(types.float32, self.count))
    def unpack(self, e, pairs, *, name: str):
        """`unpack(pairs)`: elements of 16 bits, widened."""
        kind = dtype(name)
        words = e.unpack(pairs, self.count // 2)
        return [convert.widen(e, x, name) for x in unpaired(e, kind, words, 2)]

    @emitted(types.boolean)
    def any_nonfinite(self, e, values, *, kinds):
        """`any_nonfinite(values)`: True if an element of the warp's rows is not finite.

        0 * x is NaN if and only if x is not finite, and NaN stays in sums.
        """
        b, real, bits = e.builder, *((F64, 64) if kinds[0].dtype == types.float64 else (F32, 32))
        zero = ir.Constant(real, 0.0)
        chains = [zero] * 4  # independent accumulators (ILP)
        for k, value in enumerate(e.unpack(values, self.count)):
            chains[k % 4] = e.call(real, f"llvm.fma.f{bits}", [value, zero, chains[k % 4]])
        total = b.fadd(b.fadd(chains[0], chains[1]), b.fadd(chains[2], chains[3]))
        return any_of(e, b.fcmp_unordered("uno", total, total))


def matrices(e: Emitter, address: ir.Value, transposed: bool = False) -> list[ir.Value]:
    """ldmatrix: four 8 x 8 matrices in shared memory; lane 8 i + r holds the address of row r of matrix i."""
    text = f"ldmatrix.sync.aligned.m8n8.x4{'.trans' if transposed else ''}.shared.b16 {{$0, $1, $2, $3}}, [$4];"
    kind = ir.LiteralStructType([I32] * 4)
    return e.unpack(e.asm(kind, text, "=r,=r,=r,=r,r,~{memory}", [address], side_effect=True), 4)


def mma_sync(e: Emitter, form: str, a: list[ir.Value], b: list[ir.Value], c: list[ir.Value]) -> list[ir.Value]:
    """mma.sync: the accumulators c plus the product of two fragments."""
    number = iter(range(2 * len(c) + len(a) + len(b)))
    lists = [", ".join(f"${next(number)}" for _ in part) for part in (c, a, b, c)]
    text = f"mma.sync.aligned.{form} {', '.join(f'{{{one}}}' for one in lists)};"
    letters = [LETTERS[v.type] for v in (*a, *b, *c)]
    constraints = ",".join([f"={LETTERS[c[0].type]}"] * len(c) + letters)
    kind = ir.LiteralStructType([v.type for v in c])
    return e.unpack(e.asm(kind, text, constraints, [*a, *b, *c], side_effect=True), len(c))


def any_of(e: Emitter, flag: ir.Value) -> ir.Value:
    """vote.any over the warp."""
    text = "{ .reg .pred p; setp.ne.b32 p, $1, 0; vote.sync.any.pred p, p, 0xffffffff; selp.b32 $0, 1, 0, p; }"
    return e.builder.trunc(e.asm(I32, text, "=r,r", [e.builder.zext(flag, I32)], side_effect=True), I1)


def _bits(e: Emitter, body: ScalarFunction, lists: list[Callable], first: int, count: int) -> ir.Value:
    """A word with the bits of a condition for `count` elements from `first` on, two per iteration of a loop."""
    b = e.builder
    with looped(e, [I32(0), I32(0)], lambda k, word: b.icmp_unsigned("<", k, I32(count))) as (state, next_state):
        k, word = state
        for n in range(2):
            at = b.add(k, I32(n))
            (condition,) = body.emit(e, [of(b.add(at, I32(first))) for of in lists])
            word = b.or_(word, b.shl(b.zext(condition, I32), at))
        next_state += [b.add(k, I32(2)), word]
    return state[1]
