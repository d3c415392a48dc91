"""The PTX interpreter itself: its arithmetic, its scheduling, and that it catches what kernels must not do."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest

from ptx import Fault, Unsupported
from ptx import numbers as n
from ptx.machine import Grid, run
from ptx.memory import Arena
from ptx.program import load

RANDOM = np.random.default_rng(5)
HEAD = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .b64 %rd<20>;
.shared .align 16 .b8 memory[256];
ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y]; ld.param.u32 %r0, [n];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
mad.lo.s32 %r4, %r2, %r3, %r1;
mul.wide.s32 %rd2, %r4, 4; add.s64 %rd3, %rd0, %rd2; add.s64 %rd4, %rd1, %rd2;
shl.b32 %r5, %r1, 2; mov.u32 %r6, memory; add.s32 %r7, %r6, %r5;
"""


def launched(body, x, blocks=1, threads=32, number=0, result=None, seed=0, **grid):
    """The array y after a kernel `body`, whose threads know &x[i], &y[i], n, and the shared address of word tid as
    %rd3, %rd4, %r0 and %r7."""
    arena = Arena(1 << 16)
    result = np.zeros(x.size, np.uint32) if result is None else result
    places = [arena.allocate(a.nbytes) for a in (x, result)]
    for place, array in zip(places, (x, result)):
        arena.write(place, array.tobytes())
    program = load(HEAD + body + "\nret;\n}")["k"]
    run(program, arena, Grid(blocks, threads, **grid), struct.pack("<QQI4x", *places, number), seed, limit=20000)
    return arena.place(places[1], result.nbytes).view(result.dtype).copy()


def words(count=32):
    return np.arange(count, dtype=np.uint32)


# ---- arithmetic


@pytest.mark.parametrize("rounding", n.ROUNDINGS)
def test_fma_is_rounded_once(rounding):
    near = RANDOM.integers(0, 1 << 32, (3, 4000), np.uint32).view(np.float32)
    near = np.where(np.isfinite(near), near, np.float32(1.5))
    a, b, c = near[:, :2000]
    a[:1000], b[:1000] = 1 + a[:1000] * 0, np.float32(1) + RANDOM.integers(0, 4, 1000) * np.float32(2**-23)
    c[:1000] = np.float32(2.0**-24) * RANDOM.choice([1, -1, 1.0000001], 1000)
    with np.errstate(all="ignore"):
        found = n.fma(a, b, c, rounding)
    for x, y, z, f in zip(a, b, c, found):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert f == _rounded(exact, rounding) or (not np.isfinite(f) and abs(exact) > 2**127)


def _rounded(exact, rounding):
    """A fraction as float32, by comparing neighbours."""
    with np.errstate(over="ignore"):
        near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    around = [x for x in around if np.isfinite(x)]
    below = [x for x in around if Fraction(float(x)) <= exact]
    above = [x for x in around if Fraction(float(x)) >= exact]
    if rounding == "rn":
        ranked = sorted(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))
        return ranked[0]
    down = rounding == "rm" or (rounding == "rz" and exact >= 0)
    return max(below, default=np.float32(-np.inf)) if down else min(above, default=np.float32(np.inf))


def test_float64_fma_is_rounded_once():
    a, b = RANDOM.standard_normal((2, 3000))
    c = -a * b * (1 + RANDOM.integers(-2, 3, 3000) * 2.0**-52)
    a[0], b[0], c[0], a[1], b[1], c[1] = 1e300, 1e300, -1e308, 5e-324, 0.5, 5e-324
    with np.errstate(all="ignore"):
        found = n.fma(a, b, c)
    exact = [Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())]
    assert found[0] == np.inf and all(float(e) == f for e, f in zip(exact[1:], found[1:].tolist()))


