"""The kernel of the suite `launch` in Triton, which reads its source from a file."""

import triton
import triton.language as tl


@triton.jit
def fma(a, b, c, y, n, size: tl.constexpr):
    at = tl.program_id(0) * size + tl.arange(0, size)
    inside = at < n
    tl.store(y + at, tl.load(a + at, inside) * tl.load(b + at, inside) + tl.load(c + at, inside), inside)
