"""Makes the launch records of a call: the parameter block of each kernel, and the payloads that fill it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..backends.cuda.combo import combo_launch_configs
from ..ir.dims import Symbol, evaluate
from ..kernel_ir.fast_division import magic
from ..kernel_ir.gemm import Gemm
from ..kernel_ir.image_rows import ImageBox
from ..kernel_ir.kernel import KernelIR, Operand, TmaBox
from ..kernel_ir.parameter_layout import kernel_params
from ..kernel_ir.plan import KernelPlan, ScalarUse
from .bound_kernel import BoundKernel
from .launch import CodeIdentity, HostLaunchRecord, LaunchRecord, host_launch
from .layout import ALIGNMENT
from .parameter_packing import FORMAT_OF, BlockLayout, PointerSlot, ScalarSlot
from .run_compilers import CompiledKernel

if TYPE_CHECKING:
    from .blas_launch import BlasLaunch


@dataclass(frozen=True)
class PayloadLayout:
    """The index of each payload in the list of addresses and numbers that launches read.

    Arguments come first, then results, the workspace, the counters, and extents that kernels take as numbers. The
    workspace is one allocation: the temporaries, each at its offset, and from `scratch` on the global scratch of a
    single launch.
    """

    arguments: int
    results: int
    scratch: int = 0
    temporaries: Sequence[int] = ()
    extents: Mapping[Symbol, int] = field(default_factory=dict)
    names: Sequence[str] = ()  # of the arguments
    numbers: list[int] = field(default_factory=list)  # appended by each kernel that takes extents or strides

    def argument(self, k: int) -> int:
        return k

    def result(self, k: int) -> int:
        return self.arguments + k

    @property
    def workspace(self) -> int:
        return self.arguments + self.results

    @property
    def tickets(self) -> int:
        return self.workspace + 1

    def number(self, k: int) -> int:
        return self.tickets + 1 + k


def pointer_slots(
    plan: KernelPlan, bound: BoundKernel, kernel: KernelIR, payload_layout: PayloadLayout
) -> list[PointerSlot]:
    """The pointer slots of one kernel: payload index and byte offset of each."""
    pointers = []
    for k, (use, offset) in enumerate(zip(plan.arrays, bound.offsets)):
        shift = offset * bound.kernel.operands[k].dtype.itemsize
        if use.kind == "argument":
            index = payload_layout.argument(use.index)
        elif use.kind == "result":
            index = payload_layout.result(use.index)
        else:
            index, shift = payload_layout.workspace, shift + payload_layout.temporaries[use.index]
        pointers.append(PointerSlot(8 * k, index, shift))
    if kernel.workspace:
        pointers.append(PointerSlot(8 * len(pointers), payload_layout.workspace, payload_layout.scratch))
    if kernel.semaphores:
        pointers.append(PointerSlot(8 * len(pointers), payload_layout.tickets))
    for at, slot in enumerate(kernel_params(kernel)):
        if slot.kind == "window" and slot.axis == 0:
            pointers.append(pointers[kernel.tma_boxes[slot.index].operand]._replace(offset=8 * at))
    return pointers


def tensor_map_words(window: TmaBox | ImageBox, operand: Operand, bound: BoundKernel) -> tuple[int, ...]:
    """The tensor map of a TMA box, with a first word of 0: the call fills in the address."""
    from .driver import driver
    from .encode_tensor_map import image_map, tensor_map

    name = "tfloat32" if window.tf32 else operand.dtype.name
    if isinstance(window, ImageBox):
        layout = bound.images[window.operand]
        assert layout is not None
        return image_map(driver(), name, layout, operand.image, window)
    extents = [bound.extents[a] for a in window.axes]
    steps = [bound.strides[window.operand][a] * operand.dtype.itemsize or ALIGNMENT for a in window.axes[1:]]
    return tensor_map(driver(), name, extents, steps, window.box)


def block_template(kernel: KernelIR, bound: BoundKernel, divided: Sequence[int]) -> bytes:
    """The parameter block with extents, strides and the magic numbers of axes 1 … filled in."""
    magics = [magic(d) for d in divided]
    maps = [tensor_map_words(w, kernel.operands[w.operand], bound) for w in kernel.tma_boxes]
    values = []
    for slot in kernel_params(kernel):
        if slot.kind == "extent":
            values.append(bound.extents[slot.index])
        elif slot.kind == "place":
            values.append(_places(bound)[slot.index])
        elif slot.kind == "stride":
            values.append(bound.strides[slot.index][slot.axis])
        elif slot.kind == "magic":
            values.append(magics[slot.index - 1])
        elif slot.kind == "window":
            values.append(maps[slot.index][slot.axis])
        else:
            values.append(0)
    return b"".join(struct.pack("<q" if v < 1 << 63 else "<Q", v) for v in values)


def _places(bound: BoundKernel) -> tuple[int, ...]:
    """The places of windows along each image axis."""
    return next(image.places for image in bound.images if image is not None)


def scalar_slots(
    plan: KernelPlan, bound: BoundKernel, kernel: KernelIR, payload_layout: PayloadLayout
) -> list[ScalarSlot]:
    """The scalar slots of one kernel; extents and strides that it takes are appended to the call's numbers."""
    first, numbers = 8 * (len(kernel_params(kernel)) - len(plan.scalars)), payload_layout.numbers
    scalars = []
    for k, use in enumerate(plan.scalars):
        if use.kind == "argument":
            index = payload_layout.argument(use.source)
        else:
            index = payload_layout.number(len(numbers))
            numbers.append(_number(use, bound, payload_layout.extents))
        form = "q" if use.kind == "literal" else FORMAT_OF[use.value.dtype.name]
        scalars.append(ScalarSlot(first + 8 * k, index, form))
    return scalars


