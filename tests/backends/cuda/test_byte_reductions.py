"""Reductions of elements of a byte have as many bytes in flight as those of wider ones."""

import pytest

import fusedsl as fd
from fusedsl.report.explain import resolved_call

pytest.importorskip("numba_cuda")


@pytest.mark.parametrize(
    ("text", "dtype"), [("sum(x)", "int8"), ("max(x)", "uint8"), ("argmax(x)", "int8"), ("all(x)", "bool")]
)
def test_a_thread_loads_four_vectors_of_bytes(text, dtype):
    call = resolved_call(fd.kernel(text)._program, [fd.spec(1 << 24, dtype)], "cuda", 90)
    ((members,),) = [call.launches]
    schedule = call.built(members).schedule
    assert (schedule.width, schedule.vectors, schedule.blocks) == (16, 4, 2)
