"""Hand-written kernels on the CPU target against NumPy: maps, rows, strips, split rows, their dtypes and strides."""

import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from compiled_on_cpu import compile_kernel
from written import instructions

import fusedsl as fd
from fusedsl.backends.cpu import backend, schedule
from fusedsl.ir.types import BFLOAT16, BOOL, DTYPES, FLOAT32, INT64, numpy_dtype
from fusedsl.kernel_ir.kernel import KernelIR, Load, Operand, Position
from fusedsl.kernel_ir.parameter_layout import kernel_params
from fusedsl.kernel_ir.phase import Body, Phase, Reduction, Store, Value
from fusedsl.runtime import object_loader, thread_pool

BF = numpy_dtype(BFLOAT16)
COMPILED: dict = {}  # by kernel and variant: shapes and strides are run-time values
DTYPE_OF = {numpy_dtype(d): d for d in DTYPES.values()}


def values(names, d=FLOAT32):
    return tuple(Value(name, d) for name in names.split())


def body(args, results, *lines):
    """args and results are Values, or names of float32 values."""
    args, results = (values(v) if isinstance(v, str) else v for v in (args, results))
    return Body(args, results, instructions(*lines))


def fold(lifted, state, line="a_0 + b_0", identity="float32(0.0)", d=FLOAT32):
    merge = body(values("a_0 b_0", d), values("c_0", d), f"c_0 = {line}  # merged")
    return Reduction("fold", values(lifted, d), values(state, d), (identity,), merge)


class Case:
    """A kernel over NumPy arrays, each broadcast to the iteration space; run it in any variant."""

    def __init__(self, tmp_path, arrays, inputs, phases, rows=0, scalars=(), positions=(), resident=True):
        self.path, self.arrays = tmp_path, arrays
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        views = [np.broadcast_to(a, shape) for a in arrays]
        self.strides = tuple(tuple(s // v.itemsize for s in v.strides) for v in views)
        self.extents = shape
        operands = tuple(
            Operand(f"x{k}", DTYPE_OF[a.dtype], letters(s)) for k, (a, s) in enumerate(zip(arrays, self.strides))
        )
        loads = tuple(Load(Value(f"x_{k}", operands[k].dtype.compute), k) for k in range(inputs))
        self.scalars = [v for _, v in scalars]
        self.kernel = KernelIR(
            "case",
            ("a case",),
            rows,
            len(shape) - rows,
            inputs,
            operands,
            loads,
            positions,
            tuple(s for s, _ in scalars),
            phases,
            resident,
        )

    def block(self):
        found = np.zeros(len(kernel_params(self.kernel)), np.int64)
        for at, slot in enumerate(kernel_params(self.kernel)):
            if slot.kind == "pointer":
                found[at] = self.arrays[slot.index].__array_interface__["data"][0]
            elif slot.kind == "extent":
                found[at] = self.extents[slot.index]
            elif slot.kind == "stride":
                found[at] = self.strides[slot.index][slot.axis]
            elif slot.kind == "scalar":
                found.view(np.uint8)[8 * at :][: self.scalars[slot.index].itemsize] = np.frombuffer(
                    self.scalars[slot.index].tobytes(), np.uint8
                )
        return found

    def run(self, name=None):
        """Compile and run; returns the last array."""
        name = name or schedule.choose(self.kernel, self.extents, self.strides)
        if (self.kernel, name) not in COMPILED:
            compiled = compile_kernel(self.kernel, self.path / "case.py", name)
            functions = object_loader.load(compiled.object_bytes, compiled.symbols)
            COMPILED[self.kernel, name] = dict(zip(compiled.symbols, functions))
        self.launch = thread_pool.runner(
            COMPILED[self.kernel, name],
            schedule.launch(self.kernel, name, self.extents),
            len(kernel_params(self.kernel)),
        )
        block = self.block()  # alive until the launch has read it
        self.launch(block.ctypes.data)
        return self.arrays[-1]

    def kinds(self):
        """The variants that are right for these extents and strides."""
        found = self.general()
        return list(dict.fromkeys([*found, schedule.choose(self.kernel, self.extents, self.strides)]))

    def general(self):
        if not self.kernel.row_axes and not self.kernel.phases[0].folds:
            return ["map", "tiles"] if len(self.extents) > 1 else ["map"]
        if not self.kernel.row_axes:
            return ["rows", "split"]
        steps = [line[self.kernel.row_axes - 1] for line in self.strides]
        return ["rows", "split", "strips:" + "".join(str(s) if s in (0, 1) else "s" for s in steps)]


def letters(strides):
    return "".join("0" if s == 0 else "1" if s == 1 and k == len(strides) - 1 else "s" for k, s in enumerate(strides))


def mapped(tmp_path, lines, out, *inputs, result="y_0", **more):
    """A map kernel of float32 values from x_0, x_1 … to `result`."""
    loaded = tuple(Value(f"x_{k}", DTYPE_OF[a.dtype].compute) for k, a in enumerate(inputs))
    phase = Phase(
        Body(loaded, (Value(result, DTYPE_OF[out.dtype].compute),), instructions(*lines)), (Store(result, len(inputs)),)
    )
    return Case(tmp_path, [*inputs, out], len(inputs), (phase,), **more)


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---- maps


GELU = (
    "t_0 = x_0 * x_0  # x * x",
    "t_1 = t_0 * x_0",
    "t_2 = fma(float32(0.044715), t_1, x_0)",
    "t_3 = tanh(float32(0.7978845608) * t_2)",
    "y_0 = float32(0.5) * x_0 * (float32(1.0) + t_3)",
)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000, 16384, 16385, 200001])
def test_gelu_of_any_length(n, tmp_path):
    x = normal(n)
    found = mapped(tmp_path, GELU, np.full(n, -1, np.float32), x).run()
    wide = x.astype(np.float64)
    np.testing.assert_allclose(
        found, 0.5 * wide * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide**3))), 1e-5, 1e-6
    )


