"""NVTX ranges for profilers such as Nsight Systems: calls by their program, and each compilation. FUSEDSL_NVTX=1."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from .config import marks_ranges

DOMAIN = "fusedsl"
Owner = TypeVar("Owner", bound=type)


@cache
def _nvtx() -> Any:
    """The package nvtx; None if it is missing or not asked for."""
    if not marks_ranges():
        return None
    try:
        import nvtx
    except ImportError:
        warnings.warn("FUSEDSL_NVTX=1 needs the package nvtx: pip install nvtx", RuntimeWarning, stacklevel=2)
        return None
    return nvtx


@contextmanager
def profiled(title: str) -> Iterator[None]:
    """A range around the block, if profilers are served."""
    nvtx = _nvtx()
    if nvtx is None:
        yield
        return
    nvtx.push_range(title, domain=DOMAIN)
    try:
        yield
    finally:
        nvtx.pop_range(domain=DOMAIN)


def profiled_calls(title: Callable[[Any], str]) -> Callable[[Owner], Owner]:
    """Decorates a class whose calls are ranges called `title(self)`; unchanged, and as fast, if none are asked for."""

    def decorate(owner: Owner) -> Owner:
        if _nvtx() is not None:
            call = owner.__call__  # type: ignore[misc]

            @functools.wraps(call)
            def ranged(self: Any, /, *args: Any, **named: Any) -> Any:
                with profiled(title(self)):
                    return call(self, *args, **named)

            owner.__call__ = ranged  # type: ignore[method-assign]
        return owner

    return decorate
