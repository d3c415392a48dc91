"""Temporaries hold the dtype that their values are computed in, unless these were rounded to a narrower one."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

R = np.random.default_rng(0)
NARROW = {
    "a": R.standard_normal((4, 2, 3, 5, 5)).astype(np.float16),
    "c": R.standard_normal(5).astype(np.float16),
    "x": R.standard_normal((6, 5, 8)).astype(np.float16),
}
AGAIN = (
    "group_norm(convolve(a, c, 'same'), 1)",
    "t = convolve(a, c, 'same'); return t, group_norm(t, 1)",
    "t = reshape(cumsum(x, axis=-1), (-1, 5)); return t - mean(t, axis=0)",
    "t = swapaxes(softmax(x * 3, -1), 0, 1); u = reshape(t, (-1, 12)); return u / sum(u, axis=-1, keepdims=True)",
)


@pytest.mark.parametrize("text", AGAIN)
def test_what_is_stored_again_for_a_reshape_is_not_rounded(text):
    """A stored value of 16 bits whose computed dtype is float32 was taken for an argument, and copied to 16 bits."""
    kernel = fd.kernel(text, verify=True, fallback=False)
    arrays = {name: NARROW[name] for name in kernel.params}
    kernel(**arrays)
    lines = str(kernel.explain(**arrays)).splitlines()
    assert all("float16" not in line for line in lines if "temporary" in line and "writes" in line)


def test_a_reshape_of_what_lost_a_unit_axis_is_a_view():
    kernel = fd.kernel(AGAIN[0])
    found = str(kernel.explain(a=NARROW["a"], c=NARROW["c"]))
    assert found.startswith("2 kernels") and "temporary 1" not in found


def test_a_rounded_value_is_stored_in_its_own_dtype():
    text = "t = float16(convolve(a, c, 'same')); return group_norm(t, 1)"
    found = str(fd.kernel(text, verify=True).explain(a=NARROW["a"], c=NARROW["c"]))
    assert "writes     temporary 0  float16" in found