def test_integers_multiply_divide_and_shift_as_in_c():
    for kind in (np.int32, np.uint32, np.int64, np.uint64):
        info = np.iinfo(kind)
        special = np.array([0, 1, 2, 3, info.max, info.min, info.max // 3, 7], kind)
        a, b = (x.ravel() for x in np.meshgrid(special, special))
        a, b = np.concatenate([a, -a]), np.concatenate([b, b[::-1]])
        bits = 8 * kind().itemsize
        for x, y, high, q, r in zip(a, b, n.high_product(a, b), n.divided(a, b), n.remainder(a, b)):
            x, y = int(x), int(y)
            assert int(high) == (x * y) >> bits
            if y:
                exact = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
                assert int(q) == int(np.array(exact % 2**bits, f"u{bits // 8}").view(kind))
                assert int(r) == x - exact * y
    for count in (0, 1, 31, 32, 200):
        x = np.array([-5, 5], np.int32)
        assert n.shifted(x, np.uint32(count), False).tolist() == [v >> min(count, 31) for v in (-5, 5)]
        assert n.shifted(x.view(np.uint32), np.uint32(count), True).tolist() == [(v << count) % 2**32 for v in (-5, 5)]


@pytest.mark.parametrize(
    ("text", "inputs", "wanted"),
    [
        ("prmt.b32 %r9, %r8, %r8, 0x0123;", [0x11223344], [0x44332211]),
        ("prmt.b32 %r9, %r8, 0, 0x8881;", [0x0000FF80], [0xFFFFFFFF]),
        ("bfe.u32 %r9, %r8, 4, 8;", [0xABCD], [0xBC]),
        ("bfe.s32 %r9, %r8, 4, 8;", [0xABCD], [0xFFFFFFBC]),
        ("bfi.b32 %r9, 5, %r8, 8, 4;", [0xFFFFFFFF], [0xFFFFF5FF]),
        ("lop3.b32 %r9, %r8, 0xF0F0F0F0, 0xFFFF0000, 0xE8;", [0xFF00FF00], [0xFFF0F000]),
        ("shf.l.wrap.b32 %r9, %r8, 0x12345678, 8;", [0xAB000000], [0x345678AB]),
        ("clz.b32 %r9, %r8;", [1, 0, 1 << 31], [31, 32, 0]),
        ("popc.b32 %r9, %r8;", [0xF0F1], [9]),
        ("brev.b32 %r9, %r8;", [1], [1 << 31]),
        ("cvt.rzi.s32.f32 %r9, %r8;", [np.float32(x) for x in (-2.9, 3e10, "nan")], [2**32 - 2, 2**31 - 1, 0]),
        ("cvt.rn.bf16x2.f32 %r9, 0f3F800000, %r8;", [np.float32(1.00390625)], [0x3F803F80]),
        ("cvt.rn.bf16x2.f32 %r9, 0f80400000, %r8;", [0x00400000], [0x80400040]),
        ("cvt.rn.bf16.f32 %h1, %r8; cvt.u32.u16 %r9, %h1;", [0x00400000, 0x80400000], [0, 0x8000]),
        ("cvt.rn.satfinite.e4m3x2.f32 %h1, 0f3F800000, %r8; cvt.u32.u16 %r9, %h1;", [np.float32(1e9)], [0x387E]),
        ("sub.cc.u32 %r10, %r8, 1; subc.u32 %r9, 5, 0;", [0, 1], [4, 5]),
        ("add.cc.u32 %r10, %r8, 1; addc.u32 %r9, 5, 0;", [0xFFFFFFFF, 1], [6, 5]),
        ("max.f32 %r9, %r8, 0f3F800000;", [np.float32("nan")], [np.float32(1)]),
        ("max.NaN.f32 %r9, %r8, 0f3F800000;", [np.float32("nan")], [0x7FC00000]),
        ("max.NaN.bf16x2 %r9, %r8, 0x3F80BF80;", [0x4000C000, 0xC0004000], [0x4000BF80, 0x3F804000]),
        ("dp4a.s32.s32 %r9, %r8, 0x01010101, 10;", [0xFF020304], [18]),
        ("dp2a.lo.s32.s32 %r9, %r8, 0x090905FE, 10;", [0xFFFF0003], [0xFFFFFFFF]),  # 3 * -2 - 1 * 5 + 10
        ("dp2a.hi.u32.u32 %r9, %r8, 0x02010000, 1;", [0x00030004], [11]),
        ("stacksave.u32 %r10; stackrestore.u32 %r10; mov.u32 %r9, %r8;", [7], [7]),
        ("stacksave.u64 %rd5; stackrestore.u64 %rd5; mov.u32 %r9, %r8;", [7], [7]),
    ],
)  # fmt: skip
def test_instructions(text, inputs, wanted):
    raw = np.array([x.view(np.uint32) if isinstance(x, np.float32) else x for x in inputs], np.uint32)
    expected = [int(x.view(np.uint32)) if isinstance(x, np.float32) else x for x in wanted]
    body = f"ld.global.u32 %r8, [%rd3]; {text} st.global.u32 [%rd4], %r9;"
    assert launched(body, raw, threads=len(raw)).tolist() == expected


# ---- threads


def test_shuffles_and_votes_wait_for_the_whole_warp():
    body = """
    setp.lt.u32 %p0, %r1, 7; mov.u32 %r8, %r1; @%p0 bra LESS; add.u32 %r8, %r8, 100; bra MEET;
    LESS: mul.lo.u32 %r8, %r8, 3;
    MEET: shfl.sync.bfly.b32 %r9|%p1, %r8, 1, 31, 0xffffffff; vote.sync.ballot.b32 %r10, %p0, 0xffffffff;
    add.u32 %r9, %r9, %r10; st.global.u32 [%rd4], %r9;"""
    lane = np.arange(32)
    value = np.where(lane < 7, lane * 3, lane + 100)
    assert launched(body, words()).tolist() == (value[lane ^ 1] + 127).tolist()


def test_a_block_may_wait_for_a_later_one_that_runs():
    body = """
    setp.ne.u32 %p0, %r2, 0; @%p0 bra TELL;
    WAIT: ld.acquire.gpu.global.u32 %r8, [%rd1+4]; setp.eq.u32 %p1, %r8, 0; @%p1 bra WAIT;
    st.global.u32 [%rd1], %r8; bra END;
    TELL: st.release.gpu.global.u32 [%rd1+4], 9; END:"""
    assert launched(body, words(2), blocks=2, threads=1).tolist() == [9, 9]


def test_atomics_take_turns_in_an_order_of_the_seed():
    body = "atom.add.global.u32 %r8, [%rd1], 1; setp.ne.u32 %p0, %r1, 5; @!%p0 st.global.u32 [%rd1+4], %r8;"
    found = {tuple(launched(body, words(), result=np.zeros(2, np.uint32), seed=seed)) for seed in range(4)}
    assert {count for count, _ in found} == {32} and len(found) > 1


def test_barriers_of_a_cluster_let_blocks_see_each_others_memory():
    body = """
    st.shared.u32 [%r7], %r2; barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
    mov.u32 %r8, %cluster_ctarank; xor.b32 %r8, %r8, 1; mapa.shared::cluster.u32 %r9, %r7, %r8;
    ld.shared::cluster.u32 %r10, [%r9]; st.global.u32 [%rd4], %r10;
    barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"""
    found = launched(body, words(128), blocks=4, cluster=2)
    assert found.reshape(4, 32)[:, 0].tolist() == [1, 0, 3, 2]


def test_stores_to_a_block_of_the_cluster_tell_a_barrier_there():
    body = """
    add.u32 %r10, %r6, 128; setp.ne.u32 %p0, %r1, 0; @%p0 bra READY; mbarrier.init.shared::cta.b64 [%r10], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 128; READY: barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire; mov.u32 %r8, %cluster_ctarank; xor.b32 %r8, %r8, 1;
    mapa.shared::cluster.u32 %r9, %r7, %r8; mapa.shared::cluster.u32 %r8, %r10, %r8;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r9], %r2, [%r8];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r10], 0; @!%p0 bra WAIT;
    ld.shared.u32 %r8, [%r7]; st.global.u32 [%rd4], %r8;"""
    found = launched(body, words(128), blocks=4, cluster=2)
    assert found.reshape(4, 32)[:, 0].tolist() == [1, 0, 3, 2]


# ---- what is caught


WRITE = "st.shared.u32 [%r7], %r1; "
OTHER = "{.reg .b32 a; xor.b32 a, %r1, 33; shl.b32 a, a, 2; add.s32 a, a, %r6; ld.shared.u32 %r8, [a];} "
LAST = OTHER + "st.global.u32 [%rd4], %r8; "
NEVER = """setp.ne.u32 %p0, %r1, 0; @%p0 bra END; mbarrier.init.shared::cta.b64 [%r6], 2;
mbarrier.arrive.shared::cta.b64 _, [%r6]; WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r6], 0; @!%p0 bra WAIT;
END:"""
PENDING = "shl.b32 %r9, %r1, 2; cp.async.ca.shared.global [%r7], [%rd3], 4; cp.async.commit_group; "


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ld.global.u32 %r8, [%rd3+4];", "reads 4 bytes at byte 256 of an allocation of 256 bytes"),
        ("st.global.u32 [%rd4+-4], %r1;", "before all allocations|writes 4 bytes at"),
        ("ld.global.u32 %r8, [%rd3+2];", "is not a multiple of 4"),
        ("ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd3];", "is not a multiple of 16"),
        ("ld.shared.u32 %r8, [%r7];", "before anybody has written it"),
        ("st.shared.u32 [%r7+4], %r1;", "is outside of 256 bytes"),
        (WRITE + LAST, "no barrier since thread"),
        (WRITE + "bar.warp.sync 0xffffffff; " + LAST, "no barrier since thread"),
        (WRITE + "bar.sync 0; " + LAST + WRITE, "writes after another thread's read"),
        ("st.shared.u32 [%r6], %r1;", "different values|overwrites"),
        ("setp.lt.u32 %p0, %r1, 40; @%p0 bra B; bar.sync 1; B: bar.sync 0;", "wait for ever"),
        ("setp.eq.u32 %p0, %r1, 0; @%p0 bra END; shfl.sync.idx.b32 %r8, %r1, 0, 31, 0xffffffff; END:", "wait for ever"),
        ("shfl.sync.idx.b32 %r8, %r1, 40, 31, 0x0000ffff;", "not among the threads|takes no part"),
        ("LOOP: bra LOOP;", "no end"),
        (NEVER, "no phase of a barrier has ended"),
        (PENDING + "ld.shared.u32 %r8, [%r7]; cp.async.wait_all;", "before anybody has written it"),
        (PENDING, "ends before its copies"),
        ("stackrestore.u32 %r1;", "was not saved"),
    ],
)
def test_what_kernels_must_not_do_is_named(body, message):
    with pytest.raises(Fault, match=message):
        launched(body, words(64), threads=64)


