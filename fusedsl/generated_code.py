"""Functions made of generated lines: the lines, and the constants that they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FunctionWriter:
    """The body of a function that is being written. Values never enter its text but by a name."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []

    def name(self, value: Any) -> str:
        """A name for a constant."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def add(self, *lines: str) -> None:
        """Further lines of the body."""
        self.lines += lines

    def function(self, name: str, parameters: str) -> Callable[..., Any]:
        """What has been written, as a function."""
        text = "\n    ".join([f"def {name}({parameters}):", *self.lines])
        exec(compile(text, f"<fusedsl {name}>", "exec"), self.names)
        return self.names.pop(name)  # its globals do not hold it: what it names is freed with it
