"""Scans of a kernel from the table of folds: states of elements, and one scan for all parts of a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ir.folds import SCAN_NAMES, SCANS, State
from ...ir.graph import Node, constant, node
from ...ir.types import DType
from ..phase import ScanUse, Value
from .body_builder import BodyBuilder, literal
from .fold_bodies import combine_body


def lifted_scan(n: Node) -> State:
    """State of one element for a scan; of a pair, its values."""
    (x,) = n.args
    return SCANS[n.attr[0]].lift(*(x.args if x.op == "pair" else (x,)))


def scan_uses(builder: BodyBuilder, nodes: Iterable[Node], names: Mapping[Node, str]) -> tuple[ScanUse, ...]:
    """The scans of these parts: parts of one state are one scan."""
    scans: dict[tuple, list[Node]] = {}
    for n in nodes:
        scans.setdefault((n.args, n.attr[:-1]), []).append(n)
    return tuple(_scan_use(builder, parts, names) for parts in scans.values())


def _scan_use(builder: BodyBuilder, parts: list[Node], names: Mapping[Node, str]) -> ScanUse:
    name, _, reverse, exclusive, _ = parts[0].attr
    known = {n.attr[-1]: n for n in parts}
    identity = _identity(name, parts[0].args[0].type.dtype.compute, exclusive)
    state = []
    for k, nothing in enumerate(identity):
        value = known.get(k) or node("side", (parts[0],), k, nothing.type)
        state.append(builder.name(value, f"{SCAN_NAMES[name]}_state", SCAN_NAMES[name]))
    lifts = tuple(Value(names[x], v.dtype) for x, v in zip(lifted_scan(parts[0]), state))
    a, b = (tuple(node("state", (), (side, k), x.type) for k, x in enumerate(identity)) for side in "ab")
    texts = tuple(str(literal(x)) for x in identity)
    merge = combine_body(a, b, SCANS[name].merge(a, b))
    return ScanUse(name, lifts, tuple(state), texts, merge, reverse=reverse, exclusive=exclusive)


def _identity(name: str, d: DType, exclusive: bool) -> State:
    """State of no element; a float sum starts from -0.0, which changes no first element."""
    if name == "sum" and d.kind == "f" and not exclusive:
        return (constant(-0.0, d),)
    return SCANS[name].identity(d)
