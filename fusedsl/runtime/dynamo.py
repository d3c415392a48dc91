"""Whether torch compiles the code that asks, instead of Python's running it, or records what is done to tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable

reads: Callable[[], bool] | None = None  # None as long as torch is not imported


def watch() -> None:
    """Look for torch; asked for where there is time, so that calls need not."""
    global reads
    if reads is None and "torch" in sys.modules:
        reads = sys.modules["torch"].compiler.is_dynamo_compiling


def records() -> bool:
    """Whether torch hands all that is done to tensors to somebody (make_fx, torch.export, fake tensors, counters): a
    launch behind its back would be missing there."""
    torch = sys.modules.get("torch")
    return torch is not None and torch._C._len_torch_dispatch_stack() > 0
