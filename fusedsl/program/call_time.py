"""Predicted time of a resolved call: the sum of its launches, of our own kernels and of library products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol

from ..backends.cpu import product_time
from ..fusion.roofline import seconds
from ..hardware import Hardware
from ..ir.dims import Symbol
from ..kernel_ir.matmul_axes import extent, matmul_axes
from ..kernel_ir.plan import KernelPlan, Plan
from ..runtime.bound_kernel import BoundKernel
from ..runtime.compile import scheduled_cuda
from .call_target import CallTarget
from .kernel_launch import KernelLaunch
from .kernel_work import kernel_work
from .library_product import LibraryProduct
from .plans import Plans
from .product_work import cpu_product_rates, library_seconds


class PricedCall(Protocol):
    """What a resolved call says of its kernels."""

    @property
    def plans(self) -> Plans: ...

    @property
    def target(self) -> CallTarget: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def extents(self) -> Mapping[Symbol, int]: ...

    @property
    def kernels(self) -> Sequence[tuple[KernelPlan, BoundKernel]]: ...

    @property
    def product_library(self) -> str | None: ...

    def library_product(self, plan: KernelPlan, bound: BoundKernel) -> LibraryProduct | str: ...

    def own_seconds(self, plan: KernelPlan, bound: BoundKernel) -> float: ...


# measured: H200, three products 4096 x 4096 x 4096 of one operand: what a product of arguments alone saves that starts
# while the launch before it ends; no more than this share of its time
EARLY_START, EARLY_SHARE = 5e-6, 0.03


def call_seconds(call: PricedCall) -> float:
    """The predicted time of a call, on one thread of a CPU or on the GPU."""
    total, follows = 0.0, False
    for plan, bound in call.kernels:
        if bound.empty:
            continue
        ours = not isinstance(call.library_product(plan, bound), LibraryProduct)
        each = kernel_seconds(call, plan, bound)
        early = follows and ours and starts_with_arguments(plan, bound, call.target.hardware)
        total += each - (min(EARLY_START, EARLY_SHARE * each) if early else 0.0)
        follows = follows or ours
    return total


def starts_with_arguments(plan: KernelPlan, bound: BoundKernel, hardware: Hardware | None) -> bool:
    """Whether a kernel sums products of arguments of the call alone, and loads them before the launch before has
    ended."""
    given = all(use.kind == "argument" for use in plan.arrays[: plan.inputs])
    if hardware is None or not given or not bound.kernel.products:
        return False
    return scheduled_cuda(bound, hardware)[1].prefetches


def kernel_seconds(call: PricedCall, plan: KernelPlan, bound: BoundKernel) -> float:
    """The predicted time of a kernel of a call, by whoever computes it."""
    product = call.library_product(plan, bound)
    if not isinstance(product, LibraryProduct):
        return call.own_seconds(plan, bound)
    return products_seconds(bound, None) if product.seconds is None else product.seconds


def products_seconds(bound: BoundKernel, hardware: Hardware | None, tf32: bool = False) -> float:
    """The predicted time in which a library computes the products that a kernel sums; None is the CPU."""
    sides, kernel = product_sides(bound), bound.kernel
    factors = kernel.operands[0].dtype
    if hardware is None:
        return len(kernel.products) * cpu_product_rates().blas.seconds(sides, factors.compute.itemsize)
    batch, rows, columns, terms = sides
    moved = batch * (rows * terms + columns * terms + rows * columns) * factors.itemsize
    return len(kernel.products) * library_seconds(sides, factors, moved, hardware, tf32)


def product_sides(bound: BoundKernel) -> tuple[int, int, int, int]:
    """(batch, rows, columns, terms) of the products of a kernel."""
    axes, extents = matmul_axes(bound.kernel), bound.extents
    assert axes is not None
    groups = (axes.batch, axes.rows, axes.columns)
    batch, rows, columns = (extent(group, extents) for group in groups)
    return batch, rows, columns, prod(extents[bound.kernel.row_axes :])


def own_seconds(bound: BoundKernel, hardware: Hardware | None) -> float:
    """The predicted time of our own kernel; None is the CPU."""
    if hardware is None:
        return product_time.seconds(bound.kernel, bound.extents, cpu_product_rates().own)
    launch = KernelLaunch(*scheduled_cuda(bound, hardware), bound)
    kernel = launch.kernel
    sizes = [bound.operand_bytes(k) for k in range(len(kernel.operands))]
    reads = [(size, 1) for size in sizes[: kernel.inputs]]
    return seconds(kernel_work(launch, hardware, reads, sum(sizes[kernel.inputs :]), {}), hardware)
