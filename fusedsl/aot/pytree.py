"""The pytree of a function's arguments and results, as JSON: tuples, lists and dicts, with arrays as leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ArgumentError
from ..ir.graph import Parameter
from ..trace import ArgumentRef, ResultRef
from ..trace.array_library import ConstantArray
from ..trace.containers import TracedContainer

PLAIN = (bool, int, float, str, type(None))


def arguments_form(placeholders: Any) -> Any:
    """The structure of arguments with a Parameter for every array and number; ArgumentError if it has no JSON."""
    return _encode(placeholders, _parameter, "takes")


def form_difference(saved: Any, given: Any, names: Sequence[str]) -> str:
    """The first argument of a call whose structure is not as it was saved, in words.

    >>> form_difference({"tuple": [{"tuple": [{"array": True}]}, {"dict": []}]},
    ...                 {"tuple": [{"tuple": [{"array": False}]}, {"dict": []}]}, ["rate"])
    'rate is a number, and was saved as an array'
    """
    pairs = list(zip(_arguments(saved), _arguments(given)))
    k = next(k for k, (old, new) in enumerate(pairs) if old != new)
    return _difference(names[k] if k < len(names) else f"argument {k}", *pairs[k])


def _difference(name: str, saved: Any, given: Any) -> str:
    """The first difference of two forms of a value that a caller reaches by `name`."""
    kind, before = _parts(saved)
    other_kind, now = _parts(given)
    if kind != other_kind or not before or list(before) != list(now):
        return f"{name} is {_spelled(given)}, and was saved as {_spelled(saved)}"
    key = next(key for key, part in before.items() if part != now[key])
    return _difference(f"{name}[{key!r}]", before[key], now[key])


def _parts(form: Any) -> tuple[str, dict[Any, Any]]:
    """(the kind of a form, its parts by index or key: none of an array, a number or a plain value)."""
    ((kind, content),) = form.items()
    if kind in ("tuple", "list"):
        return kind, dict(enumerate(content))
    return kind, dict(content) if kind == "dict" else {}


def _arguments(form: Any) -> list[Any]:
    """The forms of the positional arguments, then of those by name."""
    positional, named = form["tuple"]
    return [*positional["tuple"], *(part for _, part in named["dict"])]


def _spelled(form: Any) -> str:
    ((kind, content),) = form.items()
    match kind:
        case "array":
            return "an array" if content else "a number"
        case "value":
            return repr(content)
        case "dict":
            return f"a dict of {', '.join(repr(key) for key, _ in content) or 'nothing'}"
    return f"a {kind} of {len(content)}"


def result_form(template: Any) -> Any:
    """The structure of a function's result; ArgumentError if it has no JSON."""
    return _encode(template, _result, "returns")


def result_of_form(form: Any) -> Any:
    """The inverse of `result_form`."""
    ((kind, content),) = form.items()
    match kind:
        case "tuple":
            return tuple(map(result_of_form, content))
        case "list":
            return list(map(result_of_form, content))
        case "dict":
            return {key: result_of_form(part) for key, part in content}
        case "result":
            return ResultRef(content[0], content[1])
        case "argument":
            return ArgumentRef(content)
        case "value":
            return content
    raise ValueError(f"unknown form {kind!r}")


def _encode(value: Any, leaf: Callable[[Any], Any], what: str) -> Any:
    if (encoded := leaf(value)) is not None:
        return encoded
    if type(value) in (tuple, list):
        return {type(value).__name__: [_encode(part, leaf, what) for part in value]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": [[key, _encode(part, leaf, what)] for key, part in value.items()]}
    if type(value) in PLAIN:
        return {"value": value}
    original = value.owner if isinstance(value, TracedContainer) else value
    kind = type(value.array if isinstance(value, ConstantArray) else original)
    raise ArgumentError(
        f"the function {what} a {kind.__name__}, for which a file has no form",
        "argument.saved",
        help="computed arrays, numbers, strings and None are saved, in tuples, lists and dicts",
    )


def _parameter(value: Any) -> Any:
    return {"array": not value.scalar} if isinstance(value, Parameter) else None


def _result(value: Any) -> Any:
    if isinstance(value, ResultRef):
        return {"result": [value.index, value.number]}
    return {"argument": value.index} if isinstance(value, ArgumentRef) else None
