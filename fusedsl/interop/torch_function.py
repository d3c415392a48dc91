"""Fused functions as torch operators: registered if torch compiles or records a call of a function under `fuse`.

An operator, `torch.ops.fusedsl.function_<digest>`, is registered per trace. It takes the tensors and numbers among the
arguments, mutates those that the function writes, and returns its other results. Otherwise torch traces the undecorated
function: if it reads arrays from outside, or if gradients or torch.func need its operations.

`call_in_compile` is the version that torch.compile traces: the structure of the arguments is a constant there,
`_resolve` gets fake tensors, and its result is a constant again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import ArgumentError, FusedslError
from ..ir.printer import show
from ..runtime import dynamo
from ..runtime.arrays import ArrayFacts, Weak
from ..trace.function import ArgumentRef, Traced
from ..trace.function import ResultRef as Result
from .torch_operator import facts_of, fake_results

Form = Any
"""The structure of arguments or results (a pytree spec): ("leaf", number) for a tensor or number, ("given", number) for
an argument that is returned, ("is", value), ("tuple" or "list", parts), ("dict", keys, parts); None if unsupported."""

CONSTANTS = (bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
NUMBERS = (int, float, torch.SymInt, torch.SymFloat)


class RegisteredCall(NamedTuple):
    """The registered operator of a call."""

    name: str
    results: int  # number of results
    form: Form  # of the function's return value


class _NotAnOperator(Exception):
    """Raised if a trace cannot be registered as an operator."""


def call_eager(fused: Any, args: tuple, keywords: Mapping[str, Any]) -> Any:
    """The function's result, through its operator; for fake, functional or recorded tensors."""
    leaves: list[Any] = []
    form = _form((args, dict(keywords)), leaves)
    operator = None if form is None else _operator_for(fused, form, leaves)
    if operator is None:
        return fused.function(*args, **keywords)
    return _run(*operator, leaves)


def call_in_compile(fused: Any, args: tuple, keywords: Mapping[str, Any]) -> Any:
    """The same as `call_eager`, as torch.compile traces it."""
    leaves: list[Any] = []
    form = _form((args, keywords), leaves)
    if form is None:
        return fused.function(*args, **keywords)
    call = _call_number(fused.name, form)
    _resolve(call, leaves)
    name, count, returned = _resolved(call)
    if not name:
        return fused.function(*args, **keywords)
    return _run(name, count, returned, leaves)


def _run(name: str, count: int, returned: Form, leaves: Sequence[Any]) -> Any:
    results = getattr(torch.ops.fusedsl, name)(*leaves)
    return _instantiate(returned, [results] if count == 1 else results, leaves)


# -- constants and graph calls of torch.compile

_calls: list[tuple[Any, Form]] = []
_numbers: dict[tuple[str, Form], int] = {}
_lock = threading.Lock()
_thread_state = threading.local()


@torch.compiler.assume_constant_result
def _call_number(name: str, form: Form) -> int:
    """The number of (function, form of its arguments), a constant of the compiled graph."""
    with _lock:
        if (name, form) not in _numbers:
            _numbers[name, form] = len(_calls)
            _calls.append((dynamo.named(name), form))
        return _numbers[name, form]


@torch.compiler.allow_in_graph
def _resolve(call: int, leaves: Sequence[Any]) -> tuple:
    """Register the operator for fake arguments, for `_resolved`; a no-op while torch's graph is traced or run."""
    if any(is_fake(x) and not torch._is_functional_tensor(x) for x in leaves if isinstance(x, torch.Tensor)):
        _resolved_by_thread()[call] = _operator_for(*_calls[call], leaves)
    return ()


@torch.compiler.assume_constant_result
def _resolved(call: int) -> tuple[str, int, Form]:
    return tuple(_resolved_by_thread().pop(call, None) or RegisteredCall("", 0, None))


def _resolved_by_thread() -> dict[int, RegisteredCall | None]:
    """The operators resolved by this thread, by call number."""
    return _thread_state.__dict__.setdefault("found", {})


# -- operators

_owners: dict[str, Any] = {}  # the function of each operator, by name


def _operator_for(fused: Any, form: Form, leaves: Sequence[Any]) -> RegisteredCall | None:
    """The operator for these arguments, registered at first use; None if there cannot be one."""
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in tensors):
        return fused.warn_unfused("torch.func transforms the function's own operations")
    if not tensors:
        return None
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return fused.warn_unfused("torch records gradients of the function's own operations")
    try:
        call = _abstract_call(fused, form, leaves)
        returned = _returned(call)
    except Exception as fault:  # torch then traces the undecorated function, errors included
        unfit = "an operator of torch's reads no arrays from outside, and returns tensors, numbers and containers"
        return fused.warn_unfused(fault.message if isinstance(fault, FusedslError) else unfit)
    traced, kinds = call.traced, ["Tensor" if isinstance(x, torch.Tensor) else "Scalar" for x in leaves]
    digest = hashlib.sha256(repr((
        getattr(fused.function, "__module__", ""), getattr(fused.function, "__qualname__", ""), form, kinds, returned,
        traced.writes, show(traced.graph), fused.options,
    )).encode()).hexdigest()[:16]  # fmt: skip
    with _lock:
        name = next(n for n in _names(digest) if _owners.get(n, fused) is fused)
        if name not in _owners:
            _register(name, fused, form, kinds, returned, traced)
            _owners[name] = fused
    return RegisteredCall(name, len(traced.graph.results) - len(traced.writes), returned)


