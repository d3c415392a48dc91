"""Cotangents of products: each operand's is the product of the result's cotangent with the other operand."""

from __future__ import annotations

from ..ir.builder import GraphBuilder
from ..ir.contraction import Subscripts, contract
from ..ir.graph import Node
from .unbroadcast import cotangent_dtype


def of_contraction(b: GraphBuilder, n: Node, g: Node, operand: int) -> Node:
    """The cotangent of one operand of a contraction."""
    s = Subscripts.parse(n.attr)
    own, other = (s.left, s.right) if operand == 0 else (s.right, s.left)
    y = n.args[1 - operand]
    y = b.convert(y, cotangent_dtype(y.type.dtype))
    return contract(b, g, y, Subscripts(s.result, other, own), "gradient")
