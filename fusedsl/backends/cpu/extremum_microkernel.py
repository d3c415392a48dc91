"""Argmax microkernel: the first of the largest, or smallest, elements of an array that are better than a given one.

Blocks of vectors are compared with the best element so far. Most of them hold none that is better. The extremum of
one that does is the next best element; where in the block it is, is looked up once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ...ir.types import BOOL, INT64, DType
from .extrema import WORDS
from .llvm_values import LLVMValue, llvm_type
from .matmul_microkernel import WORD, splat
from .memory import POINTER_TYPE, stored_type
from .vector_registers import PREFER_VECTOR_WIDTH, VectorRegisters

BLOCK = 4  # vectors of a block
NONE = WORD(-1)  # no element is better
BIT = ir.IntType(1)


def first_better(vectors: VectorRegisters, fold: str, d: DType) -> Callable[..., LLVMValue]:
    """The vocabulary function of (pointer, count, best): an index, of the first NaN if there is one, or -1."""

    def call(builder: ir.IRBuilder, pointer, count: LLVMValue, best: LLVMValue) -> LLVMValue:
        name = f"{WORDS[fold]}_{d.name}"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(WORD, [POINTER_TYPE, WORD, llvm_type(d)]), name)
            function.linkage = "internal"
            function.attributes.add("noinline")
            set.add(function.attributes, PREFER_VECTOR_WIDTH)
            _Search(function, d, vectors.bytes // d.itemsize, fold == "argmax").write()
        return LLVMValue(builder, INT64, builder.call(function, [pointer, count.value, best.value]))

    return call


class _Search:
    """Emits one function."""

    def __init__(self, function: ir.Function, d: DType, lanes: int, largest: bool):
        self.builder, self.d, self.lanes, self.largest = ir.IRBuilder(function.append_basic_block()), d, lanes, largest
        self.array, self.count, self.best = function.args
        self.element = stored_type(d)
        self.vector = ir.VectorType(self.element, lanes)

    def write(self) -> None:
        """Blocks, then vectors, then the last vector, which may overlap others; fewer elements one by one."""
        builder, best = self.builder, self.best
        if self.d is BOOL:
            best = builder.zext(best, self.element)
        if self.d.kind == "f":
            with builder.if_then(builder.fcmp_unordered("uno", best, best)):
                builder.ret(NONE)  # the first NaN stays
        last = builder.sub(self.count, WORD(self.lanes))
        end, best, block_begin = self._search(WORD(0), self.count, BLOCK, self.vector, best, NONE)
        end, best, block_begin = self._search(end, self.count, 1, self.vector, best, block_begin)
        is_short = builder.icmp_signed("<", last, WORD(0))
        has_rest = builder.icmp_signed("<", end, self.count)
        begin = builder.select(has_rest, builder.select(is_short, self.count, last), self.count)
        _, best, block_begin = self._search(begin, self.count, 1, self.vector, best, block_begin)
        begin = builder.select(is_short, WORD(0), self.count)
        _, best, block_begin = self._search(begin, self.count, 1, self.element, best, block_begin)
        with builder.if_then(builder.or_(is_short, builder.icmp_signed("<", block_begin, WORD(0)))):
            builder.ret(block_begin)
        self._return_first(block_begin, lambda x: self._compare("==", x, splat(builder, best, self.vector)))

    def _search(self, begin, stop, vectors: int, kind, best, block_begin) -> tuple:
        """A loop over blocks of `vectors`, or elements: (end index, best element, first index of its block)."""
        builder, width = self.builder, vectors * (self.lanes if kind is self.vector else 1)
        end, before = builder.sub(stop, WORD(width)), builder.block
        head, body, better, after = (builder.append_basic_block(name) for name in ("head", "body", "better", "after"))
        following = builder.append_basic_block("next")
        builder.branch(head)
        builder.position_at_end(head)
        k, top, top_begin = phis = [builder.phi(x.type) for x in (begin, best, block_begin)]
        for phi, x in zip(phis, (begin, best, block_begin)):
            phi.add_incoming(x, before)
        builder.cbranch(builder.icmp_signed("<=", k, end), body, after)
        builder.position_at_end(body)
        loaded = [self._load(builder.add(k, WORD(v * self.lanes)), kind) for v in range(vectors)]
        beside = splat(builder, top, kind) if kind is self.vector else top
        builder.cbranch(self._any([self._is_better(x, beside) for x in loaded]), better, following)
        builder.position_at_end(better)
        if self.d.kind == "f":
            with builder.if_then(self._any([builder.fcmp_unordered("uno", x, x) for x in loaded])):
                self._return_first(k, lambda x: builder.fcmp_unordered("uno", x, x), kind)
        extremum, behind = self._extremum(loaded), builder.block
        builder.branch(following)
        builder.position_at_end(following)
        kept = [builder.phi(x.type) for x in (best, block_begin)]
        for phi, old, new in zip(kept, (top, top_begin), (extremum, k)):
            phi.add_incoming(old, body)
            phi.add_incoming(new, behind)
        for phi, x in zip(phis, (builder.add(k, WORD(width)), *kept)):
            phi.add_incoming(x, following)
        builder.branch(head)
        builder.position_at_end(after)
        return k, top, top_begin

    def _return_first(self, begin, holds: Callable, kind=None) -> None:
        """Return the index of the first element for which a condition holds, in vectors from `begin` on."""
        builder, kind = self.builder, kind or self.vector
        if kind is not self.vector:
            builder.ret(begin)
            return
        before, look, after = builder.block, builder.append_basic_block("look"), builder.append_basic_block("found")
        builder.branch(look)
        builder.position_at_end(look)
        k = builder.phi(WORD)
        k.add_incoming(begin, before)
        mask = builder.bitcast(holds(self._load(k, kind)), ir.IntType(self.lanes))
        k.add_incoming(builder.add(k, WORD(self.lanes)), look)
        builder.cbranch(builder.icmp_unsigned("!=", mask, mask.type(0)), after, look)
        builder.position_at_end(after)
        bits = mask if self.lanes == WORD.width else builder.zext(mask, WORD)
        count_zeros = self._function("llvm.cttz.i64", WORD, [WORD, BIT])
        builder.ret(builder.add(k, builder.call(count_zeros, [bits, BIT(1)])))

    def _is_better(self, x, best):
        """Whether elements are better than the best so far, or NaN."""
        operator = ">" if self.largest else "<"
        return (
            self.builder.fcmp_unordered(operator, x, best) if self.d.kind == "f" else self._compare(operator, x, best)
        )

    def _compare(self, operator: str, x, y):
        if self.d.kind == "f":
            return self.builder.fcmp_ordered(operator, x, y)
        return (self.builder.icmp_signed if self.d.kind == "i" else self.builder.icmp_unsigned)(operator, x, y)

    def _any(self, conditions: list):
        builder, every = self.builder, conditions[0]
        for condition in conditions[1:]:
            every = builder.or_(every, condition)
        if every.type == BIT:
            return every
        mask = builder.bitcast(every, ir.IntType(self.lanes))
        return builder.icmp_unsigned("!=", mask, mask.type(0))

    def _extremum(self, values: list):
        """The extremum of some vectors without NaN, or of an element."""
        builder, best = self.builder, values[0]
        for x in values[1:]:
            best = builder.select(self._compare(">" if self.largest else "<", x, best), x, best)
        if best.type == self.element:
            return best
        letter = self.d.kind if self.d.kind in "fi" else "u"
        word = {"f": "f", "i": "s", "u": "u"}[letter] + ("max" if self.largest else "min")
        suffix = f"v{self.lanes}{'f' if letter == 'f' else 'i'}{self.d.itemsize * 8}"
        return builder.call(self._function(f"llvm.vector.reduce.{word}.{suffix}", self.element, [self.vector]), [best])

    def _load(self, index, kind):
        builder = self.builder
        at = builder.gep(builder.bitcast(self.array, self.element.as_pointer()), [index], source_etype=self.element)
        x = builder.load(builder.bitcast(at, kind.as_pointer()), typ=kind, align=self.d.itemsize)
        if self.d is not BOOL:
            return x
        return builder.zext(builder.icmp_unsigned("!=", x, ir.Constant(kind, None)), kind)  # any byte but 0 is True

    def _function(self, name: str, result, arguments: list) -> ir.Function:
        module = self.builder.module
        return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)
