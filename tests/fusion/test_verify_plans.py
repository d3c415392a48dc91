"""The verifier in planning: plans that were not well formed, what users see of such a fault, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import graph_of
from planted_partitions import PARTITIONS

import fusedsl as fd
from fusedsl.fusion import partition_graph
from fusedsl.fusion.formulation import AttentionMode, Formulation
from fusedsl.fusion.lower import lower
from fusedsl.fusion.scalar_program import ReadableArrays
from fusedsl.fusion.segments import segments
from fusedsl.fusion.verify import verify_scalar_program
from fusedsl.ir import differential_test
from fusedsl.ir.checks import holds
from fusedsl.ir.dims import Symbol
from fusedsl.ir.interp import extents_of, interpret
from fusedsl.ir.sample_extents import Samples, sampled
from fusedsl.ir.verify import VerifyError
from fusedsl.rewrite.engine import rewrite
from fusedsl.runtime.arrays import describe_all

SQUARE, HALF = np.ones((7, 7), np.float32), np.ones((7, 7), np.float16)
# plans that were not well formed: each with what was wrong
REJECTED = {
    "row values of a factor that is stored": (  # the factor's kernel read a temporary that nothing wrote
        "a = a - logsumexp(a, 0, keepdims=True); softmax(c @ a) @ a",
        {"a": SQUARE, "c": SQUARE},
    ),
    "float16 weighed in float64": ("relu(a @ f) @ f", {"a": np.ones((7, 7)), "f": HALF}),  # operands had two dtypes
}


def plan(text: str, values: dict, attention=AttentionMode.TILE_MAX, **options):
    kernel = fd.kernel(text, **options)
    arguments = [values[n] for n in kernel.params]
    facts = list(describe_all(kernel.params, arguments).values())
    return kernel._program.plans.plan(facts, extents_of(arguments), Formulation(attention=attention))


@pytest.mark.parametrize("mode", AttentionMode)
@pytest.mark.parametrize("name", REJECTED)
def test_plans_are_well_formed(name, mode):
    text, values = REJECTED[name]
    plan(text, values, mode, verify=True)


@pytest.fixture
def faulty(monkeypatch):
    """Planning forgets to store a result."""
    (fault,) = [m for m in PARTITIONS if m.name == "a result that is not stored"]
    real = partition_graph.concatenate
    monkeypatch.setattr(partition_graph, "concatenate", lambda *given: fault.change(real(*given)))


def test_a_plan_that_is_not_well_formed_is_not_run(faulty):
    x = np.arange(12.0).reshape(3, 4)
    with pytest.raises(fd.CompileError, match="the partition is not well formed: every result and") as error:
        fd.evaluate("x * 2", x=x, verify=True, fallback=False)
    assert error.value.code == "compile.verify" and "report" in error.value.help


def test_a_program_whose_plan_is_not_well_formed_is_interpreted(faulty):
    x = np.arange(12.0).reshape(3, 4)
    with pytest.warns(RuntimeWarning, match="computed by the slow interpreter: .*not well formed"):
        got = fd.evaluate("x * 2", x=x, verify=True)
    np.testing.assert_array_equal(got, x * 2)


def test_no_plan_is_verified_unless_asked(faulty, monkeypatch):
    monkeypatch.setenv("FUSEDSL_VERIFY", "0")
    assert len(plan("x * 3", {"x": SQUARE}).kernels) == 1


# -- what a program is compared at


def test_extents_pass_the_checks_and_tell_axes_apart():
    text = "reshape(x @ y, (-1, 4)) + z[:2]"
    graph, _ = graph_of(text, {"x": np.ones((4, 6)), "y": np.ones((6, 8)), "z": np.ones((8, 1))[:, :1]})
    samples = sampled(graph.parameters, graph.checks)
    assert len(samples.extents) == 2 and samples.small is samples.extents[0]
    for extents in samples.extents:
        assert all(holds(check, extents) for check in graph.checks)
        assert len({extents[Symbol(0, 0)], extents[Symbol(0, 1)], extents[Symbol(1, 1)]}) == 3
        assert extents[Symbol(0, 1)] == extents[Symbol(1, 0)]


def test_extents_grow_from_axis_to_axis_and_the_other_way_round():
    graph, _ = graph_of("x[:, :, None] * y", {"x": np.ones((4, 6)), "y": np.ones(8)})
    rising, falling = sampled(graph.parameters, graph.checks).extents
    assert list(rising.values()) == sorted(rising.values()) and list(falling.values()) == sorted(falling.values())[::-1]


def test_extents_of_the_call_do_where_no_others_are_found():
    graph, arguments = graph_of("reshape(x, (1009, 1013)) + 0", {"x": np.ones((1009, 1013), np.float32)})
    assert sampled(graph.parameters, graph.checks).extents == ()
    given = extents_of(arguments)
    assert sampled(graph.parameters, graph.checks, {}, given).small == given


def verified(text: str, values: dict, samples: Samples | None = None) -> str:
    """Why the lowered program of a text is not compared with its graph."""
    graph, _ = graph_of(text, values)
    graph = rewrite(graph)
    at = sampled(graph.parameters, graph.checks) if samples is None else samples
    return verify_scalar_program(lower(graph), segments(graph, ())[0], ReadableArrays(len(graph.parameters)), at)


def test_what_is_left_out_is_told(monkeypatch):
    x = {"x": SQUARE}
    assert verified("x @ x", x) == ""
    assert verified("x @ x", x, Samples()) == "no small extents pass the checks"
    assert "elements" in verified("broadcast_to(x[0, 0], (4000, 4000)) + 1", x)
    monkeypatch.setattr(differential_test, "MOST_NODES", 3)
    assert "scalars" in verified("exp(x) + x * 2", x)


# programs whose values are close to one another, not finite, or out of range: rounding is no fault
CLOSE = {
    "nothing but rounding": "sum(x - mean(x, -1, keepdims=True), -1)",
    "comparisons of what is equal": "sum(x, 0) == sum(x.T, 1), argmax(x @ y, axis=0)",
    "steps": "floor(sum(x * 8, -1) / 8), sign(sum(x, -1) - sum(x[:, ::-1], -1))",
    "logarithms of negative numbers": "log(x) @ y, softmax(log(x))",
    "infinite scores": "softmax(where(x > 0, x, -inf)), max(x / 0, axis=-1)",
    "indices out of range": "x[k], take(y, k * 3, axis=1), where(k >= 0, x[k, 0], 0)",
    "large powers": "exp(exp(x * 4)), prod(x * 100, axis=-1)",
    "narrow floats": "h = float16(x); h @ h.T + bfloat16(y) @ y.T, float8_e4m3fn(x * 2)",
    "sorted ties": "sort(floor(x)), argsort(floor(y), descending=True)",
    "views of nothing": "var(x[3:], axis=1), sum(softmax(x[3:]), axis=0), cumsum(x[3:], axis=1)",
    "wrapping integers": "uint8(x * 30) * uint8(y * 20), k << k, k ** 5 // (k - 1)",
}


@pytest.mark.parametrize("name", CLOSE)
def test_rounding_is_no_fault(name):
    values = {"x": np.ones((6, 6), np.float32), "y": np.ones((6, 6), np.float32), "k": np.ones(6, np.int64)}
    assert verified(CLOSE[name], values) == ""
    plan(CLOSE[name], {n: v for n, v in values.items() if n in CLOSE[name]}, verify=True)


def test_indices_are_as_a_segment_is_promised():
    """A temporary of indices holds any numbers where a segment alone is compared with its graph."""
    kernel = fd.kernel("t = reshape(a, -1); int64(b), pad(t - tanh(t), 1, mode='reflect')", verify=True, fallback=False)
    kernel.explain(np.array(3, np.int16), np.array(7, np.int16), device="cuda", compile=False)


@pytest.mark.parametrize(("text", "differs"), [("x * 3e38 * x", False), ("log(x - x)", True), ("x - x + inf", True)])
def test_after_an_overflow_a_nan_is_no_fault(text, differs):
    """Orders of operations differ; what is infinite by its meaning stays so."""
    x = np.ones((4, 4), np.float32)
    graph, _ = graph_of(text, {"x": x})
    given = extents_of([x])

    def run(extents, arrays, arguments):
        with np.errstate(all="ignore"):
            return [np.where(np.isfinite(r), r, np.nan) for r in interpret(graph, arguments)]

    if differs:
        with pytest.raises(VerifyError, match="nan"):
            differential_test.compare(graph, (), given, run, 3)
    else:
        assert differential_test.compare(graph, (), given, run, 3) == ""


def test_a_temporary_may_hold_what_overflows_in_the_dtype_of_its_graph():
    def stacked(x, h):
        return np.array([(6e6 / np.sqrt(1 - x) + h) * np.cos(x), x])

    x = np.linspace(0.1, 0.3, 6).astype(np.float16)
    found = fd.fuse(stacked, verify=True, fallback=False)(x, x)
    assert np.isinf(found[0]).all()
    np.testing.assert_array_equal(found[1], x)
