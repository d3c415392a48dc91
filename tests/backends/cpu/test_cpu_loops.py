"""The inner loops of the CPU target: which are interleaved, and which look at their arguments first."""

from __future__ import annotations

import re

import numpy as np
import pytest
from llvmlite import ir

import fusedsl as fd
from fusedsl.backends.cpu import common_arguments, compiler, interleave
from fusedsl.backends.cpu.interleave import innermost
from fusedsl.lru import LRU
from fusedsl.program import text_source as text
from fusedsl.runtime import cache, compile


def lowered(text: str, monkeypatch, **given):
    """The modules of a text's kernels as they are given to LLVM, and as it optimises them."""
    modules, optimised = [], []
    original = compiler.optimise

    def optimise(parts, *target):
        modules.extend(parts)
        optimised.append(str(original(parts, *target)))
        return original(parts, *target)

    monkeypatch.setattr(compiler, "optimise", optimise)
    fd.kernel(text, fallback=False)(**given)
    return modules, "\n".join(optimised)


def counts(modules) -> list[str]:
    """Of each innermost loop, how many iterations are to alternate; "" where LLVM decides."""
    marked = []
    for module in modules:
        for function in module.functions:
            for latch, _ in innermost(function):
                identity = latch.terminator.metadata.get("llvm.loop")
                marked.append(str(identity.operands[0].operands[1].constant) if identity else "")
    return marked


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """Kernels are compiled, whatever has been compiled before."""
    own = cache.Cache(tmp_path)
    for module in (compile, cache, text):
        monkeypatch.setattr(module, "disk", lambda: own)
    monkeypatch.setattr(compile, "_compiled_kernels", LRU(lambda: 1000))
    return monkeypatch


def test_iterations_of_chains_alternate(fresh):
    modules, text = lowered("tanh(log(exp(x) + y))", fresh, x=np.ones(77), y=np.ones(77))
    assert counts(modules) == ["8"]
    assert text.count("fdiv contract <") >= 16  # those of log and tanh


def test_fewer_alternate_where_an_element_has_independent_parts(fresh):
    assert counts(lowered("erf(x) + exp(y) * log(z)", fresh, **{n: np.ones(77) for n in "xyz"})[0]) == ["4"]


def test_short_loops_are_left_to_llvm(fresh):
    assert counts(lowered("x * y + 3", fresh, x=np.ones(77), y=np.ones(77))[0]) == [""]


def test_longer_loops_alternate_less_and_the_longest_not_at_all(fresh):
    chain = "+".join(f"exp(x*0.{k})" for k in range(10, 25))
    assert counts(lowered(chain, fresh, x=np.ones(77))[0]) == ["2"]
    chain = "+".join(f"exp(x*0.{k})" for k in range(10, 60))
    assert counts(lowered(chain, fresh, x=np.ones(77))[0]) == [""]


def test_each_loop_of_a_row_kernel_is_judged_alone(fresh):
    marked = counts(lowered("softmax(x)", fresh, x=np.ones((7, 77), np.float32))[0])
    assert "4" in marked and marked.count("") > marked.count("4")


ONE = "exp exp2 expm1 log log2 log10 log1p arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh cbrt erf erfc"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_are_vectors_without_calls(dtype, fresh):
    x = np.linspace(0.1, 0.9, 77).astype(dtype)
    texts = [f"{name}(x)" for name in ONE.split()]
    texts += ["x ** y", "x ** 0.3", "x ** 2.5", "x ** -1.5", "hypot(x, y)", "arctan2(x, y)"]
    for k in range(0, len(texts), 8):
        _, text = lowered(", ".join(texts[k : k + 8]), fresh, **{n: x for n in "xy" if n in "".join(texts[k : k + 8])})
        assert f"x {'float' if dtype == 'float32' else 'double'}>" in text
        called = {name for name in re.findall(r"call .* @\"?([\w.]+)", text) if not name.startswith("llvm.")}
        assert not called


def test_remainders_call_the_c_library_for_rare_quotients_alone(fresh):
    _, text = lowered("fmod(x, y)", fresh, x=np.ones(77), y=np.ones(77))
    assert re.search(r"frem|@fmod", text) and "llvm.trunc.v" in text


BODY = ["a_0 = load0(a0, i)", "b_0 = {line}", "store1(a1, i, b_0)"]


def looks(line: str) -> str:
    """What a loop with this line asks of arguments; x_0 and s_0 are loaded."""
    lines = common_arguments.loop([part.format(line=line) for part in BODY], {"x_0", "s_0"})
    return "\n".join(text.strip() for text in lines if "far |" in text)


def test_powers_of_what_is_loaded_are_looked_at():
    assert looks("power(x_0, s_0)  # x ** s") == "far = far | power_beyond(x_0, s_0)"
    assert looks("power(x_0, float32(0.45))") == "far = far | power_beyond(x_0, float32(0.45))"
    assert looks("power(float64(2.0), x_0)") == "far = far | power_beyond(float64(2.0), x_0)"


def test_powers_of_what_is_computed_and_of_integers_are_not():
    assert looks("power(b_0, s_0)") == looks("power(x_0, exp_1)") == looks("power(x_0, int32(3))") == ""


def test_angles_are_looked_at_wherever_they_come_from():
    assert looks("sin(b_0) + cos(x_0)") == "far = far | beyond(b_0)\nfar = far | beyond(x_0)"


