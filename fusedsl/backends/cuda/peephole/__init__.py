"""Rewrites of element bodies for CUDA before they are printed: an ordered tuple of functions, each with its law.

Those of the tuples here need only the kernel and the phase. The others need more, so emitters call them: gathers.py
(emit/source_builder.py, attention/emit_element_mask.py, rows/emit_early_gathers.py), narrow_compares.py and
packed_absmax.py (rows/emit_elements.py), narrow_integers.py in fragments (attention/emit_fragment.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Phase
from .low_precision_stores import stored_functions, stored_quotients
from .narrow_integers import narrowed_map
from .normal_ranges import normal_arguments
from .softmax_exp import summed_exponentials


@dataclass(frozen=True)
class Peephole:
    """A rewrite of the element body of a phase; the law bounds the error that it adds."""

    law: str
    rewrite: Callable[[KernelIR, Phase, Body], Body]


PEEPHOLES = (
    Peephole("log and sqrt of positive normal numbers have the same bits without special cases", normal_arguments),
    Peephole("x * (1 / d) is x / d within 2**-15 ulp of a bfloat16, and rounds to the same float8", stored_quotients),
    Peephole(
        "the error of exp and log by the hardware is less than 2**-8 of that of rounding to 16 bits", stored_functions
    ),
)
MAP_PEEPHOLES = (
    Peephole("integers that fit in 32 bits, as their ranges show, have the same value in 32 bits", narrowed_map),
    *PEEPHOLES,
)
ROW_PEEPHOLES = (
    Peephole("exp(u - max(u)), summed, is 2**((u - max(u)) log2 e) within the sum's rounding", summed_exponentials),
    *PEEPHOLES,
)


def rewritten(kernel: KernelIR, phase: Phase, peepholes: tuple[Peephole, ...] = PEEPHOLES) -> Body:
    """The element body of a phase after these rewrites, in order."""
    body = phase.element
    for peephole in peepholes:
        body = peephole.rewrite(kernel, phase, body)
    return body
