"""Maps over arrays of two orientations: tiles are transposed in shared memory, for any extents, dtypes and
alignments."""

from __future__ import annotations

import re

import numpy as np
import pytest
from written import instructions

import fusedsl as fd
from fusedsl.backends.cuda.elementwise.schedule import ElementwiseSchedule
from fusedsl.backends.cuda.elementwise.transpose_schedule import TransposeSchedule
from fusedsl.backends.cuda.schedule import choose
from fusedsl.hardware import hardware_facts
from fusedsl.ir.types import BFLOAT16, FLOAT32, FLOAT64, INT8
from fusedsl.kernel_ir.kernel import KernelIR, Load, Operand
from fusedsl.kernel_ir.map_access import strided_axis_access
from fusedsl.kernel_ir.memory_access import merge_axes
from fusedsl.kernel_ir.phase import Body, Phase, Store, Value
from fusedsl.runtime.layout import ALIGNMENT

H200 = hardware_facts((9, 0))


def crossed(dtypes=(FLOAT32, FLOAT32, FLOAT32), strides=("s1", "ss", "s1"), near=(-1, 0, -1), access="vector"):
    """z = sum of the inputs, of which some are contiguous along another axis."""
    names = "abcdefghijklmnop"[: len(dtypes)]
    operands = tuple(
        Operand(n, d, s, access if s.endswith("1") else "element", a, access)
        for n, d, s, a in zip(names, dtypes, strides, near)
    )
    inputs = len(dtypes) - 1
    loads = tuple(Load(Value(f"{n}_0", d.compute), k) for k, (n, d) in enumerate(zip(names, dtypes[:-1])))
    compute = dtypes[0].compute
    total = " + ".join(load.value.name for load in loads)
    body = Body(tuple(load.value for load in loads), (Value("z_9", compute),), instructions(f"z_9 = {total}"))
    phase = Phase(body, (Store("z_9", inputs),))
    return KernelIR("map", ("z",), 0, len(strides[0]), inputs, operands, loads, (), (), (phase,))


def test_arrays_across_the_others_turn_in_patches():
    found = choose(crossed(), (8192, 4096), H200)
    assert isinstance(found, TransposeSchedule)
    assert (found.axis, found.edge, found.width, found.transposed, found.vectorized) == (0, 64, 4, (1,), (True,))
    assert "b is contiguous across" in found.reason
    assert found.launch(crossed(), (8192, 4096)).blocks == 128 * 64
    assert found.magic_divisors(crossed(), (8191, 4097)) == (65,)


@pytest.mark.parametrize("extents", [(15, 4096), (4096, 15), (1, 1)])
def test_thin_arrays_stay_plain_maps(extents):
    assert isinstance(choose(crossed(), extents, H200), ElementwiseSchedule)


def test_maps_of_one_orientation_stay_plain():
    assert isinstance(
        choose(crossed(strides=("s1", "s1", "s1"), near=(-1, -1, -1)), (512, 512), H200), ElementwiseSchedule
    )
    assert isinstance(
        choose(crossed(strides=("ss", "ss", "ss"), near=(0, 0, -1)), (512, 512), H200), ElementwiseSchedule
    )


@pytest.mark.parametrize(
    ("dtype", "edge", "width"), [(FLOAT32, 64, 4), (BFLOAT16, 128, 8), (INT8, 128, 16), (FLOAT64, 32, 2)], ids=repr
)
def test_a_patch_fits_its_types(dtype, edge, width):
    found = choose(crossed((dtype,) * 3), (8192, 8192), H200)
    assert (found.edge, found.width) == (edge, width)
    assert choose(crossed((dtype,) * 3), (1024, 1024), H200).edge == min(64, edge)  # there are few blocks


def test_arrays_that_begin_anywhere_go_element_by_element():
    found = choose(crossed((BFLOAT16,) * 3, access="element"), (8192, 8192), H200)
    assert (found.edge, found.width, found.vectorized) == (64, 1, (False,))
    assert "down to 2 bytes" in found.reason


def test_many_arrays_across_take_smaller_patches_or_none():
    def with_across(count):
        kernel = crossed((FLOAT32,) * (count + 2), ("s1", *["ss"] * count, "s1"), (-1, *[0] * count, -1))
        return choose(kernel, (1024, 1024), H200)

    assert with_across(3).edge == 64
    assert with_across(4).edge == 32
    assert isinstance(with_across(13), ElementwiseSchedule)


def test_blocks_are_numbered_along_the_tile_first():
    kernel = crossed(strides=("sss1", "ssss", "sss1"), near=(-1, 1, -1))
    found = choose(kernel, (3, 100, 5, 200), H200)
    assert found.grid_axes(4) == (0, 2, 1, 3)
    assert found.grid_shape((3, 100, 5, 200)) == (3, 5, 2, 4)
    assert found.launch(kernel, (3, 100, 5, 200)).blocks == 3 * 5 * 2 * 4
    assert found.magic_divisors(kernel, (3, 100, 5, 200)) == (5, 2, 4)


