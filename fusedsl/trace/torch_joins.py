"""torch's joins, repetitions, triangles and gathers, with torch's signatures."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, ShapeError, Unsupported
from .torch_functions import TABLE, cast, language, recorder_of, torch_function
from .torch_shapes import expand, reshape, several, unsqueeze
from .torch_types import result_type
from .views import View

# -- joins and repetitions


def _alike(tensors: Any) -> list:
    """The tensors in torch's common dtype."""
    dtype = result_type([x.node for x in tensors])
    return [x.recorder.tracer(x.recorder.builder.convert(x.node, dtype)) for x in tensors]


@torch_function("concat", "concatenate")
def cat(tensors, dim=0):
    return language("concat", tuple(_alike(tensors)), dim)


@torch_function()
def stack(tensors, dim=0):
    return language("stack", tuple(_alike(tensors)), dim)


@torch_function()
def hstack(tensors):
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@torch_function("row_stack")
def vstack(tensors):
    return cat([x if x.ndim > 1 else x.reshape(1, -1) for x in tensors], 0)


@torch_function()
def repeat(input, *repeats):
    repeats = several(repeats)
    if len(repeats) < input.ndim:
        raise ShapeError("repeat takes a count for each dimension", code="shape.repeat", help="tile takes fewer")
    return language("tile", input, repeats)


@torch_function()
def tile(input, *dims):
    return language("tile", input, several(dims))


@torch_function()
def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    return language("repeat", input, repeats, dim)


@torch_function()
def flip(input, *dims):
    return language("flip", input, several(dims))


@torch_function()
def fliplr(input):
    return language("flip", input, 1)


@torch_function()
def flipud(input):
    return language("flip", input, 0)


@torch_function()
def roll(input, shifts, dims=None):
    return language("roll", input, shifts, dims)


@torch_function()
def tril(input, diagonal=0):
    return language("tril", input, diagonal)


@torch_function()
def triu(input, diagonal=0):
    return language("triu", input, diagonal)


@torch_function()
def atleast_1d(input):
    return input if input.ndim else reshape(input, (1,))


@torch_function()
def atleast_2d(input):
    return input if input.ndim > 1 else reshape(input, (1, -1))


@torch_function()
def meshgrid(*tensors, indexing="ij"):
    tensors = several(tensors)
    shape = tuple(x.shape[0] for x in tensors)
    n = len(tensors)
    lines = [reshape(x, tuple(-1 if k == place else 1 for place in range(n))) for k, x in enumerate(tensors)]
    grids = [expand(x, *shape) for x in lines]
    return tuple(g.transpose(0, 1) for g in grids) if indexing == "xy" and n > 1 else tuple(grids)


# -- gathers


@torch_function()
def index_select(input, dim, index):
    return language("take", input, index, dim)


@torch_function()
def take(input, index):
    return language("take", input, index)


@torch_function()
def take_along_dim(input, indices, dim=None):
    return language("take_along_axis", input, indices, dim)


@torch_function()
def gather(input, dim, index, *, sparse_grad=False):
    """index may be shorter than input: out[i][j] = input[index[i][j]][j]."""
    key = tuple(slice(None) if k == dim % input.ndim else slice(None, n) for k, n in enumerate(index.shape))
    return language("take_along_axis", input[key], index, dim)


@torch_function()
def outer(input, vec2):
    if input.ndim != 1 or vec2.ndim != 1:
        raise ShapeError("outer takes two vectors", code="shape.outer", help="flatten them, or write x[:, None] * y")
    return unsqueeze(input, 1) * vec2


# -- diagonals


@torch_function()
def diagonal(input, offset=0, dim1=0, dim2=1):
    """A view that only reads."""
    r = recorder_of(input)
    return input.viewed(View(lambda x: _gathered(r.tracer(x), offset, dim1, dim2).node))


def _gathered(input: Any, offset: int, dim1: int, dim2: int) -> Any:
    rank = input.ndim
    first, second = dim1 % rank, dim2 % rank
    order = [k for k in range(rank) if k not in (first, second)]
    turned = input.permuted((first, second, *order))
    rows, columns = int(turned.shape[0]), int(turned.shape[1])
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    at = language("astype", recorder_of(input).apply("arange", length), "int64")
    found = turned[at - min(offset, 0), at + max(offset, 0)]
    return found.permuted((*range(1, found.ndim), 0))


@torch_function()
def diag(input, diagonal=0):
    if input.ndim != 1:
        return TABLE["diagonal"](input, diagonal)
    raise Unsupported(
        "diag of a vector is not there yet", code="unsupported.function", help="where(row == column, v, 0)"
    )


@torch_function()
def trace(input):
    return language("sum", diagonal(input))


@torch_function()
def one_hot(input, num_classes=-1):
    if num_classes == -1:
        raise ArgumentError(
            "one_hot takes num_classes: the largest value is not known yet",
            code="argument.missing",
            help="pass num_classes=",
        )
    line = recorder_of(input).apply("arange", num_classes)
    return cast(language("equal", unsqueeze(input, -1), line), "int64")
