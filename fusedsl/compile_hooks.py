"""`on_compile`: functions that are called with each compilation, after it; and its line in the log and the metrics."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from . import logs, metric_counts
from .errors import ArgumentError, public_api


@dataclass(frozen=True)
class Compilation:
    """A kernel that was compiled: its name, its target ("cpu" or "sm_90"), the seconds, and its generated file.

    `registers` per thread and `spill_bytes` are those of CUDA kernels, and None on the CPU.
    """

    kernel: str
    target: str
    seconds: float
    path: str
    registers: int | None = None
    spill_bytes: int | None = None


Hook = Callable[[Compilation], object]
_hooks: dict[int, Hook] = {}  # in the order of their registration
_keys = itertools.count()


class RemovableHook:
    """A registered function: `remove()`, or the end of a `with` block, ends its calls."""

    def __init__(self, hook: Hook):
        self._key = next(_keys)
        _hooks[self._key] = hook

    def remove(self) -> None:
        """Call the function no more."""
        _hooks.pop(self._key, None)

    def __enter__(self) -> RemovableHook:
        return self

    def __exit__(self, *fault: object) -> None:
        self.remove()


@public_api
def on_compile(hook: Hook) -> RemovableHook:
    """Call a function after every compilation of a kernel, in the thread whose call needed it, until `remove()`.

    A kernel that is found in a cache or a saved file is not compiled. An exception of the function is logged, and
    changes nothing. What goes on after Ctrl-C ended the wait for it is not reported.

    >>> import numpy as np
    >>> import fusedsl as fd
    >>> fd.clear_cache(disk=True)
    >>> with fd.on_compile(lambda done: print(done.kernel, done.target)):
    ...     y = fd.evaluate("x + 1.0625", x=np.ones(3))
    map_add_0 cpu
    """
    if not callable(hook):
        raise ArgumentError("on_compile takes a function", "argument.hook", help="pass a function of one Compilation")
    return RemovableHook(hook)


def report(done: Compilation) -> None:
    """Log and count a compilation, and call the registered functions."""
    logs.compiled(done.kernel, done.target, done.seconds)
    metric_counts.count("fusedsl_compilations", target=done.target)
    metric_counts.count("fusedsl_compilation_seconds", done.seconds, target=done.target)
    for hook in list(_hooks.values()):
        try:
            hook(done)
        except Exception:
            logs.logger().exception("a function that on_compile registered failed")
