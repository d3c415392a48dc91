"""Whether torch compiles the code that asks, instead of Python's running it, or records what is done to tensors."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

Made = TypeVar("Made", bound=Callable)

reads: Callable[[], bool] = bool  # False as long as torch is not imported


def watch() -> None:
    """Look for torch; asked for where there is time, so that calls need not."""
    global reads
    if reads is bool and "torch" in sys.modules:
        reads = sys.modules["torch"].compiler.is_dynamo_compiling


def records() -> bool:
    """Whether torch hands all that is done to tensors to somebody (make_fx, torch.export, torch.jit, fake tensors):
    a launch behind its back would be missing there."""
    torch = sys.modules.get("torch")
    return torch is not None and (torch._C._len_torch_dispatch_stack() > 0 or torch._C._get_tracing_state() is not None)


def compiles() -> bool:
    """What `reads` says, whether torch was looked for or not."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def traces() -> bool:
    """Whether torch compiles or records what is done."""
    return compiles() or records()


def constant(function: Made) -> Made:
    """Mark a function of constants: torch.compile calls it when it compiles, and takes what it returns as it is.

    As torch.compiler.assume_constant_result does; but torch need not be there.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


_named: WeakValueDictionary[str, Any] = WeakValueDictionary()
_numbers = itertools.count()


def name(thing: Any) -> str:
    """A new name for an object, by which functions of constants take it."""
    found = str(next(_numbers))
    _named[found] = thing
    return found


def named(found: str) -> Any:
    """The object of a name."""
    return _named[found]
