"""Machine code of a kernel, with what the linker says of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CudaBinary:
    """Machine code of one kernel, and what the linker says of it."""

    code: bytes
    function: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    log: str


def architecture(cc: tuple[int, int]) -> str:
    """The target of this compute capability: with its own instructions (sm_90a) where it has a family of them."""
    return f"sm_{cc[0]}{cc[1]}{'a' if cc[0] >= 9 else ''}"
