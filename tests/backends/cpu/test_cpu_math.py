"""The CPU target's functions, held to a number of ulps on hard inputs: all exponents, edges, special values."""

import math

import numpy as np
import pytest
from compiled_on_cpu import compile_kernel
from written import instructions

from fusedsl.backends.cpu import processor, schedule
from fusedsl.ir.types import DTYPES, FLOAT32, FLOAT64, dtype, numpy_dtype
from fusedsl.kernel_ir.kernel import KernelIR, Load, Operand
from fusedsl.kernel_ir.parameter_layout import kernel_params
from fusedsl.kernel_ir.phase import Body, Phase, Store, Value
from fusedsl.runtime import object_loader, thread_pool


def computed(tmp_path, line, *arrays, result=None):
    """The body `line` (of x_0, x_1 …) over arrays, on the CPU target."""
    types = [dtype(a.dtype.name) for a in arrays]
    result = result or types[0]
    out = np.empty(arrays[0].shape, numpy_dtype(result))
    operands = tuple(Operand(f"x{k}", d, "1") for k, d in enumerate(types)) + (Operand("y", result, "1"),)
    values = tuple(Value(f"x_{k}", d) for k, d in enumerate(types))
    phase = Phase(Body(values, (Value("y_0", result),), instructions(f"y_0 = {line}")), (Store("y_0", len(arrays)),))
    loads = tuple(Load(v, k) for k, v in enumerate(values))
    kernel = KernelIR("one", (line,), 0, 1, len(arrays), operands, loads, (), (), (phase,))
    compiled = compile_kernel(kernel, tmp_path / "one.py")
    functions = dict(zip(compiled.symbols, object_loader.load(compiled.object_bytes, compiled.symbols)))
    block = np.array([*(a.ctypes.data for a in (*arrays, out)), out.size], np.int64)
    thread_pool.runner(functions, schedule.launch(kernel, "map", (out.size,)), len(kernel_params(kernel)))(
        block.ctypes.data
    )
    return out


EDGES = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 88.7, 88.75, 87.3, 103.9, 104.1, 126.0, 127.0, 128.0, 149.0, 150.0]
EDGES += [709.7, 709.9, 745.1, 745.2, 1022.0, 1024.0, 1074.0, 1e-30, 1e-38, 1e-45, 1e30, 3e38, 5e-324, 1e-308, 1e300]
EDGES += [math.pi * k / 4 for k in range(1, 9)] + [math.pi * 2.0**k for k in range(60)] + [math.inf, math.nan]


def hard_inputs(d, seed=1):
    """All exponents and signs, the edges and their neighbours, normal numbers of several scales."""
    random = np.random.default_rng(seed)
    real, word = (np.float32, np.uint32) if d is FLOAT32 else (np.float64, np.uint64)
    step = 65521 if d is FLOAT32 else 281474976710597
    patterns = np.arange(0, 2**d.bits - step, step, dtype=word).view(real)
    with np.errstate(over="ignore"):
        edges = np.array(EDGES + [-e for e in EDGES]).astype(real)
    near = np.concatenate([np.nextafter(edges, real(s * np.inf)) for s in (-1, 1)])
    scales = [random.standard_normal(4096) * s for s in (1e-4, 0.1, 1, 5, 30, 300)]
    around_one = 1 + random.standard_normal(8192) * 10.0 ** random.uniform(-7, 0, 8192)
    return np.concatenate([patterns, edges, near, *(s.astype(real) for s in scales), around_one.astype(real)])


