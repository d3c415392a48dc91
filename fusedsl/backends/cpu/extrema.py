"""Extrema of a segment in vector registers: of floats by their bits, of argmax and argmin with their first position.

The extremum of floats is that of three integers, an instruction each: the largest and the smallest of their bits as
signed integers, and the largest as unsigned ones. Bits of positive floats are in the order of the floats, those of
negative floats in the opposite one, and those of NaN lie beyond infinity's.

The microkernel of argmax reads a segment in memory: of an operand, or of scratch, where values are computed.
"""

from __future__ import annotations

from ...kernel_ir.kernel import Load
from ...kernel_ir.phase import Reduction, Value
from . import reduce
from .roles import ScratchArray, ValueRoles
from .schedule import SEGMENT
from .source_text import indented, stride

WORDS = {"argmax": "first_larger", "argmin": "first_smaller"}  # microkernels, one per dtype
PARTS = (  # (accumulator, word for bits, merge)
    ("top", "signed_bits", "maximum"),
    ("low", "signed_bits", "minimum"),
    ("most", "unsigned_bits", "maximum"),
)


def arrays(roles: ValueRoles, p: int) -> list[ScratchArray]:
    """What the search reads again: values that are computed, or may be overwritten."""
    values = {fold.inputs[0] for fold in roles.positional(p) if _loaded_again(roles, p, fold.inputs[0]) is None}
    return [ScratchArray(f"{v.name}_segment", v.dtype, str(SEGMENT)) for v in sorted(values, key=lambda v: v.name)]


def store_searched(roles: ValueRoles, p: int) -> list[str]:
    """Store the values of an element that the search reads again."""
    names = [array.label for array in arrays(roles, p)]
    return [reduce.put(name, "j", name.removesuffix("_segment")) for name in names]


def start(fold: Reduction, value: str) -> list[str]:
    """The accumulators of an extremum of floats that begins with a value."""
    name = fold.accumulators[0].name
    return [f"{name}_{part} = {word}({value})" for part, word, _ in PARTS]


def accumulate(fold: Reduction, value: str) -> list[str]:
    """Take a value into the accumulators."""
    name = fold.accumulators[0].name
    return [f"{name}_{part} = {merge}({name}_{part}, {word}({value}))" for part, word, merge in PARTS]


def finish(fold: Reduction) -> list[str]:
    """The extremum, of the accumulators."""
    state = fold.accumulators[0]
    word = "largest" if fold.combine.instructions[0].op == "maximum" else "smallest"
    return [f"{state.name} = {word}_{state.dtype}({', '.join(f'{state.name}_{part}' for part, _, _ in PARTS)})"]


def first_better(roles: ValueRoles, p: int, fold: Reduction) -> list[str]:
    """Find the first extremum of a segment in memory, if it is better than the state of the segments before."""
    (value, position), (state, index) = fold.inputs, fold.accumulators
    load = _loaded_again(roles, p, value)
    pointer, read = f"{value.name}_segment_at", f"{value.name}_segment_get({value.name}_segment_at, {{}})"
    if load is not None:
        pointer, read = f"c{load.operand}", f"load{load.operand}(c{load.operand}, {{}})"
    return [
        f"if {index.name} == {fold.identity[1]}:",
        *indented([f"{state.name} = {read.format(0)}", f"{index.name} = {position.dtype}(first)"]),
        f"j = {WORDS[fold.name]}_{value.dtype}({pointer}, count, {state.name})",
        "if j >= 0:",
        *indented([f"{state.name} = {read.format('j')}", f"{index.name} = {position.dtype}(first + j)"]),
    ]


def _loaded_again(roles: ValueRoles, p: int, value: Value) -> Load | None:
    """The load of a value that the microkernel reads in its operand: contiguous, unconverted, and not overwritten."""
    kernel = roles.kernel
    if kernel.phases[p].stores:
        return None
    loads = (load for load in roles.loads_of(p) if load.value == value)
    return next(
        (
            x
            for x in loads
            if stride(kernel, x.operand, kernel.axes - 1) == "1" and kernel.operands[x.operand].dtype is value.dtype
        ),
        None,
    )
