"""A saved file, read: the program or function, plans by signature, machine code by key. Nothing is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .. import metric_counts
from ..atomic_files import named_file
from ..backends.cpu.processor import Processor, obstacle
from ..config import Options
from ..errors import DeviceError, FusedslError
from ..ir.dims import Symbol
from ..ir.graph import Graph, Parameter
from ..kernel_ir.kernel import KernelIR
from ..kernel_ir.plan import Plan, graph_from_json, plan_from_json
from ..runtime.compile import compiled_from_facts, cpu_key, preload, unversioned_key
from ..runtime.run_compilers import CompiledKernel
from .container import misfit, unpack


@dataclass(frozen=True)
class SavedPlan:
    """A plan, for the CPU or for CUDA; `units` are the groups of extents that may be 1 in its calls."""

    plan: Plan
    on_cpu: bool
    units: frozenset[frozenset[Symbol]]
    graph_json: Mapping[str, Any]

    @cached_property
    def graph(self) -> Graph:
        """The graph of the plan."""
        return graph_from_json(self.graph_json)


@dataclass(frozen=True)
class SavedFile:
    """The contents of a file. `data` are its bytes, `name` is its name in messages.

    `kernels` are facts and machine code by `unversioned_key`: objects for one of the `processors`, or cubins for one of
    the compute `capabilities`.
    """

    name: str
    data: bytes
    called: Mapping[str, Any]
    names: tuple[str, ...]
    options: Options
    plans: tuple[SavedPlan, ...]
    processors: tuple[Processor, ...]
    capabilities: tuple[tuple[int, int], ...]
    kernels: Mapping[str, tuple[Mapping[str, Any], bytes]]
    compiles: bool = True  # whether a kernel that it lacks may be compiled

    @cached_property
    def runnable(self) -> tuple[Processor, ...]:
        """The processors whose code this machine runs, the most special first."""
        there = [processor for processor in self.processors if obstacle(processor) is None]
        return tuple(sorted(there, key=lambda processor: -len(processor.flags)))

    def plans_kernel(self, digests: str) -> bool:
        """Whether kernels (named by their digests) are of a plan in the file, not of one that was made here."""
        known = {kernel.digest for each in self.plans for kernel in each.plan.kernels}
        return known.issuperset(digests.split())

    def built(self, kernel: KernelIR, loops: str, digest: str) -> CompiledKernel | None:
        """A kernel for this CPU; None if the file has none."""
        for processor in self.runnable:
            entry = self.kernels.get(unversioned_key(cpu_key(kernel, loops, digest, processor)))
            if entry is not None:
                metric_counts.count("fusedsl_kernel_loads", source="saved")
                return compiled_from_facts(entry, kernel, loops)
        return None


def read(path: Any) -> SavedFile:
    """The file at a path, checked; its code for GPUs is preloaded.

    Raises ArgumentError for a file that is none, is damaged, or is of another version; DeviceError if all its code is
    for other CPUs; OSError if it cannot be read.
    """
    file = named_file(path)
    return parsed(file.read_bytes(), str(file))


def parsed(data: bytes, name: str) -> SavedFile:
    """`read` of a file's bytes."""
    manifest, code = unpack(data, name)
    if manifest.get("fusedsl") != _version():
        raise misfit(f"{name} was saved by fusedsl {manifest.get('fusedsl')}, and this is {_version()}")
    try:
        saved = _saved(manifest, code, name, data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, FusedslError) as fault:
        raise misfit(f"{name} is not what fusedsl writes ({type(fault).__name__})") from None
    if saved.processors and not saved.runnable and not saved.capabilities:
        why = "; ".join(dict.fromkeys(f"{obstacle(processor)}" for processor in saved.processors))
        raise DeviceError(f"{name} does not run on this machine: {why}", "device.processor",
                          help='save it on a machine of this kind, or with cc="cpu" for most of them')  # fmt: skip
    for key, facts in manifest["kernels"].items():
        if facts["processor"] is None:
            preload(key, facts, code[key])
    return saved


def _saved(manifest: Mapping[str, Any], code: Mapping[str, bytes], name: str, data: bytes) -> SavedFile:
    called, plans = manifest["called"], tuple(map(_plan, manifest["plans"]))
    if not plans or not isinstance(called["text"], str):
        raise ValueError("the file names nothing to call")
    if any([p.name for p in each.plan.parameters] != manifest["names"] for each in plans):
        raise ValueError("the plans have other parameters")
    return SavedFile(
        name,
        data,
        called,
        tuple(manifest["names"]),
        Options(**manifest["options"]),
        plans,
        tuple(Processor(**{**processor, "flags": tuple(processor["flags"])}) for processor in manifest["processors"]),
        tuple((int(major), int(minor)) for major, minor in manifest["capabilities"]),
        {key: (facts, code[key]) for key, facts in manifest["kernels"].items()},
    )


def _plan(record: Mapping[str, Any]) -> SavedPlan:
    units = frozenset(frozenset(Symbol(*pair) for pair in group) for group in record["units"])
    return SavedPlan(plan_from_json(record["plan"]), record["on_cpu"], units, record["graph"])


def matches(saved: SavedPlan, parameters: Sequence[Parameter]) -> bool:
    """Whether a plan serves arguments of this signature."""
    ones = set()
    for own, other in zip(saved.plan.parameters, parameters):
        if own == other:
            continue
        a, b = own.type, other.type
        same = (own.name, own.scalar, a.dtype, a.weak, a.rank) == (other.name, other.scalar, b.dtype, b.weak, b.rank)
        if not same or any(d != e and e != 1 for d, e in zip(a.shape, b.shape)):
            return False
        ones |= {d for d, e in zip(a.shape, b.shape) if d != e}
    return not ones or frozenset(ones) in saved.units


def _version() -> str:
    from .. import __version__

    return __version__
