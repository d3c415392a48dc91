"""The options of `explain`, `source`, `report` and `save`, told from arguments of the same names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .errors import ArgumentError


class _Default:
    """The default of an option in a signature: told from the same value that a caller gives."""

    def __init__(self, value: Any):
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


NONE: Any = _Default(None)
TRUE: Any = _Default(True)
FALSE: Any = _Default(False)
SM90: Any = _Default((90,))


def split_options(
    named: Mapping[str, Any], free: Collection[str], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arguments by name, options that were given); `free` are the parameters that no positional argument takes.

    A keyword that is called as a free parameter is the argument, and else the option.
    """
    given = {name: value for name, value in options.items() if not isinstance(value, _Default)}
    arguments = {name: value for name, value in given.items() if name in free}
    return {**named, **arguments}, {name: value for name, value in given.items() if name not in free}


def check_save_keywords(named: Mapping[str, Any], parameters: Collection[str]) -> None:
    """ArgumentError for `device=`, which `save` does not take: its targets are `cc`."""
    if "device" in named and "device" not in parameters:
        help = 'write cc="cpu" for this kind of CPU, cc=90 for a GPU of that compute capability, or a list of them'
        raise ArgumentError("save takes no device", "argument.unused", help=help)
