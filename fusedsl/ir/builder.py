"""Builder of typed graphs: type promotion, weak values, broadcasting; it collects the checks that a call must pass."""

from __future__ import annotations

from ..errors import DTypeError, FusedslError
from . import constant_folding
from .checks import phrase, spelled
from .extent_builder import ExtentBuilder
from .graph import (
    Check,
    Graph,
    Node,
    Type,
    constant,
    is_int64,
    node,
    rebuild_graph,
    resolve_dims,
    value_of,
    with_arguments,
)
from .ops import OPS, VIEWS, Op, RuleError, infer
from .types import BOOL, FLOAT64, INT32, INT64, UINT32, UINT64, DType, fits, promote

# Operations on weak integers that mean the same in any dtype; the others are computed in int64, then converted.
EXACT_IN_FLOAT = (
    "add",
    "subtract",
    "multiply",
    "negative",
    "absolute",
    "maximum",
    "minimum",
    "where",
    "gather",
    *VIEWS,
)
STOPPED = "stop_gradient"  # the attribute of a conversion that changes nothing, and that no derivative passes
FOLDING = ("reduce", "scan")
MIXING = (*FOLDING, "contract", "sorted")


def fail(error: FusedslError, operand: int | None = None, item: int | None = None) -> FusedslError:
    """An error with the faulty operand of the call (or an item of it), so that the language can point at it."""
    error.operand = operand  # type: ignore[attr-defined]
    if item is not None:
        error.item = item  # type: ignore[attr-defined]
    return error


