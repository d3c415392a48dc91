"""Built-in functions of the language: signatures, aliases, and the builder of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError, FusedslError, ShapeError
from ..ir.builder import GraphBuilder, fail
from ..ir.graph import Node
from ..ir.ops import OPS
from .parameter_kinds import KINDS

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter of a function."""

    name: str
    kind: str  # a key of KINDS
    default: Any = REQUIRED
    named: bool = False  # keyword-only
    many: bool = False  # variadic: takes all remaining positional arguments


@dataclass(frozen=True)
class FunctionSpec:
    """A built-in function."""

    name: str
    parameters: tuple[ParameterSpec, ...]
    build: Callable[..., Any]  # (builder, one value for each parameter) → result
    blame: int | None = None  # the parameter that checks of a call point at; None: the function's name
    about: str = ""  # one line for the reference


def _from_python(build: Callable, blame: str | None, kinds: Mapping[str, str]) -> FunctionSpec:
    """The spec of a function, from the signature of `build` without the builder."""
    signature = list(inspect.signature(build).parameters.values())[1:]
    parameters = []
    for p in signature:
        name = p.name.rstrip("_")
        kind = kinds.get(name, KIND_OF.get(name, "array"))
        parameters.append(ParameterSpec(name, kind, p.default, p.kind is p.KEYWORD_ONLY, p.kind is p.VAR_POSITIONAL))
    names = [p.name for p in parameters]

    def call(b: GraphBuilder, *values):
        given = [(v, p) for v, p in zip(values, signature) if p.kind is not p.KEYWORD_ONLY]
        positional = [part for v, p in given for part in (v if p.kind is p.VAR_POSITIONAL else (v,))]
        named = {p.name: v for v, p in zip(values, signature) if p.kind is p.KEYWORD_ONLY}
        return build(b, *positional, **named)

    about = (inspect.getdoc(build) or "").partition("\n")[0]
    return FunctionSpec(
        build.__name__.rstrip("_"), tuple(parameters), call, names.index(blame) if blame else None, about
    )


# Default kinds of parameters by name.
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
    """Register a function under its name without a trailing `_`; `kinds` are those of its parameters."""

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

# Planned functions, refused by name.
PLANNED = {
    "sorting": "searchsorted",
    "the shape of its result depends on values": "unique nonzero",
    "transposed convolutions": "conv_transpose1d conv_transpose2d conv_transpose3d",
}
UNSUPPORTED = {name: family for family, names in PLANNED.items() for name in names.split()}


def lookup(name: str) -> FunctionSpec | None:
    """The built-in function of this name or alias; None if there is none."""
    from . import (  # noqa: F401
        array_functions,
        contraction_functions,
        convolution_functions,
        creation_functions,
        data_movement_functions,
        einsum,
        gradient_functions,
        quantile_functions,
        quantisation,
        random_functions,
        reduction_functions,
        scan_sort_functions,
        scatter_functions,
        segment_functions,
        window_functions,
    )

    return TABLE.get(ALIASES.get(name, name))


def known_names() -> set[str]:
    """All names of built-in functions, for suggestions."""
    lookup("")
    return {name for name in (*TABLE, *ALIASES) if not name.startswith("_")}


def call(b: GraphBuilder, f: FunctionSpec, values: list[Any]) -> Any:
    """Build a call. An error has the number of its parameter (`operand`) and of the tuple's part (`item`)."""
    return f.build(b, *convert_arguments(b, f, values))


def convert_arguments(b: GraphBuilder, f: FunctionSpec, values: list[Any]) -> list[Any]:
    """The argument values, converted to the parameters' kinds; axes are checked against the first array."""
    ready = []
    for k, (parameter, value) in enumerate(zip(f.parameters, values)):
        try:
            what = f"{parameter.name} of {f.name.lstrip('_')}"
            ready.append(value if value is parameter.default else KINDS[parameter.kind](b, what, value))
        except FusedslError as error:
            raise fail(error, k) from None
    _check_axes(b, f, ready)
    return ready


def _check_axes(b: GraphBuilder, f: FunctionSpec, values: list[Any]) -> None:
    """Check axes against the first array's rank; for a 0-d array, axes 0 and -1 mean all axes (None), as in NumPy."""
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


def _axis_fault(b: GraphBuilder, x: Node, a: int, rank: int, before: tuple[int, ...]) -> FusedslError | None:
    if not -rank <= a < rank:
        have = f"axes {-rank} to {rank - 1}" if rank else "no axes"
        message = f"axis {a} is out of range for {b.describe(x.type)}"
        return ShapeError(message, "shape.axis", help=f"it has {have}")
    if a % rank in [other % rank for other in before]:
        return ArgumentError(f"axis {a} is given twice", "argument.axis", help="name each axis once")
    return None
