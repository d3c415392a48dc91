"""The functions that a text may call: their signatures, their other names, and what each builds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError, DTypeError, FusedslError, ShapeError
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim, expression
from ..ir.graph import Node, value_of, walk
from ..ir.ops import OPS
from ..ir.types import BOOL, DTYPES, DType

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function. `kind` says what it takes (see KINDS); a `named` one is given by keyword only, one of
    `many` takes all positional arguments that are left."""

    name: str
    kind: str
    default: Any = REQUIRED
    named: bool = False
    many: bool = False


@dataclass(frozen=True)
class Function:
    """A callable name. `build(builder, *values)` takes one value for each parameter.

    `blame` is the parameter that the checks of a call point at; None points at the function's name. `about` says in a
    line what it computes.
    """

    name: str
    parameters: tuple[Parameter, ...]
    build: Callable[..., Any]
    blame: int | None = None
    about: str = ""


def _from_python(build: Callable, blame: str | None, kinds: Mapping[str, str]) -> Function:
    """The function whose signature is that of `build`, without the builder."""
    signature = list(inspect.signature(build).parameters.values())[1:]
    found = []
    for p in signature:
        name = p.name.rstrip("_")
        kind = kinds.get(name, KIND_OF.get(name, "array"))
        found.append(Parameter(name, kind, p.default, p.kind is p.KEYWORD_ONLY, p.kind is p.VAR_POSITIONAL))
    places = [p.name for p in found]

    def call(b: GraphBuilder, *values):
        given = [(v, p) for v, p in zip(values, signature) if p.kind is not p.KEYWORD_ONLY]
        positional = [part for v, p in given for part in (v if p.kind is p.VAR_POSITIONAL else (v,))]
        named = {p.name: v for v, p in zip(values, signature) if p.kind is p.KEYWORD_ONLY}
        return build(b, *positional, **named)

    about = (inspect.getdoc(build) or "").partition("\n")[0]
    return Function(build.__name__.rstrip("_"), tuple(found), call, places.index(blame) if blame else None, about)


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


def _elementwise(name: str) -> Function:
    op = OPS[name]
    names = ("condition", "x", "y") if op.rule == "where" else ("x", "y", "z")
    parameters = tuple(Parameter(names[k], "array") for k in range(op.arity))
    symbols = [op.symbol, "x"] if op.arity == 1 else ["x", op.symbol, "y"]
    about = op.formula or ("" if len(op.symbol or "  ") == 1 and op.arity == 1 else " ").join(map(str, symbols))
    return Function(name, parameters, lambda b, *values: b.elementwise(name, *values), about=about)


TABLE: dict[str, Function] = {name: _elementwise(name) for name, op in OPS.items() if not op.internal}


def function(blame: str | None = None, **kinds: str):
    """Put a function of array_functions.py into the table, under its own name less a trailing `_`."""

    def put(build: Callable) -> Callable:
        made = _from_python(build, blame, kinds)
        TABLE[made.name] = made
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
LATER = {
    "sorting": "median percentile quantile unique nonzero searchsorted",
    "scatter": "scatter scatter_add scatter_reduce index_add put_along_axis",
}
UNSUPPORTED = {name: family for family, names in LATER.items() for name in names.split()}


def lookup(name: str) -> Function | None:
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


# -- what each kind of parameter takes. A value is a Node, None, a bool of Python, a string, a DType, or a tuple.


def dim_of(x: Any) -> Dim | None:
    """The extent that a value stands for: a literal integer, or arithmetic on sizes; else None."""
    if isinstance(x, int) and not isinstance(x, bool):
        return x
    if not isinstance(x, Node):
        return None
    known: dict[Node, Dim | None] = {}
    stack = [x]
    while stack:
        top = stack[-1]
        missing = [a for a in top.args if a not in known] if top.op in DIM_OPERATIONS else []
        if missing:
            stack += missing
        else:
            known[stack.pop()] = _one_dim(top, known)
    return known[x]


