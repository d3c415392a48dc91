"""Views whose offsets or extents pass 2^31 elements, in every kind of kernel, on the CPU and on a card."""

from __future__ import annotations

import numpy as np
import oracle
import pytest

import fusedsl as fd

FAR = 1 << 31
RNG = np.random.default_rng(0)
AT = np.array([1, -1, 39, 50])
# values, where the view begins and its strides, in bytes: elements that lie up to 5 GiB apart
VIEWS = {
    "y": (RNG.integers(-128, 128, (3, 40), np.int8), 0, (FAR - 8, 1)),
    "z": (RNG.integers(-128, 128, (40, 3), np.int8), 4096, (1, FAR - 8)),
    "s": (RNG.integers(-128, 128, (6, 5), np.int8), 8192 + 5 * (FAR // 4 + 3), (-(FAR // 4) - 3, 1 << 20)),
    "f": (RNG.standard_normal((18, 64)).astype(np.float16), 16384, (FAR // 8 + 16, 2)),
    "g": (RNG.standard_normal((36, 64)).astype(np.float16), 32768, (FAR // 16, 2)),
}
TEXTS = (
    "y * 2 + 1, y[::-1, 3:] + z.T[:, 3:], s[:, ::2] - s[0, 1]",  # maps, one across
    "sum(y, -1), max(z, axis=0), argmax(y, 0), sum(s), y - min(y, axis=-1, keepdims=True)",  # folds of rows and columns
    "cumsum(s, axis=0), sort(y), topk(y, 2)[1], z[i] + 1, take_along_axis(y, abs(y % 50), 1)",
    "y @ z, f @ g.mT, softmax(f @ g.mT / 4) @ g, layer_norm(g, axis=0), softmax(f)",
)


def far_views(bytes_of, module):
    """The views on one array of bytes, by name."""
    views = {}
    for name, (values, begin, strides) in VIEWS.items():
        room = bytes_of[begin : begin + (len(bytes_of) - begin) // 2 * 2].view(values.dtype)
        views[name] = module.lib.stride_tricks.as_strided(room, values.shape, strides)
        views[name][...] = module.asarray(values)
    return views


def held(text, given, back):
    """Raises AssertionError where a text of far views is not what it is of their values."""
    near = {name: view[0] for name, view in VIEWS.items()}
    wanted = oracle.evaluate(text, **near, i=AT)
    for k, (found, exact) in enumerate(zip(fd.evaluate(text, given), wanted, strict=True)):
        made = back(found)
        assert made.dtype == exact.dtype, (text, k)
        np.testing.assert_allclose(made, exact, rtol=2e-3, atol=2e-3, err_msg=f"{text}, result {k}")


def test_elements_that_lie_far_apart():
    views = far_views(np.zeros(5 << 30, np.int8), np)  # pages that nothing touches take no memory
    for text in TEXTS:
        held(text, views | {"i": AT}, np.asarray)
    fd.evaluate("y + 1", y=VIEWS["y"][0], out=views["y"])
    assert np.array_equal(views["y"], VIEWS["y"][0] + 1)


def test_extents_beyond_two_billion():
    same = np.lib.stride_tricks.as_strided(np.int8([3]), (FAR + 5,), (0,))  # one byte of memory
    text = "x[-3:] + x[5], sum(x), argmax(x), iota(x, 0)[-2:], uniform(7, x)[-2:], roll(x, 9)[-1]"
    last, total, first, position, drawn, rolled = fd.evaluate(text, x=same)
    assert last.tolist() == [6] * 3 and total == 3 * (FAR + 5) and first == 0 and rolled == 3
    assert position.tolist() == [FAR + 3, FAR + 4] and drawn[0] != drawn[1]


@pytest.mark.gpu
def test_elements_that_lie_far_apart_on_a_card():
    import cupy

    views = far_views(cupy.zeros(5 << 30, cupy.int8), cupy)
    for text in TEXTS:
        held(text, views | {"i": cupy.asarray(AT)}, cupy.asnumpy)
    fd.evaluate("y + 1", y=cupy.asarray(VIEWS["y"][0]), out=views["y"])
    assert np.array_equal(views["y"].get(), VIEWS["y"][0] + 1)


@pytest.mark.gpu
def test_extents_beyond_two_billion_on_a_card():
    import cupy

    count = FAR + 4098
    memory = cupy.empty(2 * count, cupy.int8)
    cupy.ElementwiseKernel("", "int8 x", "x = i % 101", "fill")(memory)
    x, i = memory[:count], cupy.asarray([count - 1, FAR, -1, count])
    x[FAR + 7] = 127
    total, first, most, read, position, drawn = fd.evaluate(
        "sum(x), argmax(x), max(where(x > 120, astype(iota(x, 0), int64), 0)), x[i] + 1, x[-3:], uniform(7, x)[-2:]",
        {"x": x, "i": i},
    )
    assert int(total) == int(x.sum(dtype=cupy.int64)) and int(first) == FAR + 7 == int(most)
    assert read.get()[:3].tolist() == (x[i[:3]] + 1).get().tolist() and int(read[3]) == 1
    assert bool((position == x[-3:]).all())
    same = np.lib.stride_tricks.as_strided(np.int8([3]), (count,), (0,))
    assert np.array_equal(drawn.get(), fd.evaluate("uniform(7, x)[-2:]", x=same))

    def ends(found, wanted):
        assert found.size == wanted.size
        assert bool((found[-9000:] == wanted[-9000:]).all() and (found[:9000] == wanted[:9000]).all())

    sums = fd.evaluate("cumsum(x)", x=x)
    assert int(sums[-1]) == int(total) and bool((sums[-5000:] - sums[-5001:-1] == x[-5000:]).all())
    del sums
    ends(fd.evaluate("concat([x[4:], x[::-1]])", x=x), cupy.concatenate([x[4:], x[::-1]]))
    ends(fd.evaluate("max(y, axis=0)", y=memory.reshape(2, -1)), memory.reshape(2, -1).max(axis=0))
    rows = memory[: FAR + 4096].reshape(-1, 4)
    ends(fd.evaluate("max(y, axis=1)", y=rows), rows.max(axis=1))
    ends(fd.evaluate("sort(y)", y=rows), cupy.sort(rows, axis=1))
    table, across = memory[: (FAR >> 15) * 32776].reshape(-1, 32776), memory[5:][: (FAR >> 15) * 32776]
    across = across.reshape(32776, -1)
    ends(fd.evaluate("y + z.T", y=table, z=across), table + across.T)
    words = memory[: (1 << 30) + 16].view(cupy.uint8)
    bits = fd.evaluate("unpack(w, bits=4, signed=False)", w=words)
    assert bits.size == FAR + 32 and bool((bits[-64::2] == words[-32:] & 15).all())
    assert bool((bits[-63::2] == words[-32:] >> 4).all())
    halves = cupy.ones(FAR + 2, cupy.float16)
    halves[-5:] = cupy.arange(4, 9)
    ends(fd.evaluate("x / max(x)", x=halves), halves / 8)
