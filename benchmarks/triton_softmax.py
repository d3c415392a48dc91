"""The softmax of Triton's tutorial "Fused Softmax": persistent programs, a row at a time, loads pipelined."""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl

WARPS = 8


@triton.jit
def softmax_rows(
    target, source, target_stride, source_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    first = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(first, rows, step, num_stages=STAGES):
        offsets = tl.arange(0, BLOCK)
        mask = offsets < columns
        x = tl.load(source + row * source_stride + offsets, mask=mask, other=-float("inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=0))
        y = e / tl.sum(e, axis=0)
        tl.store(target + row * target_stride + offsets, y, mask=mask)


def prepare(x: torch.Tensor, y: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Compile for this tensor, with as many programs as the card holds at once (the tutorial's choice)."""
    rows, columns = x.shape
    facts = torch.cuda.get_device_properties(0)
    shared = getattr(facts, "shared_memory_per_multiprocessor", 228 << 10)
    block, stages = triton.next_power_of_2(columns), 4 if shared > 200_000 else 2
    arguments = (y, x, y.stride(0), x.stride(0), rows, columns)
    constants = {"BLOCK": block, "STAGES": stages, "num_warps": WARPS}
    compiled = softmax_rows.warmup(*arguments, **constants, grid=(1,))
    compiled._init_handles()
    registers = getattr(facts, "regs_per_multiprocessor", 65536)
    held = registers // (max(compiled.n_regs, 1) * 32 * WARPS)
    if compiled.metadata.shared:
        held = min(held, shared // compiled.metadata.shared)
    programs = min(facts.multi_processor_count * max(held, 1), rows)

    def run() -> torch.Tensor:
        softmax_rows[(programs,)](*arguments, **constants)
        return y

    return run
