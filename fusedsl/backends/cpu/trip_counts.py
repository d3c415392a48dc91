"""How many turns of a loop a condition on integers stays as it is: words of loops in parts. At least one."""

from __future__ import annotations

from .llvm_values import LLVMValue, integer_of_literal, intrinsic, select

FOREVER = 1 << 62


def until_less(x: LLVMValue, y: LLVMValue, slope: LLVMValue) -> LLVMValue:
    """Turns until x < y becomes another: x grows by `slope` a turn."""
    if (step := integer_of_literal(slope)) is not None and step != 0:
        return _until_crossed(x, y, step)
    left = intrinsic("smax", intrinsic("ssub.sat", y, x), x.like(-FOREVER))  # far apart is far apart
    up = (left - 1) // select(slope > 0, slope, 1) + 1  # until x >= y
    down = -left // select(slope < 0, -slope, 1) + 1  # until x < y
    rising, falling = (slope > 0) & (left > 0), (slope < 0) & (left <= 0)
    return select(rising, up, select(falling, down, left.like(FOREVER)))


def until_within(x: LLVMValue, n: LLVMValue, slope: LLVMValue) -> LLVMValue:
    """Turns until 0 <= x < n becomes another, for n >= 0; one, where n is beyond an int64."""
    ends = (until_less(x, x.like(0), slope), until_less(x, n, slope))
    return select(n < 0, 1, intrinsic("smin", *ends))


def until_wrap(x: LLVMValue, n: LLVMValue, slope: LLVMValue) -> LLVMValue:
    """Turns until x, which is from 0 up to n, leaves that range; one, where there is no such number."""
    return select(n > 0, until_within(x, n, slope), 1)


def _until_crossed(x: LLVMValue, y: LLVMValue, step: int) -> LLVMValue:
    """The same for a literal slope: a difference that wraps around gives fewer turns or FOREVER, and both will do."""
    if step > 0:
        apart = y - x
        return select(apart > 0, (apart - 1) // step + 1, FOREVER)
    apart = x - y
    return select(apart >= 0, apart // -step + 1, FOREVER)
