"""Every CUDA kernel compiles without a GPU: no spills, no float64 in float32 code, 16-byte accesses where promised."""

import dataclasses
import re
import time

import pytest
from written import instructions

import fusedsl as fd
from fusedsl.backends.cuda.matmul.sm90.layout import Sm90MatmulSchedule
from fusedsl.backends.cuda.schedule import choose
from fusedsl.hardware import hardware_facts
from fusedsl.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT64,
)
from fusedsl.kernel_ir.kernel import KernelIR, Load, Operand, Position
from fusedsl.kernel_ir.phase import Body, Phase, Reduction, Store, Value

pytest.importorskip("numba_cuda")
from fusedsl.backends.cuda.compile import compile_source, generate, ptx

H200 = (9, 0)
NARROW = [FLOAT32, BFLOAT16, FLOAT16]


def values(names, dtype=FLOAT32):
    return tuple(Value(name, dtype) for name in names.split())


def body(arguments, results, *lines, dtype=FLOAT32):
    return Body(values(arguments, dtype), values(results, dtype), instructions(*lines))


def folded(name, lifted, merge, identity, dtype=FLOAT32):
    (state,), (x,) = values(name, dtype), values(lifted, dtype)
    return Reduction(name, (x,), (state,), (identity,), body("a_1 b_1", "c_1", f"c_1 = {merge}", dtype=dtype))


def map_kernel(dtype, lines, inputs="x y", strides=None, access="vector", compute=None, **more):
    """An elementwise kernel of x_0, y_0 … whose lines end in z_9."""
    compute = compute or dtype.compute
    names = inputs.split()
    strides = strides or ["1"] * (len(names) + 1)
    operands = tuple(Operand(n, dtype, s, access) for n, s in zip([*names, "z"], strides))
    loads = tuple(Load(Value(f"{n}_0", compute), k) for k, n in enumerate(names))
    element = Body(tuple(load.value for load in loads), values("z_9", compute), instructions(*lines))
    phase = Phase(element, (Store("z_9", len(names)),))
    return KernelIR("map", ("z",), 0, len(strides[0]), len(names), operands, loads, (), (), (phase,), **more)


def softmax(dtype=FLOAT32, strides="s1", access="vector", resident=True, rows=1, columns=1, **more):
    operands = (Operand("x", dtype, strides, access), Operand("y", dtype, strides, access))
    largest = Phase(body("x_0", "x_0"), (), (folded("m_1", "x_0", "maximum(a_1, b_1)", "float32(-inf)"),))
    shift = ("t_2 = x_0 - m_1  # x - max(x)", "e_3 = exp(t_2)")
    total = Phase(body("x_0 m_1", "e_3", *shift), (), (folded("s_4", "e_3", "a_1 + b_1", "float32(0.0)"),))
    last = ("e_3 s_4", ()) if resident else ("x_0 m_1 s_4", shift)
    divide = Phase(body(last[0], "y_5", *last[1], "y_5 = e_3 / s_4"), (Store("y_5", 1),))
    loads = (Load(Value("x_0", FLOAT32), 0),)
    phases = (largest, total, divide)
    return KernelIR("softmax", ("softmax(x)",), rows, columns, 1, operands, loads, (), (), phases, resident, **more)


def built(tmp_path, kernel, extents, cc=H200):
    """The source, the PTX and the machine code of a kernel."""
    schedule = choose(kernel, extents, hardware_facts(cc))
    assert not kernel.row_axes or schedule.resident == kernel.resident
    needs = schedule.launch(kernel, extents)
    kernel = dataclasses.replace(kernel, workspace=needs.workspace > 0, semaphores=needs.semaphores > 0)
    source = generate(kernel, schedule)
    path = tmp_path / "generated.py"
    path.write_text(source)
    return source, ptx(source, str(path), kernel, schedule, cc), compile_source(source, str(path), kernel, schedule, cc)


def wide_accesses(text):
    return len(re.findall(r"ld\.global\S*\.v4", text)), len(re.findall(r"st\.global\S*\.v4", text))


