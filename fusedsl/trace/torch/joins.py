"""torch's data movement on tracers: concatenation, repetition, triangles, gathers, diagonals."""

from __future__ import annotations

from typing import Any

from ...errors import ArgumentError, ShapeError
from ..tracer import Tracer
from ..views import View
from .functions import TABLE, as_vector, cast, dtype_of, language, recorder_of, torch_function, torch_functions
from .promotion import result_type
from .shapes import axis_of, expand, reshape, unsqueeze, varargs

# -- joins and repetitions


def _promoted(tensors: Any) -> list:
    """The tensors converted to their common dtype."""
    dtype = result_type([x.node for x in tensors])
    return [x.recorder.tracer(x.recorder.builder.convert(x.node, dtype)) for x in tensors]


@torch_function("concat", "concatenate")
def cat(tensors, dim=0):
    """cat; empty vectors among tensors of more dimensions are skipped, as in torch."""
    if len({x.ndim for x in tensors}) > 1:
        tensors = [x for x in tensors if x.ndim != 1 or int(x.shape[0])]
    return language("concat", tuple(_promoted(tensors)), dim)


@torch_function()
def repeat(input, *repeats):
    repeats = varargs(repeats)
    if len(repeats) < input.ndim:
        raise ShapeError("repeat takes a count for each dimension", "shape.repeat", help="tile takes fewer")
    return language("tile", input, repeats)


@torch_function()
def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    return language("repeat", input, repeats, dim)


@torch_functions("tile flip")
def _along_dims(name, input, *dims):
    return language(name, input, varargs(dims))


@torch_functions("flipud=0 fliplr=1")
def _flip(dim, input):
    return language("flip", input, int(dim))


@torch_functions("tril triu")
def _triangle(name, input, diagonal=0):
    return language(name, input, diagonal)


@torch_functions("triu_indices tril_indices")
def _triangle_indices(name, row, col, offset=0, *, dtype=None, device=None):
    """triu_indices or tril_indices: constants, specialised on the extents."""
    import torch

    r = recorder_of(row, col, offset)
    indices = getattr(torch, name)(int(row), int(col), int(offset), device=r.example.device)
    return cast(r.lifted(indices), dtype)


@torch_function()
def atleast_1d(*input):
    return _map_tensors(as_vector, input)


@torch_function()
def atleast_2d(*input):
    return _map_tensors(lambda x: x if x.ndim > 1 else reshape(x, (1, -1)), input)


@torch_function()
def atleast_3d(*input):
    return _map_tensors(lambda x: x if x.ndim > 2 else unsqueeze(atleast_2d(x), -1), input)


def _map_tensors(change: Any, tensors: tuple) -> Any:
    """`change` applied to a tensor, or to each of several."""
    if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
        return change(tensors[0])
    return tuple(change(x) for x in varargs(tensors))


@torch_function()
def meshgrid(*tensors, indexing="ij"):
    tensors = tuple(atleast_1d(x) for x in varargs(tensors))
    shape = tuple(x.shape[0] for x in tensors)
    n = len(tensors)
    lines = [reshape(x, tuple(-1 if k == number else 1 for number in range(n))) for k, x in enumerate(tensors)]
    grids = [expand(x, *shape) for x in lines]
    return tuple(g.transpose(0, 1) for g in grids) if indexing == "xy" and n > 1 else tuple(grids)


# -- gathers


@torch_function()
def index_select(input, dim, index):
    return language("take", input, reshape(index, (-1,)), dim) if input.ndim else input


@torch_function()
def take_along_dim(input, indices, dim=None):
    if dim is None:
        input, indices = (reshape(x, (-1,)) for x in (input, indices))
        dim = 0
    return language("take_along_axis", input, indices, dim)


@torch_function()
def gather(input, dim, index, *, sparse_grad=False):
    """gather; index may be shorter than input: out[i][j] = input[index[i][j]][j]."""
    if not input.ndim:
        return expand(input, tuple(index.shape))
    if not index.ndim:
        return language("take", input, index, dim)
    axis = axis_of(input, dim)
    key = tuple(slice(None) if k == axis else slice(None, n) for k, n in enumerate(index.shape))
    return language("take_along_axis", input[key], index, dim)


@torch_function("ger")
def outer(input, vec2):
    if input.ndim != 1 or vec2.ndim != 1:
        raise ShapeError("outer takes two vectors", "shape.outer", help="flatten them, or write x[:, None] * y")
    return unsqueeze(input, 1) * vec2


# -- diagonals


