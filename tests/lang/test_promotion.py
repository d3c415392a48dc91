"""dtypes: every operation and function on every pair of dtypes and every kind of operand gives NumPy 2's result type.

bfloat16 promotes as in JAX: with integers and bools it stays, with float16 it gives float32.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from oracle import graph_of

import fusedsl as fd
from fusedsl.ir.builder import GraphBuilder
from fusedsl.ir.graph import Parameter, Type
from fusedsl.ir.ops import OPS
from fusedsl.ir.types import BOOL, DTYPES, FLOAT64, INT64, dtype
from fusedsl.runtime.arrays import describe_all

NUMPY = [d for d in DTYPES if not d.startswith(("bfloat", "float8"))]
WEAK = {int: INT64, float: FLOAT64, bool: BOOL}
REFUSED = "refused"
UFUNCS = {name: getattr(np, name) for name in OPS if isinstance(getattr(np, name, None), np.ufunc)}
UFUNCS["bitwise_invert"] = np.invert
NOT_BF16 = {name for name, op in OPS.items() if op.rule in ("bits", "shift")}


def numpys(ufunc: np.ufunc, operands) -> str:
    """The dtype of NumPy's result, or REFUSED."""
    kinds = tuple(np.dtype(d) if isinstance(d, str) or d is bool else d for d in operands)
    try:
        return ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))[ufunc.nin].name
    except TypeError:
        return REFUSED


def ours(name: str, operands) -> str:
    """The dtype that the builder gives an operation on parameters of these dtypes; Python's types are weak."""
    types = [Type(WEAK[d], (), d is not bool) if isinstance(d, type) else Type(dtype(d), (2,)) for d in operands]
    builder = GraphBuilder(tuple(Parameter(f"p{k}", t, scalar=not t.shape) for k, t in enumerate(types)), {})
    try:
        return builder.elementwise(name, *(builder.parameter(k) for k in range(len(types)))).type.dtype.name
    except fd.DTypeError:
        return REFUSED


@pytest.mark.parametrize("name", UFUNCS)
def test_every_operation_promotes_as_numpy(name):
    kinds = [*NUMPY, *WEAK] if OPS[name].arity > 1 else NUMPY
    for operands in itertools.product(kinds, repeat=OPS[name].arity):
        if all(isinstance(d, type) for d in operands):
            continue  # weak values alone are int64, float64 or bool
        if name == "ldexp" and isinstance(operands[0], type):
            continue  # an exponent does not count: a weak number alone is float64 (NumPy: float16)
        assert ours(name, operands) == numpys(UFUNCS[name], operands), operands


def with_bfloat16(other) -> str:
    """JAX's lattice (jax.numpy.promote_types): the result type of bfloat16 with another."""
    return {"float16": "float32", "float32": "float32", "float64": "float64"}.get(other, "bfloat16")


@pytest.mark.parametrize("name", UFUNCS)
def test_bfloat16_promotes_as_in_jax(name):
    op = OPS[name]
    for other in [*DTYPES, *WEAK] if op.arity == 2 else ["bfloat16"]:
        if other in ("float8_e4m3fn", "float8_e5m2"):
            continue
        for operands in {("bfloat16", other), (other, "bfloat16")} if op.arity == 2 else [("bfloat16",)]:
            wanted = with_bfloat16(other)
            if op.rule in ("compare", "logical", "test", "float_test"):
                wanted = "bool"
            elif name in NOT_BF16 or (name == "ldexp" and operands[1] not in {*NUMPY, int, bool} - {"uint64"}):
                wanted = REFUSED
            elif name == "ldexp":
                wanted = REFUSED if str(operands[1]).startswith("float") else "bfloat16"
            assert ours(name, operands) == wanted, operands


# Functions that are no operation of the table, with NumPy's.
ONE_OPERAND = """
    square fabs reciprocal deg2rad rad2deg sinc round positive sum prod mean var std max min any all argmax argmin
    count_nonzero nansum nanmean cumsum cumprod sort argsort diff nan_to_num zeros_like ones_like tril triu copy fix
"""
OTHERS = {name: getattr(np, name) for name in ONE_OPERAND.split()}
PAIRS = {name: getattr(np, name) for name in ("logaddexp", "logaddexp2", "heaviside", "isclose")}


def text_gives(text: str, given: dict) -> str:
    try:
        return graph_of(text, given)[0].results[0].type.dtype.name
    except fd.DTypeError:
        return REFUSED


def numpy_gives(function, *values) -> str:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*values)).dtype.name
    except TypeError:
        return REFUSED


@pytest.mark.parametrize("name", OTHERS)
def test_functions_give_numpys_dtypes(name):
    for d in NUMPY:
        x = np.ones((2, 2), d)
        assert text_gives(f"{name}(x)", {"x": x}) == numpy_gives(OTHERS[name], x), d