def test_what_all_elements_share_is_computed_once(tmp_path):
    """PTX of our own among it, such as a maximum that keeps NaN."""
    lines = ["m_1 = maximum(y_0, float32(1e-12))", "d_2 = float32(448.0) / m_1", "z_9 = x_0 * d_2"]
    _, text, _ = built(tmp_path, map_kernel(FLOAT32, lines, strides=["1", "0", "1"]), (1 << 20,))
    assert len(re.findall(r"max\.NaN\.f32", text)) == len(re.findall(r"div\.rn\.f32", text)) == 1


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
@pytest.mark.parametrize("strides", [["1"] * 3, ["s1", "01", "s1"], ["s1", "s0", "s1"]], ids=["line", "row", "column"])
def test_maps_load_16_bytes_and_keep_to_float32(tmp_path, dtype, strides):
    lines = ["t_1 = x_0 * y_0", "t_2 = tanh(t_1)", "z_9 = t_2 + float32(0.5)"]
    _, text, code = built(tmp_path, map_kernel(dtype, lines, strides=strides), (512, 1024)[-len(strides[0]) :])
    assert code.spill_bytes == 0
    assert ".f64" not in text
    loads, stores = wide_accesses(text)
    assert loads >= 1
    assert stores >= 1


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
@pytest.mark.parametrize("columns", [8, 100, 1000, 4096, 16384])
def test_rows_are_read_once_in_16_bytes(tmp_path, dtype, columns):
    kernel = softmax(dtype, access="vector" if columns % 8 == 0 else "peeled")
    _, text, code = built(tmp_path, kernel, (64, columns))
    schedule = choose(kernel, (64, columns), hardware_facts(H200))
    assert code.spill_bytes == 0
    assert ".f64" not in text
    assert wide_accesses(text) == (schedule.vectors, schedule.vectors)


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
def test_unaligned_rows_use_16_bytes_between_their_ends(tmp_path, dtype):
    _, text, code = built(tmp_path, softmax(dtype, access="peeled"), (64, 4097))
    assert code.spill_bytes == 0
    assert min(wide_accesses(text)) >= 4


def scaled_rows(dtype, access, weights):
    """x / sum(x) * w for one w or two, the same in every row."""
    operands = [Operand("x", dtype, "s1", access)]
    operands += [Operand(name, dtype, "01", "vector" if access == "vector" else "element") for name in weights]
    operands.append(Operand("y", dtype, "s1", access))
    loads = tuple(Load(Value(f"{o.name}_0", FLOAT32), k) for k, o in enumerate(operands[:-1]))
    total = Phase(body("x_0", "x_0"), (), (folded("s_1", "x_0", "a_1 + b_1", "float32(0.0)"),))
    lines = ["y_0 = x_0 * s_1"]
    for k, name in enumerate(weights):
        lines.append(f"y_{k + 1} = y_{k} * {name}_0")
    given = " ".join(["x_0", "s_1", *(f"{name}_0" for name in weights)])
    last = Phase(body(given, f"y_{len(weights)}", *lines), (Store(f"y_{len(weights)}", len(operands) - 1),))
    return KernelIR("scaled", ("x * s * w",), 1, 1, len(loads), tuple(operands), loads, (), (), (total, last), True)


@pytest.mark.parametrize(
    ("dtype", "access", "columns", "early", "in_pieces"),
    [
        (FLOAT32, "vector", 1024, True, False),
        (BFLOAT16, "vector", 4096, True, False),
        (BFLOAT16, "vector", 16384, False, True),
        (BFLOAT16, "peeled", 4097, False, True),
    ],
)
def test_what_all_rows_read_comes_early_or_in_pieces(tmp_path, dtype, access, columns, early, in_pieces):
    kernel = scaled_rows(dtype, access, ("v", "w"))
    schedule = choose(kernel, (64, columns), hardware_facts(H200))
    assert (schedule.load_all_first, schedule.epilogue_vectors > 0) == (early, in_pieces)
    _, text, code = built(tmp_path, kernel, (64, columns))
    assert code.spill_bytes == 0
    assert not re.search(r"ld\.global\S*\.[bu](8|16)", text)  # misaligned weights come out of aligned blocks
    weights = len(re.findall(r"ld\.global\S*\.v2", text))  # … of three blocks of 8 bytes, anywhere
    assert wide_accesses(text)[0] == schedule.vectors * (1 if access == "peeled" else 3)
    assert weights == (schedule.vectors * 6 if access == "peeled" else 0)


