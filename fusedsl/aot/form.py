"""How a function takes its arguments and gives its results, as JSON: tuples, lists and dicts around places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError
from ..ir.graph import Parameter
from ..trace import ArgumentRef, ResultRef
from ..trace.array_library import ConstantArray
from ..trace.containers import TracedContainer

PLAIN = (bool, int, float, str, type(None))


def arguments_form(placeholders: Any) -> Any:
    """The form of arguments with a Parameter in place of every array and number; ArgumentError for what has none."""
    return _form(placeholders, _parameter, "takes")


def result_form(template: Any) -> Any:
    """The form of what a function returns; ArgumentError for what has none."""
    return _form(template, _result, "returns")


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
    raise ValueError(f"nobody knows the form {kind!r}")


def _form(value: Any, leaf: Callable[[Any], Any], what: str) -> Any:
    if (place := leaf(value)) is not None:
        return place
    if type(value) in (tuple, list):
        return {type(value).__name__: [_form(part, leaf, what) for part in value]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": [[key, _form(part, leaf, what)] for key, part in value.items()]}
    if type(value) in PLAIN:
        return {"value": value}
    kind = type(
        value.owner
        if isinstance(value, TracedContainer)
        else value.array
        if isinstance(value, ConstantArray)
        else value
    )
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
