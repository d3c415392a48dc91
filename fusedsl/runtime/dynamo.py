"""Whether torch's compiler reads the code that asks, instead of Python's running it."""

from __future__ import annotations

import sys
from collections.abc import Callable

reads: Callable[[], bool] | None = None  # None as long as torch is not imported


def watch() -> None:
    """Look for torch; asked for where there is time, so that calls need not."""
    global reads
    if reads is None and "torch" in sys.modules:
        reads = sys.modules["torch"].compiler.is_dynamo_compiling