def test_what_is_read_stays_in_the_l2_where_there_is_a_policy_for_it(tmp_path):
    kernel = map_kernel(FLOAT32, ["z_9 = x_0 + y_0"])
    text = built(tmp_path, kernel, (1 << 20,))[1]
    assert "ld.global.L2::cache_hint.v4" in text
    assert "st.global.v4" in text
    assert "cache_hint" not in built(tmp_path, kernel, (1 << 20,), (7, 5))[1]


def test_only_exponentials_that_are_summed_beside_their_largest_are_the_hardware_s():
    x, y = fd.spec((4096, 13000), "float32"), fd.spec((4096,), "int64")
    largest = "max(x, axis=-1, keepdims=True)"
    for text in ("logsumexp(x * 0.5, -1)", f"sum(exp((x - {largest}) * 0.5), -1)", "logsumexp(x, -1)"):
        assert "exp_for_sum" in fd.kernel(text).source(x, device="cuda")
    for text in ("softmax(x)", "sum(exp(x), -1)", f"max(exp(x - {largest}), axis=-1)"):
        assert "exp_for_sum" not in fd.kernel(text).source(x, device="cuda")
    grown = fd.kernel(f"sum(exp((x - {largest}) * -0.5), -1)").source(fd.spec((9, 300), "float32"), device="cuda")
    assert "exp_for_sum" not in grown
    loss = fd.kernel("logsumexp(x, -1) - take_along_axis(x, y[:, None], -1)[:, 0]").source(x, y, device="cuda")
    assert loss.index(" = ahead_0(") < loss.index("while column < columns")


def test_only_quotients_that_are_stored_in_bfloat16_go_uncorrected(tmp_path):
    lines = ["t_1 = quotient(x_0, y_0, y_0, y_0)", "z_9 = t_1"]
    direct = ["z_9 = quotient(x_0, y_0, y_0, y_0)  # x / y"]
    assert "= div_for_bf16(x_0, y_0, y_0)" in built(tmp_path, map_kernel(BFLOAT16, direct), (512,))[0]
    for dtype, body_lines in [(FLOAT32, direct), (FLOAT16, direct), (BFLOAT16, lines)]:
        assert "div_for_bf16" not in built(tmp_path, map_kernel(dtype, body_lines), (512,))[0]


@pytest.mark.parametrize(
    ("text", "dtype", "near"),
    [
        ("softmax(x)", "bfloat16", True),
        ("softmax(x) * x", "float16", True),
        ("softmax(x)", "float32", False),
        ("float32(softmax(x))", "bfloat16", False),
        ("exp(x) / sum(x, axis=1, keepdims=True)", "bfloat16", False),  # x is exact
        ("exp(x - 1) - sum(x, axis=1, keepdims=True)", "bfloat16", False),  # what is left may be small
    ],
)
def test_only_exponentials_that_are_summed_or_scaled_for_16_bits_are_the_hardwares(text, dtype, near):
    assert ("exp_for_half(" in fd.kernel(text).source(fd.spec((64, 1000), dtype), device="cuda")) == near


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("text", ["sum(softmax(x), 0)", "float16(softmax(x))", "bfloat16(logsumexp(2 * x, -1))"])
def test_folds_over_rows_and_float64_have_exponentials_of_their_own(text, dtype):
    """A kernel that stores nothing but folds over its rows counted as one of 16 bits; the hardware has no float64."""
    kernel = fd.kernel(text, fallback=False)
    for columns in (1000, 90_000):
        explanation = kernel.explain(fd.spec((400, columns), dtype), cc=90)
        assert all(k.figures is not None for k in explanation.kernels), explanation.notes
    if "16" not in text and dtype != "bfloat16":
        assert "exp_for_half(" not in kernel.source(fd.spec((400, 1000), dtype), device="cuda")


@pytest.mark.parametrize(("columns", "near"), [(60_000, True), (1000, False)])
def test_long_rows_of_16_bits_add_the_hardwares_exponentials_to_others(columns, near):
    text = "exp(x - logsumexp(x, -1, keepdims=True)) - where(iota(x, -1) == y[:, None], 1, 0)"
    source = fd.kernel(text).source(fd.spec((4096, columns), "bfloat16"), fd.spec((4096,), "int64"), device="cuda")
    assert ("= exp_for_half(" in source) == near
    assert "i_0_int32 == y_0_int32" in source  # the places too are compared in 32 bits


