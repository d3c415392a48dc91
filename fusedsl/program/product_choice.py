"""Product mode of a call: where its matrix products have their operands and results, by predicted times of plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

from ..errors import FusionError
from ..fusion import graph_products
from ..fusion.formulation import Formulation, ProductMode
from ..fusion.partition_graph import fits_in
from ..fusion.roofline import Work, seconds
from ..hardware import Hardware
from ..ir.dims import evaluate
from ..kernel_ir.folded_products import folded_products, grouped_products
from ..kernel_ir.kernel import AttentionKernel
from ..kernel_ir.matmul_axes import matmul_axes, worth_tiling
from ..kernel_ir.matmul_operands import matmul_operands
from ..kernel_ir.plan import KernelPlan
from ..runtime.bound_kernel import BoundKernel
from ..runtime.memory_planning import plan_workspace
from .call_time import (
    PricedCall,
    call_seconds,
    kernel_seconds,
    product_sides,
    products_seconds,
    starts_with_arguments,
)
from .library_product import LibraryProduct
from .operand_copies import with_operand_copies

MODES = (ProductMode.STORED_OPERANDS, ProductMode.FOLDED, ProductMode.ALONE)  # that are compared with the fused plan
WORTH = 0.97  # of the least time so far: a smaller gain is not worth the memory
SPARE_BYTES = 256 << 20  # of temporaries beside those of the fused plan, however small a call's arrays are
MOST_KERNELS = 64  # of a plan that is compared with others: planning takes time

Call = TypeVar("Call", bound=PricedCall)


@dataclass(frozen=True)
class ProductChoice:
    """The mode that was chosen for a call, and the predicted seconds of each mode that was compared."""

    mode: ProductMode
    seconds: dict[ProductMode, float]


def choose_product_mode(fused: Call, resolve_as: Callable[[Formulation], Call]) -> tuple[Call, ProductChoice | None]:
    """The call under the plan that takes the least time, and the choice; None if there was none.

    `fused` is the call under the plan whose products are in the kernels that surround them.
    """
    promising = _promising_modes(fused)
    wanted = [mode for mode in MODES if mode in promising]
    if not wanted:
        return with_operand_copies(fused, _is_large, resolve_as), None
    predicted = {ProductMode.FUSED: call_seconds(fused)}
    best, everywhere = fused, fused.plans.options.matmul == "library"
    for mode in wanted:
        try:
            other = resolve_as(replace(fused.plan.formulation, products=mode))
        except FusionError:  # more kernels than the caller allows
            continue
        if other.plan.products is not mode or not _is_worth_its_memory(other, fused):
            continue
        predicted[mode] = call_seconds(other)
        stores_more = other.plan.temporaries and mode is not ProductMode.FOLDED
        worth = WORTH if stores_more else 1.0
        faster = predicted[mode] < worth * predicted[best.plan.products]
        if faster or (everywhere and mode is ProductMode.ALONE):
            best = other
    best = with_operand_copies(best, _is_large, resolve_as)
    return best, ProductChoice(best.plan.products, predicted)


def _is_worth_its_memory(call: PricedCall, fused: PricedCall) -> bool:
    """Whether the temporaries that a call has beside those of the fused plan are small, or take no more than its
    arguments and results: else a call that needs little memory may find none."""
    plan, extents = fused.plan, fused.extents
    types = [*(parameter.type for parameter in plan.parameters), *plan.results]
    arrays = sum(prod(evaluate(d, extents) for d in t.shape) * t.dtype.itemsize for t in types)
    more = plan_workspace(call.plan, extents).size - plan_workspace(plan, extents).size
    return more <= max(SPARE_BYTES, arrays)


def _promising_modes(call: PricedCall) -> set[ProductMode]:
    """Modes that may take less time than the fused plan of a call, by the facts of its kernels."""
    fused = call.plan.products is ProductMode.FUSED and len(call.plan.kernels) <= MOST_KERNELS
    if not fused or call.plans.options.batch_invariant:
        return set()
    modes: set[ProductMode] = set()
    on_cpu, everywhere = call.target.hardware is None, call.plans.options.matmul == "library"
    library = call.product_library is not None
    fits = fits_in(call.extents, {})
    folded = [*folded_products(call.plan.kernels), *grouped_products(call.plan.kernels, fits)]
    if not on_cpu and any(_is_large(call.kernels[one.products][1]) for one in folded):
        modes.add(ProductMode.FOLDED)
    for plan, bound in call.kernels:
        if bound.empty or isinstance(call.library_product(plan, bound), LibraryProduct):
            continue
        if _computes_operands(bound) and (on_cpu or not isinstance(bound.kernel, AttentionKernel)):
            modes.add(ProductMode.STORED_OPERANDS)
        several = len(bound.kernel.products) > 1 and not bound.kernel.phases[0].row and _is_large(bound)
        if several and starts_with_arguments(plan, bound, call.target.hardware):  # as each of them alone does
            modes.add(ProductMode.ALONE)
        if library and ProductMode.ALONE not in modes:
            chain = isinstance(bound.kernel, AttentionKernel) and on_cpu and _computes_operands(bound)
            if chain or (_is_large(bound) and (everywhere or _library_is_faster(call, plan, bound))):
                modes.add(ProductMode.ALONE)
    return modes


def _computes_operands(bound: BoundKernel) -> bool:
    """Whether a kernel of large products computes operands of theirs: by arithmetic, or as products."""
    kernel = bound.kernel
    if isinstance(kernel, AttentionKernel):  # without statistics it is a chain of two products
        rows, keys = prod(bound.extents[a] for a in kernel.attention.query_axes), bound.extents[kernel.row_axes]
        sides = [(rows, keys, bound.extents[score.axis]) for score in kernel.attention.scores]
        return not kernel.attention.state.accumulators and any(_exceeds_small(*each) for each in sides)
    return _is_large(bound) and matmul_operands(kernel) is None


def _is_large(bound: BoundKernel) -> bool:
    axes = matmul_axes(bound.kernel)
    if axes is None or not worth_tiling(bound.kernel, axes, bound.extents):
        return False
    _, rows, columns, terms = product_sides(bound)
    return _exceeds_small(rows, columns, terms)


def _exceeds_small(rows: int, columns: int, terms: int) -> bool:
    return min(rows, columns) * terms > graph_products.SMALL


def _library_is_faster(call: PricedCall, plan: KernelPlan, bound: BoundKernel) -> bool:
    """Whether a library's products, and at least a launch for what follows them, may take less time than a kernel of
    ours."""
    hardware, tf32 = call.target.hardware, call.plans.options.matmul == "tf32"
    least = products_seconds(bound, hardware, tf32)
    if hardware is not None:
        least += _epilogue_seconds(bound, hardware)
    return least < WORTH * kernel_seconds(call, plan, bound)


def _epilogue_seconds(bound: BoundKernel, hardware: Hardware) -> float:
    """The least time of a kernel of its own for what follows the products of a kernel: it loads them, and stores."""
    kernel = bound.kernel
    if kernel.phases[0].row is None:
        return 0.0
    outputs = range(kernel.inputs, len(kernel.operands))
    written = sum(map(bound.operand_bytes, outputs))
    batch, rows, columns, _ = product_sides(bound)
    read = len(kernel.products) * batch * rows * columns * kernel.operands[0].dtype.itemsize
    return seconds(Work(read, written, 0), hardware)
