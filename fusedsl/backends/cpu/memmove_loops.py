"""Memmove idiom: loops that only copy contiguous elements become calls of memmove, which allows overlap."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...kernel_ir.kernel import KernelIR
from .statements import code_of, parsed


def memmove_calls(kernel: KernelIR, lines: Sequence[str], index: str, first: str, end: str) -> list[str] | None:
    """The loop over `index` from `first` to `end` as memmove calls; None if it computes anything.

    The index of a load at an address (`element_*`, loop_splitting.py) counts from `first`; of a load from an operand,
    from 0.
    """
    sources: dict[str, tuple[str, str]] = {}  # of loads: dtype, address of the first element
    stores = []
    for line in lines:
        match parsed(code_of(line)):
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=word), args=[ast.Name(id=base), number])
            ) if ast.unparse(number) in (index, f"{index} - at"):
                if word.removeprefix("load").isdigit():
                    k = int(word.removeprefix("load"))
                    sources[name] = kernel.operands[k].dtype.name, f"at{k}({base}, {first})"
                elif word.startswith(
                    "element_"
                ):  # element_<dtype>(address, number); pointer_to(address) is its pointer
                    sources[name] = word.removeprefix("element_"), f"pointer_to({base})"
            case ast.Expr(
                value=ast.Call(
                    func=ast.Name(id=word), args=[ast.Name(id=base), ast.Name(id=number), ast.Name(id=value)]
                )
            ) if number == index and word.startswith("store"):
                stores.append((int(word.removeprefix("store")), base, value))
    if len(sources) + len(stores) < len(lines) or {value for *_, value in stores} != set(sources):
        return None
    count = end if first == "0" else end.removeprefix(f"{first} + ")
    calls: list[str] = []
    for k, base, value in stores:
        dtype, source = sources[value]
        if dtype != kernel.operands[k].dtype.name:
            return None
        calls.append(f"move{k}(at{k}({base}, {first}), {source}, {count})")
    return calls
