"""Conversions of tracers to Python's numbers: known for numbers and extents, an error for arrays."""

from __future__ import annotations

from typing import Any

from .operators import Operators


class NumberConversions(Operators):
    """Traced values as Python's numbers, where the trace knows them."""

    # -- values: known for numbers and extents, an error for arrays

    def _known(self, what: str, help: str | None = None) -> bool | int | float:
        with self.recorder.at_user_line():
            node = self.node
            if not node.type.weak and node.op != "const" and not self._decidable():
                single = all(map(self.recorder.builder.is_unit, node.type.shape))
                raise self.recorder.no_value(what, help, single)
            return self.recorder.specialize(self)

    def _decidable(self) -> bool:
        """True if it depends only on numbers and extents."""
        from ..ir.graph import walk

        return not self.node.type.shape and all(n.op != "param" for n in walk([self.node]))

    def __bool__(self) -> bool:
        return bool(self._known("the truth of an array"))

    def __float__(self) -> float:
        return float(
            self._known(
                "a float of an array",
                "keep it an array: operators and functions of arrays take it, as np.sqrt does for math.sqrt",
            )
        )

    def __int__(self) -> int:
        return int(self._known("an int of an array", "keep it an array: astype(x, int64)"))

    def __index__(self) -> int:
        if self.node.type.dtype.kind != "i":
            raise TypeError("only integers are an index")
        return int(self._known("an integer from an array"))

    def __hash__(self) -> int:
        return hash(self._known("the hash of an array")) if self.is_number else object.__hash__(self)

    def __round__(self, digits: int | None = None) -> Any:
        if self.is_number:
            return round(self._known("a number"), digits)
        return self.recorder.apply("round", self, digits or 0)

    def __complex__(self) -> complex:
        return complex(float(self))
