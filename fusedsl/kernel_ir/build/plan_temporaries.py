"""The temporaries between the kernels of a plan: their types, which of them are results, and which are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...fusion.fusion_group import Partition
from ...fusion.stored_results import ReadResult
from ...fusion.zero_padding import padded_temporaries
from ...ir.graph import Parameter, Type
from ..plan import ArrayUse, KernelPlan, PaddedTemporary


def temporary_types(cut: Partition, kernels: tuple[KernelPlan, ...]) -> tuple[Type, ...]:
    """The types of the temporaries between kernels."""
    dtypes = {use.index: use.dtype for k in kernels for use in k.arrays if use.kind == "temporary"}
    return tuple(Type(dtypes.get(k, t.dtype.compute), t.shape) for k, t in enumerate(cut.temporaries))


def reading_results(kernel: KernelPlan, result_of: Mapping[int, ReadResult]) -> KernelPlan:
    """The kernel, which reads results instead of temporaries that are not stored beside them."""
    if not any(use.kind == "temporary" and use.index in result_of for use in kernel.arrays):
        return kernel

    def read(use: ArrayUse) -> ArrayUse:
        if use.kind != "temporary" or use.index not in result_of:
            return use
        result = result_of[use.index]
        at = use.at if result.in_order else tuple(use.at[axis] for axis in result.order)
        return replace(use, kind="result", index=result.index, at=at)

    return replace(kernel, arrays=tuple(map(read, kernel.arrays)))


def numbers_of_used(kernels: tuple[KernelPlan, ...]) -> dict[int, int]:
    """The new number of each temporary that kernels use."""
    used = {use.index for k in kernels for use in k.arrays if use.kind == "temporary"}
    return {t: k for k, t in enumerate(sorted(used))}


def used_temporaries(
    kernels: tuple[KernelPlan, ...], temporaries: tuple[Type, ...]
) -> tuple[tuple[KernelPlan, ...], tuple[Type, ...]]:
    """The kernels, and the temporaries that they use, numbered anew."""
    number = numbers_of_used(kernels)
    if len(number) == len(temporaries):
        return kernels, temporaries

    def renumbered(kernel: KernelPlan) -> KernelPlan:
        arrays = (replace(a, index=number[a.index]) if a.kind == "temporary" else a for a in kernel.arrays)
        return replace(kernel, arrays=tuple(arrays))

    return tuple(map(renumbered, kernels)), tuple(temporaries[t] for t in number)


def padded_copies(
    cut: Partition, kernels: tuple[KernelPlan, ...], parameters: tuple[Parameter, ...]
) -> tuple[PaddedTemporary, ...]:
    """The temporaries that are other arrays with zeros around them, by their numbers among those that are used."""
    types = {("argument", k): p.type for k, p in enumerate(parameters)}
    types |= {("temporary", k): t for k, t in enumerate(cut.temporaries)}
    padded, number = padded_temporaries(cut.groups, types), numbers_of_used(kernels)
    return tuple(PaddedTemporary(number[k], widths) for k, widths in padded.items() if k in number)