@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two_give_numpys_dtypes(name):
    values = [*(np.ones(2, d) for d in NUMPY), 1, 1.0, True]
    for x, y in itertools.product(values, repeat=2):
        if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
            wanted = numpy_gives(PAIRS[name], x, y)
            assert text_gives(f"{name}(x, y)", {"x": x, "y": y}) == wanted, (x, y)
            if not isinstance(y, np.ndarray):
                assert text_gives(f"{name}(x, {y})", {"x": x}) == wanted, (x, y)


def kinds_of(d: str):
    """The forms in which a strong operand of a dtype arrives: an array, a 0-d array, a NumPy scalar."""
    kind = np.dtype(getattr(ml_dtypes, d) if d == "bfloat16" else d)
    return np.ones(3, kind), np.ones((), kind), kind.type(1)


@pytest.mark.parametrize("d", [*NUMPY, "bfloat16"])
def test_every_form_of_an_operand_promotes_alike(d):
    """As a call sees it: arrays, 0-d arrays and NumPy scalars are strong; Python's numbers and literals are weak."""
    for e in [*NUMPY, "bfloat16"]:
        wanted = ours("add", (d, e))
        for x, y in itertools.product(kinds_of(d), kinds_of(e)):
            assert called("x + y", x=x, y=y) == wanted
    for weak in (1, 1.0, True):
        wanted = ours("multiply", (d, type(weak)))
        for x in kinds_of(d):
            assert called("x * y", x=x, y=weak) == called(f"x * {weak}", x=x) == wanted


def called(text: str, **given) -> str:
    kernel = fd.kernel(text)
    facts = describe_all(kernel.params, [given[name] for name in kernel.params])
    return kernel._program.plans.graph(facts).results[0].type.dtype.name


X = np.array([1, 2, 3], np.int8)


@pytest.mark.parametrize(
    "text", ("x * 300", "sum(300) * x", "where(x > 1, x, 300)", "clip(x, -1000, 5)", "x + max(300)", "x // 300")
)
def test_a_literal_that_does_not_fit_is_refused(text):
    with pytest.raises(fd.DTypeError, match="does not fit int8"):
        fd.evaluate(text, x=X)


@pytest.mark.parametrize("text", ("x * s", "sum(s) * x", "where(x > 1, x, s)", "x + sum(broadcast_to(s, (3,)))"))
@pytest.mark.parametrize("fallback", (True, False))
def test_a_number_that_does_not_fit_is_refused_by_kernels_and_the_interpreter(text, fallback):
    with pytest.raises(fd.DTypeError, match="300 does not fit int8"):
        fd.evaluate(text, {"x": X, "s": 300}, fallback=fallback)
    with pytest.raises(fd.DTypeError, match="300 does not fit int8"):
        interpreted(text, x=X, s=300)


def interpreted(text, **values):
    from oracle import evaluate

    return evaluate(text, **values)


def test_comparisons_are_of_the_numbers_themselves():
    """An integer that the array's dtype cannot hold compares as NumPy compares it."""
    small = np.arange(256, dtype=np.uint8)
    given = {"x": X, "b": small, "s": 300, "t": -300}
    text = "x < s, s <= x, x != t, x >= 300, b == iota(b, 0), b < size(b), x > t"
    wanted = [X < 300, 300 <= X, X != -300, X >= 300, small == np.arange(256), small < 256, X > -300]  # noqa: SIM300
    for found in (fd.evaluate(text, given), interpreted(text, **given)):
        for got, expected in zip(found, wanted):
            np.testing.assert_array_equal(got, expected)


def test_weak_totals_stay_weak():
    """A fold of weak values is computed in the dtype that it meets; small integers are still added up in int64."""
    x, h = np.zeros(30, np.int8), np.zeros(30, np.float32)
    given = {"x": x, "h": h}
    total, halves, mean = fd.evaluate("x + sum(iota(x, 0)), h + sum(iota(h, 0) * 0.5), mean(iota(h, 0)) + h", given)
    assert total.dtype == np.int8 and (total == np.int64(435).astype(np.int8)).all()
    assert halves.dtype == mean.dtype == np.float32 and (halves == 217.5).all() and (mean == 14.5).all()


