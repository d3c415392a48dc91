"""Scalar functions of a generated file: their types, inlined per row (@uniform) or per element of a tile."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import DType, dtype
from ..compiler.numba_backend import Emitter, ScalarFunction, emitted, ir, numba_type, types
from .shuffle import sync_warp


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


def uniform(signature: str) -> Callable[[Callable], Callable]:
    """Decorator: a scalar function that is called once for a row, or by every thread alike."""

    def wrap(function: Callable) -> Callable:
        body = scalar_function(signature, function)

        @emitted(body.result, len(body.arguments))
        def emit(e, *values, kinds):
            cast = [e.cast(v, kind, want) for v, kind, want in zip(values, kinds, body.arguments)]
            return e.pack(body.result, body.emit(e, cast))

        return emit

    return wrap


def elements_of(e: Emitter, value: ir.Value, kind: types.Type, want: types.Type, count: int) -> list[ir.Value]:
    """An argument by element: those of a tuple, or one value for all."""
    if isinstance(kind, types.BaseTuple):
        return [e.cast(part, kind.dtype, want) for part in e.unpack(value, count)]
    return [e.cast(value, kind, want)] * count


def mapped(signature: str, count: int, values_of: Callable, step: int = 0) -> Callable[[Callable], Callable]:
    """Decorator: a scalar function over `count` elements, of which `values_of(emitter, argument, its type, the type of
    elements)` gives a list. Where there is a `step`, so many elements at a time: what it reads does not stand in
    registers all at once."""

    def wrap(function: Callable) -> Callable:
        body = scalar_function(signature, function)
        tuples = [types.UniTuple(kind, count) for kind in body.results]
        result = tuples[0] if len(tuples) == 1 else types.Tuple.from_types(tuples)

        @emitted(result, len(body.arguments))
        def emit(e, *values, kinds):
            lists = [values_of(e, v, k, w) for v, k, w in zip(values, kinds, body.arguments)]
            results = []
            for k in range(count):
                if step and k and k % step == 0:
                    sync_warp(e)
                results.append(body.emit(e, [values_of_argument[k] for values_of_argument in lists]))
            packed = [e.pack(t, [m[n] for m in results]) for n, t in enumerate(tuples)]
            return packed[0] if len(packed) == 1 else e.pack(result, packed)

        return emit

    return wrap