def _one_dim(x: Node, known: Mapping[Node, Dim | None]) -> Dim | None:
    """`dim_of` a node, where those of its arguments are known."""
    if x.type.shape or x.type.dtype.kind != "i" or not x.type.weak:
        return None
    if x.op == "const":
        return int(value_of(x))
    if x.op == "size":
        return x.attr
    if x.op not in DIM_OPERATIONS:
        return None
    parts = [known[a] for a in x.args]
    if any(part is None for part in parts):
        return None
    return expression(DIM_OPERATIONS[x.op], *([0, *parts] if x.op == "negative" else parts))


DIM_OPERATIONS = {
    "negative": "-",
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "floor_divide": "//",
    "remainder": "%",
    "maximum": "max",
    "minimum": "min",
}


def _malformed(what: str, wanted: str, value: Any, help: str | None = None) -> ArgumentError:
    return ArgumentError(f"{what} takes {wanted}, not {show_value(value)}", code="argument.kind", help=help)


CONSTANT = "it shapes the kernel: an integer of the text, an argument, constants={...}, or arithmetic on size(x, axis)"


def not_constant(error: ArgumentError, value: Any) -> ArgumentError:
    """The error for a value that must be known before a kernel is made. It knows the arguments that the value is made
    of alone (`shaped_by`): a call may take theirs for constants.
    """
    found = [n for n in walk([value]) if n.op in ("param", "scalar")] if isinstance(value, Node) else []
    if not any(n.type.dtype.kind == "f" for n in found):
        error.shaped_by = tuple(n.attr for n in found)  # type: ignore[attr-defined]
    return error


def show_value(value: Any) -> str:
    """A value as an error names it."""
    if isinstance(value, Node):
        if value.op == "const":
            return str(value_of(value))
        if value.type.shape or not value.type.weak:
            return f"an array of {value.type.dtype}"
        return {"i": "an integer", "b": "a bool", "f": "a float"}[value.type.dtype.kind] + " known only at run time"
    if isinstance(value, tuple):
        return "several values"
    return repr(value)


def array(b: GraphBuilder, name: str, value: Any) -> Node:
    if not isinstance(value, Node):
        forms = {DType: "cast with astype(x, dtype)", tuple: "take one of them, e.g. [0], or join them: stack([x, y])"}
        forms[type(None)] = "None is what an argument is that is not given; write a number"
        help = "pass the numbers as an array, by name" if name == "indices" else forms.get(type(value))
        if isinstance(value, str):
            help = "arrays go by position, without quotes; strings only choose"
        raise _malformed(name, "an array or a number", value, help)
    return value


def optional(b: GraphBuilder, name: str, value: Any) -> Node | None:
    return None if value is None else array(b, name, value)


def flag(b: GraphBuilder, name: str, value: Any) -> bool:
    if isinstance(value, Node) and value.op == "const" and value.type.dtype is BOOL:
        return bool(value_of(value))
    if isinstance(value, bool):
        return value
    raise not_constant(_malformed(name, "True or False", value, "write True or False: it shapes the kernel"), value)


def integer(b: GraphBuilder, name: str, value: Any) -> int:
    found = dim_of(value)
    if not isinstance(found, int):
        raise not_constant(_malformed(name, "an integer", value, CONSTANT), value)
    return found


def extent(b: GraphBuilder, name: str, value: Any) -> Dim:
    found = dim_of(value)
    if found is None:
        raise not_constant(_malformed(name, "an integer", value, CONSTANT), value)
    return found


def optional_extent(b: GraphBuilder, name: str, value: Any) -> Dim | None:
    return None if value is None else extent(b, name, value)


def axes(b: GraphBuilder, name: str, value: Any) -> int | tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(_item(k, integer, b, name, v) for k, v in enumerate(value))
    return integer(b, name, value)


def places(b: GraphBuilder, name: str, value: Any) -> int | tuple[int, ...]:
    found = axes(b, name, value)
    if found is None:
        raise _malformed(name, "an integer or a tuple of them", value)
    return found


def axis(b: GraphBuilder, name: str, value: Any) -> int | None:
    return None if value is None else integer(b, name, value)


