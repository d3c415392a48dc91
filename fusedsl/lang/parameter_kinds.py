"""Kinds of parameters: for each kind, the conversion of a value and the error for a value of another kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ArgumentError, DTypeError, FusedslError
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, expression
from ..ir.graph import Node, value_of, walk
from ..ir.types import BOOL, DTYPES, DType

# Values are nodes, None, Python's bools, strings, DTypes, and tuples of them.


def dim_of(x: Any) -> Dim | None:
    """The extent of a value: a literal integer, or arithmetic on sizes; None for anything else."""
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
    """`dim_of` a node, given those of its arguments."""
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


def _wrong_kind(what: str, wanted: str, value: Any, help: str | None = None) -> ArgumentError:
    return ArgumentError(f"{what} takes {wanted}, not {show_value(value)}", "argument.kind", help=help)


CONSTANT_HELP = (
    "it shapes the kernel: an integer of the program, an argument, constants={...}, or arithmetic on size(x, axis)"
)


def not_constant(error: ArgumentError, value: Any) -> ArgumentError:
    """The error for a value that must be known when the kernel is built.

    Its `shaped_by` are the arguments that the value depends on: a call may retry with their values as constants.
    """
    inputs = [n for n in walk([value]) if n.op in ("param", "scalar")] if isinstance(value, Node) else []
    if not any(n.type.dtype.kind == "f" for n in inputs):
        error.shaped_by = tuple(n.attr for n in inputs)  # type: ignore[attr-defined]
    return error


def show_value(value: Any) -> str:
    """A value as an error message shows it."""
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
        forms[type(None)] = "None stands for an argument that is left out: pass an array or a number"
        help = "pass the numbers as an array, by name" if name.startswith("indices of ") else forms.get(type(value))
        if isinstance(value, str):
            help = "arrays go by position, without quotes; strings only choose"
        raise _wrong_kind(name, "an array or a number", value, help)
    return value


def flag(b: GraphBuilder, name: str, value: Any) -> bool:
    if isinstance(value, Node) and value.op == "const" and value.type.dtype is BOOL:
        return bool(value_of(value))
    if isinstance(value, bool):
        return value
    raise not_constant(_wrong_kind(name, "True or False", value, "write True or False: it shapes the kernel"), value)


def integer(b: GraphBuilder, name: str, value: Any) -> int:
    dim = dim_of(value)
    if not isinstance(dim, int):
        raise not_constant(_wrong_kind(name, "an integer", value, CONSTANT_HELP), value)
    return dim


def extent(b: GraphBuilder, name: str, value: Any) -> Dim:
    dim = dim_of(value)
    if dim is None:
        raise not_constant(_wrong_kind(name, "an integer", value, CONSTANT_HELP), value)
    return dim


def axes(b: GraphBuilder, name: str, value: Any) -> int | tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(_item(k, integer, b, name, v) for k, v in enumerate(value))
    return _axis(b, name, value)


def ints(b: GraphBuilder, name: str, value: Any) -> int | tuple[int, ...]:
    result = axes(b, name, value)
    if result is None:
        raise _wrong_kind(name, "an integer or a tuple of them", value)
    return result


def _axis(b: GraphBuilder, name: str, value: Any) -> int:
    if isinstance(value, Node) and value.type.shape:
        error = _wrong_kind(name, "an integer", value, "an axis is a number; several arrays go into one list: [x, y]")
        raise not_constant(error, value)
    return integer(b, name, value)


def shape(b: GraphBuilder, name: str, value: Any) -> tuple[Dim, ...]:
    if isinstance(value, tuple):
        return tuple(_item(k, extent, b, name, v) for k, v in enumerate(value))
    if isinstance(value, Node) and value.type.shape:
        error = _wrong_kind(name, "a tuple of integers", value, "the shape of an array x is shape(x)")
        raise not_constant(error, value)
    return (extent(b, name, value),)


def _item(k: int, convert: Callable, b: GraphBuilder, name: str, value: Any):
    """Convert a part of a tuple; an error gets its index (`item`)."""
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
        raise ArgumentError(f"{value!r} is not a dtype", "argument.dtype", help=help)
    raise _wrong_kind(name, "a dtype", value, f"one of {', '.join(DTYPES)}")


def arrays(b: GraphBuilder, name: str, value: Any) -> tuple[Node, ...]:
    if not isinstance(value, tuple):
        raise _wrong_kind(name, "one list of arrays", value, "write them in brackets, [x, y]")
    return tuple(_item(k, array, b, name, v) for k, v in enumerate(value))


def anything(b: GraphBuilder, name: str, value: Any) -> Any:
    return value


Convert = Callable[[GraphBuilder, str, Any], Any]


def _or_none(convert: Convert) -> Convert:
    """The kind whose values may also be None."""
    return lambda b, name, value: None if value is None else convert(b, name, value)


KINDS: dict[str, Convert] = {
    "array": array,
    "array | None": _or_none(array),
    "flag": flag,
    "int": integer,
    "extent": extent,
    "extent | None": _or_none(extent),
    "axis": _or_none(_axis),
    "axes": axes,
    "shape": shape,
    "shape | None": _or_none(shape),
    "dtype": dtype,
    "dtype | None": _or_none(dtype),
    "ints": ints,
    "plain axis": _or_none(_axis),
    "arrays": arrays,
    "extents": shape,
    "any": anything,
}


def bool_hint(symbol: str, b: GraphBuilder, x: Node) -> DTypeError:
    """The error for `and`, `or` and `not` on numbers."""
    instead = {"and": "& or logical_and", "or": "| or logical_or", "not": "~ or logical_not"}[symbol]
    return DTypeError(
        f"{symbol} needs bools, not {b.describe(x.type)}",
        "dtype.logic",
        help=f"compare first, e.g. x != 0; for integers and truth values use {instead}",
    )