MIXED = "sum(exp(x)*(x - log(exp(x) + exp(y))), -1)"


@pytest.mark.parametrize(
    ("text", "dtype", "columns", "near"),
    [
        (MIXED, "bfloat16", 60_000, True),
        (MIXED, "float32", 60_000, False),
        (MIXED, "bfloat16", 1000, False),  # few numbers may cancel each other
        ("sum(log(x)*y, -1)", "bfloat16", 60_000, False),  # x is exact
        ("max(log(x + y), axis=-1)", "bfloat16", 60_000, False),
        ("log(x + y) - max(y, axis=-1, keepdims=True)", "bfloat16", 60_000, False),
    ],
)
def test_only_logarithms_that_long_sums_for_16_bits_read_are_the_hardwares(text, dtype, columns, near):
    x = fd.spec((4096, columns), dtype)
    source = fd.kernel(text).source(x, x, device="cuda")
    assert ("log_approx(" in source) == near
    assert ("exp_for_half(" in source) == near


@pytest.mark.parametrize(("columns", "pairs"), [(1000, True), (1001, True), (1025, False)])  # split pairs are not
def test_the_largest_of_16_bit_rows_is_found_in_pairs(columns, pairs):
    source = fd.kernel("max(x, axis=1)").source(fd.spec((64, columns), "float16"), device="cuda")
    assert ("reduce_packed(" in source) == pairs


@pytest.mark.parametrize(
    ("strides", "rows", "columns", "extents", "access"),
    [
        ("s1", 1, 1, (64, 1 << 18), "vector"),
        ("s1", 1, 1, (64, 65531), "peeled"),
        ("ss", 1, 1, (4096, 512), "element"),
        ("sss", 2, 1, (8, 64, 33), "element"),
        ("sss1", 1, 3, (64, 4, 6, 32), "vector"),
        ("01", 1, 1, (1, 1 << 22), "vector"),
    ],
)
def test_long_and_scattered_rows_loop(tmp_path, strides, rows, columns, extents, access):
    kernel = softmax(FLOAT32, strides, access, resident=False, rows=rows, columns=columns)
    source, text, code = built(tmp_path, kernel, extents)
    assert code.spill_bytes == 0
    assert "while column < columns:" in source
    assert ".f64" not in text


def test_wide_indices_compile(tmp_path):
    lines = ["z_9 = x_0 + y_0"]
    for strides, extents in ((["1"] * 3, (1 << 33,)), (["s1", "01", "s1"], (1 << 22, 1 << 12))):
        *_, code = built(tmp_path, map_kernel(FLOAT32, lines, strides=strides, index64=True), extents)
        assert code.spill_bytes == 0
    *_, code = built(tmp_path, softmax(index64=True), (1 << 22, 1 << 12))
    assert code.spill_bytes == 0


@pytest.mark.parametrize("cc", [(7, 5), (8, 0), (8, 6), (10, 0), (12, 0)])
def test_every_architecture_compiles(tmp_path, cc):
    for dtype in NARROW:
        *_, code = built(tmp_path, softmax(dtype), (64, 1000), cc)
        assert code.spill_bytes == 0
    *_, code = built(tmp_path, map_kernel(BFLOAT16, ["z_9 = x_0 * y_0"]), (1000,), cc)
    assert code.code[:4] == b"\x7fELF"


