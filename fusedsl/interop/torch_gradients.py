"""Calls in torch's autograd: a call records itself, and its backward runs a program of gradients, which records itself
too, so that gradients may be differentiated again.

Nothing but the arguments is saved: the backward program computes again what it needs of the results' way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..program import Program
from ..program.gradient_source import gradient_program


def records(values: Sequence[Any]) -> bool:
    """Whether torch's autograd, or a gradient of torch.func, records a call of these arguments."""
    tensors = [x for x in values if isinstance(x, torch.Tensor)]
    functorch = torch._C._functorch
    recorded = any(x.requires_grad or functorch.is_gradtrackingtensor(x) for x in tensors)
    return torch.is_grad_enabled() and recorded and not any(map(functorch.is_batchedtensor, tensors))


def run(program: Program, values: Sequence[Any]) -> list[Any]:
    """The results of a call, recorded if an argument requires grad."""
    return list(_RecordedCall.apply(program, *values)) if records(values) else program.run(values)


class _RecordedCall(torch.autograd.Function):
    """A call of a program, as autograd records it."""

    @staticmethod
    def forward(program: Program, *values: Any) -> tuple[Any, ...]:
        return tuple(program.run(values))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.program, *values = inputs
        save_arguments(ctx, values)
        ctx.mark_non_differentiable(*(r for r in output if not r.is_floating_point()))
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return None, *gradients_of(ctx.program, saved_arguments(ctx), gradients, ctx.needs_input_grad[1:])


def save_arguments(ctx: Any, values: Sequence[Any]) -> None:
    """Keep the arguments of a call for its backward."""
    ctx.save_for_backward(*(x for x in values if isinstance(x, torch.Tensor)))
    ctx.numbers = [None if isinstance(x, torch.Tensor) else x for x in values]


def saved_arguments(ctx: Any) -> list[Any]:
    """What `save_arguments` kept."""
    tensors = iter(ctx.saved_tensors)
    return [next(tensors) if x is None else x for x in ctx.numbers]


def gradients_of(
    program: Program,
    values: Sequence[Any],
    gradients: Sequence[Any],
    needs: Sequence[bool],
    run: Callable[[Program, Sequence[Any]], list[Any]] = run,
) -> list[Any]:
    """The gradient by each argument that needs one, else None, from those of the results."""
    given = tuple(k for k, g in enumerate(gradients) if g is not None)
    wrt = tuple(k for k, needed in enumerate(needs) if needed)
    if not given or not wrt:
        return [None] * len(values)
    backward = gradient_program(program, wrt, given)
    of_values = dict(zip(wrt, run(backward, [*values, *(gradients[k] for k in given)])))
    return [of_values[k].to(x.device) if k in of_values else None for k, x in enumerate(values)]
