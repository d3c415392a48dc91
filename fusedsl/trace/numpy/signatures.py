"""NumPy's signatures: the arguments of a call that have an effect, by the language's names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ...errors import ArgumentError, Unsupported, suggest

# NumPy's parameters in order, for functions whose parameters differ from the language's.
SIGNATURES = {
    "sum": "a axis dtype out keepdims initial where",
    "prod": "a axis dtype out keepdims initial where",
    "mean": "a axis dtype out keepdims where",
    "var": "a axis dtype out ddof keepdims where mean correction",
    "std": "a axis dtype out ddof keepdims where mean correction",
    "max": "a axis out keepdims initial where",
    "min": "a axis out keepdims initial where",
    "any": "a axis out keepdims where",
    "all": "a axis out keepdims where",
    "argmax": "a axis out keepdims",
    "argmin": "a axis out keepdims",
    "nansum": "a axis dtype out keepdims initial where",
    "nanmean": "a axis dtype out keepdims where",
    "count_nonzero": "a axis keepdims",
    "clip": "a a_min a_max out min max dtype",
    "round": "a decimals out",
    "fix": "x out",
    "copy": "a order subok",
    "astype": "x dtype order casting subok copy device",
    "reshape": "a shape order newshape copy",
    "ravel": "a order",
    "flatten": "a order",
    "transpose": "a axes",
    "cumsum": "a axis dtype out",
    "cumprod": "a axis dtype out",
}
# Parameters without effect here, and the values of others that have none.
IGNORED = frozenset(["order", "subok", "device", "copy", "casting", "out"])
NEUTRAL = {"initial": (), "where": (True,), "dtype": (None,), "axis": (None,), "keepdims": (False,), "correction": ()}
RENAMED = {"a_min": "min", "a_max": "max", "newshape": "shape", "correction": "ddof"}


def unknown_keyword(name: str, key: str, parameters: Collection[str]) -> ArgumentError:
    """The error for a keyword that a function of NumPy with these parameters does not have."""
    near = suggest(key, parameters)
    help = f"did you mean {near}=?" if near else f"as in NumPy, it takes {', '.join(parameters)}"
    return ArgumentError(f"{name} takes no {key}=", "argument.keyword", help=help)


def arguments(name: str, args: tuple, kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """(the arguments that have an effect, by the language's names; out=)."""
    names = SIGNATURES[name].split()
    if len(args) > len(names):
        raise ArgumentError(
            f"{name} takes at most {len(names)} arguments",
            "argument.surplus",
            help=f"as in NumPy, they are {', '.join(names)}",
        )
    bound = dict(zip(names, args))
    for key, value in kwargs.items():
        if key in bound:
            raise ArgumentError(f"{key} is given twice", "argument.twice", help="give it by position or by name")
        if key not in names:
            raise unknown_keyword(name, key, names)
        bound[key] = value
    out = bound.get("out")
    if bound.get("order") not in (None, "C", "K", "A"):
        raise Unsupported(
            f"order={bound['order']!r} is not supported",
            "unsupported.order",
            help="only C order is there: transpose first",
        )
    effective = {"array": bound.pop(names[0])} if names[0] in bound else {}
    for key, value in bound.items():
        neutral = value is np._NoValue or any(value is n for n in NEUTRAL.get(key, (None,)))
        if key not in IGNORED and not neutral:
            effective[RENAMED.get(key, key)] = value
    if "array" not in effective:
        raise ArgumentError(f"{name} is missing its array", "argument.missing", help="pass the array first")
    return effective, out
