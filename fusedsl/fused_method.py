"""A fused function that is read from an instance of the class whose method it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .inspection import GivenCall, Inspectable, Inspected, SavedCall

if TYPE_CHECKING:
    from .program import Program
    from .runtime.arrays import Facts


class FusedMethod(Inspectable):
    """`instance.method` of a fused function: called, explained and saved with the instance as its first argument.

    Like Python's own, two of them are equal if function and instance are the same, and it is pickled as an attribute of
    its instance.
    """

    def __init__(self, fused: Any, instance: Any):
        self.__func__, self.__self__ = fused, instance
        self.__doc__ = fused.__doc__

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        return self.__func__(self.__self__, *args, **keywords)

    def program(self, /, *args: Any, **keywords: Any) -> tuple[Program, Facts]:
        """The program that these arguments run, and their facts."""
        return self.__func__.program(self.__self__, *args, **keywords)

    def _inspect(self, given: GivenCall, look: Callable[..., Inspected]) -> Inspected:
        return self.__func__._inspect(given._replace(args=(self.__self__, *given.args)), look)

    def _to_save(self, given: GivenCall) -> SavedCall:
        return self.__func__._to_save(given._replace(args=(self.__self__, *given.args)))

    @property
    def _title(self) -> str:
        return self.__func__._title

    def __getattr__(self, name: str) -> Any:
        if name in ("__func__", "__self__"):  # of an object that is being made
            raise AttributeError(name)
        return getattr(self.__func__, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FusedMethod):
            return NotImplemented
        return self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __reduce__(self) -> tuple:
        return getattr, (self.__self__, self.__func__.__name__)

    def __repr__(self) -> str:
        return f"<{self.__func__!r} bound to {self.__self__!r}>"