def shape(b: GraphBuilder, name: str, value: Any) -> tuple[Dim, ...]:
    if isinstance(value, tuple):
        return tuple(_item(k, extent, b, name, v) for k, v in enumerate(value))
    return (extent(b, name, value),)


def optional_shape(b: GraphBuilder, name: str, value: Any) -> tuple[Dim, ...] | None:
    return None if value is None else shape(b, name, value)


def _item(k: int, convert: Callable, b: GraphBuilder, name: str, value: Any):
    """A part of a tuple; a fault in it remembers which."""
    try:
        return convert(b, name, value)
    except FusedslError as error:
        error.item = k  # type: ignore[attr-defined]
        raise


def dtype(b: GraphBuilder, name: str, value: Any) -> DType:
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        if value in DTYPES:
            return DTYPES[value]
        from .hints import dtype_hint

        help = dtype_hint(value) or f"the dtypes are {', '.join(DTYPES)}"
        raise ArgumentError(f"{value!r} is not a dtype", code="argument.dtype", help=help)
    raise _malformed(name, "a dtype", value, f"one of {', '.join(DTYPES)}")


def optional_dtype(b: GraphBuilder, name: str, value: Any) -> DType | None:
    return None if value is None else dtype(b, name, value)


def arrays(b: GraphBuilder, name: str, value: Any) -> tuple[Node, ...]:
    if not isinstance(value, tuple):
        raise _malformed(name, "a list of arrays", value, "write [x, y]")
    return tuple(_item(k, array, b, name, v) for k, v in enumerate(value))


def anything(b: GraphBuilder, name: str, value: Any) -> Any:
    return value


KINDS: dict[str, Callable[[GraphBuilder, str, Any], Any]] = {
    "array": array,
    "array | None": optional,
    "flag": flag,
    "int": integer,
    "extent": extent,
    "extent | None": optional_extent,
    "axis": axis,
    "axes": axes,
    "shape": shape,
    "shape | None": optional_shape,
    "dtype": dtype,
    "dtype | None": optional_dtype,
    "places": places,
    "plain axis": axis,
    "arrays": arrays,
    "extents": shape,
    "any": anything,
}


def call(b: GraphBuilder, f: Function, values: list[Any]) -> Any:
    """Build a call. A fault knows the parameter it lies in (`operand`) and the part of a tuple (`item`)."""
    return f.build(b, *converted(b, f, values))


def converted(b: GraphBuilder, f: Function, values: list[Any]) -> list[Any]:
    """The values as the function takes them, of the right kind and with axes that the first one has."""
    ready = []
    for k, (parameter, value) in enumerate(zip(f.parameters, values)):
        try:
            ready.append(value if value is parameter.default else KINDS[parameter.kind](b, parameter.name, value))
        except FusedslError as error:
            raise fail(error, k) from None
    _settle_axes(b, f, ready)
    return ready


def _settle_axes(b: GraphBuilder, f: Function, values: list[Any]) -> None:
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


def _axis_fault(b: GraphBuilder, x: Node, a: int, rank: int, before: tuple[int, ...]) -> FusedslError | None:
    if not -rank <= a < rank:
        have = f"axes {-rank} to {rank - 1}" if rank else "no axes"
        message = f"axis {a} is out of range for {b.describe(x.type)}"
        return ShapeError(message, code="shape.axis", help=f"it has {have}")
    if a % rank in [other % rank for other in before]:
        return ArgumentError(f"axis {a} is given twice", code="argument.axis", help="name each axis once")
    return None


def bool_hint(symbol: str, b: GraphBuilder, x: Node) -> DTypeError:
    """`and`, `or` and `not` on numbers."""
    instead = {"and": "& or logical_and", "or": "| or logical_or", "not": "~ or logical_not"}[symbol]
    return DTypeError(
        f"{symbol} needs bools, not {b.describe(x.type)}",
        code="dtype.logic",
        help=f"compare first, e.g. x != 0; for integers and truth values use {instead}",
    )