LAYOUTS = {
    "contiguous": lambda a: a,
    "reversed": lambda a: a[::-1, ::-1],
    "every third": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "a row": lambda a: a[:1],
    "a column": lambda a: a[:, :1],
    "one element": lambda a: a[:1, :1],
    "unaligned": lambda a: np.frombuffer(b"\0" * 4 + a.tobytes(), np.float32, offset=4).reshape(a.shape),
}


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", ["contiguous", "transposed", "a row"])
@pytest.mark.parametrize("kind", ["map", "tiles"])
def test_strides_of_maps(left, right, kind, tmp_path):
    a, b = LAYOUTS[left](normal(37, 83)), LAYOUTS[right](normal(37, 83, seed=1))
    found = mapped(tmp_path, ["y_0 = x_0 - x_1"], np.empty((37, 83), np.float32), a, b).run(kind)
    np.testing.assert_array_equal(found, np.broadcast_to(a - b, (37, 83)))


def test_strided_output_leaves_the_gaps(tmp_path):
    x, whole = normal(5, 7), np.full((10, 21), 9, np.float32)
    mapped(tmp_path, ["y_0 = -x_0"], whole[::2, ::-3], x).run()
    np.testing.assert_array_equal(whole[::2, ::-3], -x)
    assert (whole == 9).sum() == whole.size - x.size


def test_four_axes_and_zero_axes(tmp_path):
    x = normal(3, 4, 5, 6).transpose(2, 0, 3, 1)
    np.testing.assert_array_equal(
        mapped(tmp_path, ["y_0 = x_0 + x_1"], np.empty(x.shape, np.float32), x, x[:, :1]).run(), x + x[:, :1]
    )
    found = mapped(tmp_path, ["y_0 = x_0 + x_0"], np.empty((), np.float32), np.array(1.5, np.float32)).run("map")
    assert found == 3


def test_empty_extents_write_nothing(tmp_path):
    for shape in [(0, 5), (5, 0)]:
        case = mapped(tmp_path, ["y_0 = x_0"], np.empty(shape, np.float32), np.empty(shape, np.float32))
        for kind in case.kinds():
            case.run(kind)


