"""Convolutions with channels: against sums over windows in NumPy, and torch's functions where torch is there."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

RANDOM = np.random.default_rng(11)
SIZES = {1: (9,), 2: (7, 8), 3: (5, 6, 4)}
OPTIONS = {
    "plain": {},
    "strided and padded": {"stride": 2, "padding": 1},
    "dilated": {"dilation": 2, "padding": 2},
    "same": {"padding": "same"},
}


def arrays(axes: int, groups: int = 1, into: int = 4):
    x = RANDOM.standard_normal((2, 4, *SIZES[axes])).astype(np.float32)
    return x, RANDOM.standard_normal((into, 4 // groups, *(3, 2, 3)[:axes])).astype(np.float32)


def reference(x, w, stride=1, padding=0, dilation=1, groups=1):
    """The sum over channels and taps of windows, in float64."""
    axes = x.ndim - 2
    reach = [dilation * (k - 1) for k in w.shape[2:]]
    edges = [(r // 2, r - r // 2) for r in reach] if padding == "same" else [(padding, padding)] * axes
    wide = np.pad(x.astype(float), ((0, 0), (0, 0), *edges))
    windows = np.lib.stride_tricks.sliding_window_view(wide, [r + 1 for r in reach], tuple(range(2, 2 + axes)))
    every = slice(None)
    windows = windows[(every, every, *[slice(None, None, stride)] * axes, *[slice(None, None, dilation)] * axes)]
    n, channels, *places = windows.shape
    windows = windows.reshape(n, groups, channels // groups, *places)
    filters = w.astype(float).reshape(groups, -1, *w.shape[1:])
    letters, taps = "xyz"[:axes], "ijk"[:axes]
    total = np.einsum(f"ngc{letters}{taps},goc{taps}->ngo{letters}", windows, filters)
    return total.reshape(n, -1, *total.shape[3:])


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_values(axes, groups, options):
    x, w = arrays(axes, groups)
    given = OPTIONS[options] | {"groups": groups}
    words = ", ".join(f"{name}={value!r}" for name, value in given.items())
    result = fd.evaluate(f"conv(x, w, {words})", x=x, w=w)
    np.testing.assert_allclose(result, reference(x, w, **given), 2e-5, 2e-5)


@pytest.mark.parametrize(("axes", "layout"), [(1, "NWC"), (2, "NHWC"), (3, "NDHWC")])
@pytest.mark.parametrize("groups", [1, 4])
def test_channels_that_are_last(axes, layout, groups):
    x, w = arrays(axes, groups, into=8)
    text = f"conv(x, w, padding=1, groups={groups}, layout='{layout}')"
    result = fd.evaluate(text, x=np.moveaxis(x, 1, -1), w=np.moveaxis(w, 1, -1))
    wanted = np.moveaxis(reference(x, w, padding=1, groups=groups), 1, -1)
    np.testing.assert_allclose(result, wanted, 2e-5, 2e-5)


def test_pairs_of_numbers_pad_before_and_behind():
    x, w = arrays(2)
    result = fd.evaluate("conv(x, w, (1, 2), ((1, 0), (0, 2)))", x=x, w=w)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)))
    np.testing.assert_allclose(result, reference(wide, w)[..., ::2], 2e-5, 2e-5)


def test_it_is_one_kernel_that_stores_no_windows():
    x, w = RANDOM.standard_normal((2, 16, 20, 20)), RANDOM.standard_normal((16, 16, 3, 3))
    kernel = fd.kernel("maximum(conv(x, w) + b[:, None, None], 0)", max_kernels=1)
    b = RANDOM.standard_normal(16)
    wanted = np.maximum(reference(x, w) + b[:, None, None], 0)
    np.testing.assert_allclose(kernel(x, w, b), wanted, 1e-12, 1e-12)
    assert not kernel.explain(x, w, b).to_dict()["temporaries"]


def test_functions_of_torch_are_traced():
    torch = pytest.importorskip("torch")
    functions = torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d
    for axes, convolution in enumerate(functions, 1):
        for groups in (1, 2):
            x, w = map(torch.from_numpy, arrays(axes, groups))
            bias = torch.arange(4.0)

            def function(x, w, bias, convolution=convolution, groups=groups, axes=axes):
                y = convolution(x, w, bias, stride=[2] * axes, padding=(1,) * axes, groups=groups)
                return torch.relu(y + convolution(x[0], w, None, 2, 1, 1, groups))

            torch.testing.assert_close(fd.fuse(function)(x, w, bias), function(x, w, bias))


def test_what_torch_refuses_is_refused():
    torch = pytest.importorskip("torch")
    conv1d, conv2d = torch.nn.functional.conv1d, torch.nn.functional.conv2d
    x, w = map(torch.from_numpy, arrays(1))
    x2, w2 = map(torch.from_numpy, arrays(2))
    for function, given in (
        (conv1d, (x2, w2)),
        (conv2d, (x, w)),
        (lambda x, w: conv1d(x, w, stride=2, padding="same"), (x, w)),
        (lambda x, w: conv1d(x, w), (x, w.double())),
        (lambda x, w: conv1d(x, w, x[0, 0, :1]), (x, w)),
    ):
        with pytest.raises(fd.FusedslError):
            fd.fuse(function)(*given)
        with pytest.raises(RuntimeError):
            function(*given)


FAULTS = {
    "conv(x, w)": ("shape.conv", "the array has 4 channels, and the weights take 2"),
    "conv(x, w, groups=3)": ("shape.conv", "3 groups of 2"),
    "conv(x, w[:3], groups=2)": ("shape.conv", "3 channels of the result are no 2 groups"),
    "conv(x[0], w, groups=2)": ("shape.conv", "weights of the same rank"),
    "conv(x, w, groups=2, dilation=9)": ("shape.conv", "taps that span 19 elements, in an axis of 9"),
    "conv(x, w, stride=0)": ("argument.range", "stride is 1 or more"),
    "conv(x, w, padding=(1, 2), groups=2)": ("argument.kind", "padding has 2 numbers, for 1 axis"),
    "conv(x, w, padding=-1)": ("argument.range", "padding is 0 or more"),
    "conv(x, w, padding='full')": ("argument.choice", "padding of conv"),
    "conv(x, w, layout='CNW')": ("argument.choice", "did you mean"),
    "conv(x, w[..., :0], groups=2)": ("shape.empty", "empty"),
    "conv(x, w, groups=0)": ("argument.range", "groups is 1 or more"),
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults(text):
    x, w = arrays(1, groups=2)
    with pytest.raises(fd.FusedslError) as fault:
        fd.evaluate(text, x=x, w=w)
    assert fault.value.code == FAULTS[text][0] and FAULTS[text][1] in str(fault.value)
