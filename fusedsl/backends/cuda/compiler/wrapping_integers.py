"""Integers of 64 bits that wrap: what bodies compute with int64 is computed modulo 2**64.

Numba, and our front end like it, marks int64 sums and products as non-overflowing (true of addresses), so LLVM would
fold x + 1 > x to true. Those of uint64 wrap, and have the same bits; narrower integers are computed in 64 bits.
"""

from __future__ import annotations

import ast

ADDRESSING = ("kernel", "work")  # functions of a generated file that compute no values, but where they are
OVERFLOWING = (ast.Add, ast.Sub, ast.Mult)


def wrapping(tree: ast.Module) -> ast.Module:
    """A generated file with the sums, differences and products that its scalar functions make int64 of as uint64."""
    return _Wrapping().visit(tree)


class _Wrapping(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node if node.name in ADDRESSING else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="int64"), args=[ast.BinOp() as whole]):
                node.args = [_unsigned(whole)]
        return ast.fix_missing_locations(node)


def _unsigned(node: ast.expr) -> ast.expr:
    """An int64 as the uint64 of its bits."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, OVERFLOWING):
        unsigned: ast.expr = ast.BinOp(_unsigned(node.left), node.op, _unsigned(node.right))
    else:
        unsigned = ast.Call(ast.Name("uint64", ast.Load()), [node], [])
    return ast.copy_location(unsigned, node)