def test_scalars_and_positions(tmp_path):
    a, flag = (Value("a_0", FLOAT32), np.float32(2.5)), (Value("flag_0", BOOL), np.bool_(True))
    n = (Value("n_0", DTYPES["int16"]), np.int16(-3))
    positions = (Position(Value("i_0", INT64), 0), Position(Value("j_0", INT64), 1))
    x, out = normal(6, 40), np.empty((6, 40), np.float32)
    lines = [
        "t_0 = select(flag_0, a_0, float32(0.0)) * x_0",
        "k_0 = int64(i_0 * int64(n_0))",
        "y_0 = t_0 + float32(int64(k_0 + j_0))",
    ]
    case = mapped(tmp_path, lines, out, x, scalars=[a, flag, n], positions=positions)
    i, j = np.indices(x.shape)
    for kind in case.kinds():
        np.testing.assert_allclose(case.run(kind), np.float32(2.5) * x + (i * -3 + j), 1e-6, 1e-6)


def test_two_outputs_in_place(tmp_path):
    x = normal(50000)
    expected, y = x * x, np.empty_like(x)
    phase = Phase(body("x_0", "s_0 t_0", "s_0 = x_0 * x_0", "t_0 = x_0 + x_0"), (Store("s_0", 1), Store("t_0", 2)))
    before = x.copy()
    Case(tmp_path, [x, x, y], 1, (phase,)).run()
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(y, 2 * before)


@pytest.mark.parametrize(
    "dtype", [np.float16, BF, np.float64, np.int8, np.uint8, np.int32, np.uint64, np.bool_], ids=str
)
def test_dtypes(dtype, tmp_path):
    dtype = np.dtype(dtype)
    d = DTYPE_OF[dtype]
    a, b = ((normal(1000, seed=s) * 50).astype(np.float32) for s in (1, 2))
    if d.kind != "f":
        a, b = abs(a), abs(b)
    a, b = a.astype(dtype), b.astype(dtype)
    line = {"b": "y_0 = x_0 & not_(x_1)", "f": "y_0 = x_0 * x_1"}.get(d.kind, f"y_0 = {d}(x_0 * x_1)")
    with np.errstate(over="ignore"):
        expected = a & ~b if d.kind == "b" else a * b
    np.testing.assert_array_equal(mapped(tmp_path, [line], np.empty_like(a), a, b).run(), expected)


def test_narrow_stores_round_once(tmp_path):
    x = normal(4096)
    for dtype in (np.dtype(np.float16), BF):
        np.testing.assert_array_equal(mapped(tmp_path, ["y_0 = x_0"], np.empty(4096, dtype), x).run(), x.astype(dtype))


# ---- rows


def maximum_fold(lifted, state):
    return fold(lifted, state, "maximum(a_0, b_0)", "float32(-inf)")


def softmax(tmp_path, x, out, rows=1):
    phases = (
        Phase(body("x_0", "x_0"), (), (maximum_fold("x_0", "m_0"),)),
        Phase(body("x_0 m_0", "e_0", "d_0 = x_0 - m_0", "e_0 = exp(d_0)  # exp(x - max)"), (), (fold("e_0", "s_0"),)),
        Phase(body("e_0 s_0", "y_0", "y_0 = e_0 / s_0"), (Store("y_0", 1),)),
    )
    return Case(tmp_path, [x, out], 1, phases, rows)


def softmax_of(x, axes=-1):
    e = np.exp(x.astype(np.float64) - x.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (300, 7), (7, 300), (5, 2048), (3, 2049), (2, 70000)], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_softmax(shape, transposed, tmp_path):
    x = normal(*shape) * 3
    x = np.asfortranarray(x) if transposed else x
    case = softmax(tmp_path, x, np.empty_like(x))
    for kind in case.kinds():
        np.testing.assert_allclose(case.run(kind), softmax_of(x), 3e-6, 1e-30, err_msg=kind)


def test_softmax_of_minus_infinity_is_nan_and_nan_spreads(tmp_path):
    x = normal(4, 100)
    x[1], x[2, 50], x[3, 50] = -np.inf, np.nan, -np.inf
    case = softmax(tmp_path, x, np.empty_like(x))
    with np.errstate(invalid="ignore"):
        expected = softmax_of(x)
    for kind in case.kinds():
        np.testing.assert_allclose(case.run(kind), expected, 3e-6, err_msg=kind)


