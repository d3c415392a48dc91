"""Products that read images with zeros around them, without a kernel that writes these zeros to memory first.

TMA in im2col mode gives zeros beside an image. Where all readers of a padded temporary are such products, they read the
array that it would be a copy of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..hardware import Hardware
from ..ir.dims import Symbol
from ..kernel_ir.build.plan_temporaries import used_temporaries
from ..kernel_ir.plan import ArrayUse, KernelPlan, PaddedTemporary, Plan, remaining_launches
from ..runtime.layout import ArrayLayout
from .call_steps import bind_product

Layouts = Mapping[tuple[str, int], ArrayLayout]


def without_padded_copies(
    plan: Plan, layouts: Layouts, extents: Mapping[Symbol, int], hardware: Hardware | None
) -> Plan:
    """The plan whose products read images where they are, as far as they can; the same plan if none can."""
    sources = {one.temporary: _source(plan, one) for one in plan.padded} if hardware else {}
    known = {t: use for t, use in sources.items() if use is not None}
    read = {
        t: use
        for t, use in known.items()
        if all(
            bind_product(_reading(kernel, {t: use}), layouts, extents, hardware).images
            for kernel in plan.kernels
            if t in _temporaries_read(kernel)
        )
    }
    return _without(plan, read) if read else plan


def _source(plan: Plan, one: PaddedTemporary) -> ArrayUse | None:
    """The array of which a temporary is a padded copy, as readers of the temporary may see it."""
    key = ("temporary", one.temporary)
    (writer,) = (k for k in plan.kernels if key in [(u.kind, u.index) for u in k.arrays[k.inputs :]])
    copied = writer.arrays[0]
    plain = writer.inputs == 1 and not copied.views and copied.dtype is writer.arrays[1].dtype
    return (
        replace(copied, views=(("padded", one.widths),), gathered=None) if plain and len(writer.arrays) == 2 else None
    )


def _temporaries_read(kernel: KernelPlan) -> set[int]:
    return {use.index for use in kernel.arrays[: kernel.inputs] if use.kind == "temporary"}


def _reading(kernel: KernelPlan, sources: Mapping[int, ArrayUse]) -> KernelPlan:
    """A kernel that reads these arrays instead of temporaries."""
    arrays = tuple(
        replace(use, kind=sources[use.index].kind, index=sources[use.index].index, views=_views(use, sources))
        if k < kernel.inputs and use.kind == "temporary" and use.index in sources
        else use
        for k, use in enumerate(kernel.arrays)
    )
    return replace(kernel, arrays=arrays)


def _views(use: ArrayUse, sources: Mapping[int, ArrayUse]) -> tuple:
    return (*sources[use.index].views, *use.views)


def _without(plan: Plan, sources: Mapping[int, ArrayUse]) -> Plan:
    """The plan without the kernels that fill these temporaries, and without their memory."""
    filled = {("temporary", t) for t in sources}
    kept = [not filled & {(u.kind, u.index) for u in k.arrays[k.inputs :]} for k in plan.kernels]
    read = tuple(_reading(k, sources) for k, stays in zip(plan.kernels, kept) if stays)
    kernels, temporaries = used_temporaries(read, plan.temporaries)
    launches = tuple(remaining_launches(map(len, plan.shared), kept))
    return replace(plan, kernels=kernels, launches=launches, temporaries=temporaries, padded=())