def _number(use: ScalarUse, bound: BoundKernel, extents: Mapping[Symbol, int]) -> int:
    """The value of a scalar that is no argument; of a literal, its bytes."""
    if use.kind == "stride":
        array, axis = use.source
        return bound.byte_strides[array][axis]
    return use.source if use.kind == "literal" else evaluate(use.source, extents)


def code_identity(built: CompiledKernel) -> CodeIdentity:
    """The identity of a compiled kernel's machine code."""
    return CodeIdentity(built.cache_key, hashlib.sha256(built.code).hexdigest(), built.symbols)


def _block_layout(
    plan: KernelPlan, bound: BoundKernel, kernel: KernelIR, payload_layout: PayloadLayout, divisors: Sequence[int]
) -> BlockLayout:
    """The parameter block of one kernel."""
    pointers = pointer_slots(plan, bound, kernel, payload_layout)
    scalars = scalar_slots(plan, bound, kernel, payload_layout)
    return BlockLayout(block_template(kernel, bound, divisors), pointers, scalars, payload_layout.names)


def cuda_launch(
    plan: KernelPlan,
    bound: BoundKernel,
    built: CompiledKernel,
    function: Any,
    payload_layout: PayloadLayout,
    follows: bool = False,
) -> LaunchRecord:
    """The launch record of one kernel on one CUDA device; it `follows` another one of the same call."""
    from .driver import driver

    divisors = built.schedule.magic_divisors(built.kernel, bound.extents)
    block = _block_layout(plan, bound, built.kernel, payload_layout, divisors)
    geometry = built.schedule.launch(built.kernel, bound.extents)
    if not follows:  # it would load what launches of other calls write
        geometry = replace(geometry, starts_early=False)
    return LaunchRecord(driver(), function, geometry, block, code_identity(built))


def combo_launch(
    members: Sequence[tuple[KernelPlan, BoundKernel]],
    built: CompiledKernel,
    function: Any,
    payload_layout: PayloadLayout,
) -> LaunchRecord:
    """The launch record of a combo kernel: its members' parameter blocks, and their first blocks of the grid."""
    from .driver import driver

    bundle, schedule = built.kernel, built.schedule
    launch, each = combo_launch_configs(bundle, schedule, [bound.extents for _, bound in members])
    first = list(accumulate((member.blocks for member in each), initial=0))
    words: list[dict] = []
    pointers: list[PointerSlot] = []
    scalars: list[ScalarSlot] = []
    for kernel, member, (plan, bound) in zip(bundle.kernels, schedule.members, members):
        block = struct.iter_unpack("<q", block_template(kernel, bound, member.magic_divisors(kernel, bound.extents)))
        words.append({slot: value for slot, (value,) in zip(kernel_params(kernel), block)})
        pointers += pointer_slots(plan, bound, kernel, payload_layout)
        scalars += scalar_slots(plan, bound, kernel, payload_layout)
    filled = [first[k] if slot.kind == "first" else words[k][slot] for k, slot in bundle.params]
    begin = len(filled) - len(scalars)
    layout = BlockLayout(
        struct.pack(f"<{len(filled)}q", *filled),
        [slot._replace(offset=8 * k) for k, slot in enumerate(pointers)],
        [slot._replace(offset=8 * (begin + k)) for k, slot in enumerate(scalars)],
        payload_layout.names,
    )
    return LaunchRecord(driver(), function, launch, layout, code_identity(built))


def cpu_launch(
    plan: KernelPlan,
    bound: BoundKernel,
    built: CompiledKernel,
    functions: dict[str, Any],
    payload_layout: PayloadLayout,
) -> HostLaunchRecord:
    """The launch record of one kernel on the thread pool."""
    from ..backends.cpu import schedule as cpu_schedule

    work = cpu_schedule.launch(built.kernel, built.schedule, bound.extents)
    divisors = built.kernel.magic_divisors(1, bound.extents)
    block = _block_layout(plan, bound, built.kernel, payload_layout, divisors)
    return host_launch(functions, work, block, code_identity(built))


def blas_launch(plan: KernelPlan, bound: BoundKernel, product: Gemm, payload_layout: PayloadLayout) -> BlasLaunch:
    """The launch record of a kernel that NumPy's BLAS computes."""
    from .blas_launch import BlasLaunch

    return BlasLaunch(product, factor_layout(plan, bound, product, payload_layout))


def factor_layout(plan: KernelPlan, bound: BoundKernel, product: Gemm, payload_layout: PayloadLayout) -> BlockLayout:
    """A parameter block of the addresses of both factors and the result of a GEMM."""
    pointers = pointer_slots(plan, bound, bound.kernel, payload_layout)
    slots = [pointers[k]._replace(offset=8 * n) for n, k in enumerate(product.arrays)]
    return BlockLayout(bytes(24), slots, names=payload_layout.names)
