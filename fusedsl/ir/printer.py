"""Text of a graph: one node per line, with its type and operation."""

from __future__ import annotations

from .graph import Graph, Node, value_of

SHORT = {"float": "f", "int": "i", "uint": "u", "bfloat": "bf"}


def show_type(n: Node) -> str:
    """f32[n0_0, n0_1]; a star marks a weak dtype."""
    name = n.type.dtype.name
    letters = name.rstrip("0123456789")
    short = SHORT.get(letters, letters) + name[len(letters) :]
    return f"{short}{'*' if n.type.weak else ''}[{', '.join(map(str, n.type.shape))}]"


def show_literal(n: Node) -> str:
    """The number of a `const`, short: integers as they are, floats to six digits."""
    value = value_of(n)
    return f"{value:g}" if isinstance(value, float) else str(value)


def show(graph: Graph) -> str:
    """Text of the whole graph, arguments before users, results last."""
    names: dict[Node, str] = {}
    lines = []
    for k, n in enumerate(graph.nodes()):
        names[n] = f"%{k}"
        parts = [names[a] for a in n.args] + _attributes(graph, n)
        lines.append(f"%{k}: {show_type(n)} = {n.op} {', '.join(parts)}".rstrip())
    lines += [f"require {c.kind} {', '.join(map(str, c.dims))}" for c in graph.checks]
    lines.append("return " + ", ".join(names[r] for r in graph.results))
    return "\n".join(lines)


def _attributes(graph: Graph, n: Node) -> list[str]:
    if n.op in ("param", "scalar"):
        return [graph.parameters[n.attr].name]
    if n.op == "const":
        return [repr(value_of(n))]
    if n.attr is None:
        return []
    return [_show_attribute(n.attr)]


def _show_attribute(attr) -> str:
    if isinstance(attr, tuple):
        return f"({', '.join(map(_show_attribute, attr))})"
    return str(attr)


def bracketed(text: str) -> str:
    """An operand of an operator, in brackets unless it is a name or one call."""
    return text if " " not in text or _is_call(text) else f"({text})"


def _is_call(text: str) -> bool:
    """Whether a text is a name, and one pair of brackets up to its end."""
    function, _, inside = text.partition("(")
    depth = 1
    for k, c in enumerate(inside):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if depth == 0:
            return function.isidentifier() and k == len(inside) - 1
    return False
