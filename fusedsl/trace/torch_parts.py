"""torch's parts of tensors, with torch's signatures."""

from __future__ import annotations

import itertools
from typing import Any

from ..errors import ShapeError
from .torch_functions import TABLE, torch_function
from .torch_reductions import sum_ as total
from .torch_shapes import reshape, several


@torch_function()
def narrow(input, dim, start, length):
    return input[(*[slice(None)] * (dim % input.ndim), slice(start, start + length))]


@torch_function()
def select(input, dim, index):
    return input[(*[slice(None)] * (dim % input.ndim), index)]


@torch_function()
def unbind(input, dim=0):
    return tuple(select(input, dim, k) for k in range(int(input.shape[dim])))


@torch_function()
def split(input, split_size_or_sections=None, dim=0, split_size=None):
    sizes = split_size_or_sections if split_size is None else split_size
    extent = int(input.shape[dim])
    if not isinstance(sizes, (tuple, list)):
        sizes = [min(int(sizes), extent - start) for start in range(0, extent, int(sizes))]
    if sum(map(int, sizes)) != extent:
        raise ShapeError(
            f"pieces of {tuple(sizes)} do not add up to {extent}",
            code="shape.split",
            help="the pieces of torch.split have x.shape[dim] elements in all",
        )
    starts = [sum(map(int, sizes[:k])) for k in range(len(sizes))]
    return tuple(narrow(input, dim, start, int(size)) for start, size in zip(starts, sizes))


TABLE["split_with_sizes"] = TABLE["unsafe_split"] = split


@torch_function("unsafe_chunk")
def chunk(input, chunks, dim=0):
    extent = int(input.shape[dim])
    return split(input, -(-extent // int(chunks)), dim)


@torch_function()
def tensor_split(input, indices_or_sections, dim=0):
    extent = int(input.shape[dim])
    if isinstance(indices_or_sections, int) or getattr(indices_or_sections, "ndim", 1) == 0:
        n = int(indices_or_sections)
        sizes = [extent // n + (k < extent % n) for k in range(n)]
    else:
        ends = [0, *(min(int(i), extent) for i in indices_or_sections), extent]
        sizes = [last - first for first, last in itertools.pairwise(ends)]
    return split(input, sizes, dim)


def _split_along(name: str, dim: Any) -> None:
    def function(input, *indices_or_sections):
        return tensor_split(input, several(indices_or_sections) if len(indices_or_sections) > 1
                            else indices_or_sections[0], dim(input))  # fmt: skip

    TABLE[name] = function


_split_along("vsplit", lambda x: 0)
_split_along("hsplit", lambda x: min(x.ndim - 1, 1))
_split_along("dsplit", lambda x: 2)


@torch_function()
def sum_to_size(input, *size):
    """The sum over the dimensions that `size` lacks, or has one element of."""
    size = several(size)
    new = input.ndim - len(size)
    added = tuple(k for k, n in enumerate(input.shape) if k < new or int(size[k - new]) != int(n))
    return reshape(total(input, added) if added or not input.ndim else input, size)
