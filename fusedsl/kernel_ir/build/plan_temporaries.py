"""The temporaries between the kernels of a plan: their types, which of them are results, and which are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...fusion.fusion_group import Partition
from ...fusion.stored_results import ReadResult
from ...ir.graph import Type
from ..plan import ArrayUse, KernelPlan


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


def used_temporaries(
    kernels: tuple[KernelPlan, ...], temporaries: tuple[Type, ...]
) -> tuple[tuple[KernelPlan, ...], tuple[Type, ...]]:
    """The kernels, and the temporaries that they use, numbered anew."""
    used = {use.index for k in kernels for use in k.arrays if use.kind == "temporary"}
    if len(used) == len(temporaries):
        return kernels, temporaries
    number = {t: k for k, t in enumerate(sorted(used))}

    def renumbered(kernel: KernelPlan) -> KernelPlan:
        arrays = (replace(a, index=number[a.index]) if a.kind == "temporary" else a for a in kernel.arrays)
        return replace(kernel, arrays=tuple(arrays))

    return tuple(map(renumbered, kernels)), tuple(temporaries[t] for t in number)