TRIGONOMETRIC = "sin cos tan"  # libdevice reduces large float32 arguments with one float64 multiplication
UNARY = "sqrt rsqrt cbrt exp exp2 expm1 log log2 log10 log1p arcsin arccos arctan sinh cosh tanh arcsinh"
UNARY += " arccosh arctanh erf erfc lgamma floor ceil rint trunc absolute"
BINARY = "arctan2 copysign nextafter hypot fmod power maximum minimum fmax fmin"


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=repr)
def test_the_float_vocabulary_compiles(tmp_path, dtype):
    lines, last = [], "x_0"
    for number, name in enumerate(UNARY.split()):
        lines.append(f"u_{number} = {name}({last})")
        last = f"u_{number}"
    for number, name in enumerate(BINARY.split()):
        lines.append(f"b_{number} = {name}({last}, y_0)")
        last = f"b_{number}"
    lines += [f"k_1 = ldexp({last}, int32(3))", "k_2 = fma(k_1, x_0, y_0)", "c_1 = isnan(k_2) | isinf(x_0)"]
    lines += ["c_2 = isfinite(y_0) & signbit(x_0)", "c_3 = not c_1 ^ c_2", "z_9 = select(c_3, k_2, -k_1)"]
    _, text, _ = built(tmp_path, map_kernel(dtype, lines), (100,))
    assert dtype is FLOAT64 or ".f64" not in text
    lines = [f"t_{name} = {name}(x_0)" for name in TRIGONOMETRIC.split()]
    built(tmp_path, map_kernel(dtype, [*lines, "t_1 = t_sin + t_cos", "z_9 = t_1 * t_tan"], "x"), (100,))


@pytest.mark.parametrize("dtype", [INT8, UINT8, INT32, INT64, UINT64], ids=repr)
def test_the_integer_vocabulary_compiles(tmp_path, dtype):
    t = dtype.name
    lines = [
        f"t_1 = {t}(x_0 + y_0)",
        f"t_2 = {t}(t_1 * x_0)",
        "t_3 = floor_divide(t_2, y_0)",
        "t_4 = remainder(t_3, y_0)",
    ]
    lines += [
        "t_5 = fmod(t_4, x_0)",
        "t_6 = shift_left(t_5, y_0)",
        "t_7 = shift_right(t_6, x_0)",
        "t_8 = power(t_7, y_0)",
    ]
    lines += ["t_a = maximum(t_8, x_0)", "t_b = absolute(t_a)", f"t_c = {t}(t_b & x_0)", f"t_d = {t}(~t_c)"]
    lines += ["f_1 = float32(t_d)", f"t_e = saturate_{t}(f_1)", "c_1 = bool_(t_e)", "z_9 = select(c_1, t_e, y_0)"]
    *_, code = built(tmp_path, map_kernel(dtype, lines), (100,))
    assert code.spill_bytes == 0


@pytest.mark.parametrize("dtype", [INT32, INT64], ids=repr)
def test_no_integer_has_an_abs_that_the_assembler_takes_for_negative(tmp_path, dtype):
    d = dtype.name
    lines = ("a_1 = absolute(x_0)", f"n_2 = {d}(-a_1)", f"z_9 = select(n_2 < {d}(-5), a_1, n_2)")
    assert "abs.s" not in built(tmp_path, map_kernel(dtype, lines, "x"), (1000,))[1]


@pytest.mark.parametrize("dtype", [INT16, UINT16], ids=repr)
def test_no_16_bits_are_negated(tmp_path, dtype):
    """ptxas 13.0 takes -(-32768) of 16 bits for 32768 where that is compared."""
    lines = ("a_1 = negative(x_0)", f"z_9 = select(a_1 < {dtype.name}(5), a_1, x_0)")
    text = built(tmp_path, map_kernel(dtype, lines, "x"), (1000,))[1]
    assert "neg.s16" not in text and "neg.s32" in text


def test_bools_rounding_positions_and_scalars(tmp_path):
    operands = (Operand("x", BOOL, "s1", "vector"), Operand("z", FLOAT32, "s1", "vector"))
    (x,), (i,) = values("x_0", BOOL), values("i_1", INT64)
    a, z = values("a_2 z_9")
    lines = (
        "t_1 = float32(i_1)",
        "t_2 = bfloat16_round(t_1)",
        "t_3 = float16_round(t_2)",
        "z_9 = select(x_0, t_3, a_2)",
    )
    phase = Phase(Body((x, i, a), (z,), instructions(*lines)), (Store("z_9", 1),))
    positions = (Position(i, 1),)
    kernel = KernelIR("m", ("z",), 0, 2, 1, operands, (Load(x, 0),), positions, (a,), (phase,))
    source, text, code = built(tmp_path, kernel, (64, 64))
    assert "place_1" in source
    assert ".f64" not in text
    assert code.spill_bytes == 0


