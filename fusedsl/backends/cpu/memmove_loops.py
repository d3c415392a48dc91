"""Memmove idiom: loops that only copy contiguous elements become calls of memmove, which allows overlap."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...kernel_ir.kernel import KernelIR

LOAD = re.compile(r"(\w+) = (?:load(\d+)\((\w+), (\w+)\)|element_(\w+)\((\w+), (\w+)(?: - at)?\))$")
STORE = re.compile(r"store(\d+)\((\w+), (\w+), (\w+)\)$")


def memmove_calls(kernel: KernelIR, lines: Sequence[str], index: str, first: str, end: str) -> list[str] | None:
    """The loop over `index` from `first` to `end` as memmove calls; None if it computes anything.

    Loads at addresses (loop_splitting.py) are indexed from `first`, those of operands from 0.
    """
    code = [line.partition("#")[0].rstrip() for line in lines]
    loads = {load[1]: load for line in code if (load := LOAD.match(line))}
    stores = [store for line in code if (store := STORE.match(line))]
    if len(loads) + len(stores) < len(code) or {store[4] for store in stores} != set(loads):
        return None
    count = end if first == "0" else end.removeprefix(f"{first} + ")
    calls: list[str] = []
    for store in stores:
        load, (to, target, place) = loads[store[4]], store.groups()[:3]
        dtype = kernel.operands[int(load[2])].dtype.name if load[2] else load[5]
        if dtype != kernel.operands[int(to)].dtype.name or place != index or (load[4] or load[7]) != index:
            return None
        source = f"at{load[2]}({load[3]}, {first})" if load[2] else f"place({load[6]})"
        calls.append(f"move{to}(at{to}({target}, {first}), {source}, {count})")
    return calls
