"""The calls that a saved file should serve besides the saved one: other lengths, unit extents."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

from ..errors import FusedslError
from ..ir.checks import holds
from ..ir.dims import Extents, Symbol, evaluate
from ..kernel_ir.kernel import KernelIR
from ..kernel_ir.plan import KernelPlan
from ..program import call_steps
from ..program.call_layouts import call_layouts
from ..program.resolve_call import ResolvedCall, resolve
from ..runtime.arrays import ArrayFacts, Weak
from ..runtime.bound_kernel import BoundKernel
from ..runtime.compile import scheduled_cpu
from .loops import general_loops

LENGTHS = (4, 64, 300_000)  # short, usual, and longer than one thread reduces (backends/cpu/schedule.py)
FEW = 4  # classes of extents, of which every combination is tried
PLAN_SHARE, KERNEL_SHARE = 0.1, 0.05  # of the probed calls: a plan or kernel with fewer calls is not saved
EQUAL = ("equal", "contract", "same_size", "agree", "pairs")  # checks that two lengths are equal
MULTIPLE = 8  # factor between a length and a multiple of it, which has the same divisors

Arguments = Sequence["ArrayFacts | Weak"]
Units = tuple[Symbol, ...]
"""Extents that are 1 together."""


def served_calls(call: ResolvedCall) -> list[ResolvedCall]:
    """A call on the CPU, and one for each further plan that many other lengths use."""
    served, calls = [call], _calls(call)
    left = [arguments for arguments in calls if not _holds(call, arguments)]
    while len(left) > PLAN_SHARE * len(calls):
        other = None
        with contextlib.suppress(FusedslError):
            other = resolve(call.plans, dict(zip(call.arguments, left[0])), call.target)
        alike = [arguments for arguments in left if other is not None and _holds(other, arguments)]
        left = [arguments for arguments in left[1:] if arguments not in alike]
        served += [other] if other is not None and len(alike) >= PLAN_SHARE * len(calls) else []
    return served


def kernels_for(call: ResolvedCall) -> list[tuple[KernelPlan, KernelIR, str]]:
    """The kernels of a call on the CPU with their loops, and further ones that many other lengths use."""
    own = [(plan, *scheduled_cpu(bound)) for plan, bound in call.kernels]
    calls = [_bound(call, arguments) for arguments in _calls(call) if _holds(call, arguments)]
    others = Counter((plan, *scheduled_cpu(bound)) for kernels in calls for plan, bound in kernels)
    return [*own, *(kernel for kernel, count in others.items() if count >= KERNEL_SHARE * len(calls))]


def _calls(call: ResolvedCall) -> list[list[ArrayFacts | Weak]]:
    """The arguments of a call with other extents."""
    groups = classes(call)
    return [_resized(call.facts, _agreeing(call, _sizes(groups, lengths))) for lengths in _lengths(len(groups))]


def _holds(call: ResolvedCall, arguments: Arguments) -> bool:
    """Whether a call's plan serves these lengths."""
    return call_steps.guards_hold(call.plan.guards, call_steps.extents_of(arguments))


def general_kernels(call: ResolvedCall) -> Iterator[tuple[KernelPlan, KernelIR, str]]:
    """The kernels for any layout and lengths on the CPU, with their loops."""
    for plan in call.plan.kernels:
        yield plan, *general_loops(plan, call.layouts, call.extents)[:2]


def unit_groups(call: ResolvedCall) -> list[Units]:
    """Groups of extents that may be 1 in calls of a plan for other extents, because the results are the same.

    A plan for unit extents could squeeze or broadcast the axis; each group is checked.
    """
    if not call.plans.source.generic:
        return []
    groups = classes(call)
    sizes = range(1, len(groups) + 1) if len(groups) <= FEW else (1, 2, len(groups))
    chosen = [sum(some, ()) for n in sizes for some in combinations(groups, n)]
    return [ones for ones in chosen if _serves(call, ones)]


def classes(call: ResolvedCall) -> list[Units]:
    """The extents of the arguments' axes, in groups that are always equal.

    Equal extents belong together if a check breaks when one of them changes alone, and holds when both change: the
    channels of x and of w in group_norm(x, 8, w).
    """
    groups: list[tuple[Units, frozenset[int]]] = []  # with the checks that break if they change alone
    for d in (d for p in call.plan.parameters for d in p.type.shape if isinstance(d, Symbol)):
        alone = _broken(call, (d,))
        for k, (group, broken) in enumerate(groups):
            if alone and call.extents[group[0]] == call.extents[d]:
                together = _broken(call, (*group, d))
                if (alone | broken) - together:
                    groups[k] = ((*group, d), together)
                    break
        else:
            groups.append(((d,), alone))
    return [group for group, _ in groups]