@pytest.mark.parametrize(
    "body",
    [
        WRITE + "bar.sync 0; " + LAST,
        WRITE + "bar.sync 0; " + LAST + " bar.sync 0; " + WRITE,
        PENDING + "cp.async.wait_group 0; bar.sync 0; " + LAST,
    ],
)
def test_barriers_make_it_right(body):
    assert launched(body, words(64), threads=64).tolist() == (np.arange(64) ^ 33).tolist()


def test_bytes_that_nobody_wrote_are_not_read():
    arena = Arena(1 << 16)
    place = arena.allocate(128)
    program = load(HEAD + "ld.global.u32 %r8, [%rd3]; ret; }")["k"]
    with pytest.raises(Fault, match="nobody has written"):
        run(program, arena, Grid(1, 32), struct.pack("<QQI4x", place, place, 0))


def test_what_is_unknown_is_refused():
    for text in ("wmma.load.a.sync %r8, [%rd0];", "add.wild.s32 %r8, %r1, %r2;"):
        with pytest.raises(Unsupported):
            load(HEAD + text + " ret; }")


def test_what_a_target_does_not_have_is_refused():
    text = HEAD + "cp.async.commit_group; ret; }"
    load(text)
    with pytest.raises(Unsupported, match="commit_group on sm_75"):
        load(text.replace("sm_90", "sm_75"))
