"""Whether torch compiles the calling code (instead of Python running it), or records operations on tensors."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

Wrapped = TypeVar("Wrapped", bound=Callable)

reads: Callable[[], bool] = bool  # False as long as torch is not imported


def watch() -> None:
    """Look for torch; called off the hot path, so that calls need not look."""
    global reads
    if reads is bool and "torch" in sys.modules:
        reads = sys.modules["torch"].compiler.is_dynamo_compiling


def records() -> bool:
    """Whether torch dispatches all operations to a recorder (make_fx, torch.export, torch.jit, fake tensors).

    A launch outside of the dispatcher would be missing there.
    """
    torch = sys.modules.get("torch")
    return torch is not None and (torch._C._len_torch_dispatch_stack() > 0 or torch._C._get_tracing_state() is not None)


def compiles() -> bool:
    """`reads`, whether `watch` was called or not."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def traces() -> bool:
    """Whether torch compiles or records."""
    return compiles() or records()


def constant(function: Wrapped) -> Wrapped:
    """Mark a function of constants: torch.compile calls it at compile time and takes its result as a constant.

    It is torch.compiler.assume_constant_result without an import of torch.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


_named: WeakValueDictionary[str, Any] = WeakValueDictionary()
_numbers = itertools.count()


def name(thing: Any) -> str:
    """A new name for an object, by which functions marked `constant` take it."""
    new = str(next(_numbers))
    _named[new] = thing
    return new


def named(key: str) -> Any:
    """The object of a name."""
    return _named[key]
