"""Temporaries hold the dtype that their values are computed in, unless these were rounded to a narrower one."""

from __future__ import annotations

import ml_dtypes
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


def test_a_product_that_is_rounded_before_a_reshape_is_stored_in_16_bits():
    text = """q = reshape(bfloat16(x @ w), (size(c, 0), -1, size(c, 1)))
    q * c[:, None] + concat([-q[..., 4:], q[..., :4]], axis=-1) * c[:, None]"""
    random = np.random.default_rng(3)
    x, w, c = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((32, 64), (64, 48), (32, 8)))
    for given, stored in ((text, "bfloat16"), (text.replace("bfloat16(x @ w)", "x @ w"), "float32")):
        kernel = fd.kernel(given, verify=True)
        found = kernel(x, w, c)
        told = str(kernel.explain(x, w, c))
        assert f"temporary 0  {stored}[32, 48" in told
        q = x.astype(np.float32) @ w.astype(np.float32)
        q = (q.astype(ml_dtypes.bfloat16).astype(np.float32) if stored == "bfloat16" else q).reshape(32, 6, 8)
        turned = np.concatenate([-q[..., 4:], q[..., :4]], axis=-1)
        expected = (q + turned) * c.astype(np.float32)[:, None]
        np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2.0**-7, atol=2e-2)
