"""`explain()`, `resources()`, `source()`: what a call launches and why, without a call and without a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..errors import CompileError
from ..fusion.formulation import ProductMode
from ..fusion.partition_graph import SLOWER
from ..ir.dims import evaluate
from ..program import Program
from ..program.call_outputs import in_place
from ..program.call_target import CallTarget
from ..program.library_product import LibraryProduct
from ..program.resolve_call import Members, ResolvedCall, resolve
from ..program.text_source import TextSource
from ..runtime.arrays import ArrayFacts, Weak
from ..runtime.compile import source_of
from .float64_warnings import Float64Operation, float64_operations
from .fusion_barriers import FusionBarrier, fusion_barriers
from .kernel_formulas import array_name
from .kernel_report import KernelReport, report_launch
from .measure import launch_seconds
from .schema import VERSION
from .sort_baseline import slower_than_numpy
from .stored_operands import stored_operand_notes
from .target import check_flag, choose_target, describe_arguments, this_machine
from .unfused_baseline import UnfusedBaseline, unfused_baseline
from .units import seconds_text


@dataclass(frozen=True)
class Temporary:
    """A value in memory between two kernels."""

    name: str
    type: str
    bytes: int


@dataclass(frozen=True)
class Explanation:
    """The kernels that a call launches, with their reasons.

    `str()` is text, `to_dict()` plain JSON, `mermaid()` and `dot()` are diagrams of the kernels and the data between
    them. `before` is the unfused run, `refused` are the reasons why kernels are not merged, `widened` the float64
    operations that no input has asked for. Seconds are the time model's; on the CPU products by a library alone
    have them, and those of other kernels, and of calls with such, are None. `measured_seconds` are None unless explain
    measures.
    """

    program: tuple[str, ...]
    arguments: tuple[str, ...]
    target: str
    kernels: tuple[KernelReport, ...]
    before: UnfusedBaseline
    temporaries: tuple[Temporary, ...]
    refused: tuple[FusionBarrier, ...]
    widened: tuple[Float64Operation, ...]
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Bytes that the kernels move."""
        return sum(k.bytes for k in self.kernels)

    @property
    def seconds(self) -> float | None:
        """The predicted time of all kernels."""
        times = [k.seconds for k in self.kernels]
        return None if None in times else sum(t for t in times if t is not None)

    @property
    def measured_seconds(self) -> float | None:
        """The measured time of all kernels."""
        times = [k.measured_seconds for k in self.kernels]
        return None if None in times else sum(t for t in times if t is not None)

    def to_dict(self) -> dict[str, Any]:
        """The explanation as mappings, lists, numbers and strings, with the keys of report/schema.py."""
        totals = {"bytes": self.bytes, "seconds": self.seconds, "measured_seconds": self.measured_seconds}
        return {"version": VERSION} | plain(self) | totals

    def mermaid(self) -> str:
        """A Mermaid flowchart: kernels as boxes, arrays and temporaries around them, bytes on the edges."""
        from .chart import mermaid

        return mermaid(self)

    def dot(self) -> str:
        """A Graphviz digraph with the content of `mermaid()`."""
        from .chart import dot

        return dot(self)

    def __str__(self) -> str:
        from .render import render

        return render(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from .page.notebook import explanation_html

        return explanation_html(self)


def plain(x: Any) -> Any:
    """Data classes as mappings, tuples as lists."""
    if dataclasses.is_dataclass(x):
        return {f.name: plain(getattr(x, f.name)) for f in dataclasses.fields(x)}
    return [plain(part) for part in x] if isinstance(x, tuple) else x


def resolved_call(
    program: Program, values: Sequence[Any], device: Any, cc: Any, specs: CallTarget | None = None, **how: Any
) -> ResolvedCall:
    """The call of arguments or specs on the target that they, `device` and `cc` name; `how` changes its fields."""
    arguments = describe_arguments(program.names, values)
    wanted = device if device is not None or cc is not None else program.options.device
    target = choose_target(values, arguments, wanted, cc, specs)
    return resolve(program.plans, arguments, dataclasses.replace(target, **how))


def explain(
    program: Program, values: Sequence[Any], device=None, cc=None, compile: bool = True, measure: bool = False
) -> Explanation:
    """The Explanation of a call with these arguments or specs (see Kernel.explain)."""
    check_flag("compile", compile)
    check_flag("measure", measure)
    call = resolved_call(program, values, device, cc, this_machine() if measure else None)
    measured = launch_seconds(call, values) if measure else [None] * len(call.launches)
    copied = [program.names[k] for k in call.copied]
    notes = [f"{name} is made contiguous first: no strides show it as the program reshapes it" for name in copied]
    kernels = []
    for members, seconds in zip(call.launches, measured):
        built = None
        if compile and call.target.is_cuda and not call.is_by_library(members):
            try:
                built = call.built(members)
            except CompileError as fault:
                compile = False
                notes.append(f"no real registers: {fault.message}" + (f"; {fault.help}" if fault.help else ""))
        kernels.append(report_launch(call, members, built, seconds))
    unfused = unfused_baseline(call)
    if call.target.is_cuda:
        slower = _slower_than_unfused(kernels, unfused)
    else:
        slower = slower_than_numpy(call.graph, call.extents, sum(k.bytes for k in kernels), unfused)
    return Explanation(
        call.plans.source.header(),
        (*(f"{name} {_type(a)}" for name, a in call.arguments.items()), *_constants(call)),
        str(call.target),
        tuple(kernels),
        unfused,
        _temporaries(call),
        fusion_barriers(call),
        float64_operations(call.graph),
        tuple(notes + stored_operand_notes(call) + _product_mode(call) + slower + _aliasing(call)),
    )


def _type(a: ArrayFacts | Weak) -> str:
    if isinstance(a, Weak):
        return {"b": "a Python bool", "i": "a Python int", "f": "a Python float"}[a.kind]
    return f"{a.dtype}{list(a.shape)}"


def _constants(call: ResolvedCall) -> list[str]:
    """The constants of a program, as `w = 20`."""
    source = call.plans.source
    return [f"{name} = {x!r}" for name, x in source.constants.items()] if isinstance(source, TextSource) else []


def _temporaries(call: ResolvedCall) -> tuple[Temporary, ...]:
    temporaries = []
    for k, t in enumerate(call.plan.temporaries):
        shape = [evaluate(d, call.extents) or 0 for d in t.shape]
        temporaries.append(Temporary(f"temporary {k}", f"{t.dtype}{shape}", prod([t.dtype.itemsize, *shape])))
    return tuple(temporaries)


PRODUCT_MODES = {
    ProductMode.FUSED: "with prologues and epilogues fused",
    ProductMode.STORED_OPERANDS: "with operands stored first and epilogues fused",
    ProductMode.FOLDED: "with operands stored first, epilogues fused and row reductions in tiles of the products",
    ProductMode.ALONE: "in kernels of their own, as a library computes them",
}


def _product_mode(call: ResolvedCall) -> list[str]:
    """The note that says how matrix products are computed, if there were several ways, and what each would take."""
    choice = call.product_choice
    if choice is None:
        return []
    unlike = {m: s for m, s in choice.seconds.items() if m is not choice.mode}
    times = ", ".join(f"{PRODUCT_MODES[m]} {seconds_text(s)}" for m, s in unlike.items())
    decision = f"{PRODUCT_MODES[choice.mode]}: about {seconds_text(choice.seconds[choice.mode])} by the time model"
    return [f"matrix products are computed {decision}" + (f"; {times}" if times else "")]


def _slower_than_unfused(kernels: Sequence[KernelReport], unfused: UnfusedBaseline) -> list[str]:
    """The note that unfused operations would take less time, by the time model."""
    time = sum(k.seconds or 0 for k in kernels)
    if unfused.seconds is None or time <= SLOWER * unfused.seconds:
        return []
    same: dict[tuple, list[str]] = {}
    for k, kernel in enumerate(kernels):
        same.setdefault((kernel.reads, kernel.instructions, kernel.bytes), []).append(f"kernel {k}")
    twice = [f"; {' and '.join(names)} compute the same" for names in same.values() if len(names) > 1]
    return [f"by the time model, one operation after another would take less{''.join(twice)}"]


def _aliasing(call: ResolvedCall) -> list[str]:
    """Notes: the arguments that a result may be written over, in place or by a copy."""
    notes = []
    for k, t in enumerate(call.plan.results):
        shape = tuple(evaluate(d, call.extents) for d in t.shape)
        out = "out" if len(call.plan.results) == 1 else f"out[{k}]"
        alike = {
            name: index
            for index, (name, a) in enumerate(call.arguments.items())
            if isinstance(a, ArrayFacts) and not a.by_value and a.dtype is t.dtype and a.shape == shape
        }
        direct = [name for name, index in alike.items() if in_place(call.plan, index, k)]
        if direct:
            notes.append(f"{out} may be {' or '.join(direct)}, written in place")
        if others := [name for name in alike if name not in direct]:
            read = "it is read" if len(others) == 1 else "they are read"
            how = f"{read} at other positions too, so the result is computed in a temporary and copied"
            notes.append(f"{out} may be {' or '.join(others)}: {how}")
    return notes


# -- source, resources, compile


def source(program: Program, values: Sequence[Any], device=None, cc=None) -> str:
    """The generated files of all kernels, one after the other (see Kernel.source)."""
    return "\n\n".join(text for _, text in sources(program, values, device, cc))


def sources(program: Program, values: Sequence[Any], device=None, cc=None) -> list[tuple[str, str]]:
    """The generated file of every launch, with the kernel's name."""
    call = resolved_call(program, values, device, cc)
    return [_source(call, members) for members in call.launches]


def _source(call: ResolvedCall, members: Members) -> tuple[str, str]:
    """(name, generated file) of a launch; of a library product, the call."""
    plan, bound = members[0]
    product = call.library_product(plan, bound)
    if isinstance(product, LibraryProduct):
        left, right, out = (array_name(call, plan.arrays[k]) for k in product.gemm.arrays)
        return plan.name, f"# {plan.name}, by the library\n{product.source(left, right, out)}"
    kernel, schedule = call.scheduled_launch(members)
    return kernel.name, source_of(kernel, schedule)
