"""Scalar functions of a generated file: their types, and those that are called once for a row."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import DType, dtype
from ..backend import ScalarFunction, intrinsic, numba_type


def scalar_types(signature: str) -> tuple[list[DType], list[DType]]:
    """`"float32, bool -> float32"` as argument and result types."""
    sides = [[dtype(name.strip()) for name in side.split(",") if name.strip()] for side in signature.split("->")]
    return sides[0], sides[1]


def scalar_function(signature: str, function: Callable) -> ScalarFunction:
    """A generated function with its types; narrow floats arrive widened."""
    arguments, results = scalar_types(signature)
    return ScalarFunction(
        function, [numba_type(d.compute.name) for d in arguments], [numba_type(d.compute.name) for d in results]
    )


def once(signature: str) -> Callable[[Callable], Callable]:
    """Decorator: a scalar function that is called once for a row, or by every thread alike."""

    def wrap(function: Callable) -> Callable:
        body = scalar_function(signature, function)

        def rule(*kinds):
            def emit(e, *values):
                cast = [e.cast(v, kind, want) for v, kind, want in zip(values, kinds, body.arguments)]
                return e.pack(body.result, body.emit(e, cast))

            return body.result, emit

        return intrinsic(len(body.arguments))(rule)

    return wrap
