"""Arrays wherever their elements lie: any strides, offsets and alignment in and out, and beyond 2^31 elements."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from numpy.lib.stride_tricks import as_strided

import fusedsl as fd
from fusedsl.hardware import hardware_facts
from fusedsl.ir.dims import Symbol
from fusedsl.kernel_ir.memory_access import INDEX64_FROM
from fusedsl.runtime.array_protocols import packed_strides
from fusedsl.runtime.arrays import describe_all
from fusedsl.runtime.bind_shapes import bind_kernel
from fusedsl.runtime.compile import scheduled_cuda
from fusedsl.runtime.layout import ArrayLayout

SHAPE = (3, 4, 5)
MANY = "2*x + y, sum(softmax(x) * y, axis=1), x[:, ::-1].T"


def written(view: np.ndarray, values: np.ndarray) -> np.ndarray:
    view[...] = values
    return view


def layouts(values: np.ndarray) -> dict[str, np.ndarray]:
    """The same values, laid out in every way that NumPy has."""
    (a, b, c), d = values.shape, values.dtype
    odd_record = np.zeros(values.shape, [("a", "i1"), ("f", d), ("b", "i2")])
    record = np.zeros(values.shape, np.dtype([("a", "i8"), ("f", d), ("g", d)], align=True))
    behind = np.zeros(values.nbytes + 64, np.uint8)
    constant = values.copy()
    constant.flags.writeable = False
    return {
        "C": values.copy(),
        "F": np.asfortranarray(values),
        "stepped": written(np.zeros((2 * a, 3 * b, 2 * c), d)[::2, ::3, 1::2], values),
        "negative": written(np.zeros(values.shape, d)[::-1, ::-1, ::-1], values),
        "negative steps": written(np.zeros((a, b, 2 * c), d)[:, ::-1, ::-2], values),
        "permuted": written(np.zeros((c, a, b), d).transpose(1, 2, 0), values),
        "permuted, negative": written(np.zeros((b, c, a), d).transpose(2, 0, 1)[:, ::-1], values),
        "offset": written(np.zeros(values.size + 7, d)[3:][: values.size].reshape(values.shape), values),
        "misaligned": written(behind[1:][: values.nbytes].view(d).reshape(values.shape), values),
        "odd strides": written(odd_record["f"], values),
        "records": written(record["g"], values),
        "read-only": constant,
        "big-endian": values.astype(d.newbyteorder(">")),
        "zero strides": np.broadcast_to(values[:, :1, :1], values.shape),
        "one element": np.broadcast_to(values[0, 0, 0], values.shape),
        "overlapping": as_strided(values.ravel(), values.shape, (2 * d.itemsize, 3 * d.itemsize, d.itemsize)),
    }


NAMES = list(layouts(np.zeros(SHAPE, np.float32)))
VALUES = np.random.default_rng(0).standard_normal((2, *SHAPE)).astype(np.float32)
KERNEL = fd.kernel(MANY)


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_may_lie_in_any_way(name):
    x = layouts(VALUES[0])[name]
    y = layouts(VALUES[1])[NAMES[NAMES.index(name) - 1]]
    before = x.copy(), y.copy()
    native = {k: np.array(v, v.dtype.newbyteorder("=")) for k, v in (("x", x), ("y", y))}
    for k, (found, wanted) in enumerate(zip(KERNEL(x, y), oracle.evaluate(MANY, **native), strict=True)):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=f"result {k}")
    assert np.array_equal(x, before[0]) and np.array_equal(y, before[1])


def test_integers_too():
    text = "x + 1, sum(x, axis=1)"
    for dtype in ("int16", "int64"):
        for name, x in layouts((VALUES[0] * 20).astype(dtype)).items():
            if name in ("misaligned", "odd strides", "big-endian", "negative steps"):
                for found, wanted in zip(fd.evaluate(text, x=x), (x + 1, x.sum(1)), strict=True):
                    assert np.array_equal(found, wanted), (dtype, name)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("read-only", "big-endian")])
def test_an_output_may_lie_in_any_way_that_does_not_overlap_itself(name):
    out, x = layouts(VALUES[0])[name], VALUES[1]
    kernel = fd.kernel("2*x + 1")
    if name in ("zero strides", "one element", "overlapping"):
        with pytest.raises(fd.ArgumentError, match=r"share memory|read-only"):
            kernel(x, out=out)
        return
    for _ in range(2):
        assert kernel(x, out=out) is out and np.array_equal(out, 2 * x + 1)
    assert kernel(out, out=out) is out
    np.testing.assert_allclose(out, 4 * x + 3, rtol=1e-6)  # the very same array


def test_misaligned_outputs_keep_the_rules_of_others():
    memory, x = np.zeros(500, np.uint8), VALUES[1]

    def at(byte: int) -> np.ndarray:
        return memory[byte:][: x.nbytes].view(np.float32).reshape(SHAPE)

    with pytest.raises(fd.ArgumentError, match="another output"):
        fd.kernel("x, -x")(x, out=(at(1), at(3)))
    with pytest.raises(fd.ArgumentError, match="out overlaps x"):
        fd.evaluate("x + 1", x=at(4), out=at(1))
    with pytest.raises(fd.ArgumentError, match="share memory"):
        fd.evaluate("x + 1", x=x, out=as_strided(at(1), SHAPE, (30, 10, 2)))
    with pytest.raises(fd.ArgumentError, match="byte order"):
        fd.evaluate("x + 1", x=x, out=np.zeros(SHAPE, ">f4"))
    number = memory[1:9].view(np.float64).reshape(())
    assert fd.evaluate("sum(x)", x=x.astype(float), out=number) is number and number == pytest.approx(x.sum())


IN_PLACE = "x + x.T; softmax(x) + x[0]; x - mean(x, axis=0); roll(x, 3) + x[::-1]; x @ x"


def test_an_input_may_be_written_where_it_is_read_elsewhere():
    for text in IN_PLACE.split("; "):
        x = np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)
        wanted = oracle.evaluate(text, x=x)
        assert fd.evaluate(text, x=x, out=x) is x
        np.testing.assert_allclose(x, wanted, rtol=1e-5, atol=1e-6, err_msg=text)
    x = np.arange(36, dtype=np.float32).reshape(6, 6)
    for out in (x.T, x[::-1], x[:, ::-1]):
        with pytest.raises(fd.ArgumentError, match="out overlaps x"):
            fd.evaluate("x * 2", x=x, out=out)
    with pytest.raises(fd.ArgumentError, match="out overlaps y"):
        fd.evaluate("x + y", x=x, y=x.T, out=x)
    assert np.array_equal(x.ravel(), np.arange(36))


def test_results_keep_the_order_that_the_inputs_share():
    c, f = VALUES[0], np.asfortranarray(VALUES[0])
    kernel = fd.kernel("2*x + y")
    for x, y in ((f, f), (f, c), (c, c), (f, f[:1]), (f, np.float32(2)), (f, f[::-1]), (c.transpose(1, 0, 2), f[0, 0])):
        assert kernel(x, y).strides == (2 * x + y).strides


def test_axes_of_one_element_may_have_any_stride():
    x = np.arange(42, dtype=np.float32).reshape(6, 7)
    a = as_strided(x, (1, 6, 1, 7), (12345, 28, -7, 4))
    b = as_strided(x, (1, 6, 1, 7), (3, 28, 5, 4))
    out = as_strided(np.zeros((6, 7), np.float32), (1, 6, 1, 7), (7, 28, -1, 4))
    assert np.array_equal(fd.evaluate("a + b", a=a, b=b, out=out)[0, :, 0], 2 * x)
    assert np.array_equal(fd.evaluate("sum(a * b, (0, 3))", a=a, b=b)[:, 0], (x * x).sum(1))


def test_elements_beyond_two_to_the_31():
    n = (1 << 31) + 64
    x = np.zeros(n, np.int8)  # pages that nothing touches take no memory
    x[0], x[1 << 31], x[n - 1] = 1, 2, 3
    rows = as_strided(x, (2, 4), (1 << 31, 1))
    at = np.array([0, 1 << 31, -1, n])
    text = "x[i], x[2147483648:2147483651] + 1, x[-1], x[::1073741824], y * 2, sum(y, axis=0), sort(y), y[::-1, 1:]"
    found = fd.evaluate(text, x=x, i=at, y=rows)
    wanted = [[1, 2, 3, 0], [3, 1, 1], 3, [1, 0, 2], rows * 2, rows.sum(0), np.sort(rows), rows[::-1, 1:]]
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert np.array_equal(a, b), f"result {k}"
    assert np.array_equal(fd.evaluate("x + 1", x=x[:: -(1 << 27)]), x[:: -(1 << 27)] + 1)
    fd.evaluate("y + 5", y=np.int8([1, 2]), out=x[1 << 31 :][:2])
    assert x[1 << 31 :][:3].tolist() == [6, 7, 0] and x[(1 << 31) - 1] == 0
    same = as_strided(x, (3, 1 << 31), (0, 0))
    assert fd.evaluate("x[:, 5:10] + x[2, -5:]", x=same).tolist() == [[2] * 5] * 3


# ---- what a kernel is told about a layout


def told(text: str, shape: tuple[int, ...], strides=None, out=None, address: int = 0):
    """The kernel that binding one array of this layout (and a result of that) gives; no memory is there."""
    kernel = fd.kernel(text)
    facts = describe_all(kernel.params, [np.zeros((2,) * len(shape), np.float32)])
    extents = {Symbol(0, a): n for a, n in enumerate(shape)}
    (plan,) = kernel._program.plans.plan(list(facts.values()), extents).kernels
    given = ArrayLayout(shape, strides or packed_strides(shape), 0, address)
    return bind_kernel(
        plan, {("argument", 0): given, ("result", 0): ArrayLayout(shape, out or packed_strides(shape))}, extents
    )


@pytest.mark.parametrize(
    ("shape", "strides", "out", "wide"),
    [
        ((1 << 10, 1 << 20), None, None, False),
        ((1 << 11, 1 << 20), None, None, True),  # so many elements
        ((1 << 12, 1 << 19), (0, 0), None, True),
        ((3, 4), (1 << 30, 1), None, True),  # so far apart
        ((3, 4), (-(1 << 30), 1), None, True),
        ((3, 4), (4, -(1 << 29)), None, False),
        ((3, 4), (4, -(1 << 30)), None, True),
        ((1, 4), (1 << 40, 1), None, False),  # an axis of one element reaches nowhere
        ((3, 4), None, (1, 1 << 30), True),
        ((3, 1 << 20), (0, 1), None, False),
    ],
)
@pytest.mark.parametrize("text", ["x + 1", "softmax(x)", "sort(x)"])
def test_offsets_take_64_bits_where_32_do_not_reach(text, shape, strides, out, wide):
    assert told(text, shape, strides, out).kernel.index64 is wide
    assert told(text, shape, strides, out).kernel.index == ("int64" if wide else "int32")


def test_the_bound_of_32_bits_leaves_room_for_a_last_tile():
    assert not told("x + 1", (INDEX64_FROM - 1,)).kernel.index64 and told("x + 1", (INDEX64_FROM,)).kernel.index64


@pytest.mark.parametrize("text", ["sum(x)", "argmax(x)", "v, i = topk(x, 2); v", "cumsum(x)"])
@pytest.mark.parametrize("cc", [(8, 0), (9, 0)])
def test_the_bound_leaves_room_for_the_tiles_of_all_blocks_of_a_row(text, cc):
    bound = told(text, (INDEX64_FROM - 1,))
    kernel, schedule = scheduled_cuda(bound, hardware_facts(cc))
    stride = schedule.tile_elements * getattr(schedule, "blocks_per_row", 1)
    assert not kernel.index64 and INDEX64_FROM + 2 * stride < 1 << 31  # loads are a tile ahead


def test_vectors_need_addresses_and_strides_of_16_bytes():
    def access(shape, strides=None, address=0, out=None):
        return [operand.access for operand in told("x + 1", shape, strides, out, address).kernel.operands]

    assert access((6, 8)) == ["vector", "vector"]
    assert access((6, 8), address=4) == ["element", "vector"]
    assert access((6, 8), (12, 1)) == ["vector", "vector"]
    assert access((6, 8), (9, 1)) == ["element", "vector"]
    assert access((6, 8), (-12, 1)) == ["vector", "vector"]
    assert access((6, 8), (8, -1)) == ["element", "vector"]
    assert access((6, 7), (8, 1)) == ["element", "flat"]
    assert access((6, 8), (0, 1)) == ["vector", "vector"]


# ---- CUDA kernels, without a card


def on_device(gpu, values: np.ndarray, name: str):
    """The values on the emulated GPU, laid out in one of these ways."""
    (a, b, c), d = values.shape, values.dtype

    def new(*shape: int, skip: int = 0):
        return gpu.asarray(np.zeros(shape, d), skip=skip)

    made = {
        "not aligned": lambda: new(a, b, c, skip=d.itemsize),
        "padded": lambda: new(a, b, c + 3)[:, :, 1 : c + 1],
        "stepped": lambda: new(2 * a, 3 * b, 2 * c)[::2, ::3, 1::2],
        "negative": lambda: new(a, b, c)[::-1, ::-1, ::-1],
        "permuted, negative": lambda: new(b, c, a).transpose(2, 0, 1)[:, ::-1],
    }[name]()
    made[...] = values
    return made


@pytest.mark.parametrize(
    ("bits", "x", "y", "out"),
    [
        (32, "not aligned", "negative", "permuted, negative"),
        (32, "permuted, negative", "padded", "not aligned"),
        (64, "stepped", "stepped", "negative"),
    ],
)
def test_cuda_kernels_read_and_write_in_any_way(bits, x, y, out, monkeypatch):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    if bits == 64:  # as if a few elements lay 2^31 apart
        monkeypatch.setattr("fusedsl.kernel_ir.memory_access.INDEX64_FROM", 8)
        monkeypatch.setattr("fusedsl.runtime.bind_shapes.INDEX64_FROM", 8)
    text = "2*x + y[:, ::-1], sum(softmax(x) * y, axis=1)"
    with emulated_gpu(multiprocessors=4) as gpu:
        given = [on_device(gpu, v, name) for v, name in zip(VALUES, (x, y))]
        to = on_device(gpu, VALUES[0], out)
        found = fd.kernel(text)(*given, out=(to, None))
        assert found[0] is to
        for made, wanted in zip(found, oracle.evaluate(text, x=VALUES[0], y=VALUES[1]), strict=True):
            np.testing.assert_allclose(made.get(), wanted, rtol=1e-5, atol=1e-6)
        assert all(np.array_equal(a.get(), v) for a, v in zip(given, VALUES))


# ---- torch


def test_torch_tensors_lie_in_their_own_ways():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(VALUES)
    last = x.to(memory_format=torch.channels_last)
    double = fd.kernel("x * 2")
    assert double(last).is_contiguous(memory_format=torch.channels_last) and torch.equal(double(last), last * 2)
    for view in (x.permute(2, 0, 3, 1), x[:, 1, ::2, 1:4], x[0, 0].unfold(0, 2, 1), x[:1].expand(2, 3, 4, 5)):
        assert torch.equal(double(view), view * 2)
    assert double(x.permute(2, 0, 3, 1)).stride() == (x.permute(2, 0, 3, 1) * 2).stride()
    number = double(torch.tensor(3.0))
    assert number.shape == () and number == 6 and torch.equal(fd.evaluate("x + y", x=x, y=torch.tensor(3.0)), x + 3)
    with pytest.raises(fd.ArgumentError, match="share memory"):
        double(x, out=x[:, :1].expand_as(x))
    part, wanted = x[:, :, ::2], x[:, :, ::2] * 2
    assert double(part, out=part) is part and torch.equal(x[:, :, ::2], wanted)
