"""Syntax tree of a program: frozen nodes with source spans, a traversal, and a printer.

Nodes compare by identity. Trees may be thousands of nodes deep (`a + a + …`), so traverse them with `postorder`, never
by recursion. Offsets count characters of the program; a span is (start, end).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import EllipsisType

Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Literal:
    """A number, True, False, None, inf, nan, pi, `...` (an index only) or a string; `source` is its text."""

    span: Span
    value: int | float | str | EllipsisType | None
    source: str


@dataclass(frozen=True, eq=False)
class Name:
    span: Span
    name: str


@dataclass(frozen=True, eq=False)
class UnaryOp:
    """`op` is one of + - ~ not; `at` is the operator's offset, here and below."""

    span: Span
    op: str
    at: int
    operand: Expr


@dataclass(frozen=True, eq=False)
class BinaryOp:
    """`op` is one of + - * / // % @ ** & | ^ << >> and or."""

    span: Span
    op: str
    at: int
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False)
class Compare:
    """A chain: `a < b <= c` has two ops (with their offsets) and three operands."""

    span: Span
    ops: tuple[str, ...]
    ats: tuple[int, ...]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Conditional:
    """`then if condition else otherwise`; `at` is the offset of `if`."""

    span: Span
    at: int
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, eq=False)
class Slice:
    """`start:stop:step` inside a subscript; a part left out is None."""

    span: Span
    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True, eq=False)
class Sequence:
    """A tuple or list; only an argument, a default value or an index array."""

    span: Span
    kind: str  # "tuple" or "list"
    items: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Subscript:
    """`value[indices]`; a literal None is a new axis, a literal `...` the axes in between."""

    span: Span
    value: Expr
    indices: tuple[Expr | Slice, ...]
    at: int  # the offset of [


@dataclass(frozen=True, eq=False)
class Attribute:
    """`value.T` or `value.mT`; `at` is the offset of the name."""

    span: Span
    value: Expr
    name: str
    at: int


@dataclass(frozen=True, eq=False)
class CallArgument:
    """One argument of a call; `span` covers the keyword too, `value.span` the value alone."""

    span: Span
    keyword: str | None
    value: Expr


@dataclass(frozen=True, eq=False)
class CallExpr:
    """`function(arguments)`; `close` is the offset of the closing bracket."""

    span: Span
    function: str
    function_span: Span
    arguments: tuple[CallArgument, ...]
    close: int


@dataclass(frozen=True, eq=False)
class FormalParameter:
    span: Span
    name: str
    default: Expr | None


@dataclass(frozen=True, eq=False)
class Definition:
    """`name(parameters) = body`; `at` is the offset of `=`."""

    span: Span
    name: str
    parameters: tuple[FormalParameter, ...]
    body: Expr
    at: int


@dataclass(frozen=True, eq=False)
class Assign:
    """`target = value`, or several targets of a value with as many results; `at` is the offset of `=`."""

    span: Span
    targets: tuple[Name, ...]
    value: Expr
    at: int


@dataclass(frozen=True, eq=False)
class ParsedText:
    """The syntax tree of a whole program: its statements in order, then its result expressions."""

    text: str
    statements: tuple[Assign | Definition, ...]
    results: tuple[Expr, ...]

    @property
    def functions(self) -> tuple[Definition, ...]:
        return tuple(s for s in self.statements if isinstance(s, Definition))

    @property
    def parts(self) -> Iterator[Node]:
        """All nodes of all expressions, in the order of the program; function bodies included."""
        roots = (s.body if isinstance(s, Definition) else s.value for s in self.statements)
        return (part for root in (*roots, *self.results) for part in postorder(root))


Expr = Literal | Name | UnaryOp | BinaryOp | Compare | Conditional | Sequence | Subscript | Attribute | CallExpr
Node = Expr | Slice | CallArgument


def children(node: Node) -> tuple[Node, ...]:
    """The children of a node, in the order of the program."""
    match node:
        case BinaryOp():
            return (node.left, node.right)
        case CallExpr():
            return node.arguments
        case CallArgument() | Attribute():
            return (node.value,)
        case UnaryOp():
            return (node.operand,)
        case Compare():
            return node.operands
        case Subscript():
            return (node.value, *node.indices)
        case Sequence():
            return node.items
        case Conditional():
            return (node.then, node.condition, node.otherwise)
        case Slice():
            return tuple(part for part in (node.start, node.stop, node.step) if part is not None)
    return ()


def postorder(root: Node) -> Iterator[Node]:
    """All nodes of the subtree in postorder, left to right, without recursion.

    A caller with a stack of results pops `len(children(node))` of them at each node.
    """
    preorder: list[Node] = []
    stack = [root]
    while stack:
        top = stack.pop()
        preorder.append(top)
        stack.extend(children(top))
    return reversed(preorder)


def free_names(program: ParsedText) -> tuple[tuple[str, Span], ...]:
    """The free names of a program, each with the span of its first read, in that order.

    The parameters of a function are bound; its other names are bound at its definition.
    """
    free: dict[str, Span] = {}
    assigned: set[str] = set()

    def read(root: Expr, bound: frozenset[str] = frozenset()) -> None:
        for part in postorder(root):
            if isinstance(part, Name) and part.name not in assigned and part.name not in bound:
                free.setdefault(part.name, part.span)

    for statement in program.statements:
        if isinstance(statement, Definition):
            for parameter in statement.parameters:
                if parameter.default is not None:
                    read(parameter.default)
            read(statement.body, frozenset(parameter.name for parameter in statement.parameters))
        else:
            read(statement.value)
            assigned.update(target.name for target in statement.targets)
    for result in program.results:
        read(result)
    return tuple(free.items())
