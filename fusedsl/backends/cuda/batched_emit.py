"""Emits a batched kernel around a subkernel: a block finds its call and passes that call's parameters."""

from __future__ import annotations

from ...kernel_ir.batched_calls import BatchedCalls
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.parameter_layout import KernelParam, kernel_params
from .emit.signature import indented


def emit_batched(part: str, kernel: KernelIR) -> str:
    """The generated file: the part `work`, and a kernel over a table of calls."""
    table = kernel.batched
    assert table is not None
    start = f"half(words, int32({2 * table.starts_at} + {{}}))"
    arguments = ["number", *(_slot_word(table, slot, k) for k, slot in enumerate(kernel_params(kernel)))]
    code = [
        '"""Find the call that this block belongs to, by the numbers of their first blocks, and do its work."""',
        "call = int32(0)",
        f"beyond = int32(word(words, {table.count_at}))",
        "while int32(beyond - call) > int32(1):",
        "    middle = int32(int32(call + beyond) >> 1)",
        f"    if {start.format('middle')} <= block_idx():",
        "        call = middle",
        "    else:",
        "        beyond = middle",
        f"number = int32(block_idx() - {start.format('call')})",
        "work(",
        *(f"    {argument}," for argument in arguments),
        ")",
    ]
    return "\n".join([part, "", "def kernel(words):", *indented(code)]) + "\n"


def _slot_word(table: BatchedCalls, slot: KernelParam, number: int) -> str:
    """The word of a slot, `number` of its kernel's, as the kernel reads it."""
    if slot.kind == "scalar" and slot.index in table.shared:
        return f"word(words, {table.shared_at + table.shared.index(slot.index)})"
    if slot.kind == "scalar":
        return _word(table.own_at() + table.own.index(slot.index), -len(table.own))
    if number < table.pointers:
        return _word(number, table.pointers)
    return _word(table.fixed_at + number - table.pointers, table.fixed)


def _word(first: int, step: int) -> str:
    """A word of this block's call, `step` words after that of the call before."""
    index = "call" if step == 1 else f"int32(call * {step})"
    return f"word(words, int32({first} + {index}))" if first else f"word(words, {index})"
