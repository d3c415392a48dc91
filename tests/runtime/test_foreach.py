"""`foreach`: lists of unequal shapes give what single calls give, in one launch, and refuse what has no meaning."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.errors import ArgumentError, DTypeError, ShapeError
from fusedsl.kernel_ir.batched_calls import BLOCK_WORDS, BatchedCalls, choose_batched_calls
from fusedsl.kernel_ir.parameter_layout import kernel_params
from fusedsl.runtime.batched_call import AddressRange, overlapping_ranges

SHAPES = [(3,), (4, 5), (1000,), (2, 3, 4), (0,), (7, 1), (1, 1), (33, 257), (1 << 16,)]
ADAMW = """
m2 = m + (g - m) * (1 - beta1)
v2 = beta2 * v + (1 - beta2) * g * g
p2 = p * (1 - lr * wd) - (lr / c1) * m2 / (sqrt(v2) / c2 + eps)
return p2, m2, v2, bfloat16(p2)
"""
RATES = {"beta1": 0.9, "beta2": 0.95, "lr": 1e-3, "wd": 0.1, "c1": 0.5, "c2": 0.7, "eps": 1e-8}


def lists(seed=0, shapes=SHAPES):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def to_torch(x):
    torch = pytest.importorskip("torch")
    return torch.from_numpy(np.ascontiguousarray(x)).cuda()


TARGETS = [
    pytest.param(lambda x: x, id="cpu"),
    pytest.param(lambda x: pytest.importorskip("cupy").asarray(x), id="cupy", marks=pytest.mark.gpu),
    pytest.param(to_torch, id="torch", marks=pytest.mark.gpu),
]


def home(x):
    return x if isinstance(x, np.ndarray) else x.get() if hasattr(x, "get") else x.float().cpu().numpy()


def same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(np.asarray(home(a), np.float64), b, rtol=1e-4, atol=1e-5)
        assert tuple(a.shape) == b.shape


@pytest.mark.parametrize("target", TARGETS)
def test_each_call_gives_what_the_kernel_gives(target):
    xs, ys = lists(), lists(1)
    for _ in range(2):  # prepared, then remembered
        found = fd.foreach("x * y + 1", [target(x) for x in xs], [target(y) for y in ys])
        same(found, [x * y + 1 for x, y in zip(xs, ys)])


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_are_shared_or_each_call_its_own(target):
    xs = [target(x) for x in lists()]
    scales = [float(k) for k in range(len(xs))]
    for shift in (1.0, 2.0):
        found = fd.foreach("a * x + b + size(x, 0)", a=scales, x=xs, b=shift)
        same(found, [a * x + shift + x.shape[0] for a, x in zip(scales, lists())])


@pytest.mark.parametrize("target", TARGETS)
def test_an_array_outside_of_a_list_is_for_all_calls(target):
    shapes = [(3, 64), (1, 64), (50, 64)]
    xs, bias = lists(0, shapes), lists(1, [(64,)])[0]
    found = fd.foreach("x + bias", [target(x) for x in xs], target(bias))
    same(found, [x + bias for x in xs])


@pytest.mark.parametrize("target", TARGETS)
def test_an_optimiser_writes_its_lists_in_place(target):
    p, m, v, g = (lists(k) for k in range(4))
    v = [np.abs(x) for x in v]
    expected = [fd.evaluate(ADAMW, {"p": a, "m": b, "v": c, "g": d, **RATES}) for a, b, c, d in zip(p, m, v, g)]
    given = [[target(x.copy()) for x in xs] for xs in (p, m, v, g)]
    step = fd.kernel(ADAMW)
    written = (given[0], given[1], given[2], None)
    results = fd.foreach(step, p=given[0], m=given[1], v=given[2], g=given[3], out=written, **RATES)
    assert all(a is b for one, other in zip(results[:3], written) for a, b in zip(one, other))
    for k, result in enumerate(results):
        same(result, [np.asarray(e[k], np.float32) for e in expected])
    again = fd.foreach(step, p=given[0], m=given[1], v=given[2], g=given[3], out=(*given[:3], results[3]), **RATES)
    assert again[3][0] is results[3][0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", ["softmax(x)", "x - mean(x)", "sum(x)", "cast = bfloat16(x); return cast * 2"])
def test_rows_and_programs_of_several_kernels(text, target):
    xs = lists(0, [(5, 64), (100, 1000), (3, 100), (2, 3, 128), (4, 20_000), (4, 20_001)])
    found = fd.foreach(text, [target(x) for x in xs])
    same(found, [np.asarray(fd.evaluate(text, x=x), np.float32) for x in xs])


@pytest.mark.parametrize("target", TARGETS)
def test_layouts_and_alignments_of_all_kinds(target):
    base = lists(0, [(64, 64)] * 6)
    views = [lambda x: x, lambda x: x.T, lambda x: x[1:, 1:], lambda x: x[:, ::2], lambda x: x[5], lambda x: x[:, 3]]
    found = fd.foreach("2 * x + 1", [view(target(x)) for view, x in zip(views, base)])
    same(found, [2 * view(x) + 1 for view, x in zip(views, base)])


@pytest.mark.parametrize("target", TARGETS)
def test_more_calls_than_a_table_holds(target):
    xs = lists(0, [(k % 97 + 1,) for k in range(1100)])
    same(fd.foreach("x + 1", [target(x) for x in xs]), [x + 1 for x in xs])


@pytest.mark.parametrize("target", TARGETS)
def test_functions_return_and_write_lists(target):
    @fd.fuse
    def both(x, k=1.0):
        return x * k, x + k

    @fd.fuse
    def grow(x, y):
        x += y

    xs = lists()
    scales = [float(k) for k in range(len(xs))]
    product, total = fd.foreach(both, [target(x) for x in xs], k=scales)
    same(product, [x * k for x, k in zip(xs, scales)])
    same(total, [x + k for x, k in zip(xs, scales)])
    grown = [target(x.copy()) for x in xs]
    for times in (1, 2):
        assert fd.foreach(grow, grown, [target(x) for x in xs]) is None
        same(grown, [x * (times + 1) for x in xs])


def test_functions_may_return_more_for_some_shapes():
    @fd.fuse
    def parts(x):
        return (x + 1, x + 2) if x.ndim == 2 else x

    pair, single = fd.foreach(parts, [np.ones((2, 2), np.float32), np.ones(3, np.float32)])
    assert len(pair) == 2 and single.shape == (3,)


def test_a_text_takes_options_and_verify_compares():
    xs = lists()
    same(fd.foreach("exp(x)", xs, verify=True), [np.exp(x) for x in xs])
    with pytest.raises(fd.FusionError):
        fd.foreach("x.T + sum(x, axis=0, keepdims=True) + sum(x)", xs[1:2], max_kernels=1)


def test_single_numbers_are_written_where_they_are():
    xs = lists()[:3]
    outs = [np.array(np.float32(0)) for _ in xs]
    for _ in range(3):
        assert fd.foreach("sum(x)", xs, out=outs)[0] is outs[0]
        same(outs, [x.sum() for x in xs])
        for out in outs:
            out[...] = 0


# -- what is refused


def refused(error, code, *args, **named):
    with pytest.raises(error) as caught:
        fd.foreach(*args, **named)
    assert caught.value.code == code
    return str(caught.value)


def test_lists_have_one_length():
    xs = lists()
    assert "x has 9 elements and y has 2" in refused(ArgumentError, "argument.length", "x + y", xs, xs[:2])
    refused(ArgumentError, "argument.length", "x * 2", xs, out=xs[:2])
    refused(ArgumentError, "argument.list", "x * 2", xs[0])
    refused(ArgumentError, "argument.kernel", len, xs)
    refused(ArgumentError, "argument.missing", fd.kernel("x + y"), xs)
    refused(ArgumentError, "argument.out", "x * 2", xs, out=xs[0])
    refused(ArgumentError, "argument.out", "x * 2, x", xs, out=(xs, xs[0]))


def test_lists_of_nothing_give_nothing():
    empty: list = []
    assert fd.foreach("x * 2", empty) == [] == fd.foreach("x + w", empty, w=2.0)
    assert fd.foreach("x * 2, x", []) == ([], []) and fd.foreach(fd.fuse(lambda x: x + 1), []) == []
    assert fd.foreach("x * 2", [], out=empty) is empty
    refused(ArgumentError, "argument.length", "x + y", [], lists())


def test_iterators_and_views_of_dicts_are_lists():
    xs = {str(k): np.full(k, 2.0) for k in range(1, 4)}
    for given in (xs.values(), (x for x in xs.values()), map(np.copy, xs.values())):
        assert [y.tolist() for y in fd.foreach("2 * p", given)] == [[4.0] * k for k in range(1, 4)]
    assert "list(d.values())" in refused(ArgumentError, "argument.list", "2 * p", xs)


def test_elements_of_any_kind_and_integers_that_shape_calls():
    found = fd.foreach("x[w:]", [np.arange(3.0), [1, 2, 3, 4]], w=[1, 3])
    assert [y.tolist() for y in found] == [[1, 2], [4]]
    xs = [np.arange(float(n)) for n in (3, 5)]
    assert [y.size for y in fd.foreach("x[w:]", xs, w=1)] == [2, 4]


def test_errors_name_the_place_in_the_lists():
    xs = lists()
    assert "x[1] is a str" in refused(ArgumentError, "argument.type", "x * 2", [xs[0], "a"])
    assert "place 1" in refused(ShapeError, "shape.broadcast", "x + y", xs[:2], [xs[0], xs[0]])
    assert "out[1] has shape" in refused(ArgumentError, "argument.out", "x * 2", xs[:2], out=[None, xs[0]])
    assert "out[0] holds float64" in refused(
        ArgumentError, "argument.out", "x * 2", xs[:1], out=[xs[0].astype(np.float64)]
    )
    assert "y[1]" in refused(DTypeError, "dtype.unknown", "x + y", xs[:2], [xs[0], xs[1].astype(complex)])


def test_no_call_writes_what_another_one_uses():
    x = np.arange(20, dtype=np.float32)
    kept = x.copy()
    halves = [x[:10], x[10:]]
    assert "out[1] overlaps y[0]" in refused(ArgumentError, "argument.overlap", "y * 2", halves, out=halves[::-1])
    refused(ArgumentError, "argument.overlap", "y * 2", [x[:10], x[5:15]], out=[x[:10], None])
    refused(ArgumentError, "argument.overlap", "y * 2", halves, out=[kept[:10], kept[5:15]])
    refused(ArgumentError, "argument.overlap", "y * s", halves, s=x[:1], out=halves)
    np.testing.assert_array_equal(x, kept)
    fd.foreach("y * 2", halves, out=halves)
    columns = [np.ones((10, 2), np.float32).T[k] for k in range(2)]
    fd.foreach("y * 2", columns, out=columns)
    np.testing.assert_array_equal(x, kept * 2)


def test_a_remembered_call_looks_at_overlaps_again():
    x = np.zeros(64, np.float32)
    apart = [x[:16], x[16:32]], [x[32:48], x[48:64]]
    fd.foreach("y + 1", apart[0], out=apart[1])
    with pytest.raises(ArgumentError):
        fd.foreach("y + 1", [x[:16], x[32:48]], out=[x[32:48], x[48:64]])
    np.testing.assert_array_equal(x[48:], 1)
    readonly = x[48:64].copy()
    readonly.flags.writeable = False
    with pytest.raises(ArgumentError):
        fd.foreach("y + 1", apart[0], out=[apart[1][0], readonly])


# -- tables


@pytest.mark.parametrize("words", BLOCK_WORDS)
@pytest.mark.parametrize("each", [(8, 1, (), (0, 1)), (2, 5, (0, 2), (1,)), (1, 1, (), ()), (30, 40, (0,), ())])
def test_nothing_in_a_table_stands_twice(words, each):
    table = BatchedCalls(words, *each)
    taken = np.zeros(2 * words, int)
    for call in range(table.capacity):
        for first, count in (
            (call * table.pointers, table.pointers),
            (table.fixed_at + call * table.fixed, table.fixed),
            (table.own_at(call), len(table.own)),
        ):
            taken[2 * first : 2 * (first + count)] += 1
        taken[2 * table.starts_at + call] += 1
    taken[2 * table.count_at : 2 * table.count_at + 2] += 1
    taken[2 * table.shared_at :] += 1
    assert table.capacity > 0
    assert taken.max() == 1
    assert BatchedCalls(words, *each).capacity == choose_batched_calls(table.capacity, *each, words).capacity


def test_a_table_is_as_small_as_its_calls_allow():
    assert choose_batched_calls(4, 8, 1, (), (0,), 4095).words == BLOCK_WORDS[0]
    assert choose_batched_calls(100, 8, 1, (), (0,), 4095).words == BLOCK_WORDS[2]
    assert choose_batched_calls(100, 8, 1, (), (0,), 511).words == BLOCK_WORDS[1]  # then there are several launches


def test_clashes_are_pairs_with_an_output():
    a, b = AddressRange(0, 10, 0, False), AddressRange(5, 15, 1, False)
    out, empty = AddressRange(9, 12, 0, True), AddressRange(9, 9, 1, True)
    assert list(overlapping_ranges([a, b, empty])) == []
    assert {(one.index, one.output) for pair in overlapping_ranges([a, b, out]) for one in pair} == {
        (0, False),
        (1, False),
        (0, True),
    }


# -- the kernel, without a card


def table_kernel(text=ADAMW, calls=100, largest=4095):
    """(the plan, the scheduled kernel over a table) of an optimiser step."""
    from fusedsl.hardware import hardware_facts
    from fusedsl.program.call_target import CallTarget
    from fusedsl.program.resolve_call import resolve
    from fusedsl.runtime import compile as compiler
    from fusedsl.runtime.arrays import describe_all
    from fusedsl.runtime.batched_call import parameter_table

    kernel = fd.kernel(text)
    values = {n: np.ones(1000, np.float32) if n in "pmvgx" else 0.5 for n in kernel.params}
    settled = resolve(kernel._program.plans, describe_all(kernel.params, values.values()), CallTarget())
    plan = settled.plan.kernels[0]
    (bound,) = settled.bounds
    one, schedule = compiler.scheduled_cuda(bound, hardware_facts((9, 0)))
    shared = {k for k, n in enumerate(kernel.params) if n not in "pmvgx"}
    table = parameter_table(plan, one, calls, shared, largest)
    return plan, dataclasses.replace(one, is_subkernel=True, batched=table), schedule


def test_a_table_kernel_reads_its_slots_in_place(tmp_path):
    pytest.importorskip("numba_cuda")
    from fusedsl.backends.cuda.compile import compile_source, generate, ptx

    _, kernel, schedule = table_kernel()
    source = generate(kernel, schedule)
    path = tmp_path / "generated.py"
    path.write_text(source)
    text = ptx(source, str(path), kernel, schedule, (9, 0))
    assert f"param_0[{8 * kernel.batched.words}]" in text
    assert "ld.param.b64" in text
    assert text.count("ld.global.L2::cache_hint.v4") >= 4
    assert ".local" not in text
    assert compile_source(source, str(path), kernel, schedule, (9, 0)).spill_bytes == 0


def test_tables_hold_a_hundred_tensors_of_an_optimiser():
    _, kernel, _ = table_kernel()
    assert kernel.batched.capacity >= 400
    assert kernel.batched.shared == tuple(range(7))
    assert kernel.batched.words_per_call == len([s for s in kernel_params(kernel) if s.kind != "scalar"])


# -- on a card


@pytest.mark.gpu
def test_one_launch_for_all_and_graphs_capture_it(monkeypatch):
    torch = pytest.importorskip("torch")
    from fusedsl.runtime.batched_call import BatchedCall

    xs = [torch.full((k % 50 + 1, 8), float(k), device="cuda") for k in range(200)]
    outs = [torch.empty_like(x) for x in xs]
    made = []
    first = BatchedCall.__init__
    monkeypatch.setattr(BatchedCall, "__init__", lambda self, *a, **n: (first(self, *a, **n), made.append(self))[0])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        fd.foreach("x + 1", xs, out=outs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            fd.foreach("x + 1", xs, out=outs)
    assert [len(call.launches) for call in made] == [1]
    for x in xs:
        x *= 2
    graph.replay()
    torch.cuda.synchronize()
    assert all((out == 2 * k + 1).all() for k, out in enumerate(outs))


@pytest.mark.gpu
def test_places_that_differ_are_refused():
    torch = pytest.importorskip("torch")
    x = torch.ones(4, device="cuda")
    refused(fd.DeviceError, "device.mixed", "x * 2", [x, np.ones(4, np.float32)])
