"""Source text shared by the CPU emitters: parameter block, addresses, loads and stores.

Names of values end in an underscore and a number, so the skeletons' own names never do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...kernel_ir.kernel import KernelIR, Load
from ...kernel_ir.parameter_layout import kernel_params
from ...kernel_ir.phase import Store

INDENT = "    "


def indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    return [INDENT * levels + line for line in lines]


def header(kernel: KernelIR, schedule: str) -> list[str]:
    """The header comments of a generated file."""
    lines = [*kernel.header, f"CPU kernel {kernel.name}, variant {schedule}"]
    for k, operand in enumerate(kernel.operands):
        role = "input" if k < kernel.inputs else "output"
        lines.append(f"load{k} store{k}: {role} {operand.name}, {operand.dtype}, strides {operand.strides or 'none'}")
    return [f"# {line}" for line in lines]


def parameters(kernel: KernelIR) -> list[str]:
    """Read the parameter block: p<k> pointers, n<a> extents, s<k>at<a> strides; scalars and addresses by name."""
    lines = []
    for at, slot in enumerate(kernel_params(kernel)):
        if slot.kind == "pointer":
            lines.append(f"p{slot.index} = pointer(slots, {at})")
        elif slot.kind == "extent":
            lines.append(f"n{slot.index} = slot(slots, {at})")
        elif slot.kind == "stride":
            lines.append(f"s{slot.index}at{slot.axis} = slot(slots, {at})")
        elif slot.kind == "scalar":
            value, literals = kernel.scalars[slot.index], dict(kernel.constant_scalars)
            if value.name in literals:
                lines.append(f"{value.name} = {value.dtype}({literals[value.name]})")
            else:
                lines.append(f"{value.name} = scalar_{value.dtype}(slots, {at})")
    return lines + [f"{p.value.name} = slot(slots, {p.operand})" for p in kernel.pointers]


def stride(kernel: KernelIR, operand: int, axis: int) -> str:
    """The stride of an operand along an axis, as text: "0", "1" or the name of a run-time value."""
    stride_kind = kernel.operands[operand].strides[axis]
    return f"s{operand}at{axis}" if stride_kind == "s" else stride_kind


def times(index: str, step: str) -> str:
    """index * step, as text; "" if the product is zero."""
    if step == "0" or index == "0":
        return ""
    return index if step == "1" else f"{index} * {step}"


def unravel_index(flat: str, axes: Sequence[int], names: dict[int, str]) -> list[str]:
    """Split the index `flat` (consumed) into one per axis, the last axis fastest."""
    lines = []
    for axis in reversed(axes):
        if axis == axes[0]:
            lines.append(f"{names[axis]} = {flat}")
        else:
            lines += [f"{names[axis]} = {flat} % n{axis}", f"{flat} = {flat} // n{axis}"]
    return lines


def increment(axes: int) -> list[str]:
    """Increment the indices i0, i1, … to the next row, without a division: the last axis is the fastest."""
    lines: list[str] = []
    for axis in range(axes):
        carry = [f"if i{axis} == n{axis}:", f"    i{axis} = 0", *indented(lines)] if axis else []
        lines = [f"i{axis} = i{axis} + 1", *carry]
    return lines


def address(kernel: KernelIR, operand: int, name: str, base: str, indices: dict[int, str]) -> str:
    """The statement `name = …`: the element of `operand` at these indices, from the pointer `base`."""
    terms = [text for axis, index in indices.items() if (text := times(index, stride(kernel, operand, axis)))]
    return f"{name} = at{operand}({base}, {' + '.join(terms)})" if terms else f"{name} = {base}"


def load_line(load: Load, pointer: str, index: str) -> str:
    return f"{load.value.name} = load{load.operand}({pointer}, {index or '0'})"


def store_line(store: Store, pointer: str, index: str) -> str:
    return f"store{store.operand}({pointer}, {index or '0'}, {store.value})"
