"""Argument binding for functions of the language: Python values to nodes, specialised where a trace needs the value."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError
from ..lang import argument_binding
from ..lang.functions import REQUIRED, ParameterSpec

# kinds of parameters whose values a trace needs
STATIC = ("int", "axis", "axes", "ints", "shape", "extent", "flag", "plain axis", "extents")
STATIC_NAMES = ("axis", "keepdims", "groups")  # the same, for parameters of the prelude


def bind_arguments(
    recorder: Any, name: str, parameters: tuple[ParameterSpec, ...], values: tuple, named: dict[str, Any]
) -> list[Any]:
    """A value of the language for each parameter of its function `name`; ArgumentError for one missing or unknown."""
    if (variadic := next((k for k, p in enumerate(parameters) if p.many), None)) is not None:
        values = (*values[:variadic], values[variadic:])
    given = dict(zip((p.name for p in parameters), values)) | named
    surplus = [k for k in given if k not in {p.name for p in parameters}]
    if surplus or len(values) > len(parameters):
        what = f"{surplus[0]}=" if surplus else f"{len(values)} arguments"
        raise ArgumentError(
            f"{name} takes no {what}",
            "argument.surplus",
            help=f"call it as {argument_binding.show_signature(name, parameters)}",
        )
    bound = []
    for p in parameters:
        if p.name not in given and p.default is REQUIRED:
            raise ArgumentError(
                f"{name} is missing {p.name}",
                "argument.missing",
                help=f"call it as {argument_binding.show_signature(name, parameters)}",
            )
        if p.name not in given:
            bound.append(p.default)
            continue
        x = given[p.name]
        if isinstance(x, (list, tuple)) and p.kind in ("array", "array | None"):
            x = recorder.array_like(x)
        bound.append(recorder.value(recorder.specialized(x) if p.kind in STATIC or p.name in STATIC_NAMES else x))
    return bound
