"""Writes Python functions from generated lines and named constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FunctionWriter:
    """The body of a function under construction. Values enter its text only by a name."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []

    def name(self, value: Any) -> str:
        """A name for a constant."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def add(self, *lines: str) -> None:
        """Append lines to the body."""
        self.lines += lines

    def function(self, name: str, parameters: str) -> Callable[..., Any]:
        """Compile the lines into a function."""
        text = "\n    ".join([f"def {name}({parameters}):", *self.lines])
        exec(compile(text, f"<fusedsl {name}>", "exec"), self.names)
        return self.names.pop(name)  # not in its own globals: constants are freed with it
