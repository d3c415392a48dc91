"""Scatter kernels: values merged at computed indices, in the C order of the elements that they are computed from.

One thread merges them all: threads that share the elements would write to the same indices, and threads that share the
indices would each read all elements, and guess which are their own.
"""

from __future__ import annotations

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Scatter
from .elementwise import decode_outer
from .source_text import address, header, indented, load_line, parameters, stride, times


def emit(kernel: KernelIR) -> str:
    """The source of a scatter kernel."""
    inner = kernel.axes - 1
    lines = [*parameters(kernel)]
    if inner < 0:
        each = _element(kernel, "")
    else:
        each = [*line_addresses(kernel, inner), f"for i in range(0, n{inner}):", *indented(_element(kernel, "i"))]
    if inner > 0:
        count = " * ".join(f"n{axis}" for axis in range(inner))
        each = [f"for line in range(0, {count}):", *indented(["outer = line", *decode_outer(inner), *each])]
    lines += ["for unit in range(begin, end):", *indented(each)]
    title = header(kernel, "scatter")
    return "\n".join([*title, "", "", "def kernel(slots, begin, end):", *indented(lines), ""])


def _inputs(kernel: KernelIR) -> list[int]:
    return sorted({load.operand for load in kernel.loads})


def line_addresses(kernel: KernelIR, inner: int) -> list[str]:
    """Where a line of the innermost axis begins in each array, and positions on the other axes."""
    indices = {axis: f"i{axis}" for axis in range(inner)}
    lines = [address(kernel, k, f"a{k}", f"p{k}", indices) for k in _inputs(kernel)]
    outer = [p for p in kernel.positions if p.axis != inner]
    return lines + [f"{p.value.name} = {p.value.dtype}(i{p.axis})" for p in outer]


def _element(kernel: KernelIR, index: str) -> list[str]:
    """One element: loads, body, and what is merged. Without an index the arrays have one element."""
    (phase,) = kernel.phases
    inner = kernel.axes - 1
    lines = []
    for load in kernel.loads:
        at = times(index, stride(kernel, load.operand, inner)) if index else ""
        lines.append(load_line(load, f"{'a' if index else 'p'}{load.operand}", at))
    if index:
        lines += [f"{p.value.name} = {p.value.dtype}({index})" for p in kernel.positions if p.axis == inner]
    lines += phase.element.lines
    for scatter in phase.scatters:
        lines += [f"if {scatter.flat_index} >= 0:", f"    {_merge(scatter)}"]
    return lines


def _merge(scatter: Scatter) -> str:
    k, flat_index, value = scatter.operand, scatter.flat_index, scatter.value
    if scatter.fold == "last":
        return f"store{k}(p{k}, {flat_index}, {value})"
    before = f"load{k}(p{k}, {flat_index})"
    word = {"max": "maximum", "min": "minimum"}.get(scatter.fold)
    after = f"{word}({before}, {value})" if word else f"{before} + {value}"
    return f"store{k}(p{k}, {flat_index}, {after})"
