"""The valid elements of a vector that crosses the end of an array."""

from __future__ import annotations

from dataclasses import dataclass

from ..compiler.numba_backend import I1, I32, ir


@dataclass(frozen=True)
class ValidElements:
    """Valid elements of a vector: those from `skip` on and below `count` (int32; None: no such bound).

    If `partial`, a vector may be valid in part; otherwise it is valid or not as a whole. Partial loads that are `exact`
    end with the last valid element, others with its aligned block of 16 bytes at most.
    """

    count: ir.Value | None
    skip: ir.Value | None = None
    partial: bool = False
    exact: bool = True

    def after(self, builder: ir.IRBuilder, elements: int) -> ValidElements:
        """The same, counted from a later element."""
        if not self.partial or not elements:
            return self
        room, skip = (None if x is None else builder.sub(x, I32(elements)) for x in (self.count, self.skip))
        return ValidElements(room, skip, True, self.exact)

    def has(self, builder: ir.IRBuilder, element: int) -> ir.Value:
        """True if this element is valid."""
        valid = I1(1)
        if self.count is not None:
            valid = builder.icmp_signed(">", self.count, I32(element if self.partial else 0))
        if self.partial and self.skip is not None:
            valid = builder.and_(valid, builder.icmp_signed("<=", self.skip, I32(element)))
        return valid

    def any(self, builder: ir.IRBuilder, width: int) -> ir.Value:
        """True if one of the first `width` elements is valid."""
        valid = I1(1) if self.count is None else builder.icmp_signed(">", self.count, I32(0))
        if self.partial and self.skip is not None:
            valid = builder.and_(valid, builder.icmp_signed("<", self.skip, I32(width)))
        return valid