def test_a_state_of_two_parts_folds(tmp_path):
    operands = (Operand("x", FLOAT32, "s1", "vector"), Operand("i", INT64, "s0"))
    (x, m, am, bm, cm), (i, k, ai, bi, ci) = values("x_0 m_1 a_m b_m c_m"), values("i_1 k_1 a_i b_i c_i", INT64)
    lines = ("p_1 = a_m > b_m", "p_2 = a_m == b_m", "p_3 = a_i < b_i", "p_4 = p_1 | (p_2 & p_3)")
    lines += ("c_m = select(p_4, a_m, b_m)", "c_i = select(p_4, a_i, b_i)")
    merge = Body((am, ai, bm, bi), (cm, ci), instructions(*lines))
    use = Reduction("best", (x, i), (m, k), ("float32(-inf)", "int64(0)"), merge)
    phase = Phase(Body((x, i), (x, i), ()), (), (use,), None, (Store("k_1", 1),))
    kernel = KernelIR("argmax", ("argmax",), 1, 1, 1, operands, (Load(x, 0),), (Position(i, 1),), (), (phase,))
    for resident, columns in ((True, 300), (True, 5000), (False, 1 << 18)):
        *_, code = built(tmp_path, dataclasses.replace(kernel, resident=resident), (64, columns))
        assert code.spill_bytes == 0


def test_compiling_is_quick_once_the_process_is_warm(tmp_path):
    chain = ["t_0 = x_0 * y_0", *(f"t_{k} = t_{k - 1} * x_0" for k in range(1, 9)), "z_9 = t_8 - y_0"]
    cases = [(map_kernel(FLOAT32, chain), (1 << 20,), 0.35), (softmax(), (64, 4096), 0.6)]
    for kernel, extents, limit in cases:
        schedule = choose(kernel, extents, hardware_facts(H200))
        taken = []
        for _ in range(3):
            source = generate(kernel, schedule)
            start = time.process_time()
            compile_source(source, str(tmp_path / "generated.py"), kernel, schedule, H200)
            taken.append(time.process_time() - start)
        assert min(taken) < limit


@pytest.mark.parametrize("dtype", [INT8, FLOAT32, FLOAT64], ids=repr)
def test_rows_that_end_within_a_vector_are_read_to_their_end(tmp_path, dtype):
    _, text, code = built(tmp_path, softmax(dtype, access="peeled"), (64, 1025))
    assert code.spill_bytes == 0
    assert re.search(r"@some ld\.global\.b(32|64)", text)
    assert ("@some ld.global.u16" in text) == (dtype.itemsize < 4)
    assert ("@some ld.global.u8" in text) == (dtype.itemsize < 2)


@pytest.mark.parametrize("dtype", [INT8, BFLOAT16, FLOAT32], ids=repr)
def test_maps_that_end_within_a_vector_are_read_to_their_end(tmp_path, dtype):
    kernel = map_kernel(dtype, ["z_9 = x_0 + y_0"])
    _, text, _ = built(tmp_path, kernel, (1_000_003,))
    assert "@some ld.global.b32" in text
    assert ("@some ld.global.u16" in text) == (dtype.itemsize < 4)


