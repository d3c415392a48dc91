"""Signatures as a library declares them: an implementation names the parameters that it takes; others are refused, or
have no effect."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import Unsupported


@dataclass(frozen=True)
class Refusal:
    """Parameters that take their default alone. `message` shows the value of parameter p as {p}."""

    names: str
    message: str
    help: str
    code: str = "unsupported.function"

    def error(self, given: Mapping[str, Any]) -> Unsupported:
        """The error of a call with these arguments."""
        return Unsupported(self.message.format(**given), self.code, help=self.help)

    def check(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Unsupported if one of these parameters is given."""
        if any(_differs(given[name], defaults[name]) for name in self.names.split()):
            raise self.error(given)


def _differs(value: Any, default: Any) -> bool:
    if isinstance(default, bool):  # a flag: None and NumPy's False are off
        return bool(value) is not default
    return value is not default and not (isinstance(value, (bool, int, float, str)) and value == default)


def declared(signature: str, *refusals: Refusal) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function the parameters of `signature`, written as those of a lambda; it is passed those that it names."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        full: inspect.Signature = inspect.signature(eval(f"lambda {signature}: 0", function.__globals__))
        defaults = {name: p.default for name, p in full.parameters.items()}
        named = inspect.signature(function).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in named.values())

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = full.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__.strip('_')}() {error}") from None
            bound.apply_defaults()
            for refusal in refusals:
                refusal.check(bound.arguments, defaults)
            return function(**{name: x for name, x in bound.arguments.items() if takes_all or name in named})

        call.__name__, call.__doc__, call.__signature__ = function.__name__, function.__doc__, full  # type: ignore
        return call

    return decorate
