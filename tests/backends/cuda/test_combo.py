"""Combo kernels: independent kernels share a launch, whatever their extents."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_transpose import crossed

import fusedsl as fd
from fusedsl.backends.cuda.combo import schedule_combo
from fusedsl.backends.cuda.elementwise.schedule import ElementwiseSchedule
from fusedsl.backends.cuda.elementwise.transpose_schedule import TransposeSchedule
from fusedsl.backends.cuda.rows.schedule import ResidentRowSchedule
from fusedsl.errors import FusionError
from fusedsl.fusion.horizontal_fusion import pack_launches
from fusedsl.hardware import hardware_facts
from fusedsl.ir.types import BFLOAT16, FLOAT32

H200 = hardware_facts((9, 0))
ROPE = """
q1 = q[..., :64]; q2 = q[..., 64:]; k1 = k[..., :64]; k2 = k[..., 64:]
c = cos[:, None, :]; s = sin[:, None, :]
return bfloat16(q1*c - q2*s), bfloat16(q2*c + q1*s), bfloat16(k1*c - k2*s), bfloat16(k2*c + k1*s)
"""


def rope(tokens=32, queries=32, keys=8):
    random = np.random.default_rng(0)
    q, k = (random.standard_normal((2, tokens, n, 128)).astype(ml_dtypes.bfloat16) for n in (queries, keys))
    cos, sin = (random.standard_normal((tokens, 64)).astype(np.float32) for _ in range(2))
    return {"q": q, "k": k, "cos": cos, "sin": sin}


def spread(text, **arrays):
    """How many kernels each launch holds."""
    made = fd.kernel(text)
    program, told = made._program, [arrays[name] for name in made.params]
    from fusedsl.program import call_steps
    from fusedsl.runtime.arrays import describe_all

    described = list(describe_all(program.names, told).values())
    return program.plans.plan(described, call_steps.extents_of(described)).launches


def array(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def arrays(*shapes):
    """Arrays x, y, z, w of these shapes."""
    return {name: array(*shape) for name, shape in zip("xyzw", shapes)}


# -- which


def test_rope_of_queries_and_keys_is_one_launch():
    given = rope()
    assert spread(ROPE, **given) == (2,)
    told = fd.kernel(ROPE, max_kernels=1).explain(**given, cc=90, compile=False)
    (launch,) = told.kernels
    assert launch.blocks == sum(-(-2 * 32 * heads * 64 // 8 // launch.threads) for heads in (32, 8))
    assert {access.array for access in launch.reads} == {"q", "k", "cos", "sin"}
    assert any("share a launch" in reason for joined, reason in told_reasons(ROPE, given) if joined)


def told_reasons(text, given):
    from fusedsl.program import call_steps
    from fusedsl.runtime.arrays import describe_all

    program = fd.kernel(text)._program
    described = list(describe_all(program.names, [given[n] for n in program.names]).values())
    return program.plans.plan(described, call_steps.extents_of(described)).reasons


def test_kernels_that_need_each_other_stay_apart():
    x, y = array(8, 64), array(300)
    assert spread("m = sum(x, axis=0); return m * 2, y + 1", x=x, y=y) == (1, 1)
    assert spread("s = sum(x); return s + y", x=array(300, 700), y=y) == (1, 1)
    with pytest.raises(FusionError):
        fd.evaluate("s = sum(x); return s + y", x=array(300, 700), y=y, max_kernels=1)


def test_short_rows_go_together_and_long_ones_do_not():
    assert spread("softmax(x), rms_norm(y)", x=array(5, 128), y=array(9, 256)) == (2,)
    assert spread("softmax(x), rms_norm(y)", x=array(5, 128), y=array(9, 5000)) == (1, 1)
    assert spread("sum(x * x, -1), sum(y * y, 0)", x=array(5, 128), y=array(9, 256)) == (1, 1)


def test_maps_of_unlike_size_stay_apart():
    launches, decisions = pack_launches([(4, 2), (40, 3), (6, 2)], [0, 1, 2])
    assert launches == [[0, 2], [1]]
    assert [d.joined for d in decisions] == [False, True]
    assert "40 words" in decisions[0].reason


def test_a_launch_holds_so_many_arrays_at_most():
    launches, _ = pack_launches([(4, 20)] * 5, list(range(5)))
    assert launches == [[0, 1], [2, 3], [4]]


def test_maps_take_blocks_as_large_as_the_others():
    small = ElementwiseSchedule(8, 4, 64, 8, reason="a", registers=40)
    large = TransposeSchedule(0, 64, 4, (0,), (True,), 256, 4, reason="b", registers=60)
    kernel = crossed((BFLOAT16,) * 3)
    found = schedule_combo([kernel, kernel], [small, large], H200)
    assert found.threads == 256
    assert found.members[0].threads == 256 and found.members[1] is large
    assert found.registers == 60 and "2 kernels in one launch" in found.reason


@pytest.mark.parametrize(("threads", "rows", "kept"), [(2, 42, 32), (2, 84, 80), (4, 3, 8), (32, 3, 3), (128, 1, 1)])
def test_rows_beside_other_kernels_are_those_of_whole_warps(threads, rows, kept):
    """Else some threads of a warp would shuffle, and others pass by."""
    kernel = crossed((FLOAT32, FLOAT32), ("1", "1"), (-1, -1))
    row = ResidentRowSchedule(1, 4, 0, threads, rows, 1, registers=20)
    found = schedule_combo([kernel, kernel], [row, ElementwiseSchedule(4, 1, 256, 8, reason="a", registers=20)], H200)
    assert found.members[0].rows == kept and found.members[0].block_threads % 32 == 0


def test_maps_keep_their_loads_under_way_beside_larger_kernels():
    kernel = crossed((FLOAT32, FLOAT32), ("1", "1"), (-1, -1))
    light, heavy = (
        ElementwiseSchedule(4, 1, 256, 8, reason="a", registers=20),
        TransposeSchedule(0, 64, 4, (0,), (True,), 256, 2, reason="b", registers=120),
    )
    found = schedule_combo([kernel, kernel], [light, heavy], H200)
    assert found.blocks == 2
    assert found.members[0].vectors == 4  # a quarter of the blocks, four times the loads


# -- memory


def test_what_another_part_reads_is_not_overwritten_meanwhile():
    text = "x * 2, sum(x[:, None] * y, axis=1)"
    x, y = array(40), array(40, 64)
    maps = "2 * x, x[:, None] + y"
    expected = 2 * x, x[:, None] + y
    assert spread(maps, x=x, y=y) == (2,)
    out = x.copy()
    found = fd.kernel(maps)(out, y, out=(out, None))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    assert "in a temporary and copied" in str(fd.kernel(maps).explain(x, y))
    np.testing.assert_allclose(fd.evaluate(text, x=x, y=y)[1], (x[:, None] * y).sum(1), rtol=1e-4)


# -- the kernels, without a card


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (ROPE, rope()),
        ("x * 2, sqrt(abs(y)) + 1, z.T + w", arrays((1000,), (3, 64), (64, 128), (128, 64))),
        ("softmax(x), rms_norm(y) * b", {"x": array(5, 128), "y": array(9, 1024), "b": array(1024)}),
        ("a * x + 1, b * y, size(y, 0) * y[:5]", {"x": array(10), "y": array(40), "a": 2.0, "b": 3}),
    ],
    ids=["rope", "maps", "rows", "scalars"],
)
def test_one_launch_compiles_without_spills(text, given):
    pytest.importorskip("numba_cuda")
    kernel = fd.kernel(text)
    (one,) = kernel.resources(**given, cc=90)
    assert one.figures.spill_bytes == 0
    source = kernel.source(**given, cc=90)
    assert source.count("def kernel(") == 1 and source.count("@subkernel") >= 2


# -- on a card


def to_torch(x):
    torch = pytest.importorskip("torch")
    if isinstance(x, (int, float)):
        return x
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(x).cuda()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("text", "given"),
    [
        (ROPE, rope(33, 5, 3)),
        ("x * 2, sqrt(abs(y)) + 1, z.T + w", arrays((999,), (3, 65), (65, 130), (130, 65))),
        ("softmax(x), rms_norm(y) * b", {"x": array(5, 128), "y": array(9, 1024), "b": array(1024)}),
        ("softmax(x), rms_norm(y), sum(z, axis=-1)", arrays((501, 32), (77, 2000), (3, 7))),
        ("a * x + 1, b * y, size(y, 0) * y[:5]", {"x": array(10), "y": array(40), "a": 2.0, "b": 3}),
        ("x * 2, y * 2, z + 1", arrays((0,), (40,), (7, 7))),
    ],
    ids=["rope", "maps", "rows", "rows of unlike blocks", "scalars", "an empty one"],
)
def test_one_launch_gives_what_the_cpu_gives(text, given):
    kernel = fd.kernel(text)
    expected = kernel(*(given[n] for n in kernel.params))
    there = [to_torch(given[n]) for n in kernel.params]
    for _ in range(2):
        for found, value in zip(kernel(*there), expected):
            assert tuple(found.shape) == value.shape
            np.testing.assert_allclose(found.float().cpu().numpy(), np.asarray(value, np.float32), rtol=1e-2, atol=1e-4)
