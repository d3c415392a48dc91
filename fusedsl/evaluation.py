"""`evaluate`: the value of an expression for arrays by name, with a cache of their kernels."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from .api import Kernel
from .caller_scope import as_mapping, check_constants, look_up, shadowed_constants, undefined, unused_argument
from .config import OPTION_NAMES, Options, cache_size, current, split_options
from .errors import FusedslError, fold, trimmed
from .lru import Memo, clear_all, shared
from .metric_counts import Metrics, samples
from .program.text_source import TextSource
from .runtime import dynamo
from .runtime.cache import disk as files


def _new_kernel(text: str, chosen: Options, shadowed: tuple[str, ...]) -> Kernel:
    """The kernel of a program; `shadowed` are names of constants that are parameters of it."""
    params = TextSource(text, chosen, None, None, shadowed).names if shadowed else None
    return Kernel(text, params, None, chosen)


kernels: Memo[Kernel] = shared(Memo(_new_kernel, cache_size))


def kernel_of(text: str, changes: tuple[tuple[str, Any], ...], shadowed: tuple[str, ...] = ()) -> Kernel:
    """The kernel of a program under the options in force with these changes."""
    if dynamo.compiles():
        return getattr(_compiled, _named(text, changes, shadowed))
    chosen = current().changed(dict(changes))
    return kernels.call(text, chosen, shadowed) if isinstance(text, str) else Kernel(text, None, None, chosen)


class _Compiled:
    """Kernels of programs under torch.compile, as attributes: torch can read them, and guard on them."""


_compiled = _Compiled()


@dynamo.constant
def _named(text: str, changes: tuple[tuple[str, Any], ...], shadowed: tuple[str, ...]) -> str:
    """The attribute of `_compiled` that holds the kernel of a program."""
    kernel = kernels.call(text, current().changed(dict(changes)), shadowed)
    name = f"kernel_{id(kernel)}"
    setattr(_compiled, name, kernel)
    return name


def evaluate(text: str, arrays: Mapping[str, Any] | None = None, /, *, out: Any = None, **named: Any) -> Any:
    """The value of an expression for arrays given by name or in a mapping; compiled once and remembered.

    With no array given at all, names are looked up in the caller's locals, then globals (arrays, numbers, lists, and
    pandas, polars and xarray objects). A mapping may hold more than the expression uses; a DataFrame or a structured
    array is a mapping of its columns or fields. An unused keyword is an ArgumentError, a missing name an
    UnknownNameError.

    >>> import numpy as np
    >>> import fusedsl as fd
    >>> fd.evaluate("2*a + 3*b", a=np.float32([1, 2]), b=np.float32([3, 4]))
    array([11., 16.], dtype=float32)
    """
    try:
        changes, given = split_options(named)
        kernel = kernel_of(text, changes)
        if arrays is None and not given:
            if not kernel.params:
                return kernel(out=out)
            frame = sys._getframe(1)
            values, others = look_up(kernel.params, frame.f_locals, frame.f_globals)
            check_constants(kernel, frame.f_locals, frame.f_globals)
        else:
            mapping = {} if arrays is None else as_mapping(arrays)
            shadowed = shadowed_constants(kernel, given, mapping)
            if shadowed:
                kernel = kernel_of(text, changes, shadowed)
            for name in given:
                if name not in kernel.params:
                    read = f"the expression reads {', '.join(kernel.params) or 'no names'}"
                    raise unused_argument(kernel, name, None, OPTION_NAMES, read)
            values, others = {n: mapping[n] for n in kernel.params if n not in given and n in mapping}, {}
            values.update(given)
        if len(values) < len(kernel.params):
            raise undefined(kernel, values, others, mapping if arrays is not None else ())
        return kernel(*[values[name] for name in kernel.params], out=out)
    except FusedslError as fault:
        if fold(fault):
            raise
        raise trimmed(fault) from fault.__cause__


def clear_cache(disk: bool = False) -> None:
    """Drop the cached programs of `evaluate` and the kernels of this process; with `disk`, also the cache folder.

    A Kernel or function that the caller holds keeps what its calls need. Least recently used programs and
    files are dropped automatically (see `set_cache_size`).
    """
    clear_all()
    if disk:
        files().clear()


def metrics() -> Metrics:
    """Counters of this process, and the size of the cache folder, as a mapping; `openmetrics()` of it is their text.

    Warm calls are not counted: that would cost time in each of them.

    >>> import fusedsl as fd
    >>> counters = fd.metrics()
    >>> counters["fusedsl_first_calls_total"] >= 0 and "fusedsl_cache_bytes" in counters
    True
    >>> print(counters.openmetrics().splitlines()[0])
    # TYPE fusedsl_compilations counter
    """
    values, entries = samples(), files().list()
    values["fusedsl_cache_entries"], values["fusedsl_cache_bytes"] = len(entries), sum(entry.size for entry in entries)
    return values
