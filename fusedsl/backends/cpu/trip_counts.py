"""Trip counts of split loops: how many iterations (at least one) an integer condition is invariant for."""

from __future__ import annotations

from .llvm_values import LLVMValue, integer_of_literal, intrinsic, select

FOREVER = 1 << 62


def until_less(x: LLVMValue, y: LLVMValue, slope: LLVMValue) -> LLVMValue:
    """Iterations until x < y changes; x grows by `slope` an iteration."""
    if (step := integer_of_literal(slope)) is not None and step != 0:
        return _until_crossed(x, y, step)
    left = intrinsic(
        "smax", intrinsic("ssub.sat", y, x), x.like(-FOREVER)
    )  # saturates: a distance beyond 2^62 is never crossed
    up = (left - 1) // select(slope > 0, slope, 1) + 1  # until x >= y
    down = -left // select(slope < 0, -slope, 1) + 1  # until x < y
    rising, falling = (slope > 0) & (left > 0), (slope < 0) & (left <= 0)
    return select(rising, up, select(falling, down, left.like(FOREVER)))


def until_within(x: LLVMValue, n: LLVMValue, slope: LLVMValue) -> LLVMValue:
    """Iterations until 0 <= x < n changes, for n >= 0; one if n is beyond an int64."""
    ends = (until_less(x, x.like(0), slope), until_less(x, n, slope))
    return select(n < 0, 1, intrinsic("smin", *ends))


def until_wrap(x: LLVMValue, n: LLVMValue, slope: LLVMValue) -> LLVMValue:
    """Iterations until x, in [0, n), leaves that range; one if n <= 0."""
    return select(n > 0, until_within(x, n, slope), 1)


def _until_crossed(x: LLVMValue, y: LLVMValue, step: int) -> LLVMValue:
    """until_less for a literal slope; a difference that wraps gives FOREVER or fewer iterations: both are valid."""
    if step > 0:
        distance = y - x
        return select(distance > 0, (distance - 1) // step + 1, FOREVER)
    distance = x - y
    return select(distance >= 0, distance // -step + 1, FOREVER)
