"""Typed graph: frozen, interned nodes, and a graph with parameters, results and checks.

Interning (hash-consing) is the elimination of common subexpressions: equal nodes are one object.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from .dims import Dim, substitute
from .types import BOOL, INT64, DType, fits

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Type:
    """Element type, shape (integers and symbolic extents), and whether the dtype is weak."""

    dtype: DType
    shape: tuple[Dim, ...] = ()
    weak: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{'*' if self.weak else ''}[{', '.join(map(str, self.shape))}]"


class Node:
    """One operation. Interned: two nodes with equal parts are the same object, so identity is equality."""

    __slots__ = ("__weakref__", "args", "attr", "op", "type")

    op: str
    args: tuple[Node, ...]
    attr: Any
    type: Type

    def __setattr__(self, name, value):
        raise AttributeError("nodes are frozen")

    def __reduce__(self):
        return (node, (self.op, self.args, self.attr, self.type))

    def __repr__(self) -> str:
        return f"<{self.op} {self.attr if self.attr is not None else ''}: {self.type}>"


_interned: WeakValueDictionary[tuple, Node] = WeakValueDictionary()


def node(op: str, args: tuple[Node, ...], attr: Any, type: Type) -> Node:
    """The interned node of these parts; the only way to create a node."""
    key = (op, args, attr, type)
    known = _interned.get(key)
    if known is None:
        known = Node.__new__(Node)
        for name, value in zip(("op", "args", "attr", "type"), key):
            object.__setattr__(known, name, value)
        known = _interned.setdefault(key, known)
    return known


def constant(value: bool | int | float, dtype: DType, weak: bool = False) -> Node:
    """A literal. Its key holds the value's kind and bits, so that 1, 1.0, True and -0.0 stay apart."""
    key: tuple[str, Any]
    if dtype is BOOL:
        key = ("bool", bool(value))
    elif dtype.kind == "f":
        key = ("float", struct.pack("<d", float(value)))
    else:
        key = ("int", int(value))
    return node("const", (), key, Type(dtype, (), weak))


def value_of(n: Node) -> bool | int | float:
    """The number of a `const` node."""
    kind, value = n.attr
    return struct.unpack("<d", value)[0] if kind == "float" else value


def is_literal(n: Node, *values: float) -> bool:
    """Whether a node is a literal, and one of these numbers."""
    return n.op == "const" and value_of(n) in values


def is_int64(n: Node) -> bool:
    """Whether a weak integer is computed from positions, extents and literals in int64 range, and is no literal."""
    if not n.type.weak or n.type.dtype.kind != "i" or n.op in ("const", "size"):
        return False
    return all(
        m.op != "scalar" and (m.op != "const" or fits(int(value_of(m)), INT64)) for m in walk([n]) if m.type.weak
    )


def resolve(known: MutableMapping[K, T], root: K, needs: Callable[[K], Iterable[K]], make: Callable[[K], T]) -> T:
    """known[root], computed by `make` after everything that it needs; without recursion."""
    stack = [root]
    while stack:
        n = stack[-1]
        missing = [] if n in known else [a for a in needs(n) if a not in known]
        if missing:
            stack += missing
            continue
        stack.pop()
        if n not in known:
            known[n] = make(n)
    return known[root]


def search(start: Iterable[K], operands: Callable[[K], Iterable[K]]) -> Iterator[K]:
    """Everything that is reached from `start`, each once, users before operands; without recursion."""
    stack, seen = list(start), set[K]()
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            yield n
            stack += operands(n)


def walk(roots: Iterable[Node], known: Collection[Node] = ()) -> Iterator[Node]:
    """Every node below the roots once, arguments before users, except `known` ones; without recursion."""
    seen: set[Node] = set(known)
    stack: list[Node | None] = [*reversed([*roots])]
    while stack:
        current = stack.pop()
        if current is None:  # what a node needs has been seen: the node lies below
            yield stack.pop()  # type: ignore[misc]
        elif current not in seen:
            seen.add(current)
            if args := current.args:
                stack += (current, None)
                stack += args[::-1]
            else:
                yield current


