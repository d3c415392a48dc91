"""The cache on disk: compiled kernels and plans, one checked file per entry. A fault is a miss, never a wrong load."""

from __future__ import annotations

import contextlib
import hashlib
import json
import linecache
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

from .. import config
from ..atomic_files import PART
from ..errors import caller_stacklevel
from ..lru import LRU
from .cache_files import FORMAT, CacheEntry, folder_fault, pack, read_file, remove_file, unpack, write_file

SUFFIX = ".fused"
MAX_ENTRIES_IN_MEMORY = 256  # if the disk cannot be used
STALE_PART_SECONDS = 3600  # after which an unfinished file has no writer any more
ENTRIES_BETWEEN_SWEEPS = 512  # entries written between two checks of the folder's size, and at most
SHARE_BETWEEN_SWEEPS = 8  # an eighth of the limit
_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)


# ---- keys


def cache_key(**parts: Any) -> str:
    """The sha256 of the versions in use and `parts` (numbers, strings, lists, mappings), in canonical JSON.

    `parts` must contain everything that the entry depends on: text or source, architecture, flags.
    """
    whole = {"format": FORMAT, "versions": versions(), "parts": parts}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# measured: reading the versions takes 50 ms
@cache
def versions() -> dict[str, str]:
    """The versions of the packages that make binaries, and a digest of our own sources; none of them is imported.

    The result is kept on disk for as long as no file's state has changed.
    """
    try:
        state = _file_states()
    except OSError:
        return _read_versions()
    disk_cache, key = Cache(), hashlib.sha256(repr((FORMAT, state)).encode()).hexdigest()
    entry = disk_cache.get(key)
    if entry is None:
        entry = ({"versions": _read_versions()}, b"")
        disk_cache.put(key, entry[0])
    return entry[0]["versions"]