@pytest.mark.parametrize("size", [1, 255, 256, 257, 700, 16384 + 300])
def test_blocks_cover_every_element(size):
    x = np.linspace(0.1, 9, size)
    y = np.linspace(-3, 3, size)
    x[size // 2 :: 1000] = -1.0  # these blocks take the general form
    with np.errstate(invalid="ignore"):
        expected = x**y, np.sin(y)
    for result, wanted in zip(fd.evaluate("x**y, sin(y)", x=x, y=y, fallback=False), expected):
        np.testing.assert_allclose(result, wanted, 1e-14)


# ---- loops of reductions


def test_a_loop_of_a_reduction_looks_at_its_arguments_and_at_nothing_that_it_carries():
    lines = [
        "x_0 = load0(c0, j)",
        "y_0 = x_0 * s_0",
        "sin_0 = sin(y_0)",
        "store1(c1, j, sin_0)",
        "sum_0 = sum_0 + sin_0",
    ]
    look, near = "x_0 = load0(c0, j) | y_0 = x_0 * s_0 | far = far | beyond(y_0)", lines[2].replace("sin(", "sin_near(")
    loop = [line.strip() for line in common_arguments.short_loop(lines, {"x_0"}, "j", "0", "count")]
    assert " | ".join(loop[2 : loop.index("if far:")]) == look
    assert loop.index(lines[2]) < loop.index("else:") < loop.index(near)
    assert loop.count("sum_0 = sum_0 + sin_0") == 2
    assert common_arguments.short_loop(lines[:2], {"x_0"}, "j", "first", "end")[0] == "for j in range(first, end):"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sum(sin(x), axis=1), max(x, axis=1)", lambda x: (np.sin(x).sum(1), x.max(1))),
        ("max(cos(x), axis=1)", lambda x: (np.cos(x).max(1),)),
        ("sum(sin(x) * cos(x), axis=0)", lambda x: ((np.sin(x) * np.cos(x)).sum(0),)),
        ("sin(x) / sum(abs(x) ** 1.7, axis=1, keepdims=True)",
         lambda x: (np.sin(x) / (np.abs(x) ** 1.7).sum(1, keepdims=True),)),
        ("sum(fmod(x, 0.7), axis=1)", lambda x: (np.fmod(x, 0.7).sum(1),)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("columns", [7, 70, 2100])
def test_reductions_of_near_and_far_arguments(text, wanted, columns):
    x = np.random.default_rng(columns).standard_normal((9, columns)) * 3
    x[1::4, ::3] *= 1e8
    x[5, -1] = 0
    results = fd.evaluate(text, x=x, fallback=False)
    for result, right in zip(results if isinstance(results, tuple) else (results,), wanted(x), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-12, atol=1e-10 * np.abs(right).max())


def test_chains_of_gathers_are_interleaved():
    """A binary search reads where it has read before; a gather at indices in memory waits for nothing."""
    x = np.random.default_rng(1).standard_normal(3000, dtype=np.float32)
    edges = np.sort(x[:1000])
    search = fd.fuse(lambda edges, x: np.searchsorted(edges, x))
    assert np.array_equal(search(edges, x), np.searchsorted(edges, x))
    module = ir.Module()
    kind, word = ir.FloatType().as_pointer(), ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(word, [word]), "chain")
    builder = ir.IRBuilder(function.append_basic_block())
    at = function.args[0]
    for number in range(1, 5):
        loaded = builder.load(builder.inttoptr(at, kind), typ=ir.FloatType())
        instructions = list(builder.block.instructions)
        assert interleave.gather_chain(instructions) == number
        expected = interleave.CHAINED_COUNT if number >= interleave.GATHER_CHAIN else 1
        assert interleave.interleave_count(instructions) == expected
        at = builder.fptosi(loaded, word)


@pytest.mark.parametrize("arrays, count", [(8, 8), (16, 4), (40, 2)])
def test_loops_over_many_arrays_are_interleaved_less(arrays, count):
    module = ir.Module()
    kind = ir.FloatType()
    function = ir.Function(module, ir.FunctionType(kind, [kind.as_pointer()]), "sum")
    builder = ir.IRBuilder(function.append_basic_block())
    value = kind(0)
    for _ in range(40):
        value = builder.fdiv(kind(1), value)
    for _ in range(arrays):
        loaded = builder.load(function.args[0], typ=kind)
        loaded.set_metadata("alias.scope", module.add_metadata([]))
    assert interleave.interleave_count(list(builder.block.instructions)) == count


def test_loops_around_others_are_not_unrolled_at_run_time(fresh, monkeypatch):
    x = np.random.default_rng(0).standard_normal((24, 24))
    modules, _ = lowered("x @ x", monkeypatch, x=x)
    function = next(f for f in modules[0].functions if f.name == "kernel")
    within = [latch for latch, _ in innermost(function)]
    around = interleave.outer_latches(function, within)
    marks = [latch.terminator.metadata["llvm.loop"].operands[0].operands[0].string for latch in around]
    assert len(marks) > 2 and set(marks) == {"llvm.loop.unroll.runtime.disable"}


@pytest.mark.parametrize("device, kernels", [("cpu", 2), ("cuda", 1)])
def test_a_kernel_has_as_many_products_as_its_compiler_is_quick_with(device, kernels):
    x = fd.spec((24, 24))
    text = ", ".join(f"x @ (x + {k})" for k in range(8))
    assert len(fd.kernel(text).explain(x, device=device, compile=False).kernels) == kernels
