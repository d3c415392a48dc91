"""Makes plans from a program or trace: the graph, rewriting, partitioning, and the kernels of each group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import debug
from ..config import TENSOR_FLOAT, Options, verify_level
from ..errors import FusionError, LimitError
from ..fusion.contractions import matmul_factors
from ..fusion.formulation import AttentionMode, Formulation, ProductMode
from ..fusion.fusion_group import Decision, FusionGroup, Partition
from ..fusion.horizontal_fusion import horizontal_candidates, pack_launches
from ..fusion.merge_similar import NamedGroup, merge_similar
from ..fusion.partition_graph import Fits, fits_in, partition_graph, priced_for
from ..fusion.register_budget import FEWEST
from ..fusion.renumber_temporaries import renumber_temporaries
from ..fusion.shared_planning import planned_once, shared_planning
from ..fusion.stored_results import store_results_once
from ..hardware import Hardware
from ..ir.dims import Dim, Symbol
from ..ir.folds import SCAN_NAMES
from ..ir.graph import Graph, Node, Parameter, walk
from ..ir.ops import OPS
from ..ir.printer import show
from ..ir.verify import verify
from ..kernel_ir.build.build_plan import build_plan
from ..kernel_ir.build.grouped_products import finish_groups
from ..kernel_ir.build.panel_folds import fold_in_panels
from ..kernel_ir.build.plan_temporaries import padded_copies, reading_results, temporary_types, used_temporaries
from ..kernel_ir.liveness import register_count
from ..kernel_ir.plan import KernelPlan, Plan
from ..kernel_ir.register_pressure import body_registers_of
from ..rewrite import rules as _rules  # noqa: F401  (registers the laws)
from ..rewrite import store_to_load_forwarding as _store_to_load_forwarding  # noqa: F401  (registers the laws)
from ..rewrite.engine import Rule, rewrite
from ..rewrite.scalar_builder import free_axes
from . import call_steps
from .fold_decisions import with_fold_decisions

if TYPE_CHECKING:
    from .plan_verifier import Verifier


def make_graph(source: call_steps.ProgramSource, parameters: tuple[Parameter, ...], extents, options: Options):
    """(graph, guards) after the rewrite rules."""
    graph, guards = source.build(parameters, extents, options)
    arrays = len({n.attr for n in graph.nodes() if n.op == "param"})
    if arrays > options.limits.arrays:
        message = f"{arrays} arrays are more than {options.limits.arrays}"
        raise LimitError(message, "limit.arrays", help="join some into one array, or raise limits={'arrays': ...}")
    if debug.showing(debug.GRAPHS):
        debug.say(debug.GRAPHS, "graph as built", show(graph))
    graph = rewrite(graph, _show_rewrite if debug.showing(debug.REWRITES) else None)
    verify(graph)
    if debug.showing(debug.GRAPHS):
        debug.say(debug.GRAPHS, "graph after the rules", show(graph))
    return graph, guards


def _show_rewrite(law: Rule, old: Node, new: Node) -> None:
    debug.say(debug.REWRITES, f"{law.law}: {old!r} becomes {new!r}")


def make_plan(
    source: call_steps.ProgramSource,
    parameters: tuple[Parameter, ...],
    extents,
    options: Options,
    way: Formulation,
) -> Plan:
    """The plan of a signature, from a program or trace; without a register budget it is that of all programs."""
    way = replace(
        way,
        budget=way.budget or call_steps.REGISTER_BUDGET,
        steady=options.batch_invariant,
        unordered=options.deterministic is False,
    )
    graph, graph_guards = make_graph(source, parameters, extents, options)
    guards = dict(graph_guards)
    header, fits = source.header(), fits_in(extents, guards)
    check = _verifier(graph, extents, guards, options)
    cut = partition_graph(graph, extents, guards, way, check=check)
    kernels, launches, cut = build_kernels(cut, header, parameters, fits, options.fp_contract)
    cut = with_fold_decisions(cut, kernels, way, fits)
    usual = len(launches)
    if options.max_kernels is not None and usual > options.max_kernels:
        # kernels without a register budget are slower, and keep the promise of max_kernels
        way = replace(way, budget=None)
        cut = partition_graph(graph, extents, guards, way, priced_for(way.attention), check)  # for an error's prices
        kernels, launches, cut = build_kernels(cut, header, parameters, fits, options.fp_contract)
    reasons = tuple((d.joined, _describe(d, parameters)) for d in cut.decisions)
    for joined, reason in reasons:
        debug.say(debug.DECISIONS, f"{'joined' if joined else 'apart'}: {reason}")
    _check_kernels((len(launches), usual), cut, options, parameters)
    types = tuple(r.type for r in graph.results)
    temporaries = temporary_types(cut, kernels)
    if way.products is ProductMode.FOLDED:
        kernels, launches = finish_groups(kernels, launches, fits)
        kernels, temporaries = fold_in_panels(kernels, temporaries, types)
    on_cuda = way.attention is not AttentionMode.TILE_MAX  # on CPUs nothing reads zeros that are not in memory
    padded = padded_copies(cut, kernels, parameters) if on_cuda else ()
    kernels, temporaries = used_temporaries(kernels, temporaries)
    if options.batch_invariant:
        kernels = tuple(replace(k, batch_invariant=True) for k in kernels)
    if options.fastmath:
        kernels = tuple(replace(k, fastmath=True, digest=f"{k.digest} fast") for k in kernels)
    if options.matmul in TENSOR_FLOAT:
        kernels = tuple(_with_products(k, options.matmul) for k in kernels)
    plan = Plan(
        source.text,
        parameters,
        types,
        temporaries,
        graph.checks,
        tuple(guards.items()),
        kernels,
        reasons,
        way.together,
        way.attention,
        way.budget or 0,
        launches,
        way.products,
        way.copies,
        padded,
    )
    if check is not None:
        check.plan(plan)
    return plan


def _with_products(kernel: KernelPlan, mode: str) -> KernelPlan:
    """A kernel that multiplies float32 in this mode, if it has products."""
    if not any(phase.products for phase in kernel.resident):
        return kernel
    return replace(kernel, matmul=mode, digest=f"{kernel.digest} {mode}")


def _verifier(graph: Graph, extents, guards: Mapping[Dim, bool], options: Options) -> Verifier | None:
    """The verifier of each stage of a plan; None if no verification is wanted."""
    if not (options.verify or verify_level()):
        return None
    from .plan_verifier import Verifier

    return Verifier(graph, extents, guards, options.verify or verify_level() > 1)


def make_outline(
    source: call_steps.ProgramSource, parameters: tuple[Parameter, ...], extents, options: Options
) -> Plan:
    """The plan of a program without its kernels: the types of its results, and the checks of its calls."""
    graph, guards = source.build(parameters, extents, options)
    results = tuple(r.type for r in graph.results)
    return Plan(source.text, parameters, results, (), graph.checks, tuple(guards.items()), ())


@shared_planning()
def build_kernels(
    cut: Partition, header: tuple[str, ...], parameters: tuple[Parameter, ...], fits: Fits, contract: bool = True
):
    """(the kernels in launch order, the number of kernels in each launch, the partition with all decisions)."""
    kernels: list[KernelPlan] = []
    launches: list[int] = []
    decisions: list[Decision] = []
    once = store_results_once(cut)
    cut = once.cut
    members_of = merge_similar(cut.groups, parameters)
    for members in horizontal_candidates(cut.groups, fits):
        first = len(kernels)
        numbers = range(first, first + len(members))
        packed = [members_of[g] for g in members]
        names = [_kernel_name(member.group, k) for member, k in zip(packed, numbers)]
        plans = [_kernel_plan(member, name, header, contract) for member, name in zip(packed, names)]
        split, reasons = pack_launches([(_words(plan), len(plan.arrays)) for plan in plans], numbers)
        decisions += reasons if len(members) > 1 else []
        kernels += [plans[k - first] for launch in split for k in launch]
        launches += map(len, split)
    read = tuple(reading_results(kernel, once.result_of) for kernel in kernels)
    return read, tuple(launches), replace(cut, decisions=(*cut.decisions, *decisions))


def _kernel_plan(member: NamedGroup, name: str, header: tuple[str, ...], contract: bool) -> KernelPlan:
    """The plan of a kernel; it may have been made before, under another name, for another step of a loop or for another
    formulation."""
    group, numbers = renumber_temporaries(member.group)
    key = (group.key, header, tuple(p.name for p in member.parameters), contract)
    plan = planned_once(key, lambda: build_plan(group, name, header, member.parameters, contract))
    if not numbers:
        return plan if plan.name == name else replace(plan, name=name)
    arrays = tuple(replace(a, index=numbers[a.index]) if a.kind == "temporary" else a for a in plan.arrays)
    return replace(plan, name=name, arrays=arrays)


def _words(plan: KernelPlan) -> float:
    """An estimate of the 32-bit words that a thread of a kernel holds per element."""
    bodies = [body_registers_of(body) for phase in plan.resident for part in phase.passes for body in part.bodies]
    return max(bodies, default=0) + register_count(load.value.dtype for load in plan.loads)


def plan_with_fewer_registers(source: call_steps.ProgramSource, plan: Plan, extents, options: Options) -> Plan | None:
    """A plan in more kernels, whose values take fewer registers; None if there is none with more kernels."""
    budget = plan.budget * 3 // 4
    while budget >= FEWEST and options.max_kernels is None:
        smaller = make_plan(source, plan.parameters, extents, options, replace(plan.formulation, budget=budget))
        if len(smaller.kernels) > len(plan.kernels):
            return smaller
        budget = budget * 3 // 4
    return None


def _in_user_names(reason: str, parameters: tuple[Parameter, ...]) -> str:
    """A reason with the user's names: n0_1 is axis 1 of the first parameter, n0_1' one of equal length, %0 itself."""
    axes = re.sub(r"\bn(\d+)_(\d+)\b'*", lambda m: f"axis {m[2]} of {parameters[int(m[1])].name}", reason)
    return re.sub(r"%(\d+)", lambda m: parameters[int(m[1])].name, axes)


def _check_kernels(
    counts: tuple[int, int], cut: Partition, options: Options, parameters: tuple[Parameter, ...]
) -> None:
    """FusionError if there are more kernels than the caller allows; `counts` are the fewest, and the usual ones.

    Its `decisions` are dicts: whether something was `joined`, its `members`, the `reason`, and the `seconds` that one
    kernel saves, or would have saved, by the time model.
    """
    fewest, usual = counts
    if options.max_kernels is None or fewest <= options.max_kernels:
        return
    explained = f" (without the option {usual}, of fewer registers each)" if usual > fewest else ""
    refused = dict.fromkeys(_describe(d, parameters) for d in cut.decisions if not d.joined)
    error = FusionError(
        f"this needs {fewest} kernels, and max_kernels is {options.max_kernels}{explained}",
        "fusion.kernels",
        note="\n".join(refused) or "its results run over different axes",
        help="raise max_kernels, or call explain() to see what keeps the kernels apart",
    )
    named = [replace(d, members=tuple(_in_user_names(m, parameters) for m in d.members)) for d in cut.decisions]
    error.decisions = tuple(  # type: ignore[attr-defined]
        {
            "joined": d.joined,
            "members": d.members,
            "reason": _in_user_names(d.reason, parameters),
            "seconds": d.seconds,
        }
        for d in named
    )
    raise error


def fusion_decisions(
    graph: Graph, plan: Plan, extents: Mapping[Symbol, int], hardware: Hardware | None
) -> tuple[Decision, ...]:
    """The fusion decisions of a plan with their reasons, priced for a card (None: without prices)."""
    steady = any(kernel.batch_invariant for kernel in plan.kernels)
    unordered = any(kernel.adds_floats for kernel in plan.kernels)
    way = replace(plan.formulation, budget=plan.budget or None, steady=steady, unordered=unordered)
    cut = partition_graph(rewrite(graph), extents, {}, way, hardware)
    fits = fits_in(extents, {})
    kernels, _, cut = build_kernels(cut, (), plan.parameters, fits)
    cut = with_fold_decisions(cut, kernels, way, fits)
    priced = [d if hardware is not None else replace(d, seconds=None) for d in cut.decisions]
    return tuple(replace(d, members=(), reason=_describe(d, plan.parameters)) for d in priced)


def _describe(d: Decision, parameters: tuple[Parameter, ...]) -> str:
    """A decision in words."""
    return _in_user_names(f"{', '.join(d.members)}: {d.reason}", parameters)


def _kernel_name(group: FusionGroup, k: int) -> str:
    """A kernel's name for profilers: its folds, or its first operations."""
    roots = group.values
    if group.folds and not group.attention and _multiplies(group):
        return f"matmul_{k}"
    folds = [f.attr[0] for f in group.folds] + [SCAN_NAMES[s.attr[0]] for s in group.scans]
    folds = list(dict.fromkeys(folds + ["order" for _ in group.sorted]))
    plain = [n.op for n in walk(roots, group.imports) if n.op in OPS]
    special = [op for op in plain if OPS[op].special and op != "divide"]
    words = folds + list(dict.fromkeys(special or plain))
    kind = "attention" if group.attention else "row" if folds else "map"
    return "_".join([kind, *words[:4], str(k)])[:48]


def _multiplies(group: FusionGroup) -> bool:
    """Whether all folds of a group are matmuls."""
    free = free_axes(group.values)
    return all(matmul_factors(f, free, group.rows) for f in group.folds)
