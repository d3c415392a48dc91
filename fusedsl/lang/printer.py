"""Printer of the syntax tree: a node as text, with the fewest brackets."""

from __future__ import annotations

from .syntax_tree import (
    Assign,
    Attribute,
    BinaryOp,
    CallArgument,
    CallExpr,
    Compare,
    Conditional,
    Definition,
    Literal,
    Name,
    Node,
    Sequence,
    Slice,
    Subscript,
    UnaryOp,
)

# Precedence levels, loosest first. The printer puts brackets around a part with lower precedence than its context.
CONDITIONAL, OR, AND, NOT, COMPARE, BITOR, BITXOR, BITAND, SHIFT, SUM, PRODUCT, SIGN, POWER, POSTFIX, ATOM = range(15)
LEVELS = {OR: "or", AND: "and", BITOR: "|", BITXOR: "^", BITAND: "&", SHIFT: "<< >>", SUM: "+ -", PRODUCT: "* / // % @"}
BINDING = {op: level for level, ops in LEVELS.items() for op in ops.split()} | {"**": POWER}


def binding(node: Node) -> int:
    match node:
        case BinaryOp():
            return BINDING[node.op]
        case Compare():
            return COMPARE
        case UnaryOp():
            return NOT if node.op == "not" else SIGN
        case Conditional():
            return CONDITIONAL
        case Subscript() | Attribute():
            return POSTFIX
        case Literal(value=int() | float()):
            return POWER  # so that 1 is not printed as 1.T
    return ATOM


Piece = str | tuple[Node, int]


def show(node: Node | Assign | Definition) -> str:
    """The node as text, with the fewest brackets; ASCII only.

    >>> from fusedsl.lang.parse import parse
    >>> show(parse("((a)+(b*c))*-(d**2)").results[0])
    '(a + b * c) * -d**2'
    """
    if isinstance(node, Assign):
        return f"{', '.join(target.name for target in node.targets)} = {show(node.value)}"
    if isinstance(node, Definition):
        parameters = (p.name if p.default is None else f"{p.name}={show(p.default)}" for p in node.parameters)
        return f"{node.name}({', '.join(parameters)}) = {show(node.body)}"
    printed: list[str] = []
    stack: list[Piece] = [(node, CONDITIONAL)]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            printed.append(top)
            continue
        part, minimum = top
        pieces = _pieces(part)
        if binding(part) < minimum:
            pieces = ["(", *pieces, ")"]
        stack.extend(reversed(pieces))
    return "".join(printed)


def _pieces(node: Node) -> list[Piece]:
    """A node's text as strings and (child, minimum precedence) pairs."""
    match node:
        case Literal():
            return [node.source]
        case Name():
            return [node.name]
        case UnaryOp():
            return ["not ", (node.operand, NOT)] if node.op == "not" else [node.op, (node.operand, SIGN)]
        case BinaryOp(op="**"):
            return [(node.left, POWER if isinstance(node.left, Literal) else POSTFIX), "**", (node.right, SIGN)]
        case BinaryOp():
            return [(node.left, BINDING[node.op]), f" {node.op} ", (node.right, BINDING[node.op] + 1)]
        case Compare():
            rest: list[Piece]
            minimums = [BITOR, *[SHIFT] * (len(node.ops) - 1), BITOR]  # a & b between two comparisons is in brackets
            first, *others = zip(node.operands, minimums)
            rest = [piece for op, part in zip(node.ops, others) for piece in (f" {op} ", part)]
            return [first, *rest]
        case Conditional():
            return [(node.then, OR), " if ", (node.condition, OR), " else ", (node.otherwise, CONDITIONAL)]
        case Subscript():
            return [(node.value, POSTFIX), "[", *_listed(node.indices), "]"]
        case Attribute():
            return [(node.value, POSTFIX), f".{node.name}"]
        case CallExpr():
            return [f"{node.function}(", *_listed(node.arguments), ")"]
        case CallArgument():
            return [f"{node.keyword}=" if node.keyword else "", (node.value, CONDITIONAL)]
        case Sequence(kind="list"):
            return ["[", *_listed(node.items), "]"]
        case Sequence():
            return ["(", *_listed(node.items), ",)" if len(node.items) == 1 else ")"]
        case Slice():
            pieces: list[Piece] = [":"]
            if node.start is not None:
                pieces.insert(0, (node.start, CONDITIONAL))
            if node.stop is not None:
                pieces.append((node.stop, CONDITIONAL))
            return pieces if node.step is None else [*pieces, ":", (node.step, CONDITIONAL)]
    raise TypeError(f"not a syntax node: {node!r}")


def _listed(parts: tuple[Node, ...]) -> list[Piece]:
    separated: list[Piece] = [piece for part in parts for piece in (", ", (part, CONDITIONAL))]
    return separated[1:]
