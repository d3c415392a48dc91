"""The smallest case of every bug that was found by trying to break things."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import types

import numpy as np
import oracle
import pytest
from bounds import evaluate

import fusedsl as fd
from fusedsl.program import verify_results
from fusedsl.program.call_target import CallTarget
from fusedsl.program.resolve_call import resolve
from fusedsl.runtime import object_loader
from fusedsl.runtime.arrays import describe, describe_all


def test_a_kernel_reads_no_temporary_that_it_writes():
    c = np.arange(6.0).reshape(2, 3, 1)  # softmax over one element: its maximum and sum are no folds
    for _ in range(3):
        np.testing.assert_array_equal(fd.evaluate("reshape(softmax(c), (-1,)) + 1", c=c), np.full(6, 2.0))


def test_a_remembered_call_is_not_taken_for_another_view_of_an_input():
    y, other = np.arange(9.0).reshape(3, 3), np.empty((3, 3), order="F")
    k = fd.kernel("y + 1")
    k(y, out=other)
    with pytest.raises(fd.ArgumentError, match="overlaps y"):
        k(y, out=y.T)  # alike in layout to the array that the call was prepared for
    np.testing.assert_array_equal(y, np.arange(9.0).reshape(3, 3))


def test_calls_that_allocate_one_result_of_two_are_remembered():
    k, a = fd.kernel("a + 1, a * 2"), np.ones(4)
    for out in (np.zeros(4), np.zeros(4)):
        first, second = k(a, out=(out, None))
        assert first is out and out.tolist() == [2.0] * 4 and second.tolist() == [2.0] * 4
    assert len(k._program._calls) == 1
    with pytest.raises(fd.ArgumentError):
        k(None)


def test_out_belongs_to_the_library_of_the_result():
    torch = pytest.importorskip("torch")
    k, a, t = fd.kernel("a * 2"), np.ones(4, "f4"), torch.ones(4)
    for _ in range(2):
        with pytest.raises(fd.DeviceError, match="torch tensor on the CPU, and the result is a NumPy array"):
            k(a, out=t)
        with pytest.raises(fd.DeviceError, match="NumPy array on the CPU, and the result is a torch tensor"):
            k(t, out=a)
    assert t.tolist() == [1.0] * 4 == a.tolist()


def test_out_may_be_known_through_dlpack_alone():
    class Exporter:
        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

    k, a = fd.kernel("a * 2"), np.ones(4, "f4")
    for _ in range(2):
        memory = np.zeros(4, "f4")
        out = Exporter(memory)
        assert k(a, out=out) is out and memory.tolist() == [2.0] * 4


def test_a_number_that_does_not_fit_a_later_kernel_leaves_out_untouched():
    k, total, rest = fd.kernel("sum(x), i + s"), np.zeros((), "f4"), np.zeros(3, "i1")
    x, i = np.ones(30, "f4"), np.ones(3, "i1")
    for _ in range(2):
        with pytest.raises(fd.DTypeError, match="s = 1000 does not fit int8"):
            k(x, i, 1000, out=(total, rest))
        assert total == 0 and not rest.any()
    k(x, i, 4, out=(total, rest))
    assert total == 30 and rest.tolist() == [5, 5, 5]


def test_the_sign_of_a_zero_is_a_positive_zero():
    for dtype in ("f2", "f4", "f8"):
        assert not np.signbit(fd.evaluate("sign(x)", x=np.array([-0.0, 0.0], dtype))).any()


@pytest.mark.parametrize(
    ("shape", "axis"), [((0, 0), 0), ((0, 2, 0), 0), ((0, 3), 1), ((3, 0), 0), ((2, 0, 0), (1, 2))]
)
def test_a_maximum_over_an_empty_axis_is_numpys_error(shape, axis):
    x = np.zeros(shape, "f4")
    try:
        expected = np.max(x, axis=axis)
    except ValueError:
        with pytest.raises(fd.ShapeError, match="max of an empty array"):
            fd.evaluate(f"max(x, axis={axis})", x=x)
    else:
        assert fd.evaluate(f"max(x, axis={axis})", x=x).shape == expected.shape


def test_an_array_may_be_called_self():
    assert fd.kernel("self + 1")(self=np.ones(2)).tolist() == [2, 2]
    assert "self" in str(fd.kernel("self + 1").explain(self=np.ones(2)))
    assert fd.fuse(lambda self: self + 1)(self=np.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda: fd.evaluate("x + 1", [np.ones(2)]),
        lambda: fd.evaluate("x + 1", np.ones(2)),
        lambda: fd.kernel("x", params=3),
        lambda: fd.kernel("x", params=[1]),
        lambda: fd.kernel("x", params=""),
        lambda: fd.kernel("x", constants=[1]),
    ],
)
def test_what_does_not_name_arguments_is_an_argument_error(call):
    fd.kernel("x")  # with no params: remembered apart from empty ones
    with pytest.raises(fd.ArgumentError) as caught:
        call()
    assert "help:" in str(caught.value)


def test_verify_compares_before_it_writes_over_an_input():
    y = np.ones(4, "f4")
    assert fd.kernel("y*2 + 1", verify=True)(y, out=y) is y and y.tolist() == [3] * 4
    with pytest.raises(fd.ArgumentError, match="2 outputs for 1 result"):
        fd.kernel("y*2 + 1", verify=True)(y, out=(y, y))


def test_a_disagreement_leaves_out_untouched(monkeypatch):
    monkeypatch.setattr(verify_results, "exact", lambda *_: [(np.zeros(4), np.zeros(4))])
    out = np.full(4, 7, "f4")
    with pytest.raises(fd.FusedslError, match="the interpreter says 0"):
        fd.kernel("y*2 + 1", verify=True)(np.ones(4, "f4"), out=out)
    assert out.tolist() == [7] * 4


def test_the_interpreter_checks_every_output_before_it_writes_one(monkeypatch):
    def fail(*_):
        raise fd.CompileError("no compiler", "compile")

    monkeypatch.setattr("fusedsl.runtime.compile.build_cpu", fail)
    into, y = np.zeros(4, "f4"), np.ones(4, "f4")
    k = fd.kernel("y + 1, y * 2")
    with pytest.raises(fd.ArgumentError, match="has shape"):
        k(y, out=(into, np.zeros(5, "f4")))
    assert not into.any()
    with pytest.warns(RuntimeWarning, match="slow interpreter"):
        assert k(y, out=(into, None))[1].tolist() == [2] * 4
    assert into.tolist() == [2] * 4


def test_a_new_shape_loads_no_code_again():
    k = fd.kernel("exp(x) * 1.25 + x")
    k(np.ones((5, 7)))
    before = len(object_loader._loaded)
    for rows in range(6, 20):
        k(np.ones((rows, 7)))
    assert len(object_loader._loaded) == before


def test_a_traced_number_stays_weak_through_augmented_assignments():
    @fd.fuse
    def scaled(x, s):
        s = s * 2
        s += 1
        return x * s

    assert scaled(np.ones(2, "f4"), 2.5).dtype == np.float32


def test_augmented_assignment_of_a_traced_scalar_rebinds_it():
    @fd.fuse
    def f(x):
        total = x.sum()
        kept = total
        total += 1.5
        return total, kept

    assert f(np.arange(4)) == (7.5, 6)


def test_a_traced_function_writes_zero_dimensional_arrays():
    @fd.fuse
    def step(count, x):
        count += 1
        return x * count

    count = np.array(1.0)
    assert step(count, np.ones(2)).tolist() == [2, 2] and step(count, np.ones(2)).tolist() == [3, 3]
    assert count == 3


def test_an_array_passed_twice_is_one_array_in_a_traced_function():
    def f(x, y):
        x += 1
        return x + y

    expected, found = np.ones(3), np.ones(3)
    fused = fd.fuse(f)
    assert fused(np.ones(3), np.ones(3)).tolist() == [3] * 3
    for _ in range(2):
        assert fused(found, found).tolist() == f(expected, expected).tolist()
        assert found.tolist() == expected.tolist()
    with pytest.raises(fd.ArgumentError, match="overlaps"):
        fused(found[:2], found[1:])


def test_a_traced_function_does_not_write_what_it_reads_from_outside():
    outside = np.ones(3)

    @fd.fuse
    def f(x):
        x += 1
        return x + outside

    assert f(np.ones(3)).tolist() == [3] * 3
    with pytest.raises(fd.ArgumentError, match="from outside"):
        f(outside)
    assert outside.tolist() == [1] * 3


def test_numpys_shape_and_size_of_a_traced_array_are_weak():
    f = fd.fuse(lambda x: x + np.shape(x)[0] + np.size(x) + np.size(x, 1))
    assert f(np.ones((2, 3), "f4")).dtype == np.float32


@fd.fuse
def doubled(x):
    return x * 2


def test_a_fused_function_is_pickled_and_copied_by_name():
    doubled(np.ones(3))
    assert pickle.loads(pickle.dumps(doubled)) is doubled is copy.deepcopy(doubled)


def test_names_of_traced_arrays_are_minted_identifiers():
    evil = 'a\n    raise SystemExit\n#"\\'
    f = fd.fuse(lambda d, **named: sum(d.values()) + sum(named.values()))
    x = np.ones(3)
    assert f({evil: x, "": x, "é": x, 5: x}, **{evil: x, "class": x}).tolist() == [6] * 3
    assert "SystemExit\n" not in f.source({evil: x}, **{evil: x}) + str(f.explain({evil: x}, **{evil: x}))


def test_traced_arrays_whose_names_would_be_equal_stay_apart():
    outside = np.full(2, 5.0)
    f = fd.fuse(lambda d, arg0, captured_0: d["a"]["b"] - d["a_b"] + arg0 * captured_0 * outside)
    assert f({"a": {"b": np.ones(2)}, "a_b": np.full(2, 3.0)}, arg0=np.ones(2), captured_0=np.ones(2)).tolist() == [
        3,
        3,
    ]


def test_more_arrays_than_the_limit_are_refused():
    arrays = {f"a{k}": np.ones(2) for k in range(65)}
    with pytest.raises(fd.LimitError, match="65 arrays are more than 64"):
        fd.evaluate("+".join(arrays), arrays)
    assert fd.kernel("+".join(arrays), limits={"arrays": 65})(**arrays).tolist() == [65, 65]
    with pytest.raises(fd.LimitError, match="2 arrays are more than 1"):
        fd.fuse(lambda x, y: x + y, limits={"arrays": 1})(np.ones(2), np.zeros(2))


def test_isinstance_takes_traced_values_for_what_they_will_be():
    @fd.fuse
    def f(x, s, n):
        found = [isinstance(x, np.ndarray), isinstance(s, float), isinstance(n, int), isinstance(x.sum(), np.float32)]
        found += [isinstance(x.shape[0], int), not isinstance(x, float), not isinstance(n, float)]
        return x if all(found) else x * np.nan

    assert f(np.ones(3, "f4"), 2.5, 3).tolist() == [1] * 3


class Layer:
    def __init__(self, scale, names=("a",)):
        self.scale, self.names, self.inner = scale, list(names), {"shift": 0.0}

    @fd.fuse
    def __call__(self, x):
        return x * self.scale + len(self.names) + self.inner["shift"]


def test_what_a_traced_method_reads_of_its_object_is_read_again():
    layer, x = Layer(2.0), np.ones(1)
    assert layer(x) == 3 and layer(x) == 3
    layer.scale = 5.0
    assert layer(x) == 6
    layer.names.append("b")
    assert layer(x) == 7
    layer.inner["shift"] = 0.5
    assert layer(x) == 7.5 and Layer(2.0)(x) == 3
    assert len(Layer.__call__._traces) <= 5


def test_what_a_traced_function_reads_of_objects_and_containers_outside_is_read_again():
    layer, factors, x = Layer(2.0), [1.0, {"k": 2.0}], np.ones(1)
    f = fd.fuse(lambda x: x * layer.scale * factors[0] * factors[1]["k"])
    assert f(x) == 4
    layer.scale = 3.0
    assert f(x) == 6
    factors[0] = 2.0
    assert f(x) == 12
    factors[1]["k"] = 0.5
    assert f(x) == 3


def test_settings_that_compare_by_value_are_part_of_the_signature_by_value():
    @dataclasses.dataclass
    class Settings:
        scale: float
        steps: list

    f = fd.fuse(lambda x, settings, cut=slice(None), flags=(): x[cut] * settings.scale * len(settings.steps))
    for _ in range(3):
        assert f(np.ones(2), Settings(2.0, [1]), slice(0, 1), {1, 2}).tolist() == [2]
    assert f(np.ones(2), Settings(2.0, [1, 2])).tolist() == [4, 4]
    assert sum(map(len, f._traces.values())) == 2


def test_a_traced_reshape_takes_extents_as_arguments():
    f = fd.fuse(lambda x: x.reshape(-1, x.shape[0]) * 2)
    assert f(np.ones((2, 3))).shape == (3, 2)


def test_a_view_of_a_zero_dimensional_array_is_no_scalar():
    def f(x):
        y = x.T
        y += 1
        return y

    x = np.array(1.0)
    assert fd.fuse(f)(x) == 2 and x == 2


def test_a_fused_function_may_call_another():
    factor = [2.0]
    inner = fd.fuse(lambda x: x * factor[0])
    outer = fd.fuse(lambda x: inner(x) + inner(x=x + 1), max_kernels=1)
    assert outer(np.ones(2)).tolist() == [6, 6]
    factor[0] = 3.0
    assert outer(np.ones(2)).tolist() == [9, 9]


def test_arrays_given_as_defaults_are_read_at_each_call():
    weights = np.zeros(2)

    @fd.fuse
    def f(x, w=weights, *, v=weights):
        return x * np.exp(w) + np.exp(v)

    assert f(np.ones(2)).tolist() == [2, 2]
    weights += 1
    np.testing.assert_allclose(f(np.ones(2)), np.full(2, 2 * np.e))


@pytest.mark.parametrize("wrong", [lambda x: (r for r in x), lambda x: {x}, lambda x: types.SimpleNamespace(y=x)])
def test_traced_arrays_do_not_leave_their_function(wrong):
    with pytest.raises(fd.TraceError, match="returns a"):
        fd.fuse(wrong)(np.ones(2))


def test_traced_numbers_do_what_numbers_do():
    f = fd.fuse(
        lambda x, s, n: (x * round(s, 1) * s.is_integer() + {3: 4.0}[n] + n.bit_length(), f"{s:.2f} {n} " + str(n))
    )
    assert f(np.ones(1), 2.0, 3)[0] == 8 and f(np.ones(1), 2.0, 3)[1] == "2.00 3 3"
    with pytest.raises(fd.ArgumentError, match="decorates a function"):
        fd.fuse(3)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("clip(x, -1000, 100)", 9),
        ("hardtanh(x, -10, 1000)", 18),
        ("f(t, k) = t + k\nf(x, 300)", 6),
        ("f(t) = t + 300\nf(x)", 1),
    ],
)
def test_a_literal_that_does_not_fit_is_found_in_the_call_that_brought_it(text, column):
    with pytest.raises(fd.DTypeError, match="does not fit int8") as caught:
        fd.evaluate(text, x=np.ones(3, "i1"))
    assert caught.value.column == column


def test_a_temporary_that_another_one_reads_at_the_same_place_is_computed():
    w, v = np.arange(3.0), np.arange(7.0)
    text = "a = (w[:, None] + v).T*2; b = exp(-a.T); reshape(b, (-1,)), reshape(b.T + a, (-1,))"
    a = (w[:, None] + v).T * 2
    first, second = fd.evaluate(text, w=w, v=v)
    np.testing.assert_allclose(first, np.exp(-a.T).reshape(-1), rtol=1e-14)
    np.testing.assert_allclose(second, (np.exp(-a) + a).reshape(-1), rtol=1e-14)


@pytest.mark.parametrize("columns", (100, 600_000))
def test_each_fold_of_a_row_collects_in_a_state_of_its_own(columns):
    """Two sums once shared a variable where rows are looped over, and sums of two types a merge in any row."""
    x = fd.spec((64, columns), "float32")
    source = fd.kernel("sum(x * y, -1) / sum(y, -1), count_nonzero(x > y, axis=-1)").source(x, x, device="cuda")
    assert source.count('reduction_sum = reduction("float32"') == 1
    assert source.count('reduction_sum_1 = reduction("int64"') == 1
    names = [line.split(" = ")[0].strip() for line in source.splitlines() if " = initial_sum" in line]
    assert len(set(names)) == (3 if columns > 1000 else 0)


def test_outputs_that_interleave_are_remembered():
    x = np.arange(64, dtype=np.float32)
    whole = np.zeros((8, 16), np.float32)
    kernel = fd.kernel("x * 2, x + 1")
    source = x.reshape(8, 8)
    for _ in range(3):
        kernel(source, out=(whole[:, :8], whole[:, 8:]))
        np.testing.assert_array_equal(whole, np.hstack([source * 2, source + 1]))
    (call,) = kernel._program._calls.values()
    address = source.ctypes.data
    assert call.may_write([address], [whole[:, :8], whole[:, 8:]])
    assert not call.may_write([address], [whole[:, :8], whole[:, 4:12]])


def test_bodies_are_written_in_an_order_that_memory_does_not_decide():
    """The values that a row passes on stood in the order of a set of nodes, whose hashes are addresses."""
    from fusedsl.ir.graph import Type, node
    from fusedsl.ir.types import FLOAT32
    from fusedsl.kernel_ir.build.rematerialization import computed_below

    chain = [node("scalar", (), 0, Type(FLOAT32))]
    for _ in range(40):
        chain.append(node("exp", (chain[-1],), None, Type(FLOAT32)))
    assert list(computed_below([chain[-1]], set())) == chain[::-1]


def test_an_empty_axis_is_not_continued():
    """A computed operand went on with values that it would have there; NumPy refuses as well."""
    x = np.zeros((0, 3), np.float32)
    for mode in ("edge", "reflect", "wrap"):
        for text in (f"pad(x, (1, 2), mode='{mode}')", f"pad(x[:0] + 1, 1, mode='{mode}')"):
            with pytest.raises(fd.ShapeError) as told:
                fd.evaluate(text, x=x)
            assert told.value.code == "shape.empty"
    assert fd.evaluate("pad(x, ((0, 0), (1, 2)), mode='edge')", x=x).shape == (0, 6)
    assert (fd.evaluate("pad(x, 1, constant_values=2)", x=x) == 2).all()


def test_integers_are_padded_with_infinity_as_casts_saturate():
    x = np.array([1, 2], np.int8)
    made = fd.evaluate("pad(x, 1, constant_values=(-inf, inf))", x=x)
    np.testing.assert_array_equal(made, np.array([-128, 1, 2, 127], np.int8))


def test_float8_beside_a_number_and_another_array_is_refused_as_a_dtype():
    import ml_dtypes

    x, y = np.ones(3, ml_dtypes.float8_e5m2), np.ones(3, np.float32)
    for text in ("fma(x, 2, y)", "fma(y, x, 2.5)"):
        with pytest.raises(fd.DTypeError):
            fd.evaluate(text, x=x, y=y)


def test_a_row_value_that_is_stored_as_it_was_read_is_read():
    """The CUDA kernel named a value that no body had asked for."""
    kernel = fd.kernel("mean(c, 0), cummin(a, axis=0)")
    given = fd.spec((2,), "float64"), fd.spec((1,), "float32")
    source = kernel.source(*given, device="cuda")
    assert " a_0 = load_a_0(" in source
    assert source.index("a_0 = load_a_0(") < source.index(", a_0, ")
    kernel.compile(*given, device="cuda", cc=90)


@pytest.mark.parametrize("text", ["softmax(x.T - max(x), axis=(0, 1))", "layer_norm(x.T - max(x), axis=(1, 0))"])
def test_folds_that_name_their_axes_in_another_order_share_a_pass(text):
    x = np.random.default_rng(3).standard_normal((37, 700)).astype(np.float32)
    shifted = (x.T - x.max()).astype(np.float64)
    e = np.exp(shifted)
    expected = e / e.sum() if "softmax" in text else (shifted - shifted.mean()) / np.sqrt(shifted.var() + 1e-5)
    np.testing.assert_allclose(fd.kernel(text, fallback=False)(x), expected, rtol=2e-4, atol=1e-6)
    assert "def kernel(" in fd.kernel(text).source(fd.spec((37, 70000)), device="cuda")


def test_a_fold_that_strips_store_and_use_as_it_is():
    a, x = np.arange(16).reshape(2, 8) % 3 > 0, np.float16([[1, 2, 3, 4, 5, 6, 7, 8]] * 2)
    kernel = fd.kernel(
        "p = prod(x, axis=0, keepdims=True, where=a); return maximum(where(a, y, y * 2), p), p", fallback=False
    )
    y = np.linspace(0, 60, 8, dtype=np.float32)
    found, product = kernel(x=x, a=a, y=y)
    expected = np.prod(x, axis=0, keepdims=True, where=a)
    np.testing.assert_array_equal(product, expected)
    np.testing.assert_array_equal(found, np.maximum(np.where(a, y, y * 2), expected.astype(np.float32)))


def test_what_is_compared_beside_pieces_may_be_no_integer():
    c, x, y = np.full((2, 2), -0.5, np.float32), np.float32([0.25, 3]), np.float32([5, 6])
    kernel = fd.kernel("return x != stack((c, c)), roll(y, 4), (x // inf) @ c", fallback=False)
    found = kernel(x=x, y=y, c=c)
    np.testing.assert_array_equal(found[0], np.ones((2, 2, 2), bool))
    np.testing.assert_array_equal(found[1], y)
    np.testing.assert_array_equal(found[2], [0, 0])


def test_lgamma_beyond_the_largest_number_is_infinite():
    x = np.array([1e308, 1.5e307, 4.0])
    for found in (fd.kernel("lgamma(x)", fallback=False)(x), oracle.evaluate("lgamma(x)", x=x)):
        np.testing.assert_allclose(found, [np.inf, np.inf, np.log(6.0)], rtol=1e-15)


def test_views_and_reshapes_of_nothing():
    """A reversed view of an empty temporary began before its address; a part of an empty axis had no length."""
    x = np.zeros(0, np.float32)
    made = fd.kernel("dot(x, cumsum(y[::-1])[::-1][-2:, None])", fallback=False)(x, x)
    np.testing.assert_array_equal(made, [0])
    y = np.ones((3, 1), np.float32)
    assert fd.kernel("reshape(bfloat16(y[::2, 1::3] * 2), (0, 1, 3))", fallback=False)(y).shape == (0, 1, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dot(arange(3), exp2(arange(3)))", np.float64(10)),  # integers and floats that are both weak
        ("arange(3) @ (x > 0)", np.int64(3)),  # a weak integer beside bools, as NumPy's Python integers
        ("concat([x > 0, arange(2)])", np.array([0, 1, 1, 0, 1])),
    ],
)
def test_weak_values_meet_one_another_and_bools_in_sums_of_products(text, expected):
    found = fd.kernel(text, fallback=False)(**({"x": np.float32([0, 1, 1])} if "x >" in text else {}))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_extents_that_are_fixed_by_numbers_and_differ_are_refused_at_once():
    x, y = np.ones((5, 64), np.float32), np.ones((5, 64), np.int16)
    with pytest.raises(fd.ShapeError, match="5 differ in the last axis"):
        fd.evaluate("t = broadcast_to(y, (2, 5, 64)); where(x > 0, where(y > x, y, x), x @ x.mT)", x=x, y=y)


@pytest.mark.parametrize(
    "shape, said",
    [("(5, -1)", r"into \(5, -1\)\n(.*\n)*.*12 is no multiple of 5"), ("5", r"of 12 elements into \(5,\) of 5")],
)
def test_a_reshape_that_does_not_fit_names_the_shape_that_was_asked_for(shape, said):
    with pytest.raises(fd.ShapeError, match=said):
        fd.evaluate(f"reshape(x, {shape})", x=np.ones((3, 4), np.float32))


def test_a_result_that_is_reshaped_goes_straight_to_where_it_is_wanted():
    k, x = fd.kernel("reshape(reshape(x, (size(x, 0), size(x, 1)//4, 4)) * s[:, :, None], shape(x))"), np.ones((6, 8))
    s, wide, turned = np.arange(12.0).reshape(6, 2), np.zeros((6, 16)), np.zeros((8, 6)).T
    wanted = np.repeat(s, 4, 1)
    facts = {name: describe(value) for name, value in (("x", x), ("s", s))}
    for out in (np.zeros((6, 8)), wide[:, 4:12], wide[::-1, 4:12], turned, np.zeros((6, 16))[:, ::2]):
        assert k(x, s, out=out) is out
        np.testing.assert_array_equal(out, wanted)
        assert not resolve(k._program.plans, facts, CallTarget(), {"out": out}).outputs.deferred
    assert not wide[:, :4].any() and not wide[:, 12:].any()
    k, flat = fd.kernel("reshape(x[:, :4] * 2, -1)"), np.zeros(48)[::-2]
    np.testing.assert_array_equal(k(x, out=flat), np.full(24, 2.0))


@pytest.mark.parametrize("beside", ["softmax(b, axis=0)", "(b / sum(b, axis=0, keepdims=True))"])
def test_what_is_weighed_may_be_divided_for_each_of_its_own_axes(beside):
    """Its scores then summed over an axis that was taken for the one of the results, of the same extent."""
    a, b = np.random.default_rng(0).normal(size=(2, 31, 3)).astype(np.float32)
    text = f"softmax(a @ b.mT) @ {beside}"
    np.testing.assert_allclose(fd.kernel(text, fallback=False)(a, b), oracle.evaluate(text, a=a, b=b), rtol=1e-4)


def test_scores_are_of_what_is_rounded_to_float8():
    """A cumsum of float8 was multiplied as the float32 that it is computed in."""
    a, b = np.random.default_rng(0).normal(size=(2, 31, 3)).astype(np.float32)
    for y in ("float8_e4m3fn(cumsum(b, axis=0))", "cumsum(float8_e4m3fn(b), axis=0)"):
        text = f"logsumexp(float8_e4m3fn(a) @ {y}.mT, axis=-1)"
        expected = oracle.evaluate(text, a=a, b=b)
        np.testing.assert_allclose(fd.kernel(text, fallback=False)(a, b), expected, rtol=1e-5)


def test_a_sum_over_no_keys_is_0():
    """It was divided by the sum of no exponentials; the same kernel with some keys before and after."""
    k, q = fd.kernel("softmax(q @ k.mT) @ k", fallback=False), np.ones((2, 3), np.float32)
    for n in (5, 0, 7):
        np.testing.assert_allclose(k(q, np.ones((n, 3), np.float32)), np.full((2, 3), float(n > 0)))


@pytest.mark.parametrize(
    "text",
    [
        "softmax(a @ (b * c).mT) @ (b * c)",  # what is multiplied was read at the end of the axis that scores sum over
        "softmax(a @ d.mT) @ (b * c)",  # the same, where no axis has its name
    ],
)
def test_what_is_weighed_may_vary_along_its_own_axis_by_a_factor_that_its_sum_has_not(text):
    rng = np.random.default_rng(0)
    shapes = {"a": (4, 2), "b": (5, 1), "c": (1, 2), "d": (5, 2)}
    x = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items() if name in text}
    np.testing.assert_allclose(fd.kernel(text, fallback=False)(**x), oracle.evaluate(text, **x), rtol=1e-4)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_what_overflows_within_a_function_is_infinite_before_it_is_added_to(real):
    """The last product of exp2 was contracted with a subtraction: exp2(x) - inf was -inf where exp2(x) is inf."""
    x = np.array([80.0, 129.0, 710.0, 1025.0, 5000.0, np.inf], real)
    names = "exp", "exp2", "expm1", "sinh", "cosh"
    with np.errstate(all="ignore"):
        found = fd.evaluate(", ".join([*(f"{n}(x) - y" for n in names), "ldexp(x, 1020) - y"]), x=x, y=real(np.inf))
        values = [*(getattr(np, n)(x) for n in names), np.ldexp(x, 1020)]
        for name, made, value in zip([*names, "ldexp"], found, values):
            np.testing.assert_array_equal(made, value - real(np.inf), err_msg=name)


def test_row_values_take_no_temporary_that_others_read_by_address():
    """A row's condition took the place of its sum, of another rank, that a joined piece read there too."""
    a, d = np.arange(14, dtype=np.int32).reshape(7, 2) - 6, np.array([-3, 6], np.int32)
    t, u = np.ones((6, 2)), np.arange(12, dtype=np.int32).reshape(6, 2)
    kernel = fd.kernel("x = where(sum(a * (a > 0), axis=0), d, u)\nreturn concat((t, x), 1), x", fallback=False)
    joined, chosen = kernel(a=a, d=d, u=u, t=t)
    expected = np.where((a * (a > 0)).sum(0), d, u)
    np.testing.assert_array_equal(chosen, expected)
    np.testing.assert_array_equal(joined, np.concatenate((t, expected), 1))


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (0, 2)])
@pytest.mark.parametrize("walked", ["cumsum(x, axis=0)", "cumsum(x, axis=1)", "cummax(x, axis=-1)", "sort(x)"])
def test_a_diagonal_of_what_is_walked_along_an_axis(walked, axes):
    """The walk went along the diagonal, where both axes of the one were those of the other."""
    x = np.random.default_rng(0).integers(-9, 9, (4, 5, 6))
    text = f"diagonal({walked}, 0, {axes[0]}, {axes[1]}), trace({walked}, 0, {axes[0]}, {axes[1]})"
    for found, expected in zip(fd.kernel(text, fallback=False)(x), oracle.evaluate(text, x=x)):
        np.testing.assert_array_equal(found, expected)


