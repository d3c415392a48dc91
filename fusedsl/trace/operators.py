"""Python's operators on tracers: Python's semantics for numbers, the library's for arrays."""

from __future__ import annotations

import operator
from typing import Any

from ..errors import ShapeError
from .array_state import ArrayState

BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
COMPARE = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
UNARY = {"neg": "negative", "invert": "bitwise_invert", "abs": "absolute"}


class Operators(ArrayState):
    """A traced value with Python's operators; each is a function of the language (`BINARY`, `COMPARE`, `UNARY`)."""

    compares = False  # True for a comparison of two Python numbers

    @property
    def is_number(self) -> bool:
        """True if it stands for a Python number."""
        return self.node.type.weak and not self.node.type.shape

    def _operate(self, name: str, *operands: Any) -> Any:
        """An operator, with the promotion rules of the arguments' library."""
        return self.recorder.apply(name, *operands)

    def _compare(self, name: str, other: Any) -> Any:
        result = self._operate(name, self, other)
        numbers = type(other) in (bool, int, float) or (isinstance(other, Operators) and other.is_number)
        result.compares = numbers and self.is_number
        return result

    def _binary(self, name: str, left: Any, right: Any) -> Any:
        """A binary operator: Python's semantics for Python numbers, the library's for arrays."""
        if name == "multiply" and self.is_number and any(type(v) in (list, tuple, str) for v in (left, right)):
            times: Any = self
            return operator.index(times) * (left if right is self else right)
        if name == "power" and _is_whole(left) and _is_whole(right) and right < 0:
            left = left * 1.0
        return self._operate(name, left, right)

    def _in_place(self, name: str, other: Any) -> Any:
        result = self._binary(name, self, other)
        if self.rebinds:
            return result
        with self.recorder.at_user_line():
            self._write(result.node, "same_kind")
        return self

    def __matmul__(self, other: Any) -> Any:
        return self.recorder.apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self.recorder.apply("matmul", other, self)

    def __imatmul__(self, other: Any) -> Any:
        result = self @ other
        if not hasattr(self.recorder.array_class, "__imatmul__"):
            return result
        with self.recorder.at_user_line():
            if result.ndim != self.node.type.rank:
                raise ShapeError("@= takes a matrix", "shape.matmul", help="write x = x @ y for a new array")
            self._write(result.node, "same_kind")
        return self

    def __divmod__(self, other: Any) -> Any:
        return self._operate("divmod", self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return self._operate("divmod", other, self)

    def __pos__(self) -> Any:
        return self._operate("positive", self)


def _is_whole(x: Any) -> bool:
    """True for a Python integer, traced or not."""
    return type(x) is int or (isinstance(x, Operators) and x.is_number and x.node.type.dtype.kind == "i")


def _operators() -> None:
    """Add Python's operators to Operators."""
    for python, name in BINARY.items():
        setattr(Operators, f"__{python}__", lambda self, other, name=name: self._binary(name, self, other))
    for python, name in COMPARE.items():
        setattr(Operators, f"__{python}__", lambda self, other, name=name: self._compare(name, other))
    for python, name in BINARY.items():
        setattr(Operators, f"__r{python}__", lambda self, other, name=name: self._binary(name, other, self))
        setattr(Operators, f"__i{python}__", lambda self, other, name=name: self._in_place(name, other))
    for python, name in UNARY.items():
        setattr(Operators, f"__{python}__", lambda self, name=name: self._operate(name, self))


_operators()
