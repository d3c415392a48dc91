"""Emits a combo kernel: the block number selects the subkernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from ...kernel_ir.parameter_layout import KernelParam, kernel_params
from .combo import ComboKernel, ComboSchedule
from .emit.signature import Names, indented
from .tile import griddepcontrol


def emit_combo(parts: Sequence[str], bundle: ComboKernel, schedule: ComboSchedule) -> str:
    """The generated file: each part in a function of its own names, and a kernel that hands out blocks."""
    lines = [f"# {line}".rstrip() for line in bundle.header]
    for k, part in enumerate(parts):
        body = [line for line in part.splitlines()[len(bundle.header) :] if line != "#"]
        lines += ["", "", f"def part_{k}():", *indented(body), "", "    return work"]
    names = ", ".join(f"work_{k}" for k in range(len(parts)))
    lines += ["", "", f"{names} = {', '.join(f'part_{k}()' for k in range(len(parts)))}", "", ""]
    lines += ["def kernel(", *indented(_listed(bundle, bundle.params)), "):"]
    comment = '"""Do the work of the part that this block belongs to: each has those from its first one on."""'
    waits = [griddepcontrol()] if any(part.pdl for part in bundle.kernels) else []
    lines += indented([comment, *waits, *_dispatch(bundle, schedule)])
    return "\n".join(lines) + "\n"


def _dispatch(bundle: ComboKernel, schedule: ComboSchedule) -> list[str]:
    lines = ["number = block_idx()"]
    last = len(bundle.kernels) - 1
    for k in range(last, -1, -1):
        condition = [f"number >= int32(first_{k})"] if k else []
        own = schedule.members[k].most_threads
        work = _call(bundle, k)
        if own < schedule.threads:
            work = [f"if thread_idx() < {own}:", *indented(work)]
        keyword = "if" if k == last else "elif"
        lines += [f"{keyword} {condition[0]}:" if condition else "else:", *indented(work)]
    return lines


def _call(bundle: ComboKernel, k: int) -> list[str]:
    number = f"int32(number - int32(first_{k}))" if k else "number"
    arguments = _listed(bundle, [(k, slot) for slot in kernel_params(bundle.kernels[k])])
    return [f"work_{k}(", *indented([f"{number},", *arguments]), ")"]


def _listed(bundle: ComboKernel, params: Iterable[tuple[int, KernelParam]]) -> list[str]:
    """Parameters in lines of one kind and one kernel."""
    groups = groupby(params, key=lambda param: (param[0], param[1].kind))
    return [", ".join(_name(bundle, *param) for param in group) + "," for _, group in groups]


def _name(bundle: ComboKernel, k: int, slot: KernelParam) -> str:
    """A parameter's name: as in its part, with the part's number."""
    if slot.kind == "first":
        return f"first_{k}"
    return f"{Names(bundle.kernels[k]).parameter(slot)}_of_{k}"