def _broken(call: ResolvedCall, group: Units) -> frozenset[int]:
    """The checks for equal lengths that break if these extents change."""
    extents = Extents({d: n * MULTIPLE if d in group else n for d, n in call.extents.items()})
    checks = enumerate(call.plan.checks)
    return frozenset(k for k, check in checks if check.kind in EQUAL and not holds(check, extents))


def _lengths(count: int) -> Iterator[tuple[int | None, ...]]:
    """Lengths for so many classes; None leaves a class unchanged."""
    if count <= FEW:
        yield from product((None, *LENGTHS), repeat=count)
        return
    yield from ((length,) * count for length in LENGTHS[:2])
    for k in range(count):
        yield from ((*(None,) * k, length, *(None,) * (count - k - 1)) for length in LENGTHS)


def _sizes(groups: Sequence[Units], lengths: Sequence[int | None]) -> dict[Symbol, int]:
    return {d: length for group, length in zip(groups, lengths) if length is not None for d in group}


def _agreeing(call: ResolvedCall, sizes: Mapping[Symbol, int]) -> Mapping[Symbol, int]:
    """Lengths in which those that checks determine are set: of z in concat([x, y]) * z, the sum."""
    extents = Extents({**call.extents, **sizes})
    for check in call.plan.checks:
        if check.kind in EQUAL and not holds(check, extents):
            for extent, other in (check.dims[:2], check.dims[1::-1]):
                if isinstance(extent, Symbol) and not isinstance(other, Symbol):
                    extents = Extents({**extents, extent: evaluate(other, extents)})
                    break
    return extents


def _resized(arguments: Arguments, sizes: Mapping[Symbol, int]) -> list[ArrayFacts | Weak]:
    """Arguments with other extents, laid out as before: equally dense, in the same order of axes."""
    return [_resized_one(a, k, sizes) if isinstance(a, ArrayFacts) and a.shape else a for k, a in enumerate(arguments)]


def _resized_one(a: ArrayFacts, k: int, sizes: Mapping[Symbol, int]) -> ArrayFacts:
    shape = tuple(sizes.get(Symbol(k, axis), n) for axis, n in enumerate(a.shape))
    near_first = sorted(range(len(shape)), key=lambda axis: (abs(a.strides[axis]), -axis))
    strides, step = [0] * len(shape), 0
    for axis in near_first:
        if a.strides[axis]:
            step = step or abs(a.strides[axis])
            strides[axis] = step
            step *= max(1, shape[axis])
    return replace(a, shape=shape, strides=tuple(strides), pointer=0, owner=None)


def _bound(call: ResolvedCall, arguments: Arguments) -> list[tuple[KernelPlan, BoundKernel]]:
    """The kernels of a plan for other arguments; none if their extents do not go together."""
    extents = call_steps.extents_of(arguments)
    try:
        call_steps.check_call(call.plan, extents)
        layouts, _ = call_layouts(call.plan, arguments, extents)
        bounds = call_steps.bind_kernels(call.plan, layouts, extents, None, call.target.hardware)
    except FusedslError:
        return []
    return [(plan, bound) for plan, bound in zip(call.plan.kernels, bounds) if not bound.empty]


def _serves(call: ResolvedCall, ones: Units) -> bool:
    """Whether a plan for any extents is right for calls in which these are 1."""
    plan, plans = call.plan, call.plans
    arguments = _resized(call.facts, dict.fromkeys(ones, 1))
    extents = call_steps.extents_of(arguments)
    if not (call_steps.guards_hold(plan.guards, extents) and all(holds(check, extents) for check in plan.checks)):
        return False
    try:
        own, _ = plans.source.build(plans.parameters(arguments), extents, plans.options)
    except FusedslError:
        return False
    types, others = [r.type for r in own.results], [r.type for r in call.graph.results]
    shapes = [[tuple(evaluate(d, extents) for d in t.shape) for t in each] for each in (types, others)]
    return shapes[0] == shapes[1] and [t.dtype for t in types] == [t.dtype for t in others]
