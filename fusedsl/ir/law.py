"""A law of numbers: one row with an example for every target."""

from __future__ import annotations

from dataclasses import dataclass

Column = tuple[str, tuple]  # a dtype and four elements (one, for a whole reduction)


@dataclass(frozen=True)
class Law:
    """`text` of arrays `given` yields `wanted`, bit for bit; `elsewhere` says what others compute."""

    says: str
    elsewhere: str
    text: str
    given: tuple[Column, ...]
    wanted: Column


LOW = {8: -128, 32: -(2**31), 64: -(2**63)}
TINY, HALF_STEP = 2.0**-140, 2.0**-24  # below the normal float32 numbers; half an ulp of float32 at 1


def law(says: str, elsewhere: str, text: str, *columns: Column) -> Law:
    return Law(says, elsewhere, text, columns[:-1], columns[-1])
