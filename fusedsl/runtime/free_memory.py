"""How much memory the process can still use, and the error for an allocation beyond it: checked before any work.

Systems overcommit memory, and kill a process that then uses it: a successful allocation proves little.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import MemoryLimitError

UNCHECKED_BYTES = 1 << 26  # allocations below this are not checked: the check would take longer
GROUPS = Path("/sys/fs/cgroup")


def require(size: int, what: str) -> None:
    """MemoryLimitError if `size` bytes of `what` are more than the process can have."""
    if size < UNCHECKED_BYTES:
        return
    left = available()
    if left is not None and size > left:
        raise exhausted(size, what, left)


def exhausted(size: int, what: str, free: int | None = None) -> MemoryLimitError:
    """The error for an allocation that does not fit; `free` is how many bytes are left, if known."""
    left = "" if free is None else f", and {free / 1e9:.3g} GB are available"
    help = "compute in parts, or reduce inside the expression"
    return MemoryLimitError(f"no memory for {size / 1e9:.3g} GB of {what}{left}", "limit.memory", help=help)


def available() -> int | None:
    """Bytes that the process can still use; None if the system does not report it."""
    limits = [*_system_memory(), *_cgroup_memory(), *_address_space()]
    return max(0, min(limits)) if limits else None


def _system_memory() -> Iterator[int]:
    """Memory that is available without swapping, and free swap."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        values = {name: int(value.split()[0]) * 1024 for name, _, value in (line.partition(":") for line in lines)}
        yield values["MemAvailable"] + values.get("SwapFree", 0)


def _cgroup_memory() -> Iterator[int]:
    """The headroom of the process's control groups and their parents: containers and schedulers set such limits."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if not controllers:
                yield from _cgroup_headroom(GROUPS, name, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                yield from _cgroup_headroom(GROUPS / "memory", name, *names)


def _cgroup_headroom(root: Path, name: str, limit: str, usage: str, reclaimed: str) -> Iterator[int]:
    """The headroom of a group and of its parents, reclaimable page cache included."""
    inner = root / name.lstrip("/")
    for group in (inner, *inner.parents):
        if not group.is_relative_to(root):
            break
        with contextlib.suppress(OSError, ValueError):
            most = (group / limit).read_text().strip()
            if most != "max":
                stats = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                yield int(most) - int((group / usage).read_text()) + int(stats.get(reclaimed, 0))


def _address_space() -> Iterator[int]:
    """The headroom under the limit of the address space (ulimit -v)."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield limit - pages * os.sysconf("SC_PAGE_SIZE")
