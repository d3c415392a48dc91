"""Elementwise kernels: a loop over the innermost axis inside a loop over units, (outer index, chunk of the axis)."""

from __future__ import annotations

from ...schedule.kernel import Kernel
from .source import address, decode, header, indented, load_line, parameters, step, store_line, times
from .variant import CHUNK


def emit(kernel: Kernel) -> str:
    """The source of a map kernel."""
    inner = kernel.axes - 1
    lines = ["def kernel(slots, begin, end):", *indented(parameters(kernel))]
    if inner < 0:
        lines += indented(["for unit in range(begin, end):", *indented(element(kernel, {}, ""))])
        return "\n".join([*header(kernel, "map"), "", *lines, ""])
    lines += indented([f"chunks = (n{inner} + {CHUNK - 1}) // {CHUNK}", "for unit in range(begin, end):"])
    lines += indented(unit(kernel, inner), 2)
    return "\n".join([*header(kernel, "map"), "", *lines, ""])


def unit(kernel: Kernel, inner: int) -> list[str]:
    """One unit: where it starts, what does not vary along it, and the loop."""
    indices = {axis: f"i{axis}" for axis in range(inner)}
    lines = [
        "outer = unit // chunks",
        f"first = (unit - outer * chunks) * {CHUNK}",
        f"count = smaller({CHUNK}, n{inner} - first)",
    ]
    lines += decode("outer", range(inner), indices) if inner else []
    lines += [address(kernel, k, f"a{k}", f"p{k}", {**indices, inner: "first"}) for k in range(len(kernel.operands))]
    for position in kernel.positions:
        if position.axis != inner:
            lines.append(f"{position.value.name} = {position.value.dtype}(i{position.axis})")
    hoisted = [load for load in kernel.loads if kernel.operands[load.operand].strides[inner] == "0"]
    lines += [load_line(load, f"a{load.operand}", "0") for load in hoisted]
    return [*lines, "for i in range(count):", *indented(element(kernel, set(hoisted), "i"))]


def element(kernel: Kernel, hoisted, index: str) -> list[str]:
    """One element: loads, body, stores."""
    (phase,) = kernel.phases
    inner = kernel.axes - 1
    base = "a" if index else "p"
    lines = [
        load_line(load, f"{base}{load.operand}", times(index, step(kernel, load.operand, inner)) if index else "")
        for load in kernel.loads
        if load not in hoisted
    ]
    for position in kernel.positions:
        if index and position.axis == inner:
            lines.append(f"{position.value.name} = {position.value.dtype}(first + {index})")
    lines += phase.element.lines
    for store in phase.stores:
        place = times(index, step(kernel, store.operand, inner)) if index else ""
        lines.append(store_line(store, f"{base}{store.operand}", place))
    return lines