def test_several_row_and_column_axes(tmp_path):
    x = normal(3, 4, 5, 6).transpose(1, 0, 3, 2)
    for rows, axes in [(1, (1, 2, 3)), (2, (2, 3)), (0, (0, 1, 2, 3))]:
        case = softmax(tmp_path, x, np.empty_like(x), rows)
        for kind in case.kinds():
            np.testing.assert_allclose(case.run(kind), softmax_of(x, axes), 3e-6, err_msg=f"{rows} {kind}")


def layer_norm(tmp_path, x, weight, bias, out):
    n = (Value("n_0", FLOAT32), np.float32(x.shape[-1]))
    phases = (
        Phase(body("x_0", "x_0"), (), (fold("x_0", "s_0"),), body("s_0 n_0", "mu_0", "mu_0 = s_0 / n_0")),
        Phase(
            body("x_0 mu_0", "d_0 q_0", "d_0 = x_0 - mu_0", "q_0 = d_0 * d_0"),
            (),
            (fold("q_0", "v_0"),),
            body("v_0 n_0", "r_0", "w_0 = v_0 / n_0", "r_0 = rsqrt(w_0 + float32(1e-05))"),
        ),
        Phase(body("d_0 r_0 x_1 x_2", "y_0", "y_0 = fma(d_0 * r_0, x_1, x_2)"), (Store("y_0", 3),)),
    )
    return Case(tmp_path, [x, weight, bias, out], 3, phases, 1, [n])


@pytest.mark.parametrize("shape", [(5, 768), (300, 33), (2, 5000)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, BF], ids=str)
def test_layer_norm(shape, dtype, tmp_path):
    x, weight, bias = ((normal(*s, seed=k) + 1).astype(dtype) for k, s in enumerate([shape, shape[1:], shape[1:]]))
    case = layer_norm(tmp_path, x, weight, bias, np.empty(shape, np.float32))
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    expected = expected * weight.astype(np.float64) + bias.astype(np.float64)
    for kind in case.kinds():
        np.testing.assert_allclose(case.run(kind), expected, 1e-5, 2e-5, err_msg=kind)


def test_row_values_are_loaded_and_stored_once_a_row(tmp_path):
    x, scale = normal(40, 100), normal(40, 1, seed=1)
    phases = (
        Phase(
            body("x_0 x_1", "t_0", "t_0 = x_0 * x_1"),
            (Store("t_0", 2),),
            (fold("t_0", "s_0"),),
            body("s_0", "r_0", "r_0 = -s_0"),
            (Store("r_0", 3),),
        ),
    )
    for order in "CF":
        a = np.asarray(x, order=order)
        out, total = np.empty_like(a), np.empty((40, 1), np.float32)
        case = Case(tmp_path, [a, scale, out, total], 2, phases, 1)
        for kind in case.kinds():
            np.testing.assert_allclose(case.run(kind), -(x * scale).sum(1, keepdims=True), 1e-4, 1e-5)
            np.testing.assert_array_equal(out, x * scale)


def test_an_input_is_held_where_an_earlier_phase_overwrites_it(tmp_path):
    x = normal(6, 3000)
    phases = (
        Phase(body("x_0", "t_0", "t_0 = x_0 * x_0"), (Store("t_0", 1),), (fold("t_0", "s_0"),)),
        Phase(body("x_0 s_0", "u_0", "u_0 = x_0 / s_0"), (Store("u_0", 2),)),
    )
    for kind in ("rows", "split", "strips:ss1"):
        a, out = x.copy(), np.empty_like(x)
        Case(tmp_path, [a, a, out], 1, phases, 1).run(kind.replace("ss1", "sss"))
        np.testing.assert_array_equal(a, x * x)
        np.testing.assert_allclose(out, x / (x * x).sum(1, keepdims=True), 1e-5)


