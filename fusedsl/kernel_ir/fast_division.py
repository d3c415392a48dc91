"""Division by a number that only the host knows, as a multiplication (Granlund and Montgomery, PLDI 1994)."""

from __future__ import annotations

LIMIT = 1 << 31


def magic(divisor: int) -> int:
    """The packed multiplier (low word) and shift (high word) of n // divisor for 0 <= n < 2**31.

    n // divisor = umulhi(2 n, multiplier) >> shift, with shift = ceil(log2 divisor) and
    multiplier = ceil(2**(31 + shift) / divisor), which is below 2**32.
    """
    if divisor >= LIMIT:
        return 0  # every quotient is 0
    shift = (max(divisor, 1) - 1).bit_length()
    multiplier = -(-(1 << (31 + shift)) // max(divisor, 1))
    return shift << 32 | multiplier


def divide(n: int, packed: int) -> int:
    """n // divisor as a kernel computes it from `magic`; for tests."""
    return ((2 * n * (packed & 0xFFFFFFFF)) >> 32) >> (packed >> 32)


def divisors(along: int, width: int, extents: tuple[int, ...], more: int = 0) -> tuple[int, ...]:
    """What the magics of axes 1 … divide by: extents, and on the axis that vectors lie along their number; `more`."""
    vectors = -(-extents[along] // width) + more
    return tuple(vectors if axis == along else extents[axis] for axis in range(1, len(extents)))
