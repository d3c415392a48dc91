"""The form of unrolled short rows: their extents and strides, as a part of a schedule's text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ShortRows:
    """Unrolled short rows."""

    counts: tuple[int, ...]  # extents of the unrolled axes
    strides: tuple[tuple[int | None, ...], ...]  # by operand: of the loop axis and the unrolled ones; None: run time

    def __str__(self) -> str:
        lines = [".".join("s" if step is None else str(step) for step in line) for line in self.strides]
        return f"{'x'.join(map(str, self.counts))}:{','.join(lines)}"

    @classmethod
    def read(cls, text: str) -> ShortRows:
        """The inverse of `str`."""
        counts, _, strides = text.partition(":")
        lines = [[None if step == "s" else int(step) for step in line.split(".")] for line in strides.split(",")]
        return cls(tuple(map(int, counts.split("x"))), tuple(map(tuple, lines)))
