"""The sizes of the caches in memory and on disk."""

from __future__ import annotations

from typing import NamedTuple

from . import config
from .errors import ArgumentError, public_api
from .lru import resize_all
from .runtime.cache import disk


class CacheSize(NamedTuple):
    """Programs in memory, and kernels as well; megabytes of files (0: no limit)."""

    programs: int
    megabytes: int


@public_api
def set_cache_size(programs: int | None = None, megabytes: int | None = None) -> None:
    """Keep so many programs, and as many kernels, in memory, and so many megabytes of files in the cache folder.

    None leaves a size as it is; `megabytes=0` lifts the limit. The least recently used beyond the sizes are dropped,
    now and whenever more are made. Until it is called, the sizes are FUSEDSL_CACHE_SIZE and FUSEDSL_CACHE_MB, or 512.
    A Kernel that the caller holds keeps what its calls need. Raises ArgumentError for what is no such integer.

    >>> import fusedsl as fd
    >>> before = fd.get_cache_size()
    >>> fd.set_cache_size(programs=64)
    >>> fd.get_cache_size() == (64, before.megabytes)
    True
    >>> fd.set_cache_size(*before)
    """
    _check("programs", programs, 1)
    _check("megabytes", megabytes, 0)
    if programs is not None:
        config.choose("FUSEDSL_CACHE_SIZE", programs)
        resize_all()
    if megabytes is not None:
        config.choose("FUSEDSL_CACHE_MB", megabytes)
        disk().sweep()


def get_cache_size() -> CacheSize:
    """The sizes of the caches: programs in memory, megabytes on disk."""
    return CacheSize(config.cache_size(), config.cache_megabytes())


def _check(name: str, size: int | None, least: int) -> None:
    whole = isinstance(size, int) and not isinstance(size, bool)
    if size is not None and not (whole and least <= size <= config.MOST_CACHED):
        help = f"use an integer from {least} to {config.MOST_CACHED:,}, or None to leave it"
        raise ArgumentError(f"{name} is {size!r}", "argument.cache", help=help)
