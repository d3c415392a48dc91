"""What generated files mean without Numba's frontend is what they mean with it."""

from __future__ import annotations

import ast
import itertools
import operator

import pytest

pytest.importorskip("numba_cuda")
from fusedsl.backends.cuda.compiler import frontend, numba_backend
from fusedsl.backends.cuda.compiler.numba_backend import types

KINDS = ("int32", "int64", "uint32", "uint64", "float32", "float64", "boolean")
OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


def typed(text, **kinds):
    """The type of an expression; None where it is left to Numba."""
    try:
        return frontend.Scope({"inf": float("inf")}, kinds).expression(ast.parse(text, mode="eval").body).kind
    except frontend.Unsuited:
        return None


@pytest.mark.parametrize("sign", OPERATORS)
def test_operators_have_the_types_that_numba_gives_them(sign):
    from numba.cuda.descriptor import cuda_target

    context = cuda_target.typing_context
    context.refresh()
    known = 0
    for x, y in itertools.product(KINDS, KINDS):
        found = typed(f"x {sign} y", x=getattr(types, x), y=getattr(types, y))
        if found is not None:
            known += 1
            signature = context.resolve_function_type(OPERATORS[sign], (getattr(types, x), getattr(types, y)), {})
            assert found == signature.return_type, f"{x} {sign} {y}"
    assert known >= 4


def written(source):
    """The LLVM text of a function `kernel(x, y)` of two int64."""
    tree = ast.parse(source)
    (node,) = tree.body
    module = numba_backend.module()
    form = frontend.ir.FunctionType(frontend.VOID, [numba_backend.I64] * 2)
    function = frontend.ir.Function(module, form, "kernel")
    names = {"int32": types.int32, "float32": types.float32}
    frontend.Unit(module, {}).write(function, node, [types.int64] * 2, names)
    return str(module)


def test_a_variable_of_two_types_has_the_wider_where_paths_meet():
    text = written("def kernel(x, y):\n  z = int32(x)\n  if x < y:\n    z = y\n  w = z + y\n")
    assert "sext i32" in text and "alloca i32" in text and "alloca i64" in text


def test_a_loop_widens_what_its_body_widens():
    text = written("def kernel(x, y):\n  z = int32(x)\n  while z < y:\n    z = z + 1\n")
    assert text.count("sext i32") == 1  # before the loop: none is in it


def test_counted_loops_and_nested_branches():
    text = written("def kernel(x, y):\n  for k in range(3):\n    if x < k:\n      y = y + k\n    else:\n      x = k\n")
    assert text.count("br i1") == 3 and "phi" not in text


@pytest.mark.parametrize(
    "body", ["return x", "x[0] = y", "z = x if y else 3", "z = w", "z = x % y", "z = x + float32(y)", "z = (1, x)[0]"]
)
def test_other_forms_are_left_to_numba(body):
    with pytest.raises(frontend.Unsuited):
        written(f"def kernel(x, y):\n  {body}\n")