@pytest.mark.parametrize("dtype", NARROW, ids=repr)
@pytest.mark.parametrize(("columns", "cluster"), [(65536, 4), (120001, 8), (262144, 16), (393216, 16)])
def test_wide_rows_are_kept_in_the_shared_memory_of_clusters(tmp_path, dtype, columns, cluster):
    kernel = softmax(dtype, access="vector" if columns % 8 == 0 else "peeled", resident=False)
    schedule = choose(kernel, (4096, columns), hardware_facts(H200))
    assert schedule.smem
    assert schedule.cluster == (cluster if dtype is FLOAT32 else cluster // 2)
    geometry_of = schedule.launch(kernel, (4096, columns))
    assert (geometry_of.blocks, geometry_of.cluster) == (4096 * schedule.cluster, schedule.cluster)
    assert geometry_of.shared * schedule.cluster >= columns * dtype.itemsize
    _, text, code = built(tmp_path, kernel, (4096, columns))
    assert code.spill_bytes == 0
    assert ".f64" not in text
    assert wide_accesses(text)[0] == 0  # every vector is copied, none is loaded
    assert len(re.findall(r"cp\.async\.cg\.shared\.global", text)) == 2 * schedule.vectors
    assert len(re.findall(r"mbarrier\.try_wait", text)) == 2
    assert "barrier.cluster.arrive.release" not in text  # which would wait for all that a thread reads and writes
    assert len(re.findall(r"barrier\.cluster\.arrive\.relaxed", text)) == 1


@pytest.mark.parametrize(
    ("text", "dtype", "columns", "team"),
    [
        ("softmax(x)", "float32", 1 << 18, "threads=256, cluster=16, reductions=2"),
        ("softmax(x)", "bfloat16", 1 << 17, "threads=256, cluster=8, reductions=2"),
        ("layer_norm(x, w, w)", "bfloat16", 1 << 15, "threads=512"),
        ("layer_norm(x, w, w)", "float32", 1 << 16, "threads=512, cluster=4, reductions=2"),
        ("rms_norm(x, w)", "bfloat16", 1 << 17, "threads=512, cluster=4, reductions=1"),
        ("layer_norm(x, w, y)", "float32", 1 << 18, "threads=256, cluster=16, reductions=2, groups=2, persistent=True"),
        ("layer_norm(x, w, y)", "bfloat16", 1 << 17, "threads=256, cluster=4, reductions=2, groups=2, persistent=True"),
        ("softmax(x + w)", "float32", 393216, "threads=512, cluster=16, reductions=2, groups=1, persistent=True"),
    ],
)
def test_wide_rows_stay_in_the_registers_of_clusters(text, dtype, columns, team):
    kernel = fd.kernel(text)
    weights = [fd.spec((columns,), dtype)] * (len(kernel.params) - 1)
    assert f"thread_group = ThreadGroup({team})" in kernel.source(
        fd.spec((4096, columns), dtype), *weights, device="cuda"
    )
    assert "cluster" not in kernel.source(fd.spec((3, columns), dtype), *weights, device="cuda")  # too few for all SMs


@pytest.mark.parametrize("cc", [(7, 5), (8, 0), (8, 6), (10, 0)], ids=str)
def test_wide_rows_on_other_architectures(tmp_path, cc):
    kernel = softmax(FLOAT32, resident=False)
    for columns, kept in [(20000, cc >= (8, 0)), (65536, cc >= (9, 0)), (10_000_000, False)]:
        schedule = choose(kernel, (4096, columns), hardware_facts(cc))
        assert schedule.smem == kept
        assert schedule.cluster == 1 or cc >= (9, 0)
        assert built(tmp_path, kernel, (4096, columns), cc)[2].spill_bytes == 0


def test_kernels_of_several_launches_take_turns(monkeypatch):
    x, w = fd.spec((64, 128), "bfloat16"), fd.spec((128, 256), "bfloat16")
    source = fd.kernel("layer_norm(x) @ w").source(x, w, device="cuda")
    assert source.count("griddepcontrol()") == 2 and "launch_dependents()" not in source
    monkeypatch.setattr(Sm90MatmulSchedule, "starts_early", lambda *_: True)
    source = fd.kernel("layer_norm(x) @ w").source(x, w, device="cuda")
    assert source.count("griddepcontrol()") == source.count("launch_dependents()") == 1
    assert "griddepcontrol" not in fd.kernel("softmax(x)").source(x, device="cuda")
    plain = map_kernel(FLOAT32, ["z_9 = x_0 + y_0"])
    chained = dataclasses.replace(plain, pdl=True)
    for cc, count in (((8, 0), 0), ((9, 0), 1)):
        schedule = choose(chained, (1000,), hardware_facts(cc))
        source = generate(chained, schedule)
        assert source.replace("    griddepcontrol()\n", "") == generate(plain, schedule)
        text = ptx(source, "chained.py", chained, schedule, cc)
        assert text.count("griddepcontrol.wait") == text.count("griddepcontrol.launch_dependents") == count


def test_kernels_without_rows_have_a_source_and_are_explained():
    """What an SM has of them was divided by their number."""
    kernel = fd.kernel("sum(x, -1)")
    assert kernel.source(fd.spec((0, 100), "float32"), device="cuda")
    assert kernel.explain(fd.spec((0, 100), "float32"), device="cuda")
