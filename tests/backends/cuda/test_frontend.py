"""Generated files compiled by our own front end: the same results as through Numba's."""

from __future__ import annotations

import ast
import ctypes
import itertools
import operator
import random
import re

import pytest

pytest.importorskip("numba_cuda")
import llvmlite.binding as llvm

from fusedsl.backends.cuda.compiler import frontend, numba_backend
from fusedsl.backends.cuda.compiler.frontend.expressions import Expressions
from fusedsl.backends.cuda.compiler.numba_backend import I64, VOID, ir, types

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
        return Expressions({"inf": float("inf")}, kinds).expression(ast.parse(text, mode="eval").body).kind
    except frontend.UnsupportedForm:
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


NAMES = {"int32": types.int32, "float32": types.float32}


def written(source):
    """The LLVM text of a function `kernel(x, y)` of two int64."""
    (node,) = ast.parse(source).body
    module = numba_backend.module()
    function = ir.Function(module, ir.FunctionType(VOID, [I64] * 2), "kernel")
    frontend.Unit(module, {}).write(function, node, [types.int64] * 2, NAMES)
    return str(module)


def test_a_variable_of_two_types_has_the_wider_where_paths_meet():
    text = written("def kernel(x, y):\n  z = int32(x)\n  if x < y:\n    z = y\n  w = z + y\n")
    assert "sext i32" in text and "alloca i64" in text


def test_a_loop_widens_what_its_body_widens():
    text = written("def kernel(x, y):\n  z = int32(x)\n  while z < y:\n    z = z + 1\n")
    assert text.count("sext i32") == 1  # before the loop: none is in it


def test_counted_loops_and_nested_branches():
    text = written("def kernel(x, y):\n  for k in range(3):\n    if x < k:\n      y = y + k\n    else:\n      x = k\n")
    assert text.count("br i1") == 3 and "phi" not in text


@pytest.mark.parametrize(
    "body",
    ["return x", "x[0] = y", "z = x if y else 3", "z = w", "z = x % y", "z = x + float32(y)", "z = (1, x)[0]"]
    + ["if x < y:\n    z = x\n  else:\n    z = float32(1)\n  w = z", "while x < y:\n    return", "return\n  z = x"],
)
def test_other_forms_are_left_to_numba(body):
    with pytest.raises(frontend.UnsupportedForm):
        written(f"def kernel(x, y):\n  {body}\n")


def statements(draw, indent, depth):
    """Lines of a random program over integers a, b, c."""
    if depth == 0 or draw.random() < 0.4:
        value = draw.choice(["a + {0}", "b - {0}", "{0}", "c * 3", "min(a, {0})", "max(c, {0})", "({0} - 5) // 4"])
        value = value.format(draw.choice(["a", "b", "c", "7", "x"]))
        return [f"{indent}{draw.choice('abc')} = {draw.choice(['', 'int32'])}(({value}) & 255)"]
    inner = [line for _ in range(draw.randint(1, 3)) for line in statements(draw, indent + "  ", depth - 1)]
    other = [line for _ in range(draw.randint(1, 2)) for line in statements(draw, indent + "  ", depth - 1)]
    condition = f"{draw.choice('abc')} {draw.choice(['<', '<=', '==', '!='])} {draw.choice('abcxy')}"
    match draw.choice(["if", "else", "while", "for", "return", "pair"]):
        case "if":
            return [f"{indent}if {condition}:", *inner]
        case "else":
            return [f"{indent}if {condition}:", *inner, f"{indent}else:", *other]
        case "while":
            turns = f"turns_{len(indent)}"
            count = f"{indent}  {turns} = {turns} + 1"
            return [f"{indent}{turns} = 0", f"{indent}while (({condition}) & ({turns} < 5)):", *inner, count]
        case "for":
            return [f"{indent}for k_{len(indent)} in range({draw.choice('abc')} & 7):", *inner]
        case "return":
            return [f"{indent}if {condition}:", f"{indent}  return a + 2 * b + 5 * c"]
    return [f"{indent}a, b = (b, a)"]


@pytest.mark.parametrize("seed", range(60))
def test_branches_loops_and_returns_compute_what_python_computes(seed):
    """On the CPU: the text is LLVM's, whatever it was written for."""
    draw = random.Random(seed)
    lines = [line for _ in range(6) for line in statements(draw, "  ", 3)]
    source = "\n".join(["def kernel(x, y):", "  a, b, c = (x, y, int32(3))", *lines, "  return a + 2 * b + 5 * c"])
    names = {"int32": int}
    exec(source, names)
    (node,) = ast.parse(source).body
    module = numba_backend.module()
    function = ir.Function(module, ir.FunctionType(VOID, [I64.as_pointer(), I64, I64]), "kernel")
    frontend.Unit(module, {}).write(function, node, [types.int64] * 2, NAMES, [types.int64])
    text = re.sub(r"^(target|!).*$", "", re.sub(r"\b(i\d+|\[\w+ x i64\])\*", "ptr", str(module)), flags=re.M)
    run = on_the_cpu(text)
    for x, y in ((0, 0), (3, 9), (200, 17), (41, 41)):
        assert run(x, y) == names["kernel"](x, y), source


def on_the_cpu(text):
    """The function `kernel` of an LLVM text, which stores its result where its first argument points."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(text), llvm.Target.from_default_triple().create_target_machine()
    )
    address = engine.get_function_address("kernel")
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)

    def run(x, y):
        result = ctypes.c_int64()
        call(ctypes.addressof(result), x, y)
        return engine and result.value

    return run
