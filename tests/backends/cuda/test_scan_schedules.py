"""Scans keep an SM busy: tiles of long rows leave room for other blocks, few columns get more threads each."""

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.report.explain import resolved_call
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu


def schedule(text: str, shape: tuple[int, ...], dtype: str = "float32"):
    call = resolved_call(fd.kernel(text)._program, [fd.spec(shape, dtype)], "cuda", 90)
    ((members,),) = [call.launches]
    return call.built(members).schedule


@pytest.mark.parametrize(
    ("text", "dtype", "blocks"),
    [("cumsum(x)", "float32", 2), ("linear_scan(0.9, x)", "float32", 2), ("cumsum(x)", "int8", 2)],
)
def test_blocks_that_wait_for_earlier_tiles_share_an_sm_with_others(text, dtype, blocks):
    made = schedule(text, (1 << 24,), dtype)
    assert made.decoupled_lookback
    assert made.blocks >= blocks


@pytest.mark.parametrize(("rows", "lanes"), [(4096, 32), (8192, 16), (1 << 16, 8)])
def test_few_columns_have_more_threads_each(rows, lanes):
    made = schedule("cumsum(x, axis=0)", (2048, rows))
    assert (made.rows_across_lanes, made.threads) == (True, lanes)


@pytest.mark.parametrize("shape", [(300, 40), (513, 33)])
def test_many_threads_scan_a_column_in_order(shape):
    x = np.random.default_rng(2).integers(-50, 50, shape).astype(np.float32)
    with emulated_gpu(multiprocessors=4) as gpu:
        found = to_host(fd.kernel("cumsum(x, axis=0)", fallback=False)(gpu.asarray(x)))
    np.testing.assert_array_equal(found, np.cumsum(x, 0))
