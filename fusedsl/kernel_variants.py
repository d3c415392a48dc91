"""Variants of a kernel for certain calls: constants shadowed by the caller's values, or static integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import FusedslError
from .lru import LRU
from .runtime.cache import cache_key, disk

Kernel = Any  # api.Kernel, in a higher layer

MAX_VARIANTS = 64  # variants for static integers that a kernel keeps


class Variants:
    """The variants of one kernel, by the constants that are parameters there, or the static integers and Nones.

    Methods take the kernel instead of holding it: it is freed with the last reference to it.
    """

    def __init__(self) -> None:
        self._shadowing: dict[tuple[str, ...], Kernel] = {}
        self._specialised: LRU[tuple, Kernel] = LRU(lambda: MAX_VARIANTS)
        self._static: frozenset[str] | None = None  # parameters with static values; None: not read yet

    # -- constants

    def shadowing(self, kernel: Kernel, names: tuple[str, ...]) -> Kernel:
        """The kernel with these constants or dtypes of the program as parameters, for values of the caller."""
        if names not in self._shadowing:
            text, _, constants = kernel._definition
            variant = type(kernel)(text, (*kernel.params, *names), constants, kernel.options)
            self._shadowing[names] = variant
        return self._shadowing[names]

    def for_constants(self, kernel: Kernel, named: Mapping[str, Any]) -> Kernel:
        """The variant in which constants that the caller passes by name are parameters; usually the kernel itself."""
        source = kernel._source
        names = tuple(name for name in source.shadowable if name in named and source.reads(name))
        return self.shadowing(kernel, names) if names else kernel

    # -- integers

    def for_integers(self, kernel: Kernel, values: Sequence[Any]) -> tuple[Kernel, Sequence[Any]]:
        """(the variant for the static integers and Nones among these arguments, the other arguments)."""
        if self._static is None:
            self._static = frozenset(self._read(kernel)) if any(map(_may_shape, values)) else frozenset()
        if not self._static and all(v is not None for v in values):
            return kernel, values
        params = kernel.params
        fixed = {n: _plain(v) for n, v in zip(params, values) if v is None or (n in self._static and _may_shape(v))}
        if not fixed:
            return kernel, values
        key = tuple((name, repr(v)) for name, v in fixed.items())
        variant = self._specialised.get(key)
        if variant is None:
            text, _, constants = kernel._definition
            rest = tuple(name for name in params if name not in fixed)
            variant = type(kernel)(text, rest, {**(constants or {}), **fixed}, kernel.options)
            self._specialised.put(key, variant)
        return variant._variants.for_integers(variant, [v for name, v in zip(params, values) if name not in fixed])

    def learn(self, kernel: Kernel, fault: FusedslError, values: Sequence[Any]) -> bool:
        """Whether a fault shows that arguments are static: later calls then take their values as constants."""
        params = kernel.params
        numbers = {k for error in (fault, *fault.others) for k in getattr(error, "shaped_by", ())}
        names = {params[k] for k in numbers if _may_shape(values[k])}
        known = self._static or frozenset()
        if not names - known:
            return False
        self._static = known | names
        disk().put(_key(kernel), {"static": sorted(self._static)})
        return True

    def _read(self, kernel: Kernel) -> Sequence[str]:
        """The static parameters that another process found."""
        entry = disk().get(_key(kernel))
        return [] if entry is None else [name for name in entry[0].get("static", ()) if name in kernel.params]


def _key(kernel: Kernel) -> str:
    """The disk key of a program's static parameters."""
    return cache_key(static=kernel._source.cache_parts())


def _may_shape(x: Any) -> bool:
    """Whether an argument may be a size, an axis, a shape or a flag."""
    if type(x) in (tuple, list):
        return 0 < len(x) <= 32 and all(map(_may_shape, x))
    return isinstance(x, int) or _is_whole(x)


def _is_whole(x: Any) -> bool:
    """Whether it is a NumPy integer or bool, or an array of one without axes."""
    return type(x).__module__ == "numpy" and getattr(x, "shape", None) == () and x.dtype.kind in "biu"


def _plain(x: Any) -> Any:
    """An integer (also a traced one) as Python's; lists as tuples; None as it is."""
    if x is None:
        return None
    if type(x) in (tuple, list):
        return tuple(map(_plain, x))
    if _is_whole(x):
        return x.item()
    return bool(x) if isinstance(x, bool) else int(x)
