"""Functions of generated lines and named constants; warm calls, which repeat one call and no other."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Sequence
from typing import Any

MOST_PARSES = 100  # of one text, while other threads parse
_parsing = threading.RLock()


def syntax_tree(source: str, path: str = "<unknown>") -> ast.Module:
    """The tree of a text, by `ast.parse`.

    CPython 3.11 counts the depth of its recursion once for all threads: it raises SystemError in one that another
    interrupts. Ours take turns; where another library parses meanwhile, the text is parsed again.
    """
    for _ in range(MOST_PARSES - 1):
        try:
            with _parsing:
                return ast.parse(source, path)
        except SystemError:
            continue
    return ast.parse(source, path)


class FunctionBuilder:
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


class NotRepeatable(Exception):
    """A call that only the general path can make."""


class WarmCallBuilder(FunctionBuilder):
    """A function that makes one kind of call again. It returns `miss` for any other: then the general path runs."""

    miss = "None"

    def unless(self, *conditions: str) -> None:
        """Miss if one of these conditions holds."""
        self.add(f"if {' or '.join(conditions)}:", f"    return {self.miss}")

    def attempt(self, exceptions: str, *lines: str) -> None:
        """Lines; miss if they raise one of these exceptions."""
        self.add("try:", *(f"    {line}" for line in lines), f"except {exceptions}:", f"    return {self.miss}")

    def unpack(self, names: Sequence[str], values: str) -> None:
        """Name the values of a sequence; miss if there are more or fewer."""
        if names:
            self.attempt("ValueError", f"{', '.join(names)}, = {values}")
        else:
            self.unless(values)

    def other_type(self, name: str, value: Any) -> str:
        """The condition that `name` is of another type than this value."""
        return f"type({name}) is not {self.name(type(value))}"