def _read_versions() -> dict[str, str]:
    from importlib import metadata

    versions_ = {"source": _own_digest()}
    for name in ("fusedsl", "numba", "numba-cuda", "llvmlite"):
        try:
            versions_[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions_[name] = ""
    return versions_


def _file_states() -> str:
    """A digest of file states (size, times, inode): of our sources, and of the packages that make binaries.

    Lists are avoided: allocations would start a garbage collection in a new process, which takes longer than all this.
    """
    digest = hashlib.sha256()
    for name in ("numba", "numba_cuda", "llvmlite"):
        spec = None
        with contextlib.suppress(ImportError, ValueError):  # an import hook may forbid the lookup
            spec = find_spec(name)
        if spec is not None and spec.origin:
            _digest_state(digest, spec.origin, os.stat(spec.origin))
    _digest_states(digest, os.path.dirname(os.path.dirname(__file__)))
    return digest.hexdigest()


def _digest_states(digest: Any, folder: str) -> None:
    with os.scandir(folder) as scan:
        entries = sorted(scan, key=attrgetter("name"))
    for entry in entries:
        if entry.is_dir():
            if entry.name != "__pycache__":
                _digest_states(digest, entry.path)
        elif not entry.name.endswith(".pyc"):
            _digest_state(digest, entry.path, entry.stat())


def _digest_state(digest: Any, path: str, s: os.stat_result) -> None:
    digest.update(os.fsencode(path))
    digest.update(f"\0{s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}\n".encode())


def _own_digest() -> str:
    """A digest of the package's files: an edited checkout has the version of the last release."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".lark", ".fd")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


# ---- the cache


class Cache:
    """Entries (a JSON mapping and bytes) by key, in a folder that only its owner can write.

    Processes and threads share it: an entry is written to a file of its own and renamed into place, and checked against
    its digest when it is read. If the folder cannot be trusted or written, entries live in memory.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder) if folder is not None else config.cache_dir()
        self._memory: LRU[str, tuple[str, bytes]] = LRU(lambda: MAX_ENTRIES_IN_MEMORY)
        self._usable: bool | None = None
        self._unswept = 0  # entries to write until the next sweep, and bytes
        self._unswept_bytes = 0

    def get(self, key: str) -> tuple[dict, bytes] | None:
        """The entry of this key, exactly as it was put; None if there is none or it is damaged."""
        _check_key(key)
        if self._writable():
            path = self._path(key)
            data = read_file(path, touch=True)
            if data is not None:
                entry = unpack(key, data)
                if entry is None:
                    remove_file(path)
                else:
                    return entry
        stored = self._memory.get(key)
        return None if stored is None else (json.loads(stored[0]), stored[1])

    def put(self, key: str, facts: Mapping[str, Any], binary: bytes = b"") -> None:
        """Store an entry, replacing the key's last one. `facts` must be JSON."""
        _check_key(key)
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        self._unswept -= 1
        self._unswept_bytes -= len(text) + len(binary)
        if self._unswept <= 0 or (self._unswept_bytes <= 0 and config.cache_megabytes()):
            self.sweep()
        if not (self._writable() and write_file(self._path(key), pack(key, text.encode(), binary))):
            self._memory.put(key, (text, bytes(binary)))

    def list(self) -> list[CacheEntry]:
        """The entries on disk, newest first."""
        entries = []
        for path in self._files():
            if path.suffix == SUFFIX and _KEY.fullmatch(path.stem):
                with contextlib.suppress(OSError):
                    facts = path.lstat()
                    entries.append(CacheEntry(path.stem, facts.st_size, facts.st_mtime))
        return sorted(entries, key=lambda entry: (-entry.written, entry.key))

    def clear(self) -> int:
        """Remove entries, sources and unfinished files. Returns how many entries there were."""
        count = len(self.list()) + len(self._memory)
        self._memory.clear()
        for path in self._files():
            if path.suffix in (SUFFIX, ".py", PART):
                remove_file(path)
        return count

    def source_path(self, name: str) -> Path:
        """The path of the generated source of this name, whether it exists or not."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"not a name for a source file: {name!r}")
        return self.folder / f"{name}.py"

    def write_source(self, name: str, text: str) -> str:
        """Write generated source where tracebacks and debuggers find it; returns its file name.

        Without a disk the name is made up, and only this process's tracebacks know its lines.
        """
        path = self.source_path(name)
        data = text.encode()
        if self._writable() and (read_file(path) == data or write_file(path, data)):
            return str(path)
        made_up = f"<fusedsl {name}>"
        linecache.cache[made_up] = (len(text), None, text.splitlines(keepends=True), made_up)
        return made_up

    def sweep(self) -> None:
        """Remove unfinished files of killed writers, an hour old or more; and old entries, if the folder is too large.

        It runs before the first entry is written, and after so many entries or bytes. The least recently used files are
        evicted (LRU) until the folder is at three quarters of its limit.
        """
        files, limit = [], config.cache_megabytes() * 1_000_000
        self._unswept, self._unswept_bytes = ENTRIES_BETWEEN_SWEEPS, limit // SHARE_BETWEEN_SWEEPS
        for path in self._files():
            with contextlib.suppress(OSError):
                facts = path.lstat()
                if path.suffix == PART and time.time() - facts.st_mtime > STALE_PART_SECONDS:
                    remove_file(path)
                elif path.suffix in (SUFFIX, ".py"):
                    files.append((facts.st_mtime, getattr(facts, "st_blocks", 0) * 512 or facts.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files) if limit and total > limit else ():
            if total <= limit * 3 // 4:
                break
            remove_file(path)
            total -= size

    def _path(self, key: str) -> Path:
        return self.folder / (key + SUFFIX)

    def _files(self) -> Iterator[Path]:
        if self._writable():
            with contextlib.suppress(OSError):
                yield from sorted(self.folder.iterdir())

    def _writable(self) -> bool:
        """Whether the folder is ours alone; checked once, with a warning if it is not."""
        if self._usable is None:
            fault = folder_fault(self.folder)
            self._usable = fault is None
            if fault:
                message = f"fusedsl keeps compiled kernels in memory only: {self.folder} {fault}"
                with contextlib.suppress(RuntimeWarning):  # if warnings are errors, this one must not end the call
                    warnings.warn(message, RuntimeWarning, stacklevel=caller_stacklevel())
        return self._usable


@cache
def disk() -> Cache:
    """The process's cache."""
    return Cache()


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ValueError(f"not a cache key: {key!r}")


# ---- entries as files: one line of JSON about the rest, then the facts, then the binary
