"""Programs of several products that people write are right as texts and as functions, at extents that coincide and at
others, in float64 and float32."""

from __future__ import annotations

import numpy as np
import pytest
from bounds import evaluate
from fused import traced_graph
from perturbed import deviations
from product_list import PROGRAMS
from product_programs import DIFFERENT, PAIRED, SIZES, Program, coinciding
from product_torch import FUNCTIONS

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.arrays import describe_all

DTYPES = {"float64": np.float64, "float32": np.float32}
KINDS = [(form, dtype) for form in ("text", "function") for dtype in DTYPES]


def cases(form: str):
    """Every program in every dtype; each has one form and dtype, in turn, that is not left to the slow run."""
    for k, program in enumerate(PROGRAMS):
        for dtype, own in DTYPES.items():
            marks = () if KINDS[k % len(KINDS)] == (form, dtype) else (pytest.mark.slow,)
            yield pytest.param(program, own, id=f"{program.name}, {dtype}", marks=marks)


EXTENTS = {"all different": DIFFERENT, "some alike": PAIRED} | {f"all {n}": coinciding(n) for n in SIZES}
LARGEST = 300_000  # elements of an argument: those of three axes are not as long
TIGHT, MOST = 1e-3, 0.98  # what a derived bound says enough of: this share of a result's size, for most elements


def graph_of(kernel, values):
    """The graph of a call, and its arguments."""
    arguments = [values[n] for n in kernel.params]
    return kernel._program.plans.graph(describe_all(kernel.params, arguments)), arguments


@pytest.mark.sampled(2)
@pytest.mark.parametrize("program, dtype", list(cases("text")))
def test_a_text_of_products(program, dtype):
    kernel = fd.kernel(program.text, fallback=False)
    hold(program, dtype, lambda values: kernel(**values), lambda values: graph_of(kernel, values))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("program, dtype", list(cases("function")))
def test_a_function_of_products(program, dtype):
    function = fd.fuse(program.function)

    def given(values):
        return traced_graph(program.function, values.values())

    hold(program, dtype, lambda values: function(*values.values()), given)


@pytest.mark.parametrize("function, arrays", [pytest.param(*f, id=f[0].__name__) for f in FUNCTIONS])
def test_a_function_of_torch(function, arrays):
    """Beside torch itself; float64 leaves wrong plans no room."""
    torch = pytest.importorskip("torch")
    program, fused = Program(function.__name__, arrays, "", function), fd.fuse(function)
    for extents in (DIFFERENT, PAIRED | {"d": 8}, coinciding(16), coinciding(40)):
        tensors = [torch.from_numpy(v) for v in program.values(extents, np.float64).values()]
        for one, right in zip(*(t if isinstance(t, tuple) else (t,) for t in (fused(*tensors), function(*tensors)))):
            assert one.shape == right.shape
            np.testing.assert_allclose(one.numpy(), right.numpy(), 0, 1e-9 * float(right.abs().max()))


EMULATED = {"all different": DIFFERENT, "all 16": coinciding(16)}


@pytest.mark.slow
@pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in PROGRAMS])
def test_a_text_on_an_emulated_gpu(program):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    kernel = fd.kernel(program.text, fallback=False)
    with emulated_gpu(multiprocessors=4) as gpu:

        def run(values):
            found = kernel(**{n: gpu.asarray(v) for n, v in values.items()})
            return tuple(map(to_host, found)) if isinstance(found, tuple) else to_host(found)

        hold(program, np.float32, run, lambda values: graph_of(kernel, values), EMULATED)


def hold(program: Program, dtype: type, run, given, sizes=EXTENTS) -> None:
    """Raise where a result is wrong at some of the extents; the error says at which."""
    faults = []
    for name, extents in sizes.items():
        values = program.values(extents, dtype)
        if max(v.size for v in values.values()) > LARGEST:
            continue
        try:
            _hold(program, values, dtype, run, given)
        except Exception as fault:
            faults.append(f"{name}: {type(fault).__name__}: {fault}")
    assert not faults, "\n".join(faults)


def _hold(program: Program, values: dict[str, np.ndarray], dtype: type, run, given) -> None:
    got = run(values)
    want = program.function(*(v.astype(np.float64) for v in values.values()))
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    graph, arguments = given(values)
    derived = evaluate(graph, arguments)
    assert len(got) == len(want) == len(derived)
    allowed = None
    for k, (one, right, (value, bound)) in enumerate(zip(got, want, derived)):
        assert np.shape(one) == np.shape(right)
        assert one.dtype == dtype or right.dtype.kind != "f"
        size = np.abs(right).max(initial=1e-30)
        assert np.abs(value - right).max(initial=0) <= 1e-6 * size, "the program means something else"
        if (bound <= TIGHT * size).mean() < MOST:
            allowed = deviations(graph, arguments) if allowed is None else allowed
            bound = np.minimum(bound, allowed[k])
            assert allowed[k] <= 0.05 * size, f"result {k} is ill-conditioned: {allowed[k]} of {size}"
        error = np.abs(one.astype(np.float64) - value)
        assert (error <= bound).all(), f"result {k} is off by {error.max()} of {size}, bound {np.max(bound)}"
