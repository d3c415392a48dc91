"""Cheaper quotients, exponentials and logarithms for values that are only stored in 16 or 8 bits."""

from __future__ import annotations

from dataclasses import replace

from ....ir.types import BFLOAT16, FLOAT8_E4M3FN, DType
from ....kernel_ir.instruction import Instruction
from ....kernel_ir.kernel import KernelIR, RowColumnKernel
from ....kernel_ir.phase import Body, Phase

ROW_FUNCTIONS = {"exp": "exp_for_half", "log": "log_approx"}
SCALED = {"multiply", "mul_rn", "divide", "quotient"}  # operations that keep a relative error
ADDED = SCALED | {"add", "subtract"}  # operations that keep an error relative to the largest summand
SUMMED = ADDED | {"log"}
# By what is stored: what computes it, of which of a quotient's operands (x, divisor, scale, inverse).
STORED_QUOTIENTS = {BFLOAT16: ("div_for_bf16", (0, 2, 3)), FLOAT8_E4M3FN: ("div_for_fp8", (0, 1, 2, 3))}


def stored_functions(kernel: KernelIR, phase: Phase, body: Body) -> Body:
    """The body with `exp_for_half` and `log_approx` where a kernel's outputs are 16-bit floats.

    The relative error of the short exp(x) is 2**-24 |x| + 2**-21. Rounding a computed x to float32 changes exp(x) by
    about as much, and rounding the result to 16 bits by more than 2**8 times as much. So the short exponential of a
    computed x is used if it is only scaled before it is summed or stored.

    Rows that are not resident are reduced in long sums, whose rounding is larger than these errors. There the
    exponential may also be added to other values. If it is only summed, x may be an element as it was loaded, and the
    exponential may be the argument of a logarithm. Logarithms of computed values, whose error is 2**-22, are used in
    such rows if they are only summed.
    """
    stores = [store for part in kernel.phases for store in (*part.stores, *part.row_stores)]
    stores += kernel.column_epilogue.stores if isinstance(kernel, RowColumnKernel) else ()
    kinds = {kernel.operands[store.operand].dtype for store in stores}
    if not kinds or not all(kind.kind == "f" and kind.bits == 16 for kind in kinds):
        return body
    computed, instructions = set(), []
    for i in body.instructions:
        computed.add(i.target)
        if i.op in ROW_FUNCTIONS and i.names and _is_near(kernel, phase, i, i.names[0] in computed):
            i = replace(i, op=ROW_FUNCTIONS[i.op])
        instructions.append(i)
    return replace(body, instructions=tuple(instructions))


def _is_near(kernel: KernelIR, phase: Phase, function: Instruction, computed: bool) -> bool:
    """Whether the value of a function, of a computed operand or not, may be as near as the hardware's."""
    name = function.target
    summed = not kernel.resident and _ends(kernel, phase, name, SUMMED) == {"sum"}
    if function.op == "log":
        return summed and computed
    return summed or (computed and bool(_ends(kernel, phase, name, SCALED if kernel.resident else ADDED)))


def _ends(kernel: KernelIR, phase: Phase, name: str, operations: set[str]) -> set[str]:
    """Where a value that a phase makes comes to, by these operations alone: "sum" and "store"; nothing where
    something else is done with it."""
    parts, names, ends = [part for other in kernel.phases for part in other.passes], {name}, set()
    first = next(k for k, part in enumerate(parts) if part is phase)
    for part in parts[first:]:
        other = [value for use in part.scan_uses for value in use.inputs]
        other += [v for use in part.column_reductions for v in use.inputs] + ([part.sort.key] if part.sort else [])
        other += [value for use in part.folds if use.name != "sum" for value in use.inputs]
        if any(value.name in names for value in other):
            return set()
        for i in part.element.instructions:
            if not names.isdisjoint(i.names):
                if i.op not in operations or i.dtype.kind != "f" or not (i.reads_names_only or i.op == "mul_rn"):
                    return set()
                names.add(i.target)
        ends |= {"store" for store in part.stores if store.value in names}
        ends |= {"sum" for use in part.folds for value in use.inputs if value.name in names}
    return ends


def stored_quotients(kernel: KernelIR, phase: Phase, body: Body) -> Body:
    """The body with `div_for_bf16` where all that reads a quotient is a store of bfloat16, and `div_for_fp8` where all
    is one of float8_e4m3fn.

    The former's error of 2**-23 is 2**-15 of a bfloat16 ulp: quotients of bfloat16 numbers, which stay 2**-17 away from
    where rounding turns, are the same bits; others differ once in thousands, by what their operands' own rounding does.
    The latter rounds to the same byte.
    """
    candidates = {i.target: i for i in body.instructions if i.op == "quotient" and i.reads_names_only}
    if not candidates:
        return body
    short: dict[str, Instruction] = {}
    for kind, (op, operands) in STORED_QUOTIENTS.items():
        for name in candidates.keys() - _read(kernel, phase, kind):
            old = candidates[name]
            short[name] = replace(old, op=op, args=tuple(old.args[k] for k in operands))
    return replace(body, instructions=tuple(short.get(i.target, i) for i in body.instructions))


def _read(kernel: KernelIR, phase: Phase, kind: DType) -> set[str]:
    """Names that something but a store of this type reads."""
    names = phase.names_read_inside | {value.name for use in phase.folds for value in use.inputs}
    names |= {store.value for store in phase.stores if kernel.operands[store.operand].dtype is not kind}
    for other in kernel.phases:
        bodies = [*(other.bodies if other is not phase else other.bodies[1:]), *([other.row] if other.row else [])]
        names |= {value.name for body in bodies for value in body.args}
    return names