def test_a_diagonal_of_what_is_ordered_beside_what_is_as_long():
    x = np.random.default_rng(0).integers(-9, 9, (7, 7))
    made = fd.kernel("einsum('ii,i->i', sort(x), x[0])", fallback=False)(x)
    np.testing.assert_array_equal(made, np.diagonal(np.sort(x)) * x[0])


@pytest.mark.parametrize(
    "text", ["softmax(sinh(b) @ c.mT) @ c", "logsumexp(c @ sinh(b).mT, -1)", "softmax(c @ c.mT) @ sinh(b)"]
)
def test_an_operand_of_scores_is_infinite_beyond_float16(text):
    """It was kept in float32, as a factor is that stands before a sum."""
    b, c = np.array([[12, 1], [2, 3]], np.int8), np.array([[0.5, 1], [1e-3, 2]], np.float16)
    kernel = fd.kernel(text, fallback=False)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(kernel(b=b, c=c), oracle.evaluate(text, b=b, c=c), rtol=2e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_what_weighs_nothing_counts_where_no_mask_says_otherwise(dtype):
    """On the CPU a score of -inf was taken for a mask, and 0 times the infinity of its value for nothing."""
    q, k = np.full((2, 3), 8, dtype), np.array([[0.9, 0, -np.inf], [0.7, 0.8, 0.3]], dtype)
    for text in ("softmax(q @ k.mT) @ k", "softmax(q @ k.mT + 1) @ k"):
        found = fd.kernel(text, fallback=False)(q, k)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found, oracle.evaluate(text, q=q, k=k), rtol=2e-3)
        assert np.isnan(found[:, 2]).all()


