"""Writes a saved file: a program's plans for one signature, and their kernels for each target."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from ..atomic_files import named_file, write_whole
from ..backends.cpu.elf import link
from ..backends.cpu.processor import BASELINES, Processor, host, native, obstacle
from ..errors import ArgumentError, CompileError, Unsupported
from ..kernel_ir.plan import graph_to_json, plan_to_json
from ..program import Program
from ..program.resolve_call import ResolvedCall
from ..report.explain import resolved_call
from ..report.target import parse_cc
from ..runtime import object_loader as loader
from ..runtime.compile import build_loops, compiled_facts, cpu_key, recorded, unversioned_key
from ..runtime.run_compilers import CompiledKernel
from .container import pack
from .probe import Units, general_kernels, kernels_for, served_calls, unit_groups

CPU, NATIVE = "cpu", "cpu-native"


class TargetContents(NamedTuple):
    """The contents for one target: plans, and kernels by `unversioned_key`; the processor, if it is a CPU."""

    plans: list[dict[str, Any]]
    kernels: Mapping[str, CompiledKernel]
    processor: Processor | None = None


def save(path: Any, called: Mapping[str, Any], program: Program, values: Sequence[Any], cc: Any = (90,)) -> None:
    """Write the kernels of calls with these arguments (or specs) for each target: capabilities, "cpu", "cpu-native".

    `called` is the JSON of what is called: a program, or a function with the structure of its arguments and results.
    """
    file = named_file(path)
    if not file.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(file.parent))
    targets = [_target(each) for each in (cc if isinstance(cc, (list, tuple)) and cc else (cc,))]
    try:
        shares = [
            _for_cpu(program, values, t) if isinstance(t, Processor) else _for_cuda(program, values, t) for t in targets
        ]
    except CompileError as fault:
        if fault.code == "compile.missing" and (gpus := [t for t in targets if not isinstance(t, Processor)]):
            wanted = ", ".join(f"{major}{minor}" for major, minor in gpus)
            fault.help = f'cc={wanted} needs it; cc="cpu" saves for CPUs like this one. For GPUs: {fault.help}'
        raise
    capabilities = [list(t) for t in targets if not isinstance(t, Processor)]
    write_whole(file, _packed(called, program, shares, capabilities))


def _packed(called: Mapping[str, Any], program: Program, shares: Sequence[TargetContents], capabilities: list) -> bytes:
    """The bytes of the file."""
    processors = [share.processor for share in shares if share.processor is not None]
    kernels, code = {}, {}
    for share in shares:
        number = None if share.processor is None else processors.index(share.processor)
        for key, built in share.kernels.items():
            kernels[key], code[key] = {**compiled_facts(replace(built, path="")), "processor": number}, built.code
    plans = {json.dumps(plan, sort_keys=True): plan for share in shares for plan in share.plans}
    manifest = {
        "fusedsl": _version(),
        "called": called,
        "names": list(program.names),
        "options": asdict(program.options),
        "capabilities": capabilities,
        "processors": [asdict(processor) for processor in processors],
        "plans": list(plans.values()),
        "kernels": kernels,
    }
    return pack(manifest, code)


def _target(cc: Any) -> Processor | tuple[int, int]:
    """A compilation target: ArgumentError for an invalid one, Unsupported if this machine cannot compile for it."""
    if not (isinstance(cc, str) and cc in (CPU, NATIVE)):
        try:
            return parse_cc(cc)
        except ArgumentError as fault:
            help = 'targets are compute capabilities, as 80, 90 or 100, "cpu" and "cpu-native"'
            raise ArgumentError(fault.message, fault.code, help=help) from None
    if sys.platform != "linux" or host().architecture not in BASELINES:
        raise Unsupported(
            f"kernels for the CPU of this machine ({host().architecture}, {sys.platform}) are not saved yet",
            "unsupported.platform",
            help="save them on Linux, x86-64 or AArch64; for GPUs (cc=[90]) this machine will do",
        )
    return BASELINES[host().architecture] if cc == CPU else native()


def _for_cuda(program: Program, values: Sequence[Any], cc: tuple[int, int]) -> TargetContents:
    """The kernels of these shapes for a compute capability."""
    with recorded() as built:
        call = resolved_call(program, values, None, cc, alone=True)
        for members in call.launches:
            if not any(bound.empty for _, bound in members):
                call.built(members)
    return TargetContents([_plan(call, None)], built)


def _for_cpu(program: Program, values: Sequence[Any], processor: Processor) -> TargetContents:
    """The kernels of these and other shapes as shared objects."""
    plans, wanted = [], {}
    for call in served_calls(resolved_call(program, values, "cpu", None, alone=True)):
        groups = unit_groups(call)
        plans.append(_plan(call, groups))
        for plan, kernel, loops in (*kernels_for(call), *general_kernels(call)):
            wanted[unversioned_key(cpu_key(kernel, loops, plan.digest, processor))] = (kernel, loops, plan.digest)
    kernels = {key: _shared(build_loops(*parts, processor), processor) for key, parts in wanted.items()}
    return TargetContents(plans, kernels, processor)


def _plan(call: ResolvedCall, ones: Sequence[Units] | None) -> dict[str, Any]:
    """A plan as JSON: for the CPU, with the extents that may be 1, or (None) for CUDA."""
    units = [[[d.argument, d.axis] for d in group] for group in ones or ()]
    program_json = {"plan": plan_to_json(call.plan), "graph": graph_to_json(call.graph)}
    return {**program_json, "on_cpu": ones is not None, "units": units}


def _shared(built: CompiledKernel, processor: Processor) -> CompiledKernel:
    """The kernel as a shared object, loaded once as a test if this machine runs its code."""
    code = link(built.code, built.symbols)
    if obstacle(processor) is None:
        loader.load(code, built.symbols)
    return replace(built, code=code)


def _version() -> str:
    from .. import __version__

    return __version__