def test_what_is_held_is_folded_several_columns_at_once(tmp_path):
    """A light phase of a strip takes columns together: each reads its own held value, and its own position."""
    x = normal(300, 11)
    lines = ("u_0 = float32(t_0 == m_0)", "v_0 = u_0 * float32(i_0)")
    at = Position(Value("i_0", INT64), 1)
    phases = (
        Phase(body("x_0", "t_0", "t_0 = x_0 * x_0 + x_0"), (), (maximum_fold("t_0", "m_0"),)),
        Phase(
            Body((*values("t_0 m_0"), at.value), values("u_0 v_0"), instructions(*lines)),
            (),
            (fold("u_0", "n_0"), fold("v_0", "s_0")),
            None,
            (Store("n_0", 1), Store("s_0", 2)),
        ),
    )
    for order in "CF":
        a = np.asarray(x, order=order)
        count, place = np.empty((300, 1), np.float32), np.empty((300, 1), np.float32)
        case = Case(tmp_path, [a, count, place], 1, phases, 1, positions=(at,))
        for kind in case.kinds():
            np.testing.assert_array_equal(case.run(kind)[:, 0], (x * x + x).argmax(1), kind)
            assert (count == 1).all(), kind


def test_a_kernel_that_is_not_resident(tmp_path):
    x = normal(3, 5000)
    phases = (
        Phase(body("x_0", "x_0"), (), (maximum_fold("x_0", "m_0"),)),
        Phase(body("x_0 m_0", "e_0", "d_0 = x_0 - m_0", "e_0 = exp(d_0)"), (), (fold("e_0", "s_0"),)),
        Phase(body("x_0 m_0 s_0", "y_0", "d_0 = x_0 - m_0", "e_0 = exp(d_0)", "y_0 = e_0 / s_0"), (Store("y_0", 1),)),
    )
    case = Case(tmp_path, [x, np.empty_like(x)], 1, phases, 1, resident=False)
    for kind in case.kinds():
        np.testing.assert_allclose(case.run(kind), softmax_of(x), 3e-6)


# ---- folds


def reduced(tmp_path, x, use, out, lines=(), rows=1, result=None):
    d = DTYPE_OF[x.dtype].compute
    lifted = Body(values("x_0", d), use.inputs, instructions(*lines))
    phase = Phase(lifted, (), (use,), None, (Store(result or use.accumulators[0].name, 1),))
    return Case(tmp_path, [x, out], 1, (phase,), rows)


