"""The PTX interpreter's matrix instructions, barriers in memory and bulk copies, against NumPy's products."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

from ptx import Fault
from ptx.bulk import TensorMap
from ptx.image_map import ImageMap
from ptx.machine import Grid, run
from ptx.memory import Arena
from ptx.program import load
from ptx.syntax import Unsupported

RANDOM = np.random.default_rng(3)
BRAIN = ml_dtypes.bfloat16
HEAD = """.visible .entry k(.param .u64 x, .param .u64 y,
.param .align 64 .b8 left[128], .param .align 64 .b8 right[128])
{
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<60>; .reg .f32 %f<40>; .reg .f64 %d<9>; .reg .b64 %rd<40>;
.shared .align 1024 .b8 memory[32768]; .shared .align 8 .b8 gate[8];
ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 2; and.b32 %r3, %r1, 3; mov.u32 %r4, memory; mov.u32 %r5, gate;
"""


def launched(body, x, result, threads=32, maps=(), blocks=1, **grid):
    """`result` after a kernel that knows &x, &result, lane / 4, lane % 4 and the shared memory as %rd0 … %r4."""
    arena = Arena(1 << 18)
    arrays = [*x, result] if isinstance(x, tuple) else [x, result]
    places = [arena.allocate(a.nbytes) for a in arrays]
    for place, array in zip(places, arrays):
        arena.write(place, array.tobytes())
    coded = b"".join(make(place).encode() for make, place in zip(maps, places)).ljust(256, b"\0")
    block = struct.pack("<QQ", places[0], places[-1]).ljust(64, b"\0") + coded
    run(load(HEAD + body + "\nret;\n}")["k"], arena, Grid(blocks, threads, **grid), block, limit=20000)
    return arena.place(places[-1], result.nbytes).view(result.dtype).reshape(result.shape).copy()


# ---- warps

LOAD = """
mul.lo.u32 %r6, %r1, 24; cvt.u64.u32 %rd2, %r6; add.u64 %rd3, %rd0, %rd2; add.u32 %r7, %r4, %r6;
ld.global.b64 %rd4, [%rd3]; st.shared.b64 [%r7], %rd4; ld.global.b64 %rd4, [%rd3+8]; st.shared.b64 [%r7+8], %rd4;
ld.global.b64 %rd4, [%rd3+16]; st.shared.b64 [%r7+16], %rd4; bar.warp.sync 0xffffffff;
and.b32 %r8, %r1, 15; shr.u32 %r9, %r1, 4; shl.b32 %r8, %r8, 5; shl.b32 %r9, %r9, 4; add.u32 %r8, %r8, %r9;
add.u32 %r8, %r8, %r4; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r8];
"""
STORE = """
shl.b32 %r30, %r2, 5; shl.b32 %r31, %r3, 3; add.u32 %r30, %r30, %r31; cvt.u64.u32 %rd5, %r30; add.u64 %rd5, %rd5, %rd1;
st.global.v2.b32 [%rd5], {%r20, %r21}; st.global.v2.b32 [%rd5+256], {%r22, %r23};
"""
ZEROS = "mov.b32 %r20, 0; mov.b32 %r21, 0; mov.b32 %r22, 0; mov.b32 %r23, 0;"
D, A, B = "{%r20, %r21, %r22, %r23}", "{%r10, %r11, %r12, %r13}", "{%r14, %r15}"


@pytest.mark.parametrize(("kind", "turned"), [(np.float16, False), (BRAIN, False), (np.float16, True)])
def test_a_warp_multiplies_what_ldmatrix_loads(kind, turned):
    a, b = (RANDOM.standard_normal(shape).astype(kind) for shape in ((16, 16), (16, 8)))
    name = "f16" if kind is np.float16 else "bf16"
    place = """and.b32 %r8, %r1, 7; shl.b32 %r8, %r8, 5; and.b32 %r9, %r1, 8; shl.b32 %r9, %r9, 1;"""
    if turned:
        place = "and.b32 %r8, %r1, 15; shl.b32 %r8, %r8, 4; mov.u32 %r9, 0;"
    body = f"""{LOAD} {place} add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, %r4;
    ldmatrix.sync.aligned.m8n8.x2{".trans" if turned else ""}.shared.b16 {B}, [%r8+512]; {ZEROS}
    mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32 {D}, {A}, {B}, {D}; {STORE}"""
    x = np.concatenate([a.ravel(), (b if turned else b.T).ravel()])
    made = launched(body, x, np.zeros((16, 8), np.float32))
    np.testing.assert_allclose(made, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "kinds", "element"),
    [("m16n8k32", "s32.s8.s8.s32", np.int8), ("m16n8k8", "f32.tf32.tf32.f32", np.float32)],
)
def test_a_warp_multiplies_other_types(shape, kinds, element):
    a, b = (
        RANDOM.integers(-50, 50, shape).astype(element)
        for shape in ((16, 32 // element().itemsize), (8, 32 // element().itemsize))
    )
    name = "s32" if element is np.int8 else "f32"
    rows = "".join(f"ld.global.b32 %r{10 + k}, [%rd3+{256 * (k % 2) + 16 * (k // 2)}];" for k in range(4))
    body = f"""shl.b32 %r6, %r2, 5; shl.b32 %r7, %r3, 2; add.u32 %r6, %r6, %r7; cvt.u64.u32 %rd3, %r6;
    add.u64 %rd3, %rd3, %rd0; {rows} ld.global.b32 %r14, [%rd3+512]; ld.global.b32 %r15, [%rd3+528]; {ZEROS}
    mma.sync.aligned.{shape}.row.col.{kinds} {D}, {A}, {B}, {D}; {STORE}"""
    made = launched(body, np.concatenate([a.ravel(), b.ravel()]), np.zeros((16, 8), name.replace("s", "i")[0] + "4"))
    np.testing.assert_array_equal(made, a.astype(np.int64) @ b.astype(np.int64).T)


# ---- groups of warps, tensor maps

BARRIER = """setp.ne.u32 %p0, %r1, 0; @%p0 bra READY; mbarrier.init.shared::cta.b64 [%r5], 1;
fence.mbarrier_init.release.cluster; READY: bar.sync 0;"""
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r5], 0; @!%p1 bra WAIT;"
COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"


def tensor(array, box, swizzle):
    """What makes the map of a matrix at an address."""
    size = array.itemsize
    return lambda base: TensorMap(size, swizzle, base, array.shape[::-1], (size, size * array.shape[1]), box)


def descriptor(register, offset, leading, stride, swizzle):
    """The descriptor of a matrix at a byte of the shared memory, into a 64-bit register."""
    kind = {128: 1, 64: 2, 32: 3, 16: 0}[swizzle]
    fixed = (leading >> 4) << 16 | (stride >> 4) << 32 | kind << 62
    return f"""add.u32 %r8, %r4, {offset}; cvt.u64.u32 {register}, %r8; shr.u64 {register}, {register}, 4;
    or.b64 {register}, {register}, {fixed - (1 << 64) if fixed >> 63 else fixed};"""


def grouped(right_turned, swizzle, wait="wgmma.wait_group.sync.aligned 0;"):
    """A kernel: 64 × 64 times 64 × 32, copied by tensor maps; B's lines are its columns, or its rows where `turned`."""
    wide, sums = swizzle // 2, [f"%f{k}" for k in range(16)]
    copies = [(0, "left", f"{{{k * wide}, 0}}", k * 64 * swizzle) for k in range(64 // wide)]
    lines = 64 if right_turned else 32
    count = 32 // wide if right_turned else 64 // wide
    copies += [(0, "right", f"{{{k * wide}, 0}}", 16384 + k * lines * swizzle) for k in range(count)]
    text = BARRIER + f"@%p0 bra LOADED; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {64 * 128 + 64 * 64};"
    for _, name, corner, place in copies:
        first, second = corner.strip("{}").split(", ")
        text += f"""mov.b64 %rd6, {name}; cvta.param.u64 %rd6, %rd6; mov.u32 %r9, {first}; mov.u32 %r10, {second};
        add.u32 %r8, %r4, {place}; {COPY} [%r8], [%rd6, {{%r9, %r10}}], [%r5];"""
    text += f"LOADED: {WAIT} wgmma.fence.sync.aligned;"
    for k in range(4):
        left = k * 32 // swizzle * 64 * swizzle + k * 32 % swizzle
        right = k * 16 * swizzle if right_turned else k * 32 // swizzle * 32 * swizzle + k * 32 % swizzle
        text += descriptor("%rd7", left, 16, 8 * swizzle, swizzle)
        text += descriptor("%rd8", 16384 + right, 64 * swizzle, 8 * swizzle, swizzle)
        text += f"""setp.ne.b32 %p2, {k}, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16
        {{{", ".join(sums)}}}, %rd7, %rd8, %p2, 1, 1, 0, {int(right_turned)};"""
    text += f"""wgmma.commit_group.sync.aligned; {wait}
    shr.u32 %r11, %r1, 5; and.b32 %r12, %r1, 31; shr.u32 %r2, %r12, 2; mad.lo.u32 %r2, %r11, 16, %r2;
    shl.b32 %r13, %r2, 7; shl.b32 %r14, %r3, 3; add.u32 %r13, %r13, %r14;
    cvt.u64.u32 %rd9, %r13; add.u64 %rd9, %rd9, %rd1;"""
    for k in range(16):
        text += f"st.global.f32 [%rd9+{k // 4 * 32 + k // 2 % 2 * 1024 + k % 2 * 4}], %f{k};"
    return text


@pytest.mark.parametrize(("turned", "swizzle"), [(False, 128), (True, 64), (False, 64), (True, 32)])
def test_four_warps_multiply_what_tensor_maps_copied(turned, swizzle):
    a, b = RANDOM.standard_normal((64, 64)).astype(BRAIN), RANDOM.standard_normal((64, 32)).astype(BRAIN)
    right = b if turned else np.ascontiguousarray(b.T)
    maps = tensor(a, (swizzle // 2, 64), swizzle), tensor(right, (swizzle // 2, right.shape[0]), swizzle)
    made = launched(grouped(turned, swizzle), (a, right), np.zeros((64, 32), np.float32), 128, maps)
    np.testing.assert_allclose(made, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_products_are_there_only_after_their_wait():
    a, b = np.ones((64, 64), BRAIN), np.ones((32, 64), BRAIN)
    maps = tensor(a, (64, 64), 128), tensor(b, (64, 32), 128)
    with pytest.raises(Fault, match="ends before a product"):
        launched(grouped(False, 128, wait=""), (a, b), np.zeros((64, 32), np.float32), 128, maps)


def test_boxes_beyond_an_array_are_filled_with_zeros_and_not_written():
    x = RANDOM.standard_normal((5, 12)).astype(np.float32)
    maps = tensor(x, (8, 8), 16), tensor(x, (8, 8), 16)
    body = f"""{BARRIER} @%p0 bra LOADED; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256;
    mov.b64 %rd6, left; cvta.param.u64 %rd6, %rd6; mov.u32 %r9, 8; mov.u32 %r10, -2;
    {COPY} [%r4], [%rd6, {{%r9, %r10}}], [%r5];
    LOADED: {WAIT} shl.b32 %r6, %r1, 3; add.u32 %r7, %r4, %r6; ld.shared.b64 %rd7, [%r7]; cvt.u64.u32 %rd8, %r6;
    add.u64 %rd8, %rd8, %rd1; st.global.b64 [%rd8], %rd7;"""
    wanted = np.zeros((8, 8), np.float32)
    wanted[2:7, :4] = x[:, 8:]
    np.testing.assert_array_equal(launched(body, x, np.zeros((8, 8), np.float32), 32, maps), wanted)


BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd0], 128, [%r5];"
BACK = """bar.sync 0; @%p0 bra END; fence.proxy.async.shared::cta;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 128; cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0; END:"""


def bulk(wait=WAIT, bytes=128):
    arrive = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {bytes};"
    body = f"{BARRIER} @%p0 bra LOADED; {arrive} {BULK} LOADED: {wait} {BACK}"
    x = np.arange(32, dtype=np.uint32)
    np.testing.assert_array_equal(launched(body, x, np.zeros(32, np.uint32)), x)


def test_bulk_copies_report_to_their_barrier():
    bulk()
    with pytest.raises(Fault, match="before anybody has written"):
        bulk(wait="")
    with pytest.raises(Fault, match="no phase of a barrier has ended"):
        bulk(bytes=144)


def sent(fence="fence.proxy.async.shared::cta;", first=4):
    """16 lines of 64 words of 16 bits, which lanes leave in shared memory as fragments, sent to an array of 16."""
    body = (
        "and.b32 %r8, %r1, 15; shr.u32 %r9, %r1, 4; and.b32 %r10, %r8, 7; shl.b32 %r8, %r8, 7; add.u32 %r8, %r8, %r4;"
    )
    for k in range(4):
        body += f"add.u32 %r11, %r9, {2 * k}; xor.b32 %r11, %r11, %r10; shl.b32 %r11, %r11, 4; add.u32 %r11, %r11, %r8;"
        body += "".join(f"mad.lo.u32 %r{20 + j}, %r1, 16, {4 * k + j}; " for j in range(4))
        body += f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r11], {D};"
    body += f"""{fence} bar.warp.sync 0xffffffff; setp.ne.u32 %p0, %r1, 0; @%p0 bra END; mov.u32 %r12, {first};
    mov.u32 %r13, 0; mov.b64 %rd6, right; cvta.param.u64 %rd6, %rd6;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd6, {{%r13, %r12}}], [%r4];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; END:"""
    result = np.zeros((16, 32), np.uint32)
    whole = np.array([[16 * (4 * (i % 8) + j % 4) + 4 * (j // 8) + j // 4 % 2 * 2 + i // 8 for j in range(32)]
                      for i in range(16)])  # fmt: skip
    halves = tensor(result.view(np.uint16), (64, 16), 128)
    found = launched(body, result, result, 32, (halves, halves))
    np.testing.assert_array_equal(found[first:], whole[: 16 - first])


def test_a_box_leaves_shared_memory_once_a_fence_has_shown_it_to_the_copy_engine():
    sent()
    with pytest.raises(Fault, match="no fence"):
        sent("")


def test_a_box_that_leaves_begins_in_the_array():
    with pytest.raises(Fault, match="begins before it"):
        sent(first=-2)


def test_an_image_map_walks_places_of_windows():
    """Two samples of 3 × 4 pixels, windows of 2 × 2 with a zero around: 4 × 5 places each, of which 12 from one on."""
    x = RANDOM.standard_normal((2, 3, 4, 8)).astype(BRAIN)
    strides = (2, 16, 64, 192)
    images = ImageMap(2, 16, 0, (8, 4, 3, 2), strides, (-1, -1), (0, 0), (1, 1, 1, 1), 8, 12)
    inside, places, _ = ImageMap.decode(images.encode()).elements([0, 2, 2, 0, 1, 1])
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows = [(n, p, q) for n in range(2) for p in range(4) for q in range(5)]
    first = rows.index((0, 3, 3))
    wanted = [padded[n, p + 1, q + 1] for n, p, q in rows[first : first + 12]]
    found = np.where(inside, x.reshape(-1)[np.where(inside, places // 2, 0)], BRAIN(0)).reshape(12, 8)
    np.testing.assert_array_equal(found, np.array(wanted))


def test_an_image_map_begins_at_a_place():
    images = ImageMap(2, 16, 0, (8, 4, 3, 2), (2, 16, 64, 192), (-1, -1), (0, 0), (1, 1, 1, 1), 8, 12)
    with pytest.raises(ValueError, match="a first pixel"):
        images.elements([0, 4, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="offsets"):
        images.elements([0, 0, 0, 0, 256, 0])
    with pytest.raises(Unsupported, match="corners"):
        ImageMap(2, 16, 0, (8, 4, 3, 2), (2, 16, 64, 192), (-129, 0), (0, 0), (1, 1, 1, 1), 8, 12).encode()
