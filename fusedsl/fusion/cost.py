"""What a program would move and compute operation by operation, and what the lines of a body cost."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from ..ir.contraction import Subscripts
from ..ir.dims import Symbol, evaluate
from ..ir.gathers import GUARDED
from ..ir.graph import Graph, Node
from ..ir.ops import OPS, VIEWS
from .time import Work

FETCH_COST = 8  # instructions of a read at a computed address


# -- unfused


@dataclass(frozen=True)
class Step:
    """One kernel of an unfused run: the operation, the bytes that it reads and writes, what it issues."""

    operation: str
    read: int
    written: int
    instructions: int

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def work(self) -> Work:
        return Work(self.read, self.written, self.instructions)


def unfused(graph: Graph, extents: Mapping[Symbol, int]) -> tuple[Step, ...]:
    """The kernels that NumPy or CuPy would run: every operation reads its operands and writes its result.

    Counted in the unfused run's favour: a common subexpression is computed once, an operand that is read twice by one
    operation is moved once, views and changes of dtype are free, and so is arithmetic on Python numbers.
    """
    arrays = _arrays(graph)
    steps = [_step(n, arrays, extents) for n in graph.nodes() if n in arrays and _computes(n)]
    copied = [r for r in dict.fromkeys(graph.results) if r in arrays and not _computes(_below_views(r))]
    return tuple(steps + [_copy(r, extents) for r in copied])


def _arrays(graph: Graph) -> set[Node]:
    """The nodes that an array enters; the others are arithmetic on Python numbers and positions."""
    found: set[Node] = set()
    for n in graph.nodes():
        if n.op == "param" or any(a in found for a in n.args):
            found.add(n)
    return found


def _computes(n: Node) -> bool:
    """Whether the node is a kernel of an unfused run. A reshape is one where strides cannot express it."""
    if n.op == "reshape":
        below = n.args[0]
        while below.op == "reshape":
            below = below.args[0]
        return below.op in VIEWS
    if n.op == "gather":
        return n.attr[0] != GUARDED  # where it is chosen among others, that choice is the kernel
    return n.op in OPS or n.op in ("reduce", "scan", "ranked", "cast", "contract")


def _below_views(n: Node) -> Node:
    """The array that a node is a free view of."""
    while not _computes(n) and n.op in (*VIEWS, "convert"):
        n = n.args[0]
    return n


def _step(n: Node, arrays: set[Node], extents: Mapping[Symbol, int]) -> Step:
    operands = [a for a in dict.fromkeys(map(_operand, n.args)) if a in arrays]
    most = _count(n, extents) if n.op == "gather" else None  # of an array that is read here and there
    read = sum(
        _size(a, extents) if most is None else min(_count(a, extents), most) * a.type.dtype.itemsize for a in operands
    )
    cost = OPS[n.op].cost if n.op in OPS else 1
    name = n.attr[0] if n.op == "reduce" else f"cum{n.attr[0]}" if n.op == "scan" else n.op
    return Step(name, read, _size(n, extents), cost * _work(n, extents))


def _work(n: Node, extents: Mapping[Symbol, int]) -> int:
    """How often an operation is carried out."""
    if n.op != "contract":
        return _count(n.args[0] if n.op == "reduce" else n, extents)
    letters, shape = Subscripts.parse(n.attr), n.args[0].type.shape
    summed = (shape[letters.left.index(c)] for c in letters.summed)
    return _count(n, extents) * prod(evaluate(d, extents) or 0 for d in summed)


def _operand(n: Node) -> Node:
    """What is moved for an operand: broadcasting and changes of dtype happen on the way."""
    while n.op in ("convert", "broadcast"):
        n = n.args[0]
    return n


def _copy(n: Node, extents: Mapping[Symbol, int]) -> Step:
    return Step("copy", _size(_operand(n), extents), _size(n, extents), _count(n, extents))


def _count(n: Node, extents: Mapping[Symbol, int]) -> int:
    return prod(evaluate(d, extents) or 0 for d in n.type.shape)


def _size(n: Node, extents: Mapping[Symbol, int]) -> int:
    return _count(n, extents) * n.type.dtype.itemsize


# -- bodies

_NAMED = {"quotient": 6, "shift_left": OPS["left_shift"].cost, "shift_right": OPS["right_shift"].cost}


READ = re.compile(r"\b[A-Za-z_]\w*\b(?!\()")  # names of values in a line, not of functions
# Functions of a GPU's special units (reciprocals, square roots, 2**x …) in one of ours, of float32.
SPECIAL = dict.fromkeys(("exp", "exp2", "expm1", "sqrt", "rsqrt", "erf", "erfc", "near_quotient"), 1)
SPECIAL |= dict.fromkeys(("tanh", "logistic", "sinh", "cosh", "power", "arctanh", "cbrt", "hypot"), 2)


def special_functions(lines: Iterable[str]) -> int:
    """Functions of the special units in straight-line scalar code."""
    return sum(map(_line_functions, lines))


@cache
def _line_functions(line: str) -> int:
    called = [p.func.id for p in ast.walk(ast.parse(line)) if isinstance(p, ast.Call) and isinstance(p.func, ast.Name)]
    divided = any(isinstance(part, ast.Div) for part in ast.walk(ast.parse(line)))
    return divided + sum(SPECIAL.get(name, 0) for name in called)


def instructions(lines: Iterable[str]) -> int:
    """Instructions of straight-line scalar code, by the table of operations."""
    return sum(map(_line_cost, lines))


# Instructions of float64 in functions of it, and of the others (beside arithmetic, 1) for each of their table's.
DOUBLE = {"exp": 20, "log": 26, "erf": 45, "sin": 16, "cos": 16, "tanh": 45, "power": 50}
DOUBLE_SHARE = 1.5


def double_instructions(lines: Iterable[str]) -> float:
    """Instructions of float64 in straight-line scalar code of it."""
    return sum(map(_line_double, lines))


@cache
def _line_double(line: str) -> float:
    known = [p.func.id for p in ast.walk(ast.parse(line)) if isinstance(p, ast.Call) and isinstance(p.func, ast.Name)]
    cost = next((DOUBLE[name] for name in known if name in DOUBLE), None)
    other = _line_cost(line)
    return cost if cost is not None else other * DOUBLE_SHARE if other > 2 else other


def varying(lines: Iterable[str], fixed: Iterable[str]) -> list[str]:
    """The lines whose values differ from element to element: a thread computes the others once, of `fixed` names."""
    same, found = {"inf", "nan", "True", "False", *fixed}, []
    for line in lines:
        target, _, value = line.split("#", 1)[0].partition(" = ")
        if same.issuperset(READ.findall(value)):
            same.add(target)
        else:
            found.append(line)
    return found


@cache
def _line_cost(line: str) -> int:
    return sum(_part_cost(part) for part in ast.walk(ast.parse(line)))


def _part_cost(part: ast.AST) -> int:
    match part:
        case ast.BinOp(op=ast.Div()):
            return OPS["divide"].cost
        case ast.Call(args=[ast.Constant() | ast.UnaryOp() | ast.BinOp()]):
            return 0  # a typed literal, or the wrapping of an integer result
        case ast.UnaryOp(operand=ast.Constant() | ast.Name(id="inf")):
            return 0
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            return 1
        case ast.Call(func=ast.Name(id=name)):
            if name.startswith("fetch_"):
                return FETCH_COST
            return OPS[name].cost if name in OPS else _NAMED.get(name, 1)
    return 0
