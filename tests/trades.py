"""Functions that people of a trade write in NumPy, with their arguments, as tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Trade:
    """A function with the arguments of a call."""

    function: Callable[..., Any]
    arguments: tuple
    named: dict[str, Any]


class Trades(list[Trade]):
    """A table of functions, which a decorator adds to."""

    def add(self, *arguments: Any, **named: Any) -> Callable[[Callable], Callable]:
        def added(function: Callable) -> Callable:
            self.append(Trade(function, arguments, named))
            return function

        return added


def shaped(draw: Callable[[tuple[int, ...]], Any]) -> Callable[..., Any]:
    """A generator's method that takes the extents one by one."""
    return lambda *shape: draw(shape)
