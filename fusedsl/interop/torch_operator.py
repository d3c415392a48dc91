"""Kernels as torch operators, for torch.compile, torch.export and fake tensors.

An operator, `torch.ops.fusedsl.kernel_<digest>_<kinds>`, is registered per kernel and kinds of arguments ("t": tensor,
"n": number) at its first trace; another, `…_out`, writes given outputs. It runs the kernel as a call does. Its fake
implementation computes shapes, dtypes and strides from the plan, and compiles nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import is_fake

from ..errors import Unsupported
from ..ir.types import DTYPES
from ..program import Program
from ..program.call_layouts import layout_of, result_order
from ..program.call_steps import extents_of
from ..runtime import dynamo
from ..runtime.argument_errors import dtype_fault
from ..runtime.array_protocols import packed_strides
from ..runtime.arrays import ArrayFacts, Facts, Weak, describe, gradient_fault
from ..runtime.check_outputs import output_mismatch
from .torch_gradients import gradients_of, save_arguments, saved_arguments

_registered: dict[str, Any] = {}  # by name


def is_abstract(x: Any) -> bool:
    """True for a tensor without memory: a fake or functional one, or one wrapped by torch.func."""
    if not isinstance(x, torch.Tensor):
        return False
    return is_fake(x) or torch._is_functional_tensor(x) or torch._C._functorch.is_functorch_wrapped_tensor(x)


def call(program: Program, values: Sequence[Any], outs: Sequence[Any] | None) -> Sequence[Any]:
    """Run a kernel's operator; results in the program's order, `outs` as in a call."""
    for parameter, value in zip(program.names, values):
        if isinstance(value, torch.Tensor) and torch._C._functorch.is_batchedtensor(value):
            message, help = "torch.vmap of a kernel is not implemented", "pass the batch as one more axis, x[:, None]: "
            help += "programs broadcast; or vmap a function under @fusedsl.fuse, which then runs unfused"
            raise Unsupported(message, "unsupported.vmap", help=help)
        if outs and isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled():
            raise gradient_fault(parameter)
    kinds = "".join(["t" if isinstance(v, torch.Tensor) else "n" for v in values])
    if outs and not [out for out in outs if out is None]:
        getattr(torch.ops.fusedsl, operator(program.name, kinds, len(outs)))(*values, *outs)
        return outs
    results = getattr(torch.ops.fusedsl, operator(program.name, kinds))(*values)
    if outs is None:
        return results
    return [result if out is None else out.copy_(result) for result, out in zip(results, outs)]


@torch.compiler.assume_constant_result
def operator(program_name: str, kinds: str, outs: int = 0) -> str:
    """The name in `torch.ops.fusedsl` of the operator for these kinds and number of given outputs (0: it allocates).

    Registered at first use.
    """
    program: Program = dynamo.named(program_name)
    identity = repr((program.source.cache_parts(), program.options))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    name = f"kernel_{digest}_{kinds}{'_out' if outs else ''}"
    if name in _registered:
        return name
    count = len(kinds)
    arguments = [f"{'Tensor' if kind == 't' else 'Scalar'} a{k}" for k, kind in enumerate(kinds)]
    arguments += [f"Tensor(o{k}!) out{k}" for k in range(outs)]
    schema = f"({', '.join(arguments)}) -> {'()' if outs else 'Tensor[]'}"

    def run(*given: Any) -> list[Any] | None:
        results = program.run(given[:count], given[count:] or None)
        return None if outs else results

    def fake(*given: Any) -> list[Any] | None:
        results = fake_results(program, given[:count], given[count:] or None)
        return None if outs else results

    written = tuple(f"out{k}" for k in range(outs))
    _registered[name] = torch.library.custom_op(f"fusedsl::{name}", run, mutates_args=written, schema=schema)
    _registered[name].register_fake(fake)
    if not outs:
        _registered[name].register_autograd(_backward(program), setup_context=_save)
    return name


def _save(ctx: Any, inputs: Sequence[Any], output: Sequence[Any]) -> None:
    save_arguments(ctx, inputs)


def _backward(program: Program) -> Callable[..., tuple[Any, ...]]:
    """The backward of a program's operator: the operator of its gradients."""

    def backward(ctx: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(gradients_of(program, saved_arguments(ctx), gradients, ctx.needs_input_grad, call_operator))

    return backward


def call_operator(program: Program, values: Sequence[Any]) -> list[Any]:
    """The results of a program's operator."""
    return list(call(program, values, None))


def fake_results(program: Program, values: Sequence[Any], outs: Sequence[Any] | None) -> list[Any]:
    """Fake results: tensors of the shapes, dtypes and strides that a call would return."""
    facts = {name: facts_of(value, name) for name, value in zip(program.names, values)}
    arguments = list(facts.values())
    hinted = _with_size_hints(facts)
    if hinted is not None:  # plan for concrete sizes first, so that the choice adds no guards on torch's symbols
        program.plans.checked_plan(hinted)
    plan, shapes = program.plans.checked_plan(facts)
    layouts = {("argument", k): layout_of(a) for k, a in enumerate(arguments) if isinstance(a, ArrayFacts)}
    device = next((v.device for v in values if isinstance(v, torch.Tensor) and v.ndim), torch.device("cpu"))
    results = []
    for k, (shape, t, out) in enumerate(zip(shapes, plan.results, outs or [None] * len(shapes))):
        kind = getattr(torch, t.dtype.name)
        if out is None:
            strides = packed_strides(shape, result_order(plan, k, layouts, extents_of(arguments)))
            out = torch.empty_strided(shape, strides, dtype=kind, device=device)
        elif tuple(out.shape) != shape or out.dtype is not kind:
            raise output_mismatch("out", f"is {out.dtype}{list(out.shape)}", f"is {t.dtype}{list(shape)}")
        results.append(out)
    return results


def _with_size_hints(facts: Facts) -> Facts | None:
    """Facts with torch's size hints in place of its symbols; None if a symbol has no hint."""
    hinted: dict[str, ArrayFacts | Weak] = {}
    for name, fact in facts.items():
        if isinstance(fact, ArrayFacts):
            shape, strides = _size_hints(fact.shape), _size_hints(fact.strides)
            if shape is None or strides is None:
                return None
            fact = replace(fact, shape=shape, strides=strides)
        hinted[name] = fact
    return hinted


def _size_hints(sizes: Sequence[Any]) -> tuple[int, ...] | None:
    met = [size.node.hint if isinstance(size, torch.SymInt) else size for size in sizes]
    return None if None in met else tuple(met)


def facts_of(value: Any, name: str) -> ArrayFacts | Weak:
    """The facts of an argument for planning; sizes and numbers may be torch symbols."""
    if isinstance(value, torch.Tensor):
        dtype = DTYPES.get(str(value.dtype).removeprefix("torch."))
        if dtype is None:
            raise dtype_fault(name, str(value.dtype))
        device = (value.device.type, value.device.index or 0)
        return ArrayFacts("torch", dtype, tuple(value.shape), tuple(value.stride()), 0, device, False, value)
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return Weak("i" if isinstance(value, torch.SymInt) else "f", value)
    return describe(value, name)
