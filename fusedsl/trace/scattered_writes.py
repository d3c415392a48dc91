"""Writes at computed positions in a traced function: `x[i] = v`, `np.add.at`, torch's scatters; each a new value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import Unsupported
from ..ir import gathers, scatters, shapes
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, product
from ..ir.graph import Node
from ..ir.scatters import Target
from ..ir.types import INT64

FOLDS = {"add": "sum", "subtract": "sum", "maximum": "max", "minimum": "min"}  # of NumPy's ufuncs


def written(b: GraphBuilder, base: Node, key: tuple, value: Node) -> Node:
    """`base` after `base[key] = value`, for a key with index arrays; the last of several values at one index stays."""
    if len(key) == 1:
        return scatters.scatter_last(b, base, key[0], value, Target(0))
    return merged_at(b, base, flat_indices_of(b, base.type.shape, key), value, "last")


def flat_indices_of(b: GraphBuilder, shape: Sequence[Dim], key: tuple) -> Node:
    """Indices in C order of the elements that a subscript selects; negative ones out of range.

    They are what the subscript reads of an array of indices, counted from 1: out of range it reads 0.
    """
    line = _line(b, shape, shape)
    one = b.convert(b.literal(1), INT64)
    read = gathers.index(b, shapes.broadcast_to(b, b.elementwise("add", line, one), shape), key)
    return b.elementwise("subtract", read, one)


def _line(b: GraphBuilder, extents: Sequence[Dim], shape: Sequence[Dim], without: int | None = None) -> Node:
    """Indices in an array of `shape` of the elements of a box of these extents at its begin, one axis left out."""
    flat_index = b.convert(b.literal(0), INT64)
    for axis, d in enumerate(extents):
        if axis != without:
            line = b.elementwise("multiply", b.convert(b.iota(d), INT64), b.extent(product(shape[axis + 1 :])))
            flat_index = b.elementwise("add", flat_index, gathers.before_axes(b, line, len(extents) - axis - 1))
    return flat_index


def flat_indices_along(b: GraphBuilder, shape: Sequence[Dim], indices: Node, axis: int) -> Node:
    """Indices of elements (i, ..., indices[i, ..., k], ..., k), as torch.scatter and put_along_axis write them."""
    counted = gathers.from_start(b, gathers.positions(b, indices), shape[axis])
    inside = gathers.in_range(b, counted, shape[axis])
    step = b.elementwise("multiply", counted, b.extent(product(shape[axis + 1 :])))
    flat_index = b.elementwise("add", _line(b, indices.type.shape, shape, axis), step)
    return b.elementwise("where", inside, flat_index, b.literal(scatters.NOWHERE))


def merged_at(b: GraphBuilder, base: Node, flat_indices: Node, value: Node, fold: str) -> Node:
    """`base` with a value, broadcast to the indices' shape, merged at flat indices in C order."""
    d = base.type.dtype
    value = b.coerce(value, d) if value.type.weak and value.type.dtype.kind != "f" else b.cast(value, d)
    value = shapes.broadcast_to(b, value, flat_indices.type.shape)
    if fold != "last":
        return scatters.merged(b, base, flat_indices, value, fold)
    count, size = product(flat_indices.type.shape), product(base.type.shape)
    flat = scatters.merged(
        b,
        shapes.reshape(b, base, (size,)),
        shapes.reshape(b, flat_indices, (count,)),
        shapes.reshape(b, value, (count,)),
        "last",
    )
    return shapes.reshape(b, flat, base.type.shape)


def at(recorder: Any, name: str, array: Any, key: tuple, value: Any = None) -> None:
    """`ufunc.at(array, key, value)` of the ufunc of this name."""
    if name not in FOLDS:
        help = f"{', '.join(FOLDS)} are there; do others outside of the function"
        raise Unsupported(f"{name}.at is not supported", "unsupported.function", help=help)
    b = recorder.builder
    with recorder.at_user_line():
        node = recorder.node(value)
        array._check_cast(node, "same_kind")
        node = b.elementwise("negative", node) if name == "subtract" else node
        flat_indices = flat_indices_of(b, array.node.type.shape, key)
        array._write(merged_at(b, array.node, flat_indices, node, FOLDS[name]), "unsafe")
