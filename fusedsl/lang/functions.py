"""The functions that a text may call: their signatures, their other names, and what each builds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError, FusedslError, ShapeError
from ..ir.builder import Builder, fail
from ..ir.graph import Node
from ..ir.ops import OPS
from .parameter_kinds import KINDS

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter of a function. `kind` says what it takes (see KINDS); a `named` one is given by keyword only, one of
    `many` takes all positional arguments that are left."""

    name: str
    kind: str
    default: Any = REQUIRED
    named: bool = False
    many: bool = False


@dataclass(frozen=True)
class FunctionSpec:
    """A callable name. `build(builder, *values)` takes one value for each parameter.

    `blame` is the parameter that the checks of a call point at; None points at the function's name. `about` says in a
    line what it computes.
    """

    name: str
    parameters: tuple[ParameterSpec, ...]
    build: Callable[..., Any]
    blame: int | None = None
    about: str = ""


def _from_python(build: Callable, blame: str | None, kinds: Mapping[str, str]) -> FunctionSpec:
    """The function whose signature is that of `build`, without the builder."""
    signature = list(inspect.signature(build).parameters.values())[1:]
    parameters = []
    for p in signature:
        name = p.name.rstrip("_")
        kind = kinds.get(name, KIND_OF.get(name, "array"))
        parameters.append(ParameterSpec(name, kind, p.default, p.kind is p.KEYWORD_ONLY, p.kind is p.VAR_POSITIONAL))
    places = [p.name for p in parameters]

    def call(b: Builder, *values):
        given = [(v, p) for v, p in zip(values, signature) if p.kind is not p.KEYWORD_ONLY]
        positional = [part for v, p in given for part in (v if p.kind is p.VAR_POSITIONAL else (v,))]
        named = {p.name: v for v, p in zip(values, signature) if p.kind is p.KEYWORD_ONLY}
        return build(b, *positional, **named)

    about = (inspect.getdoc(build) or "").partition("\n")[0]
    return FunctionSpec(
        build.__name__.rstrip("_"), tuple(parameters), call, places.index(blame) if blame else None, about
    )


# What a parameter takes, where its function does not say otherwise.
KIND_OF = {
    "axis": "axes",
    "axes": "axes",
    "dtype": "dtype | None",
    "keepdims": "flag",
    "where": "array | None",
    "initial": "array | None",
    "shape": "shape",
}


def _elementwise(name: str) -> FunctionSpec:
    op = OPS[name]
    names = ("condition", "x", "y") if op.rule == "where" else ("x", "y", "z")
    parameters = tuple(ParameterSpec(names[k], "array") for k in range(op.arity))
    symbols = [op.symbol, "x"] if op.arity == 1 else ["x", op.symbol, "y"]
    about = op.formula or ("" if len(op.symbol or "  ") == 1 and op.arity == 1 else " ").join(map(str, symbols))
    return FunctionSpec(name, parameters, lambda b, *values: b.elementwise(name, *values), about=about)


TABLE: dict[str, FunctionSpec] = {name: _elementwise(name) for name, op in OPS.items() if not op.internal}


def function(blame: str | None = None, **kinds: str):
    """Put a function of array_functions.py into the table, under its own name less a trailing `_`."""

    def put(build: Callable) -> Callable:
        spec = _from_python(build, blame, kinds)
        TABLE[spec.name] = spec
        return build

    return put


ALIASES = {
    "abs": "absolute", "true_divide": "divide", "mod": "remainder", "pow": "power",
    "invert": "bitwise_invert", "bitwise_not": "bitwise_invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "amax": "max", "amin": "min",
    "permute_dims": "transpose", "gammaln": "lgamma", "around": "round",
    "concatenate": "concat",
}  # fmt: skip

# Known, named, and not there yet.
PLANNED = {
    "sorting": "median percentile quantile unique nonzero searchsorted",
    "scatter": "scatter scatter_add scatter_reduce index_add put_along_axis",
}
UNSUPPORTED = {name: family for family, names in PLANNED.items() for name in names.split()}


def lookup(name: str) -> FunctionSpec | None:
    """The function of this name or alias, if the table has it."""
    from . import (  # noqa: F401
        array_functions,
        contraction_functions,
        creation_functions,
        einsum,
        index_functions,
        quantisation,
        random_functions,
        reduction_functions,
        row_functions,
    )

    return TABLE.get(ALIASES.get(name, name))


def known_names() -> set[str]:
    """Every name that a text may call, for suggestions."""
    lookup("")
    return {name for name in (*TABLE, *ALIASES) if not name.startswith("_")}


def call(b: Builder, f: FunctionSpec, values: list[Any]) -> Any:
    """Build a call. A fault knows the parameter it lies in (`operand`) and the part of a tuple (`item`)."""
    return f.build(b, *convert_arguments(b, f, values))


def convert_arguments(b: Builder, f: FunctionSpec, values: list[Any]) -> list[Any]:
    """The values as the function takes them, of the right kind and with axes that the first one has."""
    ready = []
    for k, (parameter, value) in enumerate(zip(f.parameters, values)):
        try:
            ready.append(value if value is parameter.default else KINDS[parameter.kind](b, parameter.name, value))
        except FusedslError as error:
            raise fail(error, k) from None
    _check_axes(b, f, ready)
    return ready


def _check_axes(b: Builder, f: FunctionSpec, values: list[Any]) -> None:
    """An axis that the first array does not have, or has twice, is a fault of that axis; 0 and -1 of a number, which
    NumPy's numbers have, are all there is: None."""
    for k, parameter in enumerate(f.parameters):
        named = parameter.kind in ("axis", "axes") or (parameter.kind == "int" and parameter.name.startswith("axis"))
        if not named or values[k] is None or not isinstance(values[0], Node):
            continue
        rank = values[0].type.rank
        if not rank and parameter.default is None and values[k] in (0, -1):
            values[k] = None
            continue
        given = values[k] if isinstance(values[k], tuple) else (values[k],)
        for item, a in enumerate(given):
            error = _axis_fault(b, values[0], a, rank, given[:item])
            if error is not None:
                error.item = item if isinstance(values[k], tuple) else None  # type: ignore[attr-defined]
                raise fail(error, k)


def _axis_fault(b: Builder, x: Node, a: int, rank: int, before: tuple[int, ...]) -> FusedslError | None:
    if not -rank <= a < rank:
        have = f"axes {-rank} to {rank - 1}" if rank else "no axes"
        message = f"axis {a} is out of range for {b.describe(x.type)}"
        return ShapeError(message, code="shape.axis", help=f"it has {have}")
    if a % rank in [other % rank for other in before]:
        return ArgumentError(f"axis {a} is given twice", code="argument.axis", help="name each axis once")
    return None
