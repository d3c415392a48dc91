"""Approximations of functions in epilogues of matrix products, where all results are stored in 16 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....kernel_ir.instruction import Constant, Instruction
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Store
from .low_precision_stores import ADDED, SCALED

SQRT_HALF = 0.5**0.5
EPILOGUE_FUNCTIONS = {"exp": "exp_for_half", "logistic": "logistic_for_half", "tanh": "tanh_for_half"}


def epilogue_functions(kernel: KernelIR, body: Body) -> Body:
    """The epilogue with approximations of functions, if all that it computes are stored 16-bit floats.

    Their relative error is 2**-24 |x| + 2**-20: less than 2**-8 of the error of rounding to 16 bits, and about that of
    rounding a long sum to float32. So they may be scaled, or added to others. The absolute error of erf is 2**-23, like
    its own rounding to float32: it may be added to a constant of at least 1/2, and the sum may only be scaled. If such
    a sum cancels, or is 1 in a logarithm, the rest may be less than that error.
    """
    stores = [store for phase in kernel.phases for store in phase.row_stores]
    folded = any(phase.panel_folds or phase.groups for phase in kernel.phases)
    return body if folded else functions_of_stores(kernel, body, stores)


def functions_of_stores(kernel: KernelIR, body: Body, stores: Sequence[Store]) -> Body:
    """The body with such approximations, if its results are nothing but stored, all of them as 16-bit floats."""
    dtypes = {kernel.operands[store.operand].dtype for store in stores}
    if not dtypes or not all(dtype.kind == "f" and dtype.bits == 16 for dtype in dtypes):
        return body
    body, approximations = _with_gelu(body), {}
    for i in body.instructions:
        if i.dtype.name != "float32":
            continue
        if i.op in EPILOGUE_FUNCTIONS and _reaches_results(body, i.target, ADDED):
            approximations[i.target] = EPILOGUE_FUNCTIONS[i.op]
        elif i.op == "erf" and _is_in_scaled_sums(body, i.target):
            approximations[i.target] = "erf_approx"
    return replace(
        body, instructions=tuple(replace(i, op=approximations.get(i.target, i.op)) for i in body.instructions)
    )


def _with_gelu(body: Body) -> Body:
    """The body with x / 2 (1 + erf(x / sqrt 2)) as one function: x times the Gaussian CDF.

    Its relative error is below 2**-16 also where 1 + erf cancels.
    """
    defs = {i.target: i for i in body.instructions}
    definitions: dict[str, Instruction] = {}
    for i in body.instructions:
        half_x, one_plus_erf = (next((a for a in i.names if _is(defs, a, op)), None) for op in ("multiply", "add"))
        if i.op != "multiply" or i.dtype.name != "float32" or half_x is None or one_plus_erf is None:
            continue
        x, one, erf = _factor(defs[half_x], 0.5), _constant(defs[one_plus_erf]), _variable(defs[one_plus_erf])
        inner = defs.get(next(iter(defs[erf].names), "")) if erf and _is(defs, erf, "erf") else None
        if x and one == 1.0 and inner is not None and _factor(inner, SQRT_HALF) == x:
            definitions[i.target] = replace(i, op="gelu_for_half", args=(x,))
    instructions = [definitions.get(i.target, i) for i in body.instructions]
    return (
        replace(body, instructions=tuple(_eliminate_dead_code(instructions, {v.name for v in body.results})))
        if definitions
        else body
    )


def _is(defs: dict[str, Instruction], name: str, op: str) -> bool:
    return name in defs and defs[name].op == op


def _constant(i: Instruction) -> float | None:
    return next((float(a.text) for a in i.args if isinstance(a, Constant)), None)


def _variable(i: Instruction) -> str | None:
    return next((a for a in i.args if isinstance(a, str)), None)


def _factor(i: Instruction, constant: float) -> str | None:
    """What an instruction multiplies by a constant; None if it does something else."""
    value = _constant(i) if i.op == "multiply" else None
    return _variable(i) if value is not None and abs(value - constant) < 1e-7 else None


def _eliminate_dead_code(instructions: list[Instruction], names: set[str]) -> list[Instruction]:
    """The instructions whose values are read, in order."""
    remaining = []
    for i in reversed(instructions):
        if i.target in names:
            names = names | set(i.names)
            remaining.append(i)
    return remaining[::-1]


def _reaches_results(body: Body, name: str, operations: set[str]) -> bool:
    """Whether what is made of a value, until it is a result, is made by these operations alone."""
    names = {name}
    for i in body.instructions:
        if not names.isdisjoint(i.names):
            if i.op not in operations or i.dtype.name != "float32":
                return False
            names.add(i.target)
    return True


def _is_in_scaled_sums(body: Body, name: str) -> bool:
    """Whether a value is read, and only by sums with constants of at least 1/2 that are only scaled."""
    readers = [i for i in body.instructions if name in i.names]
    stored = name in {v.name for v in body.results}
    sums = all(i.op == "add" and _has_large_constant(i) for i in readers)
    return bool(readers) and not stored and sums and all(_reaches_results(body, i.target, SCALED) for i in readers)


def _has_large_constant(i: Instruction) -> bool:
    return any(isinstance(a, Constant) and abs(float(a.text)) >= 0.5 for a in i.args)
