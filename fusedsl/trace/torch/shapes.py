"""torch's views and shape queries on tracers, with torch's signatures."""

from __future__ import annotations

from typing import Any

from ...errors import ArgumentError, ShapeError, Unsupported
from ...ir import shapes as ir_shapes
from ...ir.types import BOOL
from ..numpy.views import moved_axes, viewed
from ..tracer import Tracer
from ..views import View
from .functions import TABLE, dtype_of, language, recorder_of, torch_function
from .promotion import result_type


def varargs(parts: tuple) -> tuple:
    """`(2, 3)` or `((2, 3),)` as a tuple."""
    return tuple(parts[0]) if len(parts) == 1 and isinstance(parts[0], (tuple, list)) else tuple(parts)


# -- views


@torch_function()
def reshape(input, *shape):
    return viewed(recorder_of(input), "reshape", (input, varargs(shape)), {})


@torch_function()
def view(input, *shape, size=None, dtype=None):
    shape = varargs(shape) if size is None else tuple(size)
    if dtype is not None or any(type(part).__name__ == "dtype" for part in shape):
        raise Unsupported("view as another dtype is not supported", "unsupported.view", help="x.to(dtype) converts")
    r = recorder_of(input)
    wanted = r.specialized(shape)

    def read(x: Any) -> Any:
        return r.call("reshape", (r.tracer(x), wanted), {})

    return input.viewed(View(read, lambda base, value: ir_shapes.reshape(r.builder, value, base.type.shape)))


@torch_function("ravel")
def flatten(input, start_dim=0, end_dim=-1):
    if not input.ndim:
        return reshape(input, (1,))
    first, last = axis_of(input, start_dim), axis_of(input, end_dim)
    if first > last:
        raise ShapeError(f"dimension {start_dim} comes after {end_dim}", "shape.axis", help="name the first one first")
    merged: Any = 1
    for extent in input.shape[first : last + 1]:
        merged = merged * extent
    return reshape(input, (*input.shape[:first], merged, *input.shape[last + 1 :]))