def _names(digest: str) -> Iterator[str]:
    """Operator names for a digest: the plain one, then numbered ones for equal functions that are other objects."""
    yield f"function_{digest}"
    number = 2
    while True:
        yield f"function_{digest}_{number}"
        number += 1


def _abstract_call(fused: Any, form: Form, leaves: Sequence[Any]) -> Any:
    """The traced call of these arguments, which may be fake. _NotAnOperator if it reads arrays from outside."""
    args, keywords = _instantiate(form, leaves, ())
    with _disable_current_modes():
        call = fused.prepare_abstract(args, keywords, _trace_facts)
    if call.traced.captures or (call.traced.writes and call.aliased):
        raise _NotAnOperator
    return call


def _trace_facts(x: Any, name: str) -> ArrayFacts | Weak:
    """The facts of an argument for tracing: fake tensors get distinct addresses, numbers are unknown."""
    facts = facts_of(x, name)
    if isinstance(facts, Weak):
        return facts
    return replace(facts, pointer=id(x) << 4, owner=None if facts.by_value else x)


def _register(name: str, fused: Any, form: Form, kinds: Sequence[str], returned: Form, traced: Traced) -> None:
    written = [argument for argument, _ in traced.writes]
    count = len(traced.graph.results) - len(written)  # written ones come last
    arguments = [f"{kind}{f'(a{k}!)' if k in written else ''} a{k}" for k, kind in enumerate(kinds)]
    returns = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    schema = f"({', '.join(arguments)}) -> {returns}"

    def as_returned(results: Sequence[Any]) -> Any:
        return (results[0] if count == 1 else tuple(results)) if count else None

    def run(*given: Any) -> Any:
        args, keywords = _instantiate(form, given, ())
        results_by_number: dict[int, Any] = {}
        if not _match(returned, fused(*args, **keywords), results_by_number):
            message = f"{fused!r} does not return what it returned when torch compiled its call"
            help = "something that it reads from outside has changed: torch.compiler.reset(), and compile again"
            raise ArgumentError(message, "argument.function", help=help)
        return as_returned([results_by_number[r] for r in range(count)])

    def fake(*given: Any) -> Any:
        call = _abstract_call(fused, form, given)
        return as_returned(fake_results(call.program, call.values, call.outs)[:count])

    mutated = tuple(f"a{k}" for k in written)
    torch.library.custom_op(f"fusedsl::{name}", run, mutates_args=mutated, schema=schema).register_fake(fake)


# -- forms


def _form(x: Any, leaves: list[Any]) -> Form:
    """The form of arguments; appends their tensors and numbers to `leaves`."""
    if isinstance(x, CONSTANTS):
        return ("is", x)
    if isinstance(x, (torch.Tensor, *NUMBERS)):
        leaves.append(x)
        return ("leaf", len(leaves) - 1)
    if type(x) is tuple or type(x) is list:
        parts = [_form(part, leaves) for part in x]
        return None if None in parts else ("tuple" if type(x) is tuple else "list", tuple(parts))
    if type(x) is dict:
        parts = [_form(part, leaves) for part in x.values()]
        return None if None in parts else ("dict", tuple(x), tuple(parts))
    return None


def _returned(call: Any) -> Form:
    """The form of the function's return value, without results written to arguments, which come last."""

    def form(template: Any) -> Form:
        if isinstance(template, Result) and not template.number:
            return ("leaf", template.index)
        if isinstance(template, ArgumentRef):
            return ("given", template.index)
        if isinstance(template, CONSTANTS) or type(template) in (int, float):
            return ("is", template)
        if type(template) in (tuple, list):
            return (type(template).__name__, tuple(map(form, template)))
        if type(template) is dict and all(isinstance(key, (str, int)) for key in template):
            return ("dict", tuple(template), tuple(map(form, template.values())))
        raise _NotAnOperator

    return form(call.traced.template)


def _instantiate(form: Form, leaves: Sequence[Any], given: Sequence[Any]) -> Any:
    """The value of a form, with these leaves."""
    kind = form[0]
    if kind == "leaf":
        return leaves[form[1]]
    if kind == "given":
        return given[form[1]]
    if kind == "is":
        return form[1]
    if kind == "dict":
        return {key: _instantiate(part, leaves, given) for key, part in zip(form[1], form[2])}
    parts = [_instantiate(part, leaves, given) for part in form[1]]
    return tuple(parts) if kind == "tuple" else parts


def _match(form: Form, value: Any, matched: dict[int, Any]) -> bool:
    """True if a value has this form; stores its leaves by number."""
    kind = form[0]
    if kind == "leaf":
        matched[form[1]] = value
        return isinstance(value, torch.Tensor)
    if kind == "given":
        return isinstance(value, (torch.Tensor, *NUMBERS))
    if kind == "is":
        return value == form[1]
    if kind == "dict":
        parts = form[2]
        return (
            type(value) is dict
            and tuple(value) == form[1]
            and all(_match(part, x, matched) for part, x in zip(parts, value.values()))
        )
    fits = type(value).__name__ == kind and len(value) == len(form[1])
    return fits and all(_match(part, x, matched) for part, x in zip(form[1], value))