def test_a_score_stays_what_it_is_where_its_operands_are_chosen_by_a_condition_that_weights_have():
    """Tiles in which the condition holds everywhere had a score of their own, which nothing computes (KeyError)."""
    a, b = np.random.default_rng(0).normal(size=(2, 7, 8)).astype(np.float32)
    text = "t = heaviside(a, b); return softmax(b @ t.mT * 3) @ t"
    np.testing.assert_allclose(fd.kernel(text, fallback=False)(a, b), oracle.evaluate(text, a=a, b=b), rtol=1e-4)


@pytest.mark.parametrize(("text", "expected"), [("sum(x, axis=0)", 3.0), ("max(x, axis=-1)", 3.0), ("argmax(x, 0)", 0)])
def test_reductions_of_a_number_take_its_axis(text, expected):
    """As NumPy's do, where an axis is a choice; it has no second one, and none to name in a tuple."""
    found = fd.evaluate(text, x=np.array(3.0))
    assert found == expected and found.shape == ()
    for refused in ("sum(x, axis=1)", "sum(x, axis=(0,))", "softmax(x, axis=0)"):
        with pytest.raises(fd.ShapeError, match="out of range"):
            fd.evaluate(refused, x=np.array(3.0))


def test_an_extent_beside_0_cannot_be_inferred():
    x = np.zeros((0, 7), np.float32)
    assert fd.evaluate("reshape(x, (-1, 7))", x=x).shape == (0, 7)
    with pytest.raises(fd.ShapeError, match="could be any"):
        fd.evaluate("reshape(x, (0, -1))", x=x)
    with pytest.raises(fd.ShapeError, match="could be any"):
        fd.fuse(lambda a: a.reshape(0, -1))(x)


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("complex64(x)", fd.DTypeError, "dtype.unknown"),
        ("unique(x)", fd.Unsupported, "unsupported.function"),
    ],
)
def test_what_comes_later_is_refused_by_its_name(text, error, code):
    with pytest.raises(error) as caught:
        fd.evaluate(text, x=np.ones(3))
    assert caught.value.code == code and caught.value.column


def test_an_infinity_times_what_underflows_has_no_known_sign():
    """A float32 power is 0 where the exact one is tiny: its product with an infinity is NaN, or the infinity."""
    arrays = {"x": np.full((1, 2), 0.1, np.float32), "y": np.array([[60, 1]], np.float32), "z": np.ones((2, 1), "f4")}
    arrays["z"][0] = np.inf
    kernel = fd.kernel("power(x, y) @ z")
    facts = describe_all(kernel.params, list(arrays.values()))
    ((value, bound),) = evaluate(kernel._program.plans.graph(facts), list(arrays.values()))
    assert np.isinf(bound).all(), value
    fd.kernel("power(x, y) @ z", verify=True)(**arrays)


def test_the_interpreter_knows_a_sum_whose_product_is_out_of_range():
    most = np.finfo(np.float64).max
    a, b, c = np.array([most, most, 2.0**1000]), np.array([-1.5, -1.5, 2.0**30]), np.array([most, -most, -most])
    found = fd.evaluate("fma(a, b, c)", a=a, b=b, c=c, verify=True)
    np.testing.assert_array_equal(found, [-most / 2, -np.inf, np.inf])
