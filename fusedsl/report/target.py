"""The target that a report's arguments name: a CPU, or a CUDA architecture with a card's figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentError, kind_of
from ..hardware import hardware_facts
from ..program.call_target import CallTarget, architecture, card
from ..runtime.arrays import CPU, ArrayFacts, Weak, describe
from ..runtime.outputs import library_and_device
from ..specs import Spec

DEFAULT_CC = (9, 0)


def describe_arguments(names, values) -> dict[str, ArrayFacts | Weak]:
    """The facts of arguments; a spec becomes an aligned array on the other arguments' device."""
    known = {n: describe(v, n) for n, v in zip(names, values) if not isinstance(v, Spec)}
    library, device = library_and_device(known)
    return {
        n: ArrayFacts(library, v.dtype, v.shape, v.strides, 0, device, False, None) if isinstance(v, Spec) else known[n]
        for n, v in zip(names, values)
    }


def choose_target(
    values, arguments: Mapping[str, ArrayFacts | Weak], device: Any, cc: Any, specs: CallTarget | None
) -> CallTarget:
    """The target of a report: `device` and `cc` if given, else the device of the arrays.

    For specs without arrays it is `specs`, or (None) CUDA with compute capability 9.0. Raises ArgumentError for an
    invalid device or compute capability.
    """
    kind, index = _parse_device(device if device is not None or cc is None else "cuda")
    _, array_device = library_and_device(arguments)
    only_specs = any(isinstance(v, Spec) for v in values) and not any(map(_has_memory, values))
    if kind is None and only_specs:
        return specs or architecture(hardware_facts(DEFAULT_CC))
    if cc is not None:
        if kind == "cpu":
            message = f"device is {device!r}, and cc={cc!r} is the compute capability of a GPU"
            raise ArgumentError(message, "argument.cc", help="give one of the two")
        return architecture(hardware_facts(parse_cc(cc)))
    if (kind or array_device[0]) == "cpu":
        return CallTarget()
    present = index if array_device == CPU else array_device[1]
    return architecture(hardware_facts(DEFAULT_CC)) if present is None else card(present)


def _has_memory(value: Any) -> bool:
    """Whether an argument is an array with memory (rather than a number or a spec)."""
    return not isinstance(value, (Spec, bool, int, float))


def _parse_device(device: Any) -> tuple[str | None, int | None]:
    if device is None:
        return None, None
    match = re.fullmatch(r"(cpu|cuda)(?::(\d{1,3}))?", device) if isinstance(device, str) else None
    if match is None:
        raise ArgumentError(f"there is no device {device!r}", "argument.device", help='use "cpu", "cuda" or "cuda:1"')
    return match.group(1), int(match.group(2)) if match.group(2) else None


def parse_cc(cc: Any) -> tuple[int, int]:
    """(9, 0) of 90, 9.0, "90", "9.0", "sm_90a" or (9, 0); ArgumentError for anything else or too old."""
    parts = tuple(cc) if isinstance(cc, (tuple, list)) else _digits(str(cc))
    if len(parts) != 2 or not all(isinstance(p, int) for p in parts) or parts[1] > 9:
        raise ArgumentError(f"{cc!r} is no compute capability", "argument.cc", help="give it as 80, 90 or 100")
    try:
        hardware_facts(parts)  # type: ignore[arg-type]
    except ValueError as fault:
        raise ArgumentError(str(fault), "argument.cc", help="give it as 80, 90 or 100") from None
    return parts  # type: ignore[return-value]


def check_flag(name: str, value: Any, otherwise: str = "") -> None:
    """ArgumentError if an option that is True or False has another value."""
    if value is not True and value is not False:
        plain = value is None or isinstance(value, (str, int, float, list, tuple))
        shown = repr(value)[:40] if plain else kind_of(value)
        raise ArgumentError(f"option {name} is {shown}", "argument.option", help=f"{name} is True or False{otherwise}")


def _digits(text: str) -> tuple[int, ...]:
    match = re.fullmatch(r"(?:sm_)?(\d{1,2})\.?(\d)a?", text)
    return tuple(map(int, match.groups())) if match else ()


def this_machine() -> CallTarget:
    """The target of calls on this machine: its first GPU, or its CPU."""
    from ..runtime.driver import cuda_available

    return card(0) if cuda_available() else CallTarget()