@torch_function()
def unflatten(input, dim, sizes):
    a = axis_of(input, dim)
    sizes = tuple(sizes)
    if -1 in [s for s in sizes if isinstance(s, int)]:
        known: Any = 1
        for s in sizes:
            known = known if isinstance(s, int) and s == -1 else known * s
        sizes = tuple(input.shape[a] // known if isinstance(s, int) and s == -1 else s for s in sizes)
    return reshape(input, (*input.shape[:a], *sizes, *input.shape[a + 1 :]))


@torch_function()
def permute(input, *dims):
    axes = varargs(dims)
    if len(axes) != input.ndim:
        raise ShapeError(
            f"permute takes {input.ndim} dimensions, not {len(axes)}",
            "shape.transpose",
            help="name each dimension once",
        )
    return input.permuted(tuple(recorder_of(input).specialized(axes)))


@torch_function("swapaxes", "swapdims")
def transpose(input, dim0, dim1):
    if not input.ndim and {dim0, dim1} <= {0, -1}:
        return input
    language("swapaxes", input, dim0, dim1)  # refuses dimensions that do not exist
    order = list(range(input.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return input.permuted(tuple(order))


@torch_function()
def t(input):
    if input.ndim > 2:
        raise ShapeError(f"t() of {input.ndim} dimensions", "shape.transpose", help="transpose(0, 1), or .mT")
    return input.permuted(None)


@torch_function("moveaxis")
def movedim(input, source, destination):
    if not input.ndim and {source, destination} <= {0, -1}:
        return input
    moved, targets = (recorder_of(input).axes(input, part) for part in (source, destination))
    if len(moved) != len(targets):
        raise ShapeError(
            f"{len(moved)} dimensions move to {len(targets)} places",
            "shape.transpose",
            help="give a place for each dimension",
        )
    return input.permuted(moved_axes(input.ndim, moved, targets))


@torch_function()
def unsqueeze(input, dim):
    return viewed(recorder_of(input), "expand_dims", (input, dim), {})


@torch_function()
def squeeze(input, dim=None):
    """squeeze; dimensions that are not 1 are kept, unlike in NumPy."""
    if dim is None:
        return viewed(recorder_of(input), "squeeze", (input,), {})
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    b, shape = recorder_of(input).builder, input.node.type.shape
    gone = tuple(d for d in dims if shape and b.is_unit(shape[_checked(input, d)]))
    return viewed(recorder_of(input), "squeeze", (input, gone), {})


def axis_of(input: Any, dim: int) -> int:
    """The dimension, counted from 0; ShapeError if it is out of range."""
    return recorder_of(input).axis(input, dim)


def _checked(input: Any, dim: int) -> int:
    language("size", input, dim)  # refuses a dimension that does not exist
    return dim


@torch_function()
def expand(input, *size):
    size = varargs(size)
    new = len(size) - input.ndim
    if new < 0:
        raise ShapeError(
            f"cannot expand {input.ndim} dimensions to {len(size)}", "shape.broadcast", help="squeeze or index it first"
        )
    shape = [input.shape[k - new] if _is_minus_one(s) and k >= new else s for k, s in enumerate(size)]
    return viewed(recorder_of(input), "broadcast_to", (input, tuple(shape)), {})


def _is_minus_one(s: Any) -> bool:
    return isinstance(s, int) and not hasattr(s, "node") and s == -1


@torch_function()
def broadcast_shapes(*shapes):
    import torch

    several_ = (tuple(map(int, shape)) if isinstance(shape, (tuple, list)) else (int(shape),) for shape in shapes)
    return torch.broadcast_shapes(*several_)


@torch_function()
def broadcast_tensors(*tensors):
    tensors = varargs(tensors)
    shape = common_shape(tensors)
    return tuple(viewed(recorder_of(x), "broadcast_to", (x, shape), {}) for x in tensors)


def common_shape(tensors: Any) -> tuple:
    """The broadcast shape of tensors, as extents."""
    total: Any = 0
    for x in tensors:
        total = language("add", language("zeros_like", x), total)
    return tuple(total.shape)


# -- what a trace knows of tensors


@torch_function()
def is_same_size(input, other):
    return input.ndim == other.ndim and all(int(a) == int(b) for a, b in zip(input.shape, other.shape))


@torch_function("allclose")
def equal(input, other, *args, **kwargs):
    raise recorder_of(input, other).no_value("the truth of an array", "return (x == y).all(), or isclose(...).all()")


@torch_function("result_type")
def common_dtype(tensor1, tensor2):
    r = recorder_of(tensor1, tensor2)
    return r.tracer(r.builder.convert(r.builder.literal(0), result_type([r.node(tensor1), r.node(tensor2)]))).dtype


@torch_function()
def masked_select(input, mask):
    if mask.ndim == input.ndim and dtype_of(mask) is BOOL:
        return input[mask]
    return unique(input)


@torch_function("nonzero")
def unique(input, *args, **kwargs):
    raise ArgumentError("a result whose size depends on values has no place in a kernel", "argument.mask",
                        help="torch.where(mask, x, 0), or a sum over it")  # fmt: skip


# Formulas, and functions that are others with some of their arguments.
TABLE |= {
    "view_as": lambda input, other: view(input, tuple(other.shape)),
    "reshape_as": lambda input, other: reshape(input, tuple(other.shape)),
    **dict.fromkeys(("numpy_T", "T"), lambda input: input.permuted(None)),
    **dict.fromkeys(("mH", "mT", "adjoint"), lambda input: transpose(input, -2, -1)),
    "expand_as": lambda input, other: expand(input, *other.shape),
    "broadcast_to": lambda input, size: expand(input, *size),
    **dict.fromkeys(("dim", "ndimension"), lambda input: input.ndim),
    **dict.fromkeys(("numel", "nelement"), lambda input: input.numel()),
    "is_floating_point": lambda input: input.is_floating_point(),
    **dict.fromkeys(("is_conj", "is_complex", "is_neg", "is_inference", "is_distributed"), lambda input: False),
    "is_signed": lambda input: input.dtype.is_signed,
    "is_tensor": lambda obj: isinstance(obj, Tracer) and not obj.is_number,
    "getitem": lambda input, index: input[index],
    "is_nonzero": lambda input: bool(input),
    "size": lambda input, dim=None: input.size(dim),
}
