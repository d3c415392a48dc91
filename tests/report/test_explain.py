"""explain(), source(), resources() and compile(): what they say is what is launched, and no GPU is needed to say it."""

import json
import re

import numpy as np
import pytest
from written import instructions

import fusedsl as fd
from fusedsl.errors import ArgumentError, CompileError, ShapeError
from fusedsl.fusion.unfused_cost import unfused_kernels
from fusedsl.kernel_ir.instruction_cost import total_cost
from fusedsl.runtime.run_compilers import CompiledKernel

N = 1 << 20
needs_compiler = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)


def told(text, *args, **keywords):
    keywords.setdefault("compile", False)
    return fd.kernel(text).explain(*args, **keywords)


# -- before and after


def test_bytes_of_an_elementwise_program_by_hand():
    x = fd.spec(N)
    e = told("a*b + c", x, x, x)
    assert e.before.operations == ("multiply", "add")
    assert e.before.bytes == (3 + 3) * 4 * N  # each reads two arrays and writes one
    assert e.bytes == (3 + 1) * 4 * N
    assert (len(e.kernels), e.before.kernels) == (1, 2)


def test_bytes_of_softmax_by_hand():
    rows, columns = 64, 1000
    full, row = 4 * rows * columns, 4 * rows
    e = told("softmax(x)", fd.spec((rows, columns)))
    # max: full + row; subtract: full + row + full; exp: 2 full; sum: full + row; divide: full + row + full
    assert e.before.bytes == 8 * full + 4 * row
    assert e.before.operations == ("max", "subtract", "exp", "sum", "divide")
    assert e.bytes == 2 * full
    assert [k.iteration for k in e.kernels] == ["64 rows × 1,000 columns"]


def test_what_an_unfused_run_gets_for_free():
    x = fd.spec((64, 64), "float16")
    assert told("x.T[1:]", x).before.operations == ("copy",)
    assert told("x * x", x).before.bytes == 2 * 2 * 64 * 64  # one operand, read once
    assert told("x * (2 * s + 1)", x, 3.0).before.kernels == 1  # arithmetic on Python numbers
    assert told("reshape(x, (-1,)) + 1", x).before.operations == ("add",)
    assert told("x + astype(x, float32)", x).before.operations == ("cast", "add")


def test_a_broadcast_operand_moves_once():
    e = told("x * w", fd.spec((1000, 512)), fd.spec(512))
    assert {a.array: a.bytes for a in e.kernels[0].reads} == {"x": 4 * 512_000, "w": 4 * 512}


def test_rows_too_long_for_the_chip_count_every_pass():
    e = told("softmax(x)", fd.spec((4, 1 << 20)))
    (read,) = e.kernels[0].reads
    assert read.passes == 2  # for the maximum and the sum at once, and for the quotients
    assert read.bytes == 2 * 4 * 4 * N


def test_strides_of_zero_move_one_element():
    e = told("x + 1", fd.spec((1000, 8), strides=(0, 1)))
    assert e.kernels[0].reads[0].bytes == 8 * 4


# -- the time model


def test_a_sum_of_broadcast_products_is_a_product_of_matrices_without_fusion():
    a, b = fd.spec((512, 256)), fd.spec((256, 1024))
    size = 4 * (512 * 256 + 256 * 1024 + 512 * 1024)
    assert told("sum(a[:, :, None] * b[None], axis=1)", a, b).before.bytes == size
    masked = told("sum(where(m[:, :, None], a[:, :, None] * b[None], 0), axis=1)", fd.spec((512, 256), "bool"), a, b)
    assert masked.before.bytes == size + 512 * 256
    assert told("sum(x * w, axis=1)", a, fd.spec(256)).before.operations == ("multiply", "sum")


def test_a_product_that_is_needed_itself_is_stored():
    e = told("p = a[:, :, None] * b[None]; return sum(p, axis=1), p", fd.spec((64, 32)), fd.spec((32, 16)))
    assert sorted(e.before.operations) == ["matmul", "multiply"]