def users_of(order: Iterable[Node]) -> dict[Node, list[Node]]:
    """The nodes that read each node of an order, each once; operands come before their users."""
    users: dict[Node, list[Node]] = {}
    for n in order:
        users.setdefault(n, [])
        for a in dict.fromkeys(n.args):
            users[a].append(n)
    return users


def rebuild(roots: Iterable[Node], change: Callable[[Node, tuple[Node, ...]], Node]) -> dict[Node, Node]:
    """Map every node under the roots: `change(old, new arguments)` gives the node that replaces `old`."""
    new: dict[Node, Node] = {}
    for old in walk(roots):
        new[old] = change(old, tuple(new[arg] for arg in old.args))
    return new


def rebuild_graph(graph: Graph, change: Callable[[Node, tuple[Node, ...]], Node]) -> Graph:
    """The graph with every node replaced, as by `rebuild`."""
    new = rebuild(graph.results, change)
    return Graph(graph.parameters, tuple(new[r] for r in graph.results), graph.checks)


def with_arguments(n: Node, args: tuple[Node, ...]) -> Node:
    """The same operation on other arguments of the same types."""
    return node(n.op, args, n.attr, n.type) if args != n.args else n


@dataclass(frozen=True)
class Site:
    """Source location of a node, as offsets in the program, for errors that only a call can find.

    `inside` are the locations in the called functions, outermost first.
    """

    text: str | None = None
    span: tuple[int, int] | None = None
    caret: int | None = None
    inside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Check:
    """A condition on extents that every call tests: `kind` says which, `dims` the extents that it compares.

    equal: dims[0] == dims[1] (broadcasting; `shapes` are both operands' types, for the message).
    index: -dims[1] <= dims[0] < dims[1].   nonempty: every dim is positive.
    same_size: dims[0] == dims[1], as numbers of elements (of a reshape the shape that was asked for follows).
    contract: dims[0] == dims[1] (what `what` sums over; of the letter names[0], if it has one).
    groups: dims[0] is a multiple of dims[1].   enough: dims[0] is dims[1] or more.

    Checks of attention; the last dims are the extents of b, h, i and j:
    agree: dims[0] == dims[1] (`what` names the operands).   offsets: dims[0] is not 0.
    heads: dims[0] is a multiple of dims[1] (which may be 0).
    pairs: as equal, for values of pairs.   reach: dims[0], along axis dims[2], is at least dims[1] (`what` indexes it).
    reading: an unindexed array of the first dims fits [j] or [i, j] only.
    """

    kind: str
    dims: tuple[Dim, ...]
    what: str
    operands: tuple[Type, ...] = ()
    names: tuple[str, ...] = ()
    site: Site = Site()


@dataclass(frozen=True)
class Parameter:
    """An argument of the program: its name, and its type by the signature. A scalar is weak and has rank 0."""

    name: str
    type: Type
    scalar: bool = False


@dataclass(frozen=True)
class Graph:
    """A typed program: parameters, result nodes, and the checks that a call's extents must pass."""

    parameters: tuple[Parameter, ...]
    results: tuple[Node, ...]
    checks: tuple[Check, ...] = ()

    def nodes(self) -> list[Node]:
        """Every node, arguments first."""
        return list(walk(self.results))


def resolve_dims(graph: Graph, table: dict[Dim, Dim]) -> Graph:
    """The graph with unified extents replaced in types, attributes and checks."""
    if not table:
        return graph

    known: dict = {}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        return node(old.op, args, _resolve(old.attr, table, known), _resolve_type(old.type, table, known))

    return rebuild_graph(graph, change)


def _resolve_type(type: Type, table: dict[Dim, Dim], known: dict) -> Type:
    return Type(type.dtype, tuple(substitute(d, table, known) for d in type.shape), type.weak)  # type: ignore[misc]


def _resolve(attr: Any, table: dict[Dim, Dim], known: dict) -> Any:
    """An attribute with its extents substituted; tuples are searched."""
    if isinstance(attr, tuple):
        return tuple(_resolve(part, table, known) for part in attr)
    if attr is None or isinstance(attr, (int, float, str, bytes, DType)):
        return attr
    return substitute(attr, table, known)