@torch_function()
def diagonal(input, offset=0, dim1=0, dim2=1):
    """A read-only view of a diagonal."""
    r = recorder_of(input)
    return input.viewed(View(lambda x: r.call("diagonal", (r.tracer(x), offset, dim1, dim2), {})))


@torch_function()
def diag(input, diagonal=0):
    if input.ndim not in (1, 2):
        raise ShapeError("diag takes a vector or a matrix", "shape.axis", help="torch.diagonal(x) of more")
    return diag_embed(input, diagonal) if input.ndim == 1 else TABLE["diagonal"](input, diagonal)


@torch_function()
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """diag_embed: the last dimension as the diagonal of a matrix, `offset` above the main one."""
    before, after = max(offset, 0), max(-offset, 0)
    lead = ((0, 0),) * (input.ndim - 1)
    line = unsqueeze(language("pad", input, (*lead, (before, after)), "constant"), -2)
    r, extent = recorder_of(input), line.shape[-1]
    indices = r.apply("arange", extent)
    nothing = r.apply("astype", 0, dtype_of(input))
    square = language("where", unsqueeze(indices, -1) + offset == indices, line, nothing)
    return square if (dim1, dim2) == (-2, -1) else TABLE["movedim"](square, (-2, -1), (dim1, dim2))


@torch_function()
def trace(input):
    if input.ndim != 2:
        raise ShapeError("trace takes a matrix", "shape.axis", help="torch.diagonal(x).sum(-1) of more")
    return TABLE["sum"](diagonal(input))


@torch_function()
def rot90(input, k=1, dims=(0, 1)):
    first, second = dims
    if k % 4 == 2:
        return language("flip", input, (first, second))
    if k % 4 == 0:
        return language("copy", input)
    flipped = language("flip", input, second if k % 4 == 1 else first)
    return language("swapaxes", flipped, first, second)


@torch_function()
def select_scatter(input, src, dim, index):
    return _write_copy(input, src, (*[slice(None)] * axis_of(input, dim), index))


@torch_function()
def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    return _write_copy(input, src, (*[slice(None)] * axis_of(input, dim), slice(start, end, step)))


def _write_copy(input: Any, src: Any, key: tuple) -> Any:
    """A copy of a tensor with a slice replaced."""
    result = language("copy", input)
    result[key] = src
    return result


@torch_function()
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    if not isinstance(test_elements, Tracer):
        return (elements != test_elements) if invert else (elements == test_elements)
    result = language("any", unsqueeze(elements, -1) == reshape(test_elements, (-1,)), -1)
    return language("logical_not", result) if invert else result


@torch_function()
def index_fill(input, dim, index, value):
    r = recorder_of(input)
    if not input.ndim:
        return r.apply("broadcast_to", cast(r.tracer(r.node(value)), input.dtype), ())
    index = reshape(index, (-1,))
    normalized_index = language("where", index < 0, index + input.shape[dim], index)
    is_indexed = isin(language("astype", r.apply("arange", input.shape[dim]), "int64"), normalized_index)
    return TABLE["masked_fill"](input, reshape(is_indexed, (-1, *[1] * (input.ndim - 1 - axis_of(input, dim)))), value)


@torch_function()
def one_hot(input, num_classes=-1):
    if num_classes == -1:
        raise ArgumentError(
            "one_hot takes num_classes: the largest value is not known yet",
            "argument.missing",
            help="pass num_classes=",
        )
    iota = recorder_of(input).apply("arange", num_classes)
    return cast(language("equal", unsqueeze(input, -1), iota), "int64")


# Formulas, and functions that are others with some of their arguments.
TABLE |= {
    "stack": lambda tensors, dim=0: language("stack", tuple(_promoted(tensors)), dim),
    "hstack": lambda tensors: cat(tensors, 0 if tensors[0].ndim == 1 else 1),
    **dict.fromkeys(("vstack", "row_stack"), lambda tensors: cat(atleast_2d(tensors), 0)),
    "dstack": lambda tensors: cat(atleast_3d(tensors), 2),
    "column_stack": lambda tensors: cat([x if x.ndim > 1 else reshape(x, (-1, 1)) for x in tensors], 1),
    "roll": lambda input, shifts, dims=None: language("roll", input, shifts, dims),
    "take": lambda input, index: language("take", input, index),
    "linalg_diagonal": lambda A, *, offset=0, dim1=-2, dim2=-1: diagonal(A, offset, dim1, dim2),
    "diagflat": lambda input, offset=0: diag_embed(reshape(input, (-1,)), offset),
}