def test_an_array_that_is_seen_twice_is_listed_once():
    q = fd.spec((2, 16, 4096, 128), "bfloat16")
    (k,) = told("attention(q, k, v, mask='doc[i] == doc[j]', doc=doc)", q, q, q, fd.spec(4096, "int32")).kernels
    assert [(a.array, a.bytes) for a in k.reads if a.array == "doc"] == [("doc", 4 * 4096)]
    (k,) = told("x[1:] + x[:-1]", fd.spec(1000)).kernels
    assert [a.bytes for a in k.reads] == [4 * 1000]
    (k,) = told("x[:100] + x[200:300]", fd.spec(1000)).kernels
    assert [a.bytes for a in k.reads] == [4 * 200]


def test_fewer_bytes_and_launches_take_less_time():
    e = told("softmax(x)", fd.spec((4096, 4096)))
    assert e.seconds < e.before.seconds / 3
    assert told("softmax(x)", fd.spec((4096, 4096)), cc=80).seconds > e.seconds
    assert told("x + 1", fd.spec(N), device="cpu").seconds is None


def test_instructions_of_a_body():
    assert total_cost(instructions("t_0 = x_0 * float32(2.0)  # x * 2")) == 1
    assert total_cost(instructions("t_0 = int32(a_0 + b_0)  # a + b", "t_1 = exp(x_0)")) == 1 + 8
    assert total_cost(instructions("t_0 = select(c_0, x_0, float32(-1.5))")) == 1
    assert total_cost(instructions("t_0 = x_0 / y_0")) == 10


def test_unfused_counts_a_shared_value_once():
    k = fd.kernel("exp(x) + exp(x)")
    source = k._source
    graph, extents = _graph(source, 10)
    assert [s.operation for s in unfused_kernels(graph, extents)] == ["exp", "add"]


def _graph(source, n):
    from fusedsl.config import current
    from fusedsl.ir.dims import Symbol
    from fusedsl.ir.graph import Parameter, Type
    from fusedsl.ir.types import FLOAT32
    from fusedsl.program.make_plan import make_graph

    extents = {Symbol(0, 0): n}
    graph, _ = make_graph(source, (Parameter("x", Type(FLOAT32, (Symbol(0, 0),))),), extents, current())
    return graph, extents


# -- what is told


def test_the_text_for_people():
    e = told("softmax(x) * w", fd.spec((4096, 4096)), fd.spec(4096))
    text = str(e)
    headline = text.splitlines()[0]
    assert re.fullmatch(r"1 kernel instead of 6 · 134 MB instead of 671 MB · at most \d+ registers", headline)
    for part in ("return softmax(x) * w", "x float32[4096, 4096]", "max of x", "67.1 MB", "schedule", "H200"):
        assert part in text
    assert repr(e) == text
    assert "<pre>" in e._repr_html_()


def test_members_read_and_write_by_name():
    e = told("s = sum(x, axis=1); return x - s[:, None], s", fd.spec((64, 100)))
    (k,) = e.kernels
    assert any(m.startswith("sum of x") for m in k.members)
    assert {a.array for a in k.writes} == {"result 0", "result 1"}
    assert [a.array for a in k.reads] == ["x"]


@pytest.mark.parametrize(
    "text, arguments, formulas",
    [
        ("softmax(x) * w", [(64, 100), 100], ["max of x", "sum of exp(x - max)", "result = exp(x - max) / sum * w"]),
        ("x + x.T", [(64, 64)], ["result = x[i, j] + x[j, i]"]),
        ("x + x[::-1]", [(64, 100)], ["result = x[i, j] + x[63 - i, j]"]),
        ("x - (y - 1) + -x ** 3", [8, 8], ["result = x - (y - 1) + -(x * x * x)"]),
        ("where((x > 1) == (y > 1), x, 2)", [8, 8], ["result = where((x > 1) == (y > 1), x, 2)"]),
        ("astype(x, int32) & 3 | 4", [8], ["result = int32(x) & 3 | 4"]),
        ("uint8(x) << 2 & 1", [8], ["result = uint8(uint8(x) << 2 & 1)"]),
        ("sum(x, axis=1) / sum(x * x, axis=1)", [(64, 100)], ["sum of x", "sum_2 of x * x", "result = sum / sum_2"]),
        ("mean(x, axis=1)", [(64, 100)], ["sum of x", "result = sum / 100"]),
        ("x * arange(100)", [(64, 100)], ["result = x * j"]),
        ("sort(x)", [(64, 100)], ["sort of x", "result = sorted values"]),
    ],
)
def test_formulas_are_those_that_people_write(text, arguments, formulas):
    (k,) = told(text, *map(fd.spec, arguments)).kernels
    assert list(k.members) == formulas


