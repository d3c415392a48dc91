"""Prepared calls on disk: everything that a launch needs, so that a new process plans and compiles nothing.

An entry belongs to one program, one set of layouts and one machine. The machine code is in the cache entries of its
kernels, which the call names by key and digest. The entry also has the quota places that the call reserved (see
specialization_quota.py).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from .. import config, metric_counts
from ..backends.cpu import processor
from ..backends.cpu.launch_stages import CpuLaunch as Work
from ..backends.cpu.launch_stages import CpuStage, LibrarySort
from ..errors import FusedslError
from ..ir.types import DTYPES
from ..kernel_ir.launch_config import LaunchConfig
from . import cache, object_loader
from .argument_errors import library_of
from .arrays import CPU, ArrayFacts, Weak, describe
from .counters import BlockCounters
from .cuda_streams import stream_reader
from .driver import driver
from .launch import CodeIdentity, HostLaunchRecord, LaunchRecord, host_launch
from .outputs import Allocator, allocator, library_and_device
from .parameter_packing import BlockLayout, PointerSlot, ScalarSlot
from .prepared_call import Aliasing, CallMemory, PreparedCall
from .specialization_quota import Acquisition, acquire_all

LIBRARIES = ("numpy", "torch", "cupy")
MAX_STORED_CALLS = 16  # calls of one program that a process stores: they shorten its start


def call_key(
    source: Mapping[str, Any],
    options: config.Options,
    facts: Mapping[str, ArrayFacts | Weak],
    outs: Sequence[Any] | None,
) -> str | None:
    """The disk key of the call with these arguments; None for a call that is never stored.

    `source` is what plans of the program depend on. Raises FusedslError only if the call does.
    """
    arguments = [_argument_facts(a) for a in facts.values()]
    if [] in arguments or any(out is not None and library_of(out) not in LIBRARIES for out in outs or ()):
        return None
    given = [None if out is None else _argument_facts(describe(out), True) for out in outs or ()]
    if [] in given:
        return None
    library, device = library_and_device(facts)
    where = [library, _processor() if device == CPU else _card(device[1])]
    called = {"names": list(facts), "arguments": arguments, "outs": outs if outs is None else given, "where": where}
    return cache.cache_key(call=called, program=source, options=repr(options))


def _argument_facts(a: ArrayFacts | Weak, written: bool = False) -> list:
    """The facts of an argument that a prepared call depends on; [] for one whose calls are not stored."""
    if isinstance(a, Weak):
        return [a.kind]
    if a.library not in LIBRARIES or a.copied:
        return []
    if a.by_value and not written:
        return [a.library, a.dtype.name]
    return [a.library, a.dtype.name, a.shape, a.strides, a.pointer & 15, a.device]


def _card(index: int) -> list:
    """The facts of a CUDA device that launches depend on."""
    return [*astuple(driver().facts(index)), driver().version()]


def _processor() -> list:
    """The facts of this CPU that launches depend on."""
    return [processor.host().tag, config.num_threads()]


# ---- writing


def save(key: str, call: PreparedCall, device: tuple[str, int], acquired: Iterable[Acquisition]) -> None:
    """Store a prepared call and what it reserved; nothing if some part of it has no form in JSON."""
    allocators = [*call.allocators, *([] if call.workspace is None else [call.workspace])]
    if call.foreign[0] or not all(isinstance(make, Allocator) and make.form for make in allocators):
        return
    if not all(_is_storable(record) for record in call.records):
        return
    facts = {
        "library": call.library,
        "device": device,
        "launches": [_launch_facts(record) for record in call.records],
        "results": [_form(make) for make in call.allocators],
        "workspace": None if call.workspace is None else _form(call.workspace),
        "tickets": 0 if call.tickets is None else call.tickets.count,
        "numbers": [int(n) for n in call.numbers],
        "spans": call.all_spans,
        "out_spans": call.out_spans,
        "in_place": sorted(call.in_place),
        "disjoint": sorted(call.disjoint),
        "names": call.records[0].layout.names if call.records else (),
        "acquired": list(acquired),
    }
    cache.disk().put(key, facts)


def _form(make: Any) -> list:
    shape, dtype, order = make.form
    return [list(map(int, shape)), dtype.name, order]


def _is_storable(record: Any) -> bool:
    """Whether another process can make a launch record: its machine code, if any, is in the cache."""
    return bool(record.library or (record.code_identity and record.code_identity.cache_key))


def _launch_facts(record: Any) -> dict[str, Any]:
    layout = record.layout
    facts: dict[str, Any] = {"template": layout.template.hex()}
    facts |= {"pointers": layout.pointer_slots, "scalars": layout.scalar_slots}
    if record.library:
        return facts | {"library": record.library, "product": record.stored_product()}
    facts["code_identity"] = record.code_identity
    if isinstance(record, LaunchRecord):
        return facts | {"geometry": astuple(record.requested_geometry)}
    return facts | {"work": astuple(record.work)}


# ---- reading


def load(key: str) -> PreparedCall | None:
    """The call of this key, its code loaded; None if there is none, or if any part of it has changed."""
    entry = cache.disk().get(key)
    if entry is None:
        return None
    with contextlib.suppress(FusedslError, KeyError, TypeError, ValueError, IndexError):
        call = _from_facts(entry[0])
        metric_counts.count("fusedsl_stored_calls")
        return call
    return None


def _from_facts(facts: Mapping[str, Any]) -> PreparedCall:
    library, device = facts["library"], (str(facts["device"][0]), int(facts["device"][1]))
    if not acquire_all(map(tuple, facts["acquired"])):
        raise KeyError("the specialization quota is used up in this process")
    launches = [_loaded(launch, facts["names"], device) for launch in facts["launches"]]
    allocators = [_maker(library, device, form) for form in facts["results"]]
    workspace = None if facts["workspace"] is None else _maker(library, device, facts["workspace"])
    tickets = None
    if facts["tickets"]:
        tickets = BlockCounters(facts["tickets"], device[1])
    spans, out_spans = ([None if s is None else tuple(s) for s in facts[k]] for k in ("spans", "out_spans"))
    in_place, disjoint = (frozenset(map(tuple, facts[k])) for k in ("in_place", "disjoint"))
    memory = CallMemory(allocators, workspace, tickets, stream_reader(library, device), library)
    return PreparedCall(launches, facts["numbers"], memory, Aliasing(spans, out_spans, in_place, disjoint))


def _loaded(launch: Mapping[str, Any], names: Sequence[str], device: tuple[str, int]) -> Any:
    """The launch record of these facts."""
    if "library" in launch:
        from .library_launch import library_launch

        return library_launch(launch["library"], launch["product"], _layout(launch, names), device[1])
    load = _on_cpu if device == CPU else _on_card
    return load(launch, _code(launch), names, device[1])


def _code(launch: Mapping[str, Any]) -> bytes:
    """The machine code of a launch; KeyError if the cache has none, or another."""
    code_identity = CodeIdentity(*launch["code_identity"])
    entry = cache.disk().get(code_identity.cache_key)
    if entry is None or hashlib.sha256(entry[1]).hexdigest() != code_identity.digest:
        raise KeyError(code_identity.cache_key)
    return entry[1]


def _maker(library: str, device: tuple[str, int], form: Sequence[Any]) -> Allocator:
    shape, dtype, order = form
    return allocator(library, device, shape, DTYPES[dtype], order)


def _layout(launch: Mapping[str, Any], names: Sequence[str]) -> BlockLayout:
    pointers, scalars = [PointerSlot(*p) for p in launch["pointers"]], [ScalarSlot(*n) for n in launch["scalars"]]
    return BlockLayout(bytes.fromhex(launch["template"]), pointers, scalars, names)


def _on_card(launch: Mapping[str, Any], code: bytes, names: Sequence[str], device: int) -> LaunchRecord:
    code_identity = CodeIdentity(*launch["code_identity"])
    function = driver().loaded(code, code_identity.symbols[0], device)
    return LaunchRecord(driver(), function, LaunchConfig(*launch["geometry"]), _layout(launch, names), code_identity)


def _on_cpu(launch: Mapping[str, Any], code: bytes, names: Sequence[str], device: int) -> HostLaunchRecord:
    code_identity = CodeIdentity(*launch["code_identity"])
    stages, workspace, parts, unit_seconds, order = launch["work"]
    order = None if order is None else LibrarySort(*order)
    work = Work(tuple(CpuStage(*stage) for stage in stages), workspace, parts, unit_seconds, order)
    functions = dict(zip(code_identity.symbols, object_loader.load(code, tuple(code_identity.symbols))))
    return host_launch(functions, work, _layout(launch, names), code_identity)
