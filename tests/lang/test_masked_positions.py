"""argmax and argmin of masked elements: the first of the extremes inside the mask, in one reading."""

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.report.explain import resolved_call

LEAST = {"float32": -np.inf, "float16": -np.inf, "int8": -128, "bool": False}


def expected(find, x, mask):
    """By rows; 0 where nothing is left."""
    places = [np.flatnonzero(row) for row in np.broadcast_to(mask, x.shape)]
    return [int(there[find(row[there])]) if there.size else 0 for row, there in zip(x, places)]


@pytest.mark.parametrize("dtype", LEAST)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_identity_of_an_extremum_inside_the_mask_is_found(name, dtype):
    draw = np.random.default_rng(3)
    x = draw.integers(0, 3, (40, 9)).astype(dtype)
    x[draw.random(x.shape) < 0.5] = LEAST[dtype]
    if name == "argmin" and dtype != "bool":
        x = ~x if dtype == "int8" else -x
    if np.dtype(dtype).kind == "f":
        x[draw.random(x.shape) < 0.1] = np.nan
    for mask in (draw.random(x.shape) < 0.3, draw.random(9) < 0.5):
        find = getattr(np, name)
        assert fd.evaluate(f"{name}(x, -1, where=m)", x=x, m=mask).tolist() == expected(find, x, mask)
        turned = fd.evaluate(f"{name}(x, 0, where=m.mT)", x=x.T, m=np.atleast_2d(mask))
        assert turned.tolist() == expected(find, x, mask)


@pytest.mark.parametrize("text", ["nanargmax(x)", "nanargmin(x, axis=0)", "argmax(x, 0, where=x > 0)"])
def test_positions_of_masked_elements_take_one_reading(text):
    call = resolved_call(fd.kernel(text)._program, [fd.spec((2048, 4096))], "cuda", 90)
    kernels = [plan.kernel for members in call.launches for plan in [call.built(members)]]
    assert [len(kernel.phases) for kernel in kernels] == [1]