def test_a_formula_that_is_too_long_is_cut_short():
    (k,) = told(" + ".join(f"sqrt(x * {n}.25 + y)" for n in range(30)), fd.spec(8), fd.spec(8)).kernels
    (formula,) = k.members
    assert len(formula) < 160 and "..." in formula


def test_temporaries_and_what_kept_kernels_apart():
    e = told("softmax(x, axis=0) + softmax(x, axis=1)", fd.spec((64, 64)))
    assert len(e.kernels) == 2
    assert sum(t.bytes for t in e.temporaries) == 2 * 64 * 4
    assert e.refused and "not merged" in str(e)
    assert not told("x + 1", fd.spec(8)).refused


def test_out_over_an_input():
    assert told("x + 1", fd.spec(8)).notes == ("out may be x, written in place",)
    (note,) = told("x + x[::-1]", fd.spec(8)).notes
    assert "temporary" in note and "x" in note
    assert told("sum(x)", fd.spec(8)).notes == ()


def test_float64_that_no_input_asked_for():
    n, x, d = fd.spec(8, "int32"), fd.spec(8), fd.spec(8, "float64")
    e = told("n / 2 + x", n, x)
    assert [w.operation for w in e.widened] == ["n / 2", "(n / 2) + x"]
    assert e.widened[0].reason == "from int32 and a number"
    assert "float64 that no input asked for" in str(e)
    assert told("d / 2 + x", d, x).widened == ()
    assert told("astype(n, float64) / 2", n).widened == ()
    assert told("x / 2 + 1.5", x).widened == ()
    assert told("x * s", x, 2.5).widened == ()
    assert [w.operation for w in told("mean(n)", n).widened] == ["sum(n) / size"]


def test_data_survives_json_and_is_the_same_each_time():
    args = fd.spec((256, 1000), "bfloat16"), fd.spec(1000, "int8")
    text = "layer_norm(x) + w / 3"
    e = told(text, *args)
    data = e.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["bytes"] == e.bytes
    assert data["kernels"][0]["reads"][0]["array"] == "x"
    again = told(text, *args)
    assert again.to_dict() == data
    assert str(again) == str(e)


# -- places


def test_arrays_are_explained_where_they_live_and_specs_on_cuda():
    x = np.ones((8, 8), "float32")
    assert told("x + 1", x).target == "CPU"
    assert told("x + y", x, fd.spec((8, 8))).target == "CPU"
    assert "9.0" in told("x + 1", fd.spec(8)).target
    assert "8.0" in told("x + 1", x, cc=80).target
    assert "10.0" in told("x + 1", x, device="cuda", cc="100").target
    assert told("x + 1", fd.spec(8), device="cpu").target == "CPU"
    assert "registers" not in str(told("x + 1", x))
    with fd.options(device="cuda"):
        assert told("x + 1", x).target.startswith("CUDA")


@pytest.mark.parametrize("wrong", [{"cc": 61}, {"cc": "abc"}, {"device": "tpu"}, {"cc": (9, 0, 1)}])
def test_places_that_are_none(wrong):
    with pytest.raises(ArgumentError):
        told("x + 1", fd.spec(8), **wrong)


def test_faults_are_those_of_a_call():
    with pytest.raises(ShapeError):
        told("x + y", fd.spec(8), fd.spec(9))
    with pytest.raises(ArgumentError):
        told("x + y", fd.spec(8))


def test_nothing_to_launch():
    e = told("x + 1", fd.spec((0, 8)))
    assert (e.bytes, e.seconds) == (0, 0)
    assert "0 B" in str(e)