def ulps(found, exact):
    """The largest distance in units of the last place of the result's type; special values have to be the same."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
    special = ~np.isfinite(rounded)
    wrong = special & ~((found == rounded) | (np.isnan(found) & np.isnan(rounded)))
    # a finite result next to an overflow is off by an ulp, not by infinity
    assert not (wrong & ~np.isinf(rounded)).any(), "NaN expected"
    largest = np.finfo(found.dtype).max
    assert (np.abs(found[wrong]) == largest).all(), "infinity expected"
    fine = ~special
    assert (
        np.isfinite(found[fine]).all() or (np.abs(exact[fine][~np.isfinite(found[fine])]) > largest * (1 - 1e-6)).all()
    )
    fine &= np.isfinite(found)
    distance = np.abs(found[fine].astype(exact.dtype) - exact[fine])
    finfo = np.finfo(found.dtype)
    last = np.maximum(np.frexp(rounded[fine])[1], finfo.minexp + 1) - finfo.nmant - 1
    return float(np.ldexp(distance, -last).max())


def elementwise(function):
    """A function of Python floats over an array; an error is NaN or infinity, as in C."""

    def over(x):
        return np.array([_total(function, v) for v in x.astype(np.float64).tolist()])

    return over


def _total(function, v):
    try:
        return function(v)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.inf if function is math.lgamma and not math.isnan(v) else math.nan


FUNCTIONS = {
    name: getattr(np, name)
    for names in (
        "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan",
        "sinh cosh tanh arcsinh arccosh arctanh cbrt sqrt floor ceil rint trunc",
    )
    for name in names.split()
}
FUNCTIONS |= {"rsqrt": lambda x: 1 / np.sqrt(x), "sign": np.sign, "absolute": np.abs}
FUNCTIONS |= {name: elementwise(getattr(math, name)) for name in ("erf", "erfc", "lgamma")}
EXACT = {"sqrt", "floor", "ceil", "rint", "trunc", "sign", "absolute"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_functions_are_within_4_ulps(name, tmp_path):
    x = hard_inputs(FLOAT32)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.float64))
    found = computed(tmp_path, f"{name}(x_0)", x)
    assert ulps(found, exact) <= (0.5 if name in EXACT else 4)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_functions_are_close_to_the_c_library(name, tmp_path):
    x = hard_inputs(FLOAT64)
    if name == "lgamma":
        x = x[(x > 3) | (x == 0)]  # Python's own loses digits near the zeros at 1 and 2
    python = name in ("erf", "erfc", "lgamma")
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x if python else x.astype(np.longdouble))
    found = computed(tmp_path, f"{name}(x_0)", x)
    assert ulps(found, exact) <= (0.5 if name in EXACT else {"lgamma": 32}.get(name, 4))


THROUGH_ZERO = ["expm1", "log1p", "sin", "tan", "arcsin", "arctan", "sinh", "tanh"]
THROUGH_ZERO += ["arcsinh", "arctanh", "cbrt", "erf", "sqrt", "sign"]


@pytest.mark.parametrize("name", THROUGH_ZERO)
@pytest.mark.parametrize("d", [FLOAT32, FLOAT64], ids=str)
def test_only_zero_has_no_result_where_a_function_passes_through_0(name, d, tmp_path):
    """The smallest numbers there are, so that what is asked of the result, as `!= 0`, is as in NumPy."""
    finfo = np.finfo(numpy_dtype(d))
    x = np.array([finfo.smallest_subnormal, finfo.smallest_subnormal * 3, finfo.tiny], numpy_dtype(d))
    x = x if name == "sqrt" else np.concatenate([x, -x])
    found = computed(tmp_path, f"{name}(x_0)", x)
    assert (found != 0).all() and (np.signbit(found) == np.signbit(x)).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("d", [FLOAT32, FLOAT64], ids=str)
def test_angles_near_multiples_of_a_quarter_turn(name, d, tmp_path):
    """All below 2^15: the loop takes the fast reduction."""
    random = np.random.default_rng(5)
    real, wide = numpy_dtype(d).type, np.float64 if d is FLOAT32 else np.longdouble
    x = (random.integers(-20000, 20000, 1 << 16) * (math.pi / 2)).astype(real)
    x = np.concatenate([x, np.nextafter(x, real(0)), random.uniform(-30, 30, 1 << 16).astype(real), [real("nan")]])
    found = computed(tmp_path, f"{name}(x_0)", x)
    assert ulps(found, getattr(np, name)(x.astype(wide))) <= 4


@pytest.mark.parametrize(
    "name", ["sin", "arctan", "tanh", "expm1", "log1p", "arcsinh", "sinh", "erf", "rint", "cbrt", "tan"]
)
@pytest.mark.parametrize("d", [FLOAT32, FLOAT64], ids=str)
def test_odd_functions_keep_the_sign_of_zero(name, d, tmp_path):
    x = np.array([0.0, -0.0], numpy_dtype(d))
    assert np.signbit(computed(tmp_path, f"{name}(x_0)", x)).tolist() == [False, True]


PAIRS = {
    "arctan2": np.arctan2,
    "hypot": np.hypot,
    "power": np.power,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "fmod": np.fmod,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
}


def hard_pairs(d):
    random = np.random.default_rng(2)
    real = numpy_dtype(d)
    special = np.array([0, 0.5, 1, 1.5, 2, 3, 7, 40, 1e-40, 1e30, np.inf, np.nan, 16777216.0, 16777215.0], real)
    special = np.concatenate([special, -special])
    a, b = (g.ravel() for g in np.meshgrid(special, special))
    bits = hard_inputs(d)
    x = np.concatenate([a, np.abs(random.standard_normal(30000) * 3).astype(real), bits[:40000]])
    y = np.concatenate([b, (random.standard_normal(30000) * 9).astype(real), random.permutation(bits)[:40000]])
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("d", [FLOAT32, FLOAT64], ids=str)
def test_functions_of_two_floats(name, d, tmp_path):
    x, y = hard_pairs(d)
    wide = np.float64 if d is FLOAT32 else np.longdouble
    with np.errstate(all="ignore"):
        exact = np.nextafter(x, y) if name == "nextafter" else PAIRS[name](x.astype(wide), y.astype(wide))
    found = computed(tmp_path, f"{name}(x_0, x_1)", x, y)
    assert ulps(found, exact.astype(wide)) <= (4 if name in ("arctan2", "hypot", "power") else 0.5)
    zero = exact == 0
    if name in ("arctan2", "copysign", "power", "fmod"):
        assert (np.signbit(found[zero]) == np.signbit(exact[zero])).all()


@pytest.mark.parametrize("d", [FLOAT32, FLOAT64], ids=str)
def test_hypot_of_the_largest_and_the_smallest_numbers(d, tmp_path):
    finfo = np.finfo(numpy_dtype(d))
    sizes = [finfo.max / 2, finfo.max, finfo.tiny, finfo.smallest_subnormal, finfo.tiny * 3, 1.0, 2.0**-500, 2.0**501]
    with np.errstate(over="ignore"):
        sizes = np.array([s * f for s in sizes for f in (1, 0.75, -1e-3)]).astype(numpy_dtype(d))
    x, y = (np.ascontiguousarray(part.ravel()) for part in np.meshgrid(sizes, sizes))
    exact = np.hypot(x.astype(np.longdouble), y.astype(np.longdouble))
    assert ulps(computed(tmp_path, "hypot(x_0, x_1)", x, y), exact) <= 1


@pytest.mark.parametrize("d", [FLOAT32, FLOAT64], ids=str)
def test_the_logarithm_of_a_power_of_ten_is_whole(d, tmp_path):
    exponents = np.arange(-37, 39) if d is FLOAT32 else np.arange(-307, 309)
    x = np.array([float(f"1e{k}") for k in exponents], numpy_dtype(d))
    np.testing.assert_array_equal(computed(tmp_path, "log10(x_0)", x), exponents)


def common_quotients(d):
    """Operands of quotients below what floats hold as integers, many beside an integer."""
    random = np.random.default_rng(6)
    real = numpy_dtype(d).type
    y = (random.standard_normal(40000) * 10.0 ** random.uniform(-30, 30, 40000)).astype(real)
    quotients = 2.0 ** random.uniform(-3, np.finfo(real).nmant - 1, 40000) * random.choice([-1, 1], 40000)
    beside = np.rint(quotients).astype(real) * y
    x = np.concatenate([quotients.astype(real) * y, beside, np.nextafter(beside, real(0)), y, np.nextafter(y, real(0))])
    return x, np.tile(y, 5)


@pytest.mark.parametrize("d", [FLOAT32, FLOAT64], ids=str)
def test_remainders_of_common_quotients_are_exact(d, tmp_path):
    for x, y in (common_quotients(d), hard_pairs(d)):
        common = ~computed(tmp_path, "fmod_beyond(x_0, x_1)", x, y, result=DTYPES["bool"])
        assert common.any()
        with np.errstate(all="ignore"):
            exact = np.fmod(x, y)
        found = computed(tmp_path, "fmod_near(x_0, x_1)", x, y)
        np.testing.assert_array_equal(found[common], exact[common])
        np.testing.assert_array_equal(np.signbit(found[common]), np.signbit(exact[common]))


def test_fma_rounds_once(tmp_path):
    random = np.random.default_rng(3)
    a, b, c = (random.standard_normal(1 << 16).astype(np.float32) for _ in range(3))
    exact = a.astype(np.longdouble) * b + c
    assert ulps(computed(tmp_path, "fma(x_0, x_1, x_2)", a, b, c), exact) <= 0.5


def test_ldexp_takes_any_exponent(tmp_path):
    for real in (np.float32, np.float64):
        x = np.repeat(np.array([1.0, -1.5, 0.0, np.inf, np.nan, 3e-40], real), 9)
        n = np.tile(np.array([0, 1, -1, 127, -126, -149, 300, -(2**31), 2**31 - 1], np.int32), 6)
        with np.errstate(all="ignore"):
            expected = np.ldexp(x, n)
        np.testing.assert_array_equal(computed(tmp_path, "ldexp(x_0, x_1)", x, n), expected)


def test_predicates_and_select(tmp_path):
    x = hard_inputs(FLOAT32)
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        np.testing.assert_array_equal(
            computed(tmp_path, f"{name}(x_0)", x, result=DTYPES["bool"]), getattr(np, name)(x)
        )
    found = computed(tmp_path, "select(not_(isnan(x_0)) & (x_0 > float32(0.0)), x_0, float32(inf))", x)
    np.testing.assert_array_equal(found, np.where(x > 0, x, np.float32(np.inf)))


# ---- integers


INTEGERS = [d for d in DTYPES.values() if d.kind in "iu"]


def integer_pairs(d):
    random = np.random.default_rng(4)
    info = np.iinfo(numpy_dtype(d))
    edge = np.array([info.min, info.min + 1, 0, 1, 2, 3, 5, 7, 8, 31, 63, 64, info.max - 1, info.max], object)
    if d.kind == "i":
        edge = np.concatenate([edge, np.array([-1, -2, -3, -64], object)])
    a, b = (g.ravel() for g in np.meshgrid(edge, edge))
    draws = [random.integers(info.min, info.max, 2000, numpy_dtype(d), endpoint=True) for _ in range(2)]
    return np.concatenate([a.astype(numpy_dtype(d)), draws[0]]), np.concatenate([b.astype(numpy_dtype(d)), draws[1]])


def wrapped(value, d):
    value %= 1 << d.bits
    return value - (1 << d.bits) if d.kind == "i" and value >> (d.bits - 1) else value


def integer_power(a, b, d):
    if b >= 0:
        return pow(a, b, 1 << d.bits)
    return {1: 1, -1: -1 if b & 1 else 1}.get(a, 0)


def shifted(a, b, d, left):
    if 0 <= b < d.bits:
        return a << b if left else a >> b
    return -1 if a < 0 and not left else 0


INTEGER_FUNCTIONS = {
    "floor_divide": lambda a, b, d: a // b if b else 0,
    "remainder": lambda a, b, d: a % b if b else 0,
    "fmod": lambda a, b, d: int(math.copysign(1, a)) * (abs(a) % abs(b)) if b else 0,
    "shift_left": lambda a, b, d: shifted(a, b, d, True),
    "shift_right": lambda a, b, d: shifted(a, b, d, False),
    "power": integer_power,
    "maximum": lambda a, b, d: max(a, b),
    "minimum": lambda a, b, d: min(a, b),
}


@pytest.mark.parametrize("d", INTEGERS, ids=str)
def test_integer_functions_never_trap(d, tmp_path):
    x, y = integer_pairs(d)
    pairs = list(zip(x.tolist(), y.tolist()))
    for name, meaning in INTEGER_FUNCTIONS.items():
        expected = [wrapped(meaning(a, b, d), d) for a, b in pairs]
        assert computed(tmp_path, f"{name}(x_0, x_1)", x, y).tolist() == expected, name


@pytest.mark.parametrize("d", INTEGERS, ids=str)
def test_integer_operators_wrap_and_keep_their_type(d, tmp_path):
    x, y = integer_pairs(d)
    line = f"select((x_0 & x_1) < (x_0 | x_1), {d}(x_0 * x_1), {d}(~x_0) ^ x_1)"
    with np.errstate(over="ignore"):
        expected = np.where((x & y) < (x | y), x * y, ~x ^ y)
    np.testing.assert_array_equal(computed(tmp_path, line, x, y), expected)
    expected = [wrapped(abs(a), d) for a in x.tolist()]
    assert computed(tmp_path, "absolute(x_0)", x).tolist() == expected
    assert computed(tmp_path, "sign(x_0)", x).tolist() == np.sign(x).tolist()


# ---- conversions


@pytest.mark.parametrize("d", INTEGERS, ids=str)
@pytest.mark.parametrize("source", [FLOAT32, FLOAT64], ids=str)
def test_float_to_integer_saturates(d, source, tmp_path):
    x = hard_inputs(source)
    info = np.iinfo(numpy_dtype(d))
    found = computed(tmp_path, f"saturate_{d}(x_0)", x, result=d)
    expected = [
        0
        if math.isnan(v)
        else max(info.min, min(info.max, int(v)))
        if math.isfinite(v)
        else (info.max if v > 0 else info.min)
        for v in x.tolist()
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("d", INTEGERS, ids=str)
def test_integer_casts(d, tmp_path):
    x, _ = integer_pairs(d)
    for to in [*INTEGERS, FLOAT32, FLOAT64]:
        np.testing.assert_array_equal(computed(tmp_path, f"{to}(x_0)", x, result=to), x.astype(numpy_dtype(to)))
    np.testing.assert_array_equal(computed(tmp_path, "bool_(x_0)", x, result=DTYPES["bool"]), x != 0)


@pytest.mark.parametrize("name, instructions", [("float16", True), ("float16", False), ("bfloat16", True)])
def test_narrow_floats_convert_exactly(name, instructions, tmp_path, monkeypatch):
    """Of float16 by instructions of the processor, and without them."""
    if not instructions:
        monkeypatch.setattr(processor.Processor, "converts_float16", False)
    narrow = numpy_dtype(dtype(name))
    words = np.arange(1 << 16, dtype=np.uint16).view(narrow)
    with np.errstate(invalid="ignore"):
        widened = words.astype(np.float32)
    np.testing.assert_array_equal(computed(tmp_path, "x_0", words, result=FLOAT32), widened)
    steps = np.concatenate([widened[np.isfinite(widened)]] * 3)
    with np.errstate(over="ignore"):
        above = np.nextafter(steps.astype(narrow), narrow.type(np.inf)).astype(np.float64)
    middle = (steps.astype(np.float64) + above) / 2
    with np.errstate(all="ignore"):
        x = np.concatenate(
            [hard_inputs(FLOAT32), middle.astype(np.float32), np.nextafter(middle.astype(np.float32), np.float32(0))]
        )
        expected = x.astype(narrow)
    found = computed(tmp_path, "x_0", x, result=dtype(name))
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(x)].all()
    rounded = computed(tmp_path, f"{name}_round(x_0)", x)
    np.testing.assert_array_equal(rounded, expected.astype(np.float32))