def test_what_mixes_weak_values_alone_stays_weak():
    """Products, orders and masked folds too: each is computed in the dtype that it meets."""
    b, whole = np.array([True, False, True, True]), "arange(4)"
    for mixed in (
        "{0} @ {0}",
        "{0} @ arange(4)",
        "einsum('i,j->ij', {0}, {0})[3]",
        "einsum('i->', {0})",
        "sort({0}, descending=True)",
        "topk({0}, 4)[0]",
        "sum({0}, where=b)",
        "max({0}, where=b, initial=0)",
    ):
        wide = interpreted(f"{mixed.format(whole)} * 100, b", b=b)[0]
        for d in (np.int8, np.float16, np.float32):
            text = f"{mixed.format(whole)} * 100 + x, {mixed.format('(arange(4) * 0.1)')} + x, b"
            made, real, _ = interpreted(text, x=np.zeros(4, d), b=b)
            assert made.dtype == d and real.dtype == (np.float64 if d is np.int8 else d), (text, d)
            assert np.all(made == wide.astype(d)), (text, d)
    text = "(arange(4) * 0.1) @ x, (arange(4) * 0.1) @ (arange(4) * 0.1) + x, arange(40) @ arange(40) + y"
    x, y = np.ones(4, np.float16), np.zeros(4, np.int8)
    tenth = (np.arange(4) * 0.1).astype(np.float16).astype(np.float32)  # rounded as an operand of a product
    for found in (fd.evaluate(text, x=x, y=y), interpreted(text, x=x, y=y)):
        assert found[0] == np.float16(tenth.sum()) and found[1][0] == np.float16(tenth @ tenth + 1)
        assert found[2].dtype == np.int8 and (found[2] == np.int64(20540).astype(np.int8)).all()


@pytest.mark.parametrize("d", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32])
def test_what_conditions_pick_among_literals_stays_weak(d):
    """A condition has no part in a dtype, whatever it compares."""
    y = np.arange(3, dtype=d)
    for text, expected in {
        "where(-y < 0, 1, 2) - 2 + y": np.where(-y < 0, 1, 2) - 2 + y,
        "y * where(y > 1.5, 2, 3)": y * np.where(y > 1.5, 2, 3),
        "where(y == 1, where(y < 0, 5, 6), 7) + y": np.where(y == 1, 6, 7) + y,
        "y + (2 if y > 0 else 1)": y + np.where(y > 0, 2, 1),
    }.items():
        for made in (fd.evaluate(text, y=y, verify=True), interpreted(text, y=y)):
            assert made.dtype == d and (made == expected.astype(d)).all(), text


def test_the_mean_of_64_bit_integers_does_not_wrap():
    x = np.array([2**62, 2**62, 2**62, 5], np.int64)
    np.testing.assert_allclose(fd.evaluate("mean(x), var(x)", {"x": x}), (x.mean(), x.var()), rtol=1e-12)
    u = np.array([2**64 - 1, 2**63], np.uint64)
    np.testing.assert_allclose(fd.evaluate("mean(x)", {"x": u}), u.mean(), rtol=1e-12)


@pytest.mark.parametrize("d", ("float16", "bfloat16"))
def test_the_next_narrow_float_is_one_of_its_dtype(d):
    """All numbers, towards both infinities, zero and themselves."""
    kind = np.dtype(getattr(ml_dtypes, d) if d == "bfloat16" else d)
    x = np.arange(1 << 16, dtype=np.uint16).view(kind)
    for y in (np.inf, -np.inf, 0, np.nan):
        with np.errstate(all="ignore"):
            wanted = np.nextafter(x, kind.type(y))
        for found in (fd.evaluate("nextafter(x, y)", x=x, y=y), interpreted("nextafter(x, y)", x=x, y=y)):
            np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))
    x = x[~np.isnan(x.astype(np.float32))]
    same = fd.evaluate("nextafter(x, x)", x=x)
    np.testing.assert_array_equal(same.view(np.uint16), x.view(np.uint16))


def test_a_negative_literal_as_the_power_of_a_weak_integer_gives_a_float_as_in_python():
    """Of arrays of integers it is 0, or ±1: their dtype is theirs."""
    x, i = np.float32([1, 2, 4]), np.array([2, 1, -1, 0])
    text = "x * size(x)**-1, x * k**-1, x * 2**-1, (1 + iota(x, 0))**-1 * x, i**-1"
    for found in (fd.evaluate(text, x=x, i=i, k=4), interpreted(text, x=x, i=i, k=4)):
        for made, wanted in zip(found, (x / 3, x / 4, x / 2, x / np.float32([1, 2, 3]))):
            assert made.dtype == np.float32
            np.testing.assert_allclose(made, wanted, rtol=1e-6)
        assert found[4].tolist() == [0, 1, -1, 0]


def test_the_smaller_of_an_integer_and_a_float_is_a_float_among_literals_too():
    x = np.int8([1, 2])
    text = "x + minimum(0, 2.5), x + maximum(3, 2.5)"
    for found in (fd.evaluate(text, x=x), interpreted(text, x=x)):
        assert [r.dtype for r in found] == [np.float64, np.float64] and found[1].tolist() == [4, 5]