def test_an_argument_that_a_reshape_needs_contiguous():
    x = np.ones((64, 64), "float32")[:, :32]
    assert any("contiguous" in note for note in told("reshape(x, (-1,)) * 2", x).notes)


# -- source and compilers


def test_source_needs_no_compiler():
    k, x = fd.kernel("s = sum(x, axis=1); return softmax(x, axis=0) + s[:, None]"), fd.spec((64, 64))
    cuda, cpu = k.source(x), k.source(x, device="cpu")
    kernels = len(k.explain(x, compile=False).kernels)
    assert cuda.count("def kernel(") == cpu.count("def kernel(") == kernels
    assert "Tile(" in cuda and "Tile(" not in cpu
    assert k.source(np.ones((64, 64), "float32")) == cpu
    compile(cuda, "cuda.py", "exec")


def test_without_a_compiler_it_says_what_to_install(monkeypatch):
    def missing(*_):
        raise ModuleNotFoundError("No module named 'numba_cuda'", name="numba_cuda")

    monkeypatch.setattr("fusedsl.backends.cuda.compile.compile_source", missing)
    k, x = fd.kernel("x * 0.37285 - 1"), fd.spec((64, 64))
    with pytest.raises(CompileError, match="numba-cuda, which is not installed"):
        k.resources(x, cc=90)
    e = k.explain(x, cc=90)
    assert e.kernels[0].figures is None
    assert any("pip install 'fusedsl[cu13]'" in note for note in e.notes)


@needs_compiler
def test_real_registers_without_a_gpu():
    k, x = fd.kernel("g * sigmoid(g) * u"), fd.spec((4096, 4096))
    e = k.explain(x, x)
    figures = e.kernels[0].figures
    assert 8 <= figures.registers <= 64
    assert figures.spill_bytes == 0
    assert str(e).splitlines()[0].endswith(f"{figures.registers} registers")
    assert "no spills" in str(e)
    (row,) = k.resources(x, x)
    assert row.figures == figures
    assert 0 < row.figures.occupancy <= 1
    table = str(k.resources(x, x)).splitlines()
    assert table[0].split()[:2] == ["kernel", "registers"]
    assert str(figures.registers) in table[1]
    assert "<table>" in k.resources(x, x)._repr_html_()


def test_compile_ahead_makes_the_first_call_find_its_kernel(monkeypatch):
    from fusedsl.runtime import compile as compiler

    made: list[CompiledKernel] = []
    real = compiler._compile_cpu
    monkeypatch.setattr(compiler, "_compile_cpu", lambda *args: made.append(real(*args)) or made[-1])
    x = np.arange(12, dtype="float32").reshape(3, 4)
    k = fd.kernel("x * 7.625 + 3.25")
    assert k.compile(fd.spec((3, 4)), device="cpu") is k
    count = len(made)
    np.testing.assert_array_equal(k(x), x * np.float32(7.625) + np.float32(3.25))
    assert len(made) == count


def test_what_numpy_would_sort_faster_on_the_cpu_is_said():
    rows, matrix = fd.spec((20000, 50), "float64"), fd.spec((512, 512))
    (note,) = [n for n in fd.kernel("sort(x), argsort(x)").explain(rows, device="cpu").notes if "NumPy" in n]
    assert note.startswith("NumPy would be faster: about ") and note.endswith(" by the time model of CPUs")
    for text in (
        "sort(x)",
        "sort(x)[:, 500] * 2",
        "softmax(x)",
        "gelu(x)",
        "x @ x",
        "topk(x, 4)",
        "argsort(x)",
        "cumsum(x, 1)",
        "x[::-1] + roll(x, 1, 0)",
    ):
        assert not any("NumPy" in n for n in fd.kernel(text).explain(matrix, device="cpu").notes), text


def test_constants_stand_beside_the_arguments():
    told = fd.kernel("x / w", constants={"w": 20}).explain(fd.spec(8), device="cpu")
    assert told.arguments == ("x float32[8]", "w = 20")
