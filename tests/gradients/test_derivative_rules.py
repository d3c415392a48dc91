"""The derivative of every function is torch's, or that of central differences."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gradient_table import ARRAYS, CASES  # noqa: E402
from oracle import evaluate  # noqa: E402

from fusedsl.errors import FusedslError  # noqa: E402
from fusedsl.gradients import elementwise  # noqa: E402
from fusedsl.ir.ops import OPS  # noqa: E402
from fusedsl.lang import functions, prelude  # noqa: E402

# Functions whose results are no floats, or do not depend on a float, or that stand for what is in the table.
WITHOUT = """
    isnan isinf isfinite isclose signbit any all argmax argmin count_nonzero nanargmax nanargmin argsort argpartition
    quantize unpack size shape iota zeros ones full eye linspace one_hot uniform normal given bool int8 int16 int32
    int64 uint8 uint16 uint32 uint64 float16 bfloat16 float64 float8_e4m3fn float8_e5m2 less less_equal greater
    greater_equal equal
    not_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_invert
    left_shift right_shift histogram nextafter dequantize around randint permutation grad vjp jvp stop_gradient summand
    floor_divide power
"""


def compare(text: str, reference) -> None:
    """The vjp of a text, for cotangents of all its results, against torch's."""
    names = list(inspect.signature(reference).parameters)
    names = [name for name in names if name != "f"]
    given = {name: ARRAYS[name] for name in names}
    wrt = [name for name in names if given[name].dtype.kind == "f"]
    tensors = {name: torch.tensor(x, requires_grad=name in wrt) for name, x in given.items()}
    results = reference(**tensors)
    results = results if isinstance(results, tuple) else (results,)
    random = np.random.default_rng(3)
    cotangents = [random.standard_normal(tuple(r.shape)) for r in results]
    dependent = [(r, torch.tensor(c)) for r, c in zip(results, cotangents) if r.requires_grad]
    outputs, seeds_of = zip(*dependent)
    wanted = torch.autograd.grad(outputs, [tensors[n] for n in wrt], seeds_of, allow_unused=True)
    seeds = {f"seed_{k}": c for k, c in enumerate(cotangents)}
    tuples = f"({text},), ({', '.join(seeds)},)" if len(results) > 1 else f"{text}, seed_0"
    found = evaluate(f"return vjp({tuples}, {', '.join(wrt)})", **given, **seeds)
    tolerance = 1e-6 if "float32" in text or "lse" in text else 1e-9
    for name, made, right in zip(wrt, found if isinstance(found, tuple) else (found,), wanted):
        right = np.zeros_like(given[name]) if right is None else right.numpy()
        np.testing.assert_allclose(made, right, rtol=tolerance, atol=tolerance / 100, err_msg=f"by {name}")


@pytest.mark.parametrize(("text", "reference"), CASES, ids=[text[:60] for text, _ in CASES])
def test_gradients_are_those_of_torch(text, reference):
    compare(text, reference)


def test_every_function_is_compared_or_has_no_derivative():
    functions.lookup("")
    named = {functions.ALIASES.get(n, n) for text, _ in CASES for n in re.findall(r"(\w+)\(", text)}
    public = {n for n in (*functions.TABLE, *prelude.names(), "attention") if not n.startswith("_")}
    assert public - named == {*WITHOUT.split()} - {"around"}


def test_every_operation_has_a_rule_or_a_reason():
    silent = {"compare", "logical", "test", "float_test", "bits", "shift"}
    of_floats = {name for name, op in OPS.items() if op.rule not in silent and not name.startswith("philox")}
    assert of_floats == {*elementwise.RULES, *elementwise.NO_DERIVATIVE}
    assert all(len(rules) == OPS[name].arity for name, rules in elementwise.RULES.items())


@pytest.mark.parametrize(
    ("text", "code", "caret"),
    [
        ("grad(x, x)", "shape.gradient", 6),
        ("grad(sum(x))", "argument.missing", 1),
        ("grad(sum(x), 2)", "argument.gradient", 14),
        ("grad(sum(x), i)", "dtype.gradient", 14),
        ("grad(sum(i), x)", "dtype.gradient", 6),
        ("vjp(x, x)", "argument.missing", 1),
        ("vjp((x, x), x, x)", "argument.gradient", 13),
        ("vjp(x, i[:2], x)", "shape.broadcast", 8),
        ("jvp(x, x, (x, x))", "argument.gradient", 11),
        ("grad(sum(nextafter(x, 2.0)), x)", "unsupported.derivative", 1),
    ],
)
def test_what_has_no_derivative_is_said_by_name(text, code, caret):
    with pytest.raises(FusedslError) as caught:
        evaluate(text, x=ARRAYS["w"], i=ARRAYS["i"])
    assert (caught.value.code, caught.value.column) == (code, caret)
