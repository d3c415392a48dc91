"""Built-in derivatives: grad of a loss, vjp and jvp of any values, and values that derivatives take as constants."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, DTypeError, ShapeError
from ..gradients import reverse
from ..gradients.unbroadcast import alike
from ..ir.builder import GraphBuilder, fail
from ..ir.graph import Node
from .functions import function
from .parameter_kinds import array

Nodes = tuple[Node, ...]


@function()
def stop_gradient(b: GraphBuilder, x: Node):
    """`x`, which derivatives take as a constant."""
    return b.stop_gradient(x)


@function(loss="array", wrt="arrays")
def grad(b: GraphBuilder, loss: Node, *wrt: Node):
    """The gradient of a scalar by a value, with its shape and dtype; by several values, a gradient for each."""
    loss = _floats(b, "grad", (loss,), 0)[0]
    if loss.type.rank:
        message = f"grad differentiates a scalar, not {b.describe(loss.type)}"
        raise fail(ShapeError(message, "shape.gradient", help="sum(loss), or vjp(loss, cotangent, x)"), 0)
    one = b.convert(b.literal(1.0), loss.type.dtype)
    return _one_or_all(reverse.vjp(b, (loss,), (one,), _variables(b, "grad", wrt, 1)))


@function(y="any", cotangent="any", wrt="arrays")
def vjp(b: GraphBuilder, y: Any, cotangent: Any, *wrt: Node):
    """The sum of cotangent times the derivative of `y`, for each value of `wrt`; y and cotangent may be tuples."""
    results = _floats(b, "vjp", _values(b, "vjp", y, 0), 0)
    cotangents = _conform(b, ("vjp", "cotangent", 1), _values(b, "vjp", cotangent, 1), results)
    return _one_or_all(reverse.vjp(b, results, cotangents, _variables(b, "vjp", wrt, 2)))


@function(y="any", wrt="any", tangent="any")
def jvp(b: GraphBuilder, y: Any, wrt: Any, tangent: Any):
    """The derivative of `y` as `wrt` moves along `tangent`; each may be a tuple."""
    results = _floats(b, "jvp", _values(b, "jvp", y, 0), 0)
    variables = _variables(b, "jvp", _values(b, "jvp", wrt, 1), 1)
    tangents = _conform(b, ("jvp", "tangent", 2), _values(b, "jvp", tangent, 2), variables)
    return _one_or_all(reverse.jvp(b, results, variables, tangents))


def _one_or_all(values: list[Node]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _values(b: GraphBuilder, name: str, given: Any, operand: int) -> Nodes:
    """A value, or the values of a tuple."""
    try:
        return tuple(array(b, name, x) for x in (given if isinstance(given, tuple) else (given,)))
    except ArgumentError as error:
        raise fail(error, operand) from None


def _floats(b: GraphBuilder, name: str, values: Nodes, operand: int) -> Nodes:
    """Values to differentiate, which are floats."""
    for k, x in enumerate(values):
        if x.type.dtype.kind != "f":
            message = f"{name} of {b.describe(x.type)}: only floats have derivatives"
            raise fail(DTypeError(message, "dtype.gradient", help="leave it out"), operand, k)
    return tuple(b.strong(x) for x in values)


def _variables(b: GraphBuilder, name: str, values: Nodes, operand: int) -> Nodes:
    """Values to differentiate by: arguments, or what is computed from them."""
    if not values:
        message = f"{name} needs the value that it differentiates by"
        raise ArgumentError(
            message,
            "argument.missing",
            help=f"name it last: {'grad(loss, x)' if name == 'grad' else 'vjp(y, cotangent, x)'}",
        )
    for k, x in enumerate(values):
        if x.type.dtype.kind == "f" and not x.type.dtype.storage and x.op != "const":
            continue
        if x.op == "const":
            fault: Any = ArgumentError(
                f"{name} by a literal",
                "argument.gradient",
                help="name an array; wrt=... of Kernel.grad leaves others out",
            )
        else:
            message = f"{name} by {b.describe(x.type)}: only floats that compute have derivatives"
            fault = DTypeError(
                message,
                "dtype.gradient",
                help="wrt=... of Kernel.grad leaves it out; or cast it, and differentiate by the cast value",
            )
        raise fail(fault, operand + k if operand != 1 or name == "grad" else operand, None if name != "jvp" else k)
    return values


def _conform(b: GraphBuilder, where: tuple[str, str, int], given: Nodes, values: Nodes) -> Nodes:
    """Cotangents or tangents in the shapes and dtypes of the values that they belong to."""
    name, what, operand = where
    if len(given) != len(values):
        message = f"{name} needs a {what} for each of {len(values)} values, not {len(given)}"
        raise fail(ArgumentError(message, "argument.gradient", help="give a tuple of as many"), operand)
    ready = []
    for x, value in zip(given, values):
        try:
            with b.pointing(operand):
                ready.append(alike(b, x, value.type))
        except (ShapeError, DTypeError) as error:
            raise fail(error, operand) from None
    return tuple(ready)