def test_the_axis_of_neighbours_and_its_vectors():
    def near(extents, strides, address=0, d=FLOAT32):
        merged = merge_axes(extents, [strides, (extents[1], 1)], outputs=(1,))
        return strided_axis_access(merged, [d, d], [address % ALIGNMENT, 0])[0]

    assert near((64, 32), (1, 64)) == (0, "vector")
    assert near((64, 32), (1, 65)) == (0, "element")  # columns begin anywhere
    assert near((66, 32), (1, 68)) == (0, "element")  # the last vector is there in part
    assert near((64, 32), (1, 64), address=4) == (0, "element")
    assert near((64, 32), (32, 1)) == (-1, "element")
    assert near((64, 32), (1, 0)) == (-1, "element")  # one column for all


# -- the kernels, without a card


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64"])
def test_both_sides_move_16_bytes(dtype):
    pytest.importorskip("numba_cuda")
    kernel = fd.kernel("x.T + y")
    given = {"x": fd.spec((1024, 2048), dtype), "y": fd.spec((2048, 1024), dtype)}
    (told,) = kernel.resources(**given, cc=90)
    assert told.figures.spill_bytes == 0
    assert told.figures.shared_bytes in (4 << 10, 8 << 10, 16 << 10)
    source = kernel.source(**given, cc=90)
    assert "vectorized=True" in source and "barrier()" in source
    (odd,) = kernel.resources(x=fd.spec((1023, 2047), dtype), y=fd.spec((2047, 1023), dtype), cc=90)
    assert odd.figures.spill_bytes == 0


def test_the_machine_code_has_no_narrow_loads(tmp_path):
    pytest.importorskip("numba_cuda")
    from fusedsl.backends.cuda.compile import generate, ptx

    kernel = crossed((BFLOAT16,) * 3)
    schedule = choose(kernel, (1024, 1024), H200)
    source = generate(kernel, schedule)
    path = tmp_path / "generated.py"
    path.write_text(source)
    text = ptx(source, str(path), kernel, schedule, (9, 0))
    assert len(re.findall(r"ld\.global\S*\.v4", text)) == len(re.findall(r"ld\.global", text)) == 4
    assert len(re.findall(r"st\.global\S*\.v4", text)) == 2
    assert "ld.shared.v4" in text and ".local" not in text


# -- values


def to_torch(x):
    torch = pytest.importorskip("torch")
    return torch.from_numpy(x).cuda()


TARGETS = [
    pytest.param(lambda x: x, id="cpu"),
    pytest.param(lambda x: pytest.importorskip("cupy").asarray(x), id="cupy", marks=pytest.mark.gpu),
    pytest.param(to_torch, id="torch", marks=pytest.mark.gpu),
]
EXTENTS = [(64, 64), (128, 260), (100, 36), (65, 129), (17, 300), (16, 16), (33, 47)]


def home(x):
    return x if isinstance(x, np.ndarray) else x.get() if hasattr(x, "get") else x.cpu().numpy()


def make(shape, dtype, pad=0, off=0):
    """Small integers, in rows with a gap behind them, `off` elements from an aligned address."""
    rows, columns = shape
    values = np.random.default_rng(3).integers(-20, 20, (rows, columns + pad + off))
    return values.astype(dtype)[:, off : off + columns]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int32"])
@pytest.mark.parametrize("extents", EXTENTS, ids=str)
def test_any_extents_types_and_alignments(target, dtype, extents):
    add, both = fd.kernel("x.T + y"), fd.kernel("q = x + x; return q, q.T")
    for pad, off in ((0, 0), (3, 0), (15, 1)):
        x, y = make(extents, dtype, pad, off), make(extents[::-1], dtype)
        np.testing.assert_array_equal(home(add(target(x), target(y))), x.T + y)
        outs = target(np.zeros(extents, dtype)), target(make(extents[::-1], dtype, pad, off))
        both(target(x), out=outs)
        np.testing.assert_array_equal(home(outs[0]), x + x)
        np.testing.assert_array_equal(home(outs[1]), (x + x).T)


@pytest.mark.parametrize("target", TARGETS)
def test_outer_axes_positions_and_broadcasts(target):
    random = np.random.default_rng(5)
    x = random.standard_normal((2, 40, 24, 20)).astype(np.float32)
    y = random.standard_normal((2, 24, 20, 40)).astype(np.float16)
    w = random.standard_normal((20, 1)).astype(np.float32)
    text = "transpose(x, (0, 2, 3, 1)) + y * w + iota(y, 3) * iota(y, 1) + iota(y, 0)"
    found = home(fd.evaluate(text, x=target(x), y=target(y), w=target(w)))
    b, i, _, j = np.indices(y.shape)
    expected = x.transpose(0, 2, 3, 1) + y.astype(np.float32) * w + j * i + b
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
def test_lists_of_them_share_a_launch():
    torch = pytest.importorskip("torch")
    xs = [torch.randn(64 * k, 80, device="cuda") for k in range(1, 6)]
    ys = [torch.randn(80, 64 * k, device="cuda") for k in range(1, 6)]
    for found, x, y in zip(fd.foreach("x.T + y", xs, ys), xs, ys):
        torch.testing.assert_close(found, x.T + y)
