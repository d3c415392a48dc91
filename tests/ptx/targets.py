"""Which architectures have which instructions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .syntax import Instruction, Unsupported

# parts of an opcode, and the least target that has what has them all (PTX ISA, "Target ISA Notes" of each)
SINCE = {
    **dict.fromkeys(("ldmatrix", "tanh"), 75),
    **dict.fromkeys(("cp async", "mbarrier", "mma m16n8k16", "redux", "createpolicy", "L2::cache_hint"), 80),
    **dict.fromkeys(("min NaN", "max NaN", "cvt bf16", "cvt bf16x2", "fma bf16", "fma bf16x2"), 80),
    **dict.fromkeys(("cvt e4m3x2", "cvt e5m2x2"), 89),
    **dict.fromkeys(("cp async bulk", "st async", "wgmma", "setmaxnreg"), 90),
    **dict.fromkeys(("mapa", "barrier cluster", "griddepcontrol"), 90),
}


def check_target(text: str, instructions: Iterable[Instruction]) -> None:
    """Unsupported, where the target of a PTX text does not have one of its instructions."""
    found = re.search(r"^\.target\s+sm_(\d+)", text, re.M)
    target = int(found[1]) if found else max(SINCE.values())
    later = [frozenset(parts.split()) for parts, least in SINCE.items() if least > target]
    for ins in instructions:
        if any(parts <= {ins.name, *ins.modifiers} for parts in later):
            raise Unsupported(f"{ins.text} on sm_{target}")