FOLDS = {
    "max": ("maximum(a_0, b_0)", "float32(-inf)", np.max),
    "min": ("minimum(a_0, b_0)", "float32(inf)", np.min),
    "prod": ("a_0 * b_0", "float32(1.0)", np.prod),
    "sum": ("a_0 + b_0", "float32(0.0)", np.sum),
    "log-sum-exp of a user": (
        "fmax(a_0, b_0) + log1p(exp(-absolute(a_0 - b_0)))",
        "float32(-1e30)",
        np.logaddexp.reduce,
    ),
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("shape", [(3, 1), (20, 63), (20, 64), (4, 2100), (300, 9)], ids=str)
def test_folds(name, shape, tmp_path):
    line, identity, meaning = FOLDS[name]
    x = (normal(*shape) * 0.1 + 1).astype(np.float32)
    expected = meaning(x.astype(np.float64), axis=1)[:, None]
    case = reduced(tmp_path, x, fold("x_0", "s_0", line, identity), np.empty((shape[0], 1), np.float32))
    for kind in case.kinds():
        np.testing.assert_allclose(case.run(kind), expected, 1e-4, err_msg=kind)


def test_extrema_propagate_nan(tmp_path):
    x = normal(3, 1000)
    x[1, 777] = np.nan
    for name in ("max", "min"):
        line, identity, meaning = FOLDS[name]
        case = reduced(tmp_path, x, fold("x_0", "s_0", line, identity), np.empty((3, 1), np.float32))
        for kind in case.kinds():
            np.testing.assert_array_equal(case.run(kind)[:, 0], meaning(x, axis=1))


def test_integer_and_bool_folds(tmp_path):
    x = np.random.default_rng(0).integers(-128, 128, (5, 3000)).astype(np.int8)
    use = fold("w_0", "s_0", "int64(a_0 + b_0)", "int64(0)", INT64)
    case = reduced(tmp_path, x, use, np.empty((5, 1), np.int64), ["w_0 = int64(x_0)"])
    for kind in case.kinds():
        np.testing.assert_array_equal(case.run(kind)[:, 0], x.sum(1, dtype=np.int64))
    for line, identity, meaning in [("a_0 | b_0", "False", np.any), ("a_0 & b_0", "True", np.all)]:
        flags = np.zeros((3, 500), bool)
        flags[1], flags[2, 400] = True, True
        case = reduced(tmp_path, flags, fold("x_0", "s_0", line, identity, BOOL), np.empty((3, 1), bool))
        for kind in case.kinds():
            np.testing.assert_array_equal(case.run(kind)[:, 0], meaning(flags, 1))


def argmax(tmp_path, x, out):
    state = (Value("v_0", FLOAT32), Value("k_0", INT64))
    args = (Value("a_0", FLOAT32), Value("a_1", INT64), Value("b_0", FLOAT32), Value("b_1", INT64))
    lines = (
        "t_0 = (b_0 > a_0) | ((b_0 == a_0) & (b_1 < a_1))",
        "t_1 = select(isnan(b_0), select(isnan(a_0), b_1 < a_1, True), t_0 & not_(isnan(a_0)))",
        "c_0 = select(t_1, b_0, a_0)",
        "c_1 = select(t_1, b_1, a_1)",
    )
    merge = Body(args, (Value("c_0", FLOAT32), Value("c_1", INT64)), instructions(*lines))
    lifted = (Value("x_0", FLOAT32), Value("i_0", INT64))
    use = Reduction("argmax", lifted, state, ("float32(-inf)", "int64(9223372036854775807)"), merge)
    phase = Phase(Body(lifted, lifted, ()), (), (use,), None, (Store("k_0", 1),))
    return Case(tmp_path, [x, out], 1, (phase,), 1, positions=(Position(Value("i_0", INT64), 1),))


@pytest.mark.parametrize("columns", [1, 63, 64, 65, 5000])
def test_argmax_takes_the_first_and_nan_wins(columns, tmp_path):
    x = np.random.default_rng(0).integers(0, 5, (40, columns)).astype(np.float32)
    x[3, columns // 2 :] = np.nan
    case = argmax(tmp_path, x, np.empty((40, 1), np.int64))
    for kind in case.kinds():
        np.testing.assert_array_equal(case.run(kind)[:, 0], x.argmax(1))


def test_two_folds_of_different_types_in_one_phase(tmp_path):
    x = normal(7, 3000)
    count = fold("p_0", "n_0", "int64(a_0 + b_0)", "int64(0)", INT64)
    lines = ("p_0 = int64(x_0 > float32(0.0))",)
    lifted = Body(values("x_0"), (*values("x_0"), Value("p_0", INT64)), instructions(*lines))
    phase = Phase(lifted, (), (fold("x_0", "s_0"), count), None, (Store("s_0", 1), Store("n_0", 2)))
    total, positive = np.empty((7, 1), np.float32), np.empty((7, 1), np.int64)
    case = Case(tmp_path, [x, total, positive], 1, (phase,), 1)
    for kind in case.kinds():
        np.testing.assert_array_equal(case.run(kind)[:, 0], (x > 0).sum(1))
        np.testing.assert_allclose(total[:, 0], x.sum(1), 1e-3, 1e-4)


def test_rows_without_columns_give_the_identity(tmp_path):
    case = reduced(tmp_path, np.empty((300, 0), np.float32), fold("x_0", "s_0"), np.full((300, 1), 9, np.float32))
    for kind in case.kinds():
        case.arrays[-1][:] = 9
        assert (case.run(kind) == 0).all(), kind


def test_sums_are_as_exact_as_pairwise(tmp_path):
    x = np.random.default_rng(0).uniform(0, 1, 5_000_000).astype(np.float32)
    case = reduced(tmp_path, x, fold("x_0", "s_0"), np.empty(1, np.float32), rows=0)
    exact = x.sum(dtype=np.float64)
    for kind in case.kinds():
        assert abs(float(case.run(kind)[0]) / exact - 1) < 3e-7


@pytest.fixture
def use_pool(monkeypatch):
    """Makes the pool of so many threads the process's; the threads end with the test."""
    pools = []

    def use(threads):
        pools.append(thread_pool.Pool(threads))
        monkeypatch.setattr(thread_pool, "_pool", pools[-1])

    yield use
    for made in pools:
        made.close()


@pytest.mark.parametrize("kind", ["rows", "split", "strips:ss"])
def test_bits_do_not_depend_on_the_number_of_threads(kind, tmp_path, use_pool):
    x = normal(5, 300_001)
    case = softmax(tmp_path, x, np.empty_like(x))
    found = []
    for threads in (1, 2, 3, 8):
        use_pool(threads)
        found.append(case.run(kind).copy())
    assert all((one == found[0]).all() for one in found)


def test_a_thread_that_comes_late_does_not_end_the_wait():
    computing, go_on = threading.Event(), threading.Event()

    def slow(slots, begin, end):
        computing.set()
        go_on.wait()

    job = thread_pool.Job(slow, 0, 1, 1, 1)
    first, caller, late = (threading.Thread(target=f) for f in (job.work, job.join, job.work))
    first.start()
    computing.wait()
    caller.start()
    time.sleep(0.05)  # the caller waits for the first
    late.start()
    late.join()
    caller.join(0.05)
    waits = caller.is_alive()
    go_on.set()
    for thread in (first, caller):
        thread.join()
    assert waits


# ---- variants


def test_choice_of_the_variant(tmp_path):
    x = normal(64, 512)

    def chosen(a, out, rows=1):
        case = softmax(tmp_path, a, out, rows)
        return schedule.choose(case.kernel, case.extents, case.strides)

    assert chosen(x, x) == "rows"
    assert chosen(x.T, x.T) == "strips:11"
    assert chosen(normal(512, 4), normal(512, 4)) == "short:4:4.1,4.1"
    large = np.broadcast_to(np.float32(0), 1 << 20)
    assert chosen(np.lib.stride_tricks.as_strided(large, large.shape, (4,)), large, 0) == "split"
    case = mapped(tmp_path, ["y_0 = x_0"], x, np.asfortranarray(x))
    assert schedule.choose(case.kernel, case.extents, case.strides) == "tiles"
    case = mapped(tmp_path, ["y_0 = x_0"], np.empty_like(x), x[:, ::-1])
    assert schedule.choose(case.kernel, case.extents, case.strides) == "map:-1,s"
    case = mapped(tmp_path, ["y_0 = x_0"], np.empty((512, 3), np.float32), np.broadcast_to(x[0, :, None], (512, 3)))
    assert schedule.choose(case.kernel, case.extents, case.strides) == "short:3:1.0,3.1"


@pytest.mark.parametrize(
    "dtype, columns, unrolled",
    [("float32", 8, True), ("float32", 9, False), ("float64", 7, True), ("float64", 8, False), ("int8", 12, True)],
)
def test_short_rows_are_unrolled_as_far_as_vectors_interleave(dtype, columns, unrolled, tmp_path):
    x = np.ones((512, columns), dtype)
    case = mapped(tmp_path, ["y_0 = x_0 * x_1"], np.empty_like(x), x, np.broadcast_to(x[:, :1], x.shape))
    assert schedule.choose(case.kernel, case.extents, case.strides).startswith("short:") == unrolled


def test_row_sizes_do_not_recompile(tmp_path):
    x = normal(4, 100)
    one = softmax(tmp_path, x, np.empty_like(x)).kernel
    other = softmax(tmp_path, normal(9, 7000), np.empty((9, 7000), np.float32)).kernel
    assert one == other


# ---- compiled code


VECTOR = "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh erf erfc lgamma cbrt"


@pytest.mark.parametrize("name", f"{VECTOR} arcsinh sqrt".split())
def test_float32_functions_vectorise(name, tmp_path):
    from fusedsl.backends.cpu import compiler, frontend, vocabulary

    case = mapped(tmp_path, [f"y_0 = {name}(x_0)"], np.empty(9, np.float32), normal(9))
    source, arrays = backend.generate(case.kernel, "map")
    words = vocabulary.vocabulary(case.kernel, arrays)
    text = str(compiler.optimise([compiler.lower(frontend.functions_of(source)["kernel"], words, "kernel")]))
    assert "x float>" in text
    assert f"@{name}" not in text


def test_float16_is_converted_by_vectors_and_computed_in_float32(tmp_path):
    from fusedsl.backends.cpu import compiler, frontend, processor, target_machine, vocabulary

    out, x = np.empty(9, np.float16), normal(9, dtype=np.float16)
    case = mapped(tmp_path, ["t_0 = floor(x_0)", "t_1 = x_0 > t_0", "y_0 = select(t_1, t_0, x_0)"], out, x)
    source, arrays = backend.generate(case.kernel, "map")
    words = vocabulary.vocabulary(case.kernel, arrays)
    baseline = processor.BASELINES[processor.host().architecture]
    lowered = compiler.lower(frontend.functions_of(source)["kernel"], words, "kernel", baseline)
    text = str(compiler.optimise([lowered], target_machine.machine(baseline)))
    assert re.search(r"fpext <\d+ x half>", text) and re.search(r"fptrunc <\d+ x float>", text)
    assert not re.search(r"(floor|fcmp|select)[^\n]*half", text)


BARE = """
import sys
import numpy as np
from fusedsl.runtime import object_loader
(f,) = object_loader.load(open(sys.argv[1], "rb").read(), ("kernel",))
x = np.linspace(0.5, 3, 100)
y = np.zeros_like(x)
block = np.array([x.ctypes.data, y.ctypes.data, 100], np.int64)
f(block.ctypes.data, 0, 1)
assert "numba" not in sys.modules
print(float(y.sum()))
"""


def test_object_code_loads_without_numba(tmp_path):
    x = np.linspace(0.5, 3, 100)
    calls = ["lgamma", "sin", "cos", "tan", "cbrt", "log10", "exp", "tanh", "erf"]
    lines = [f"t_{k} = {name}(x_0)" for k, name in enumerate(calls)]
    lines += [
        "u_0 = fmod(x_0, float64(0.7)) + power(x_0, x_0) + hypot(x_0, x_0)",
        "y_0 = u_0 + " + " + ".join(f"t_{k}" for k in range(len(calls))),
    ]
    case = mapped(tmp_path, lines, np.empty_like(x), x)
    expected = case.run().sum()
    (tmp_path / "case.o").write_bytes(compile_kernel(case.kernel, tmp_path / "case.py").object_bytes)
    found = subprocess.run(
        [sys.executable, "-c", BARE, str(tmp_path / "case.o")], capture_output=True, text=True, check=True
    )
    assert float(found.stdout) == expected


def test_the_source_names_what_it_computes(tmp_path):
    kernel = mapped(tmp_path, GELU, np.empty(9, np.float32), normal(9)).kernel
    text = compile_kernel(kernel, tmp_path / "case.py").source
    assert (tmp_path / "case.py").read_text() == text
    assert text.startswith("# a case\n")
    assert "t_0 = x_0 * x_0  # x * x" in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_threads(tmp_path, use_pool):
    use_pool(2)
    x = normal(400_000)
    case = mapped(tmp_path, ["y_0 = x_0 + x_0"], np.empty_like(x), x)
    case.run()
    child = os.fork()
    if child == 0:
        case.arrays[-1][:] = 0
        block = case.block()
        case.launch(block.ctypes.data)
        os._exit(0 if (case.arrays[-1] == 2 * x).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_threads_may_launch_at_once(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    x = normal(300_000)
    case = reduced(tmp_path, x, fold("x_0", "s_0"), np.empty(1, np.float32), rows=0)
    expected = float(case.run("split")[0])

    def once(_):
        out = np.empty(1, np.float32)
        block = case.block()
        block[1] = out.ctypes.data
        case.launch(block.ctypes.data)
        return float(out[0])

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(once, range(64))) == {expected}


def test_an_error_in_a_piece_leaves_no_thread_behind(use_pool):
    use_pool(3)
    running = []

    def piece(slots, begin, end):
        running.append(begin)
        try:
            if begin == 1:
                raise KeyboardInterrupt
        finally:
            running.remove(begin)

    with pytest.raises(KeyboardInterrupt):
        while True:  # until the calling thread is the one that is interrupted
            thread_pool.run(piece, 0, 3, 1)
    assert not running


@pytest.mark.parametrize("text", ["var(hardswish(x), axis=0)", "mean(exp(x), 0), var(exp(x), 0)", "std(x * x, 0)"])
def test_columns_that_join_at_once_read_their_own_elements(text):
    """What a strip holds of an element was read of the first of four columns."""
    x = np.random.default_rng(0).standard_normal((72, 48), np.float32)
    fd.kernel(text, verify=True, fallback=False)(x)
