"""Front end: functions of a generated file to LLVM IR, in one walk over their statements.

A file assigns values of words to names, in `for`, `while` and `if`. A word says of what type it is, and writes itself;
a name has one type. What is known of a name within a block is its value; from where paths meet, it is loaded from its
place on the stack, which LLVM makes a register of.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from llvmlite import ir

from ...generated_code import syntax_tree
from ...ir.types import BOOL, FLOAT64, INT64, DType
from .llvm_values import LLVMValue, literal, llvm_type
from .memory import POINTER_TYPE, KernelModule
from .vector_registers import PREFER_VECTOR_WIDTH
from .vocabulary import OPERATORS, POINTER, Word

WORD = ir.IntType(64)
SIGNATURE = ir.FunctionType(ir.VoidType(), [POINTER_TYPE, WORD, WORD])
KINDS: tuple[Any, ...] = (POINTER, INT64, INT64)  # of the parameters: slots, begin, end
BINARY: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
UNARY: dict[type[ast.unaryop], Any] = {ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_}
COMPARED: dict[type[ast.cmpop], Any] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class Computed(NamedTuple):
    """A value that is being computed: a DType or POINTER, and what LLVM has for it."""

    kind: Any
    value: Any


class Variable(NamedTuple):
    """Where a name's value is on the stack, and what stores it there."""

    kind: Any
    address: ir.AllocaInstr
    stores: list[tuple[ir.Block, ir.Instruction]]


def functions_of(source: str) -> dict[str, ast.FunctionDef]:
    """The functions of a generated file."""
    return {node.name: node for node in syntax_tree(source).body if isinstance(node, ast.FunctionDef)}


def lowered(node: ast.FunctionDef, names: Mapping[str, Any], symbol: str) -> ir.Module:
    """The LLVM module of a generated function, exported as C `void symbol(int64 *slots, int64 begin, int64 end)`.

    `names` are words and constants. Raises TypeError where a word does not take its arguments, and NotImplementedError
    for what no generated file has.
    """
    module = KernelModule(symbol)
    function = ir.Function(module, SIGNATURE, symbol)
    function.args[0].add_attribute("noalias")
    function.attributes.add("nounwind")
    # a string attribute: llvmlite lists only enumerated ones
    set.add(function.attributes, PREFER_VECTOR_WIDTH)
    writer = FunctionWriter(function, names)
    for argument, kind, value in zip(node.args.args, KINDS, function.args):
        writer.assign(argument.arg, Computed(kind, value))
    writer.block(node.body)
    writer.finish()
    return module


