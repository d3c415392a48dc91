"""Attributes of an argument that no call can take: they raise why once the traced function uses them, no earlier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..errors import FusedslError

OPERATORS = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "or"),
    "xor",
)
COMPARISONS = ("lt", "le", "gt", "ge")
OTHERS = (
    *("neg", "pos", "abs", "invert", "len", "iter", "getitem", "setitem", "contains", "call", "bool", "int", "float"),
    *("index", "array", "array_ufunc", "array_function", "torch_function"),
)


class UndescribedAttribute:
    """A stand-in for an attribute, with the `fault` of describing it."""

    def __init__(self, fault: FusedslError):
        self.__dict__["_fault"] = fault

    def __getattr__(self, name: str) -> NoReturn:
        raise self._fault

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise self._fault


def _raise(self: UndescribedAttribute, *args: Any, **named: Any) -> NoReturn:
    raise self._fault


_names = (*OPERATORS, *(f"r{name}" for name in OPERATORS), *(f"i{name}" for name in OPERATORS), *COMPARISONS, *OTHERS)
_method: Callable = _raise
for _name in _names:
    setattr(UndescribedAttribute, f"__{_name}__", _method)
