"""torch's splits and slices of tensors on tracers: chunk, split, unbind, narrow and others."""

from __future__ import annotations

import itertools

from ...errors import ShapeError
from .functions import TABLE, torch_function, torch_functions
from .reductions import total
from .shapes import axis_of, reshape, varargs


@torch_function()
def narrow(input, dim, start, length):
    axis = axis_of(input, dim)
    extent = input.shape[axis]
    start = start + extent if start < 0 else start
    if not 0 <= start <= start + length <= extent:
        raise ShapeError(
            f"{length} elements from {start} on are not in a dimension of {int(extent)}",
            "shape.narrow",
            help="a slice stops at the end: x[start:stop]",
        )
    return input[(*[slice(None)] * axis, slice(start, start + length))]


@torch_function()
def select(input, dim, index):
    return input[(*[slice(None)] * axis_of(input, dim), index)]


@torch_function()
def unbind(input, dim=0):
    return tuple(select(input, dim, k) for k in range(int(input.shape[axis_of(input, dim)])))


@torch_function()
def split(input, split_size_or_sections=None, dim=0, split_size=None):
    sizes = split_size_or_sections if split_size is None else split_size
    extent = int(input.shape[axis_of(input, dim)])
    if not isinstance(sizes, (tuple, list)):
        sizes = [min(int(sizes), extent - start) for start in range(0, extent, int(sizes))] or [0]
    if sum(map(int, sizes)) != extent:
        raise ShapeError(
            f"pieces of {tuple(sizes)} do not add up to {extent}",
            "shape.split",
            help="the pieces of torch.split have x.shape[dim] elements in all",
        )
    starts = [sum(map(int, sizes[:k])) for k in range(len(sizes))]
    return tuple(narrow(input, dim, start, int(size)) for start, size in zip(starts, sizes))


TABLE["split_with_sizes"] = TABLE["unsafe_split"] = split


@torch_function("unsafe_chunk")
def chunk(input, chunks, dim=0):
    extent, chunks = int(input.shape[axis_of(input, dim)]), int(chunks)
    return split(input, -(-extent // chunks) if extent else [0] * chunks, dim)


@torch_function()
def tensor_split(input, indices_or_sections, dim=0):
    extent = int(input.shape[axis_of(input, dim)])
    if isinstance(indices_or_sections, int) or getattr(indices_or_sections, "ndim", 1) == 0:
        n = int(indices_or_sections)
        sizes = [extent // n + (k < extent % n) for k in range(n)]
    else:
        ends = [0, *(min(int(i), extent) for i in indices_or_sections), extent]
        sizes = [last - first for first, last in itertools.pairwise(ends)]
    return split(input, sizes, dim)


@torch_functions("vsplit hsplit dsplit")
def _split_along(name, input, *given):
    if not input.ndim:
        raise ShapeError(f"{name} of a number", "shape.split", help="give it a dimension: x[None]")
    dim = {"vsplit": 0, "hsplit": min(input.ndim - 1, 1), "dsplit": 2}[name]
    indices_or_sections = varargs(given) if len(given) > 1 else given[0]
    extent = int(input.shape[axis_of(input, dim)])
    if isinstance(indices_or_sections, int) and extent % indices_or_sections:
        message = f"{extent} elements do not split into {int(indices_or_sections)} equal parts"
        raise ShapeError(message, "shape.split", help="tensor_split allows unequal ones")
    return tensor_split(input, indices_or_sections, dim)


@torch_function()
def sum_to_size(input, *size):
    """sum_to_size: the sum over dimensions that are missing or 1 in `size`."""
    size = varargs(size)
    new = input.ndim - len(size)
    added = tuple(k for k, n in enumerate(input.shape) if k < new or int(size[k - new]) != int(n))
    return reshape(total(input, added) if added or not input.ndim else input, size)