class FunctionWriter:
    """A function that is being written: `known` are the values of names where the builder is."""

    def __init__(self, function: ir.Function, names: Mapping[str, Any]):
        self.names = names
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.known: dict[str, Computed] = {}
        self.variables: dict[str, Variable] = {}
        self.loaded: set[str] = set()

    def finish(self) -> None:
        """Return, and leave out what stores names that are never loaded."""
        self.builder.ret_void()
        needless: dict[ir.Block, set[int]] = {}
        for name, variable in self.variables.items():
            if name not in self.loaded:
                for block, store in variable.stores:
                    needless.setdefault(block, set()).add(id(store))
        for block, stores in needless.items():
            block.instructions[:] = [each for each in block.instructions if id(each) not in stores]

    # -- names

    def assign(self, name: str, typed: Computed) -> None:
        """Give a name a value, and store it for where paths meet."""
        variable = self.variables.get(name)
        if variable is None:
            with self.builder.goto_entry_block():
                address = self.builder.alloca(_held_as(typed.kind))
            variable = self.variables[name] = Variable(typed.kind, address, [])
        if variable.kind is not typed.kind:
            raise TypeError(f"{name} is {variable.kind}, and is assigned {typed.kind}")
        variable.stores.append((self.builder.block, self.builder.store(typed.value, variable.address)))
        self.known[name] = typed

    def get(self, name: str) -> Computed:
        """A name's value: what is known, or what its place has."""
        if name not in self.known:
            variable = self.variables[name]
            self.loaded.add(name)
            self.known[name] = Computed(variable.kind, self.builder.load(variable.address, typ=_held_as(variable.kind)))
        return self.known[name]

    @contextmanager
    def _within(self, changed: Iterable[str]) -> Iterator[None]:
        """A part of the function that other paths go around, or come back to; what it changes is known no more."""
        before = {name: typed for name, typed in self.known.items() if name not in changed}
        self.known = dict(before)
        yield
        self.known = before

    # -- statements

    def block(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(name, self._typed(value))
            case ast.Expr(value=ast.Call() as call):
                self._expression(call)
            case ast.If(test=test, body=body, orelse=orelse):
                self._branched(self._typed(test), body, orelse)
            case ast.While(test=test, body=body, orelse=[]):
                self._repeated(test, body)
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=ends), body=body, orelse=[]
            ):
                self._counted(name, [self._typed(end) for end in ends], body)
            case _:
                raise NotImplementedError(ast.unparse(node))

    def _branched(self, condition: Computed, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        known = dict(self.known)
        changed = _stored([*body, *orelse])
        inside, after = self._new_block("then"), self._new_block("after")
        other = self._new_block("else") if orelse else after
        self.builder.cbranch(_condition(condition), inside, other)
        for start, nodes in ((inside, body), (other, orelse)):
            if nodes:
                self.builder.position_at_end(start)
                self.known = dict(known)
                self.block(nodes)
                self.builder.branch(after)
        self.known = {name: typed for name, typed in known.items() if name not in changed}
        self.builder.position_at_end(after)

    def _repeated(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        head, inside, after = (self._new_block(name) for name in ("while", "inside", "after"))
        self.builder.branch(head)
        with self._within(_stored(body)):
            self.builder.position_at_end(head)
            self.builder.cbranch(_condition(self._typed(test)), inside, after)
            self.builder.position_at_end(inside)
            self.block(body)
            self.builder.branch(head)
        self.builder.position_at_end(after)

    def _counted(self, name: str, ends: Sequence[Computed], body: Sequence[ast.stmt]) -> None:
        """A range of one or two ends. Its counter does not overflow: it is below the end."""
        if any(end.kind is not INT64 for end in ends) or len(ends) > 2:
            raise NotImplementedError(f"a range of {ends}")
        begin, end = (Computed(INT64, WORD(0)), *ends)[-2:]
        head, inside, after = (self._new_block(word) for word in ("for", "inside", "after"))
        with self.builder.goto_entry_block():
            counter = self.builder.alloca(WORD)
        self.builder.store(begin.value, counter)
        self.builder.branch(head)
        with self._within(_stored(body) | {name}):
            self.builder.position_at_end(head)
            count = self.builder.load(counter, typ=WORD)
            self.builder.cbranch(self.builder.icmp_signed("<", count, end.value), inside, after)
            self.builder.position_at_end(inside)
            self.assign(name, Computed(INT64, count))
            self.block(body)
            self.builder.store(self.builder.add(count, WORD(1), flags=("nsw",)), counter)
            self.builder.branch(head)
        self.builder.position_at_end(after)

    def _new_block(self, name: str) -> ir.Block:
        return self.builder.append_basic_block(name)

    # -- expressions

    def _typed(self, node: ast.expr) -> Computed:
        return _as_typed(self._expression(node))

    def _expression(self, node: ast.expr) -> Computed | bool | int | float:
        """What an expression computes; numbers where all of it is known."""
        match node:
            case ast.Name(id=name) if name in self.variables:
                return self.get(name)
            case ast.Name(id=name) if isinstance(self.names.get(name), (bool, int, float)):
                return self.names[name]
            case ast.Constant(value=bool() | int() | float() as value):
                return value
            case ast.UnaryOp(op=op, operand=operand):
                return self._operation(UNARY[type(op)], operand)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(BINARY[type(op)], left, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._operation(COMPARED[type(op)], left, right)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if isinstance(self.names.get(name), Word):
                return self._called(self.names[name], [self._typed(each) for each in args])
        raise NotImplementedError(ast.unparse(node))

    def _operation(self, operation: Any, *nodes: ast.expr) -> Computed | bool | int | float:
        operands = [self._expression(node) for node in nodes]
        if not any(isinstance(each, Computed) for each in operands):
            return operation(*operands)
        return self._called(OPERATORS[operation], [_as_typed(each) for each in operands])

    def _called(self, word: Word, args: Sequence[Computed]) -> Computed:
        result = word.result(*(each.kind for each in args))
        if result is NotImplemented:
            raise TypeError(f"{word.name} of {', '.join(str(each.kind) for each in args)}")
        values = [
            LLVMValue(self.builder, each.kind, each.value) if isinstance(each.kind, DType) else each.value
            for each in args
        ]
        value = word.emit(self.builder, *values)
        return Computed(result, value.value if isinstance(value, LLVMValue) else value)


def _as_typed(value: Computed | bool | int | float) -> Computed:
    if isinstance(value, Computed):
        return value
    kind = BOOL if isinstance(value, bool) else INT64 if isinstance(value, int) else FLOAT64
    return Computed(kind, literal(kind, value))


def _held_as(kind: Any) -> ir.Type:
    return POINTER_TYPE if kind is POINTER else llvm_type(kind)


def _condition(typed: Computed) -> ir.Value:
    if typed.kind is not BOOL:
        raise TypeError(f"a condition is {typed.kind}")
    return typed.value


def _stored(body: Iterable[ast.stmt]) -> set[str]:
    """The names that statements assign."""
    nodes = (node for statement in body for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