class GraphBuilder(ExtentBuilder):
    """One program under construction: builds nodes, and collects checks, unified extents and guards.

    `extents` are those of the call that caused the build. They decide only whether a computed extent is 1 (each such
    decision becomes a guard of the plan), and which shapes error messages show.
    """

    # -- dtypes

    def convert(self, x: Node, to: DType) -> Node:
        """`x` in dtype `to` by promotion: nothing is rounded to a narrow float."""
        if x.type.weak:
            return self.coerce(x, to)
        if x.type.dtype is to:
            return x
        if x.op == "const":
            return constant(constant_folding.convert(value_of(x), to), to)
        return node("convert", (x,), None, Type(to, x.type.shape))

    def cast(self, x: Node, to: DType) -> Node:
        """`x` in dtype `to` as by `astype`: rounded to a narrow float."""
        if x.type.weak:
            return self.cast(self.coerce(x, x.type.dtype), to)
        if x.type.dtype is to and (to.compute is to or x.op in ("param", "cast")):
            return x
        return node("cast", (x,), None, Type(to, x.type.shape))

    def strong(self, x: Node) -> Node:
        """A weak value as int64, float64 or bool."""
        return self.coerce(x, x.type.dtype) if x.type.weak else x

    def weakened(self, x: Node) -> Node:
        """Integers made weak, so that they take the dtype of the other operand, as positions do."""
        return node("convert", (x,), None, Type(INT64, x.type.shape, weak=True))

    def stop_gradient(self, x: Node) -> Node:
        """`x`, which derivatives take as a constant."""
        return node("convert", (x,), STOPPED, x.type) if x.type.dtype.kind == "f" and x.op != "const" else x

    def coerced_forms(self, x: Node) -> list[Node]:
        """A weak value in each dtype that some operand needed it in."""
        return [form for (weak, _), form in self._coerced.items() if weak is x]

    def coerce(self, x: Node, to: DType) -> Node:
        """A weak value computed in the dtype of a strong operand."""
        if to is BOOL:
            return self.truth(x)
        order: dict[Node, None] = {}
        stack = [x]
        while stack:  # weak nodes below x to rebuild in dtype `to`, users first
            current = stack.pop()
            if (current, to) in self._coerced or current in order:
                continue
            order[current] = None
            if self._rebuilt(current, to):
                stack.extend(a for a in current.args if a.type.weak)
        for current in reversed(order):
            if (current, to) not in self._coerced:
                self._coerced[current, to] = self._coerce_one(current, to)
        return self._coerced[x, to]

    def _rebuilt(self, x: Node, to: DType) -> bool:
        """Whether the arguments of weak `x` are computed in `to` too; else `x` is computed wide, then converted."""
        if x.op in EXACT_IN_FLOAT or x.attr == STOPPED:
            return True
        return (x.op in OPS or x.op in MIXING) and (x.type.dtype.kind == "f" or to.kind != "f")

    def _coerce_one(self, x: Node, to: DType) -> Node:
        strong = Type(to, x.type.shape)
        if x.op == "const":
            value = value_of(x)
            if isinstance(value, int) and not fits(value, to):
                error = DTypeError(f"{spelled(value)} does not fit {to}", "dtype.literal", help=_wider(value))
                error.value = value  # type: ignore[attr-defined]
                raise fail(error, _LITERAL)
            return constant(constant_folding.convert(value, to), to)
        if x.op in ("scalar", "size"):
            return node(x.op, (), x.attr, strong)
        if x.op in FOLDING and to.kind != "f":  # sums of small integers are wide
            held = to.accumulate
            part = self.convert(self.coerce(x.args[0], to), held)
            return self.convert(node(x.op, (part,), x.attr, Type(held, x.type.shape)), to)
        if not self._rebuilt(x, to):
            wide = self._typed(x, x.type.dtype)
            return wide if wide.type.dtype is to else node("convert", (wide,), None, strong)
        return self._typed(x, to)

    def _typed(self, x: Node, to: DType) -> Node:
        """Weak `x` with its weak arguments computed in dtype `to` (conditions stay as they are)."""
        args = tuple(self.coerce(a, to) if a.type.weak else a for a in x.args)
        if x.op == "contract" and to.compute is not to:  # round narrow floats before the product
            args = tuple(self.cast(a, to) for a in args)
        return node(x.op, args, x.attr, Type(to, x.type.shape))

    def truth(self, x: Node) -> Node:
        """`x != 0`, as a bool."""
        return x if x.type.dtype is BOOL else self.elementwise("not_equal", x, self.literal(0))

    # -- elementwise

    def _labels_of(self, args: tuple[Node, ...]) -> tuple[str, ...]:
        """What the traced function calls these operands; "" for what it computes."""
        if not self.labels:
            return ()
        given = (a.op in ("param", "scalar") and a.attr < len(self.labels) for a in args)
        return tuple(self.labels[a.attr] if is_given else "" for a, is_given in zip(args, given))

    def elementwise(self, name: str, *args: Node) -> Node:
        """One operation of the table on operands of any dtypes and shapes."""
        op = OPS[name]
        if op.rule == "logical":
            args = tuple(self.truth(a) for a in args)
        if name == "power" and args[1].op == "const" and _whole(args[0]) and _whole(args[1]) and value_of(args[1]) < 0:
            args = (self.elementwise("multiply", args[0], self.literal(1.0)), args[1])  # 2 ** -1 is 0.5, as in Python
        if all(a.op == "const" and (a.type.weak or a.type.dtype is BOOL) for a in args):
            folded = constant_folding.fold(op, args)
            if folded is not None:
                return self.literal(folded)
        check = Check("equal", (), op.symbol or name, tuple(a.type for a in args), self.names or self._labels_of(args))
        shape = self.broadcast([a.type.shape for a in args], check)
        exact = self._exact_comparison(op, args)
        if exact is not None:
            return exact
        values, compute, result = self._operands(op, args)
        weak = bool(values) and all(a.type.weak for a in self._values(op, args)) and result is not BOOL
        if not weak:
            values = tuple(self.convert(a, compute) for a in values)
        operands = self._condition(op, args) + values + self._exponent(op, args)
        result_node = node(name, operands, None, Type(result, shape, weak))
        return (
            self.cast(result_node, result)
            if self.rounding == "op" and result.compute is not result and not weak
            else result_node
        )

    def _values(self, op: Op, args: tuple[Node, ...]) -> tuple[Node, ...]:
        """Operands that promotion depends on: neither a condition nor an exponent."""
        if op.rule == "where":
            return args[1:]
        return args[:1] if op.rule == "ldexp" else args

    def _condition(self, op: Op, args: tuple[Node, ...]) -> tuple[Node, ...]:
        return (self.truth(args[0]),) if op.rule == "where" else ()

    def _exponent(self, op: Op, args: tuple[Node, ...]) -> tuple[Node, ...]:
        if op.rule != "ldexp":
            return ()
        exponent = args[1]
        d = exponent.type.dtype
        if d.kind == "f" or (d is UINT64 and not exponent.type.weak):
            fault = DTypeError(f"ldexp takes an integer exponent, not {d}", "dtype.ldexp", help="cast it: int32(e)")
            raise fail(fault, 1)
        if (d.bits > 32 or d is UINT32) and not exponent.type.weak:
            exponent = self.elementwise("minimum", exponent, self.literal(1 << 20))
            if d.kind == "i":
                exponent = self.elementwise("maximum", exponent, self.literal(-(1 << 20)))
        return (self.convert(exponent, INT32),)

    def _operands(self, op: Op, args: tuple[Node, ...]) -> tuple[tuple[Node, ...], DType, DType]:
        """(operands that promotion depends on, dtype to compute in, dtype of the result)."""
        values = self._values(op, args)
        strong = [a.type.dtype for a in values if not a.type.weak]
        dtypes = tuple(self._promote_weak(a, strong, op) for a in values)
        try:
            compute, result = infer(op, dtypes)
        except RuleError as error:
            shown = phrase(op.symbol or op.name, [self.describe(a.type) for a in values])
            fault = DTypeError(f"cannot {shown}", f"dtype.{op.name}", help=error.help)
            raise fail(fault, error.operand) from None
        return values, compute, result

    def computed(self, name: str, *args: Node) -> DType:
        """The dtype that an operation of the table computes these operands in."""
        return self._operands(OPS[name], args)[1]

    def _promote_weak(self, x: Node, strong: list[DType], op: Op) -> DType:
        """The dtype that a weak operand takes beside these strong operands; a strong operand keeps its own."""
        if not x.type.weak or not strong:
            return x.type.dtype
        common = strong[0]
        for other in strong[1:]:
            common = promote(common, other)
        if x.type.dtype.kind == "f":
            return common if common.kind == "f" else FLOAT64
        if common is BOOL:
            return INT64
        return self._compared(x, common) if op.rule == "compare" else common

    def _compared(self, x: Node, common: DType) -> DType:
        """The dtype that a weak integer is compared in: comparisons are exact, whichever dtype holds the numbers."""
        if x.op == "const":
            value = int(value_of(x))
            if fits(value, common):
                return common
            return INT64 if common is not UINT64 and fits(value, INT64) else FLOAT64
        return INT64 if common.kind != "f" and common is not UINT64 else common

    def _exact_comparison(self, op: Op, args: tuple[Node, ...]) -> Node | None:
        """Exact comparison of int64 with uint64: neither rounded to float64, nor wrapped modulo 2**64."""
        dtypes = [a.type.dtype for a in args]
        if op.rule != "compare" or UINT64 not in dtypes or not any(d.kind == "i" for d in dtypes):
            return None
        args = tuple(self.strong(a) if is_int64(a) else a for a in args)
        if any(a.type.weak for a in args):
            return None
        signed = 0 if dtypes[0].kind == "i" else 1
        negative = self.elementwise("less", args[signed], self.literal(0))
        both = [self.convert(a, UINT64) for a in args]
        inside = self.elementwise(op.name, *both)
        low, high = (0, 1) if signed == 0 else (1, 0)
        when_negative = bool(OPS[op.name].meaning(low, high))
        return self.elementwise("where", negative, self.literal(when_negative), inside)

    # -- results

    def finish(self, results: list[Node]) -> Graph:
        """The graph of these results, with unified extents replaced by one expression."""
        graph = self.differentiable(results)
        return rebuild_graph(graph, lambda n, args: args[0] if n.attr == STOPPED else with_arguments(n, args))

    def differentiable(self, results: list[Node]) -> Graph:
        """`finish` for a graph that will be differentiated: what derivatives take as constants is marked in it."""
        graph = Graph(self.parameters, tuple(self.strong(r) for r in results), tuple(self.checks))
        return resolve_dims(graph, {k: self.canonical(k) for k in self.unified})


_LITERAL = -1  # `operand` of an error in a literal below the operands


def _whole(n: Node) -> bool:
    """Whether a value is computed from integers of the program or of Python only."""
    return n.type.weak and n.type.dtype.kind == "i"


def _wider(value: int) -> str:
    return "cast the array to a wider integer, e.g. int64(x)" if fits(value, INT64) else "write a float, e.g. 1e20"
