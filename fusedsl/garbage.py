"""Planning and compiling without searches for cyclic garbage, which find none and cost a fifth of the time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Inside the block nobody searches for cyclic garbage: a plan's or a module's hundred thousand objects make Python
    search again and again, and all of them are in use."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
