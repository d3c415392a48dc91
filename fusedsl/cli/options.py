"""Options that commands share: arrays and numbers of a call; and options that exclude each other."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable
from typing import Any

from ..errors import ArgumentError


def check_exclusive(chosen: argparse.Namespace, option: str, others: Iterable[str]) -> None:
    """ArgumentError if one of the other options, which this one would leave without effect, is given too."""
    for name in others:
        if getattr(chosen, name) not in (None, False, [], ()):
            given = name.upper() if name == "suites" else f"--{name.replace('_', '-')}"
            message = f"{option} is given, beside which {given} has no effect"
            raise ArgumentError(message, "argument.option", help=f"leave one of the two out: {option}, {given}")


def add_values(parser: argparse.ArgumentParser) -> None:
    """The options that name the arguments of a call."""
    parser.add_argument(
        *("--shape", "-s"),
        action="append",
        default=[],
        metavar="NAME=SHAPE[:DTYPE]",
        help="an array, e.g. x=4096,4096:float32; repeat, or x=... y=... after one --shape",
        nargs="+",
    )
    parser.add_argument("--number", "-n", action="append", default=[], metavar="NAME=VALUE", help="a Python number")


def values_of(chosen: argparse.Namespace) -> dict[str, Any]:
    """The specs and numbers that these options name."""
    return dict(_array(array) for group in chosen.shape for array in group) | dict(map(_number, chosen.number))


def _array(text: str) -> tuple[str, Any]:
    """("x", spec) of `x=4096,4096:float32`."""
    from ..specs import spec

    name, _, description = text.partition("=")
    shape, _, dtype = description.partition(":")
    sizes = [part for part in shape.strip("()[] ").replace("x", ",").split(",") if part.strip()]
    if not name.isidentifier() or "=" not in text or not all(part.strip().isdigit() for part in sizes):
        help = "write NAME=SHAPE[:DTYPE], e.g. x=4096,4096:float32"
        raise ArgumentError(f"{text!r} is no shape of an array", "argument.shape", help=help)
    return name, spec([int(part) for part in sizes], dtype or "float32")


def _number(text: str) -> tuple[str, bool | int | float]:
    """("eps", 1e-5) of `eps=1e-5`."""
    name, _, value = text.partition("=")
    try:
        number = ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        number = None
    if not name.isidentifier() or not isinstance(number, (bool, int, float)):
        raise ArgumentError(f"{text!r} is no number", "argument.number", help="write NAME=VALUE, e.g. eps=1e-5")
    return name, number
