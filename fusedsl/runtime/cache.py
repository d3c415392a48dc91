"""Compiled kernels and plans on disk: one checked file an entry; any fault is a miss, never a crash or a wrong load."""

from __future__ import annotations

import contextlib
import hashlib
import json
import linecache
import os
import re
import stat
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from .. import config
from ..atomic_files import PART, write_whole
from ..errors import outside

FORMAT = 1  # of an entry's file
SUFFIX = ".fused"
MAX_ENTRIES_IN_MEMORY = 256  # entries kept in memory where the disk cannot be used
STALE_PART_SECONDS = 3600  # seconds after which nobody writes to a file any more
DAY = 86400  # seconds; an entry's time of use is right to one
ENTRIES_BETWEEN_SWEEPS = 512  # entries that a process writes until it looks at the folder's size again
_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)


class CacheEntry(NamedTuple):
    """One entry as `Cache.list` shows it: size in bytes, time of writing (or use, to a day) in seconds since 1970."""

    key: str
    size: int
    written: float


# ---- keys


def cache_key(**parts: Any) -> str:
    """The sha256 of the versions in use and `parts` (numbers, strings, lists, mappings), in canonical JSON.

    Say everything that the binary depends on: text or source, architecture, flags.
    """
    whole = {"format": FORMAT, "versions": versions(), "parts": parts}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@cache
def versions() -> dict[str, str]:
    """The versions of what makes binaries, and a digest of our own sources; none of them is imported.

    Finding out takes 50 ms, so that it is kept on disk for as long as the file system says that no file has changed.
    """
    try:
        state = _file_states()
    except OSError:
        return _read_versions()
    known, key = Cache(), hashlib.sha256(repr((FORMAT, state)).encode()).hexdigest()
    entry = known.get(key)
    if entry is None:
        entry = ({"versions": _read_versions()}, b"")
        known.put(key, entry[0])
    return entry[0]["versions"]


def _read_versions() -> dict[str, str]:
    from importlib import metadata

    found = {"source": _own_digest()}
    for name in ("fusedsl", "numba", "numba-cuda", "llvmlite"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found


def _file_states() -> str:
    """A digest of what tells that a file of ours, or of a package that makes binaries, is another one than before.

    Nothing is gathered on the way: a new process would start to collect garbage, which takes longer than all this.
    """
    digest = hashlib.sha256()
    for name in ("numba", "numba_cuda", "llvmlite"):
        spec = None
        with contextlib.suppress(ImportError, ValueError):  # of whoever forbids the import
            spec = find_spec(name)
        if spec is not None and spec.origin:
            _digest_state(digest, spec.origin, os.stat(spec.origin))
    _digest_states(digest, os.path.dirname(os.path.dirname(__file__)))
    return digest.hexdigest()


def _digest_states(digest: Any, folder: str) -> None:
    with os.scandir(folder) as found:
        entries = sorted(found, key=attrgetter("name"))
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

    Processes and threads share it freely: an entry is written to a file of its own and renamed into place, and
    checked against its digest when read. Where the folder cannot be trusted or written, entries live in memory.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder) if folder is not None else config.cache_dir()
        self._lock = threading.Lock()
        self._memory: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._usable: bool | None = None
        self._unswept = 0  # entries to write until the folder is looked at

    def get(self, key: str) -> tuple[dict, bytes] | None:
        """The entry of this key, exactly as it was put; None where there is none or it is damaged."""
        _check_key(key)
        if self._writable():
            path = self._path(key)
            data = _read(path, touch=True)
            if data is not None:
                found = _unpack(key, data)
                if found is None:
                    _remove(path)
                else:
                    return found
        with self._lock:
            kept = self._memory.get(key)
        return None if kept is None else (json.loads(kept[0]), kept[1])

    def put(self, key: str, facts: Mapping[str, Any], binary: bytes = b"") -> None:
        """Keep an entry, replacing what the key had. `facts` is what JSON can hold."""
        _check_key(key)
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        self._sweep()
        if self._writable() and _write(self._path(key), _pack(key, text.encode(), binary)):
            return
        with self._lock:
            self._memory[key] = (text, bytes(binary))
            while len(self._memory) > MAX_ENTRIES_IN_MEMORY:
                self._memory.popitem(last=False)

    def list(self) -> list[CacheEntry]:
        """What is on disk, newest first."""
        entries = []
        for path in self._files():
            if path.suffix == SUFFIX and _KEY.fullmatch(path.stem):
                with contextlib.suppress(OSError):
                    facts = path.lstat()
                    entries.append(CacheEntry(path.stem, facts.st_size, facts.st_mtime))
        return sorted(entries, key=lambda entry: (-entry.written, entry.key))

    def clear(self) -> int:
        """Forget entries, sources and what interrupted writers left. Returns how many entries there were."""
        count = len(self.list())
        with self._lock:
            count += len(self._memory)
            self._memory.clear()
        for path in self._files():
            if path.suffix in (SUFFIX, ".py", PART):
                _remove(path)
        return count

    def source_path(self, name: str) -> Path:
        """Where the generated source of this name stands, or would."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"not a name for a source file: {name!r}")
        return self.folder / f"{name}.py"

    def write_source(self, name: str, text: str) -> str:
        """Write generated source where tracebacks and debuggers find it; returns its file name.

        Where there is no disk the name is made up and only this process's tracebacks know its lines.
        """
        path = self.source_path(name)
        data = text.encode()
        if self._writable() and (_read(path) == data or _write(path, data)):
            return str(path)
        made_up = f"<fusedsl {name}>"
        linecache.cache[made_up] = (len(text), None, text.splitlines(keepends=True), made_up)
        return made_up

    def _sweep(self) -> None:
        """Before the first entry is written, and now and then: remove what writers left that were killed, an hour ago
        or more; where the folder holds more than it may, also what was unused for longest, down to three quarters.
        """
        self._unswept -= 1
        if self._unswept > 0:
            return
        self._unswept = ENTRIES_BETWEEN_SWEEPS
        files, limit = [], config.cache_megabytes() * 1_000_000
        for path in self._files():
            with contextlib.suppress(OSError):
                facts = path.lstat()
                if path.suffix == PART and time.time() - facts.st_mtime > STALE_PART_SECONDS:
                    _remove(path)
                elif path.suffix in (SUFFIX, ".py"):
                    files.append((facts.st_mtime, getattr(facts, "st_blocks", 0) * 512 or facts.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files) if limit and total > limit else ():
            if total <= limit * 3 // 4:
                break
            _remove(path)
            total -= size

    def _path(self, key: str) -> Path:
        return self.folder / (key + SUFFIX)

    def _files(self) -> Iterator[Path]:
        if self._writable():
            with contextlib.suppress(OSError):
                yield from sorted(self.folder.iterdir())

    def _writable(self) -> bool:
        """Whether the folder is ours alone; asked once, with a warning where it is not."""
        if self._usable is None:
            fault = _folder_fault(self.folder)
            self._usable = fault is None
            if fault:
                message = f"fusedsl keeps compiled kernels in memory only: {self.folder} {fault}"
                with contextlib.suppress(RuntimeWarning):  # where warnings are errors, this one ends no call
                    warnings.warn(message, RuntimeWarning, stacklevel=outside())
        return self._usable


@cache
def disk() -> Cache:
    """The process's cache."""
    return Cache()


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ValueError(f"not a cache key: {key!r}")


def _folder_fault(folder: Path) -> str | None:
    """Why a folder cannot be used, None where it can; makes it where it is missing."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        facts = folder.lstat()
    except (OSError, ValueError) as fault:
        return f"cannot be made ({fault})"
    if stat.S_ISLNK(facts.st_mode):
        return "is a symbolic link"
    if not stat.S_ISDIR(facts.st_mode):
        return "is not a folder"
    if os.name == "posix":
        if facts.st_uid != os.geteuid():
            return "belongs to another user"
        if facts.st_mode & 0o022:
            return "can be written by others (chmod 700 it)"
    return None


# ---- entries as files: one line of JSON about the rest, then the facts, then the binary


def _pack(key: str, facts: bytes, binary: bytes) -> bytes:
    head = {"format": FORMAT, "key": key, "facts": len(facts), "binary": len(binary)}
    head["sha256"] = _digest(key, facts, binary)
    return json.dumps(head).encode("ascii") + b"\n" + facts + binary


def _unpack(key: str, data: bytes) -> tuple[dict, bytes] | None:
    try:
        line, _, rest = data.partition(b"\n")
        head = json.loads(line)
        facts, binary = rest[: head["facts"]], rest[head["facts"] :]
        if head["format"] != FORMAT or head["key"] != key or len(binary) != head["binary"]:
            return None
        if head["sha256"] != _digest(key, facts, binary):
            return None
        return json.loads(facts), binary
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _digest(key: str, facts: bytes, binary: bytes) -> str:
    digest = hashlib.sha256(f"{FORMAT} {key} {len(facts)} {len(binary)}\n".encode("ascii"))
    digest.update(facts)
    digest.update(binary)
    return digest.hexdigest()


_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def _read(path: Path, touch: bool = False) -> bytes | None:
    """The bytes of a file of ours, None where there is none; `touch` keeps its time right to a day."""
    try:
        number = os.open(path, os.O_RDONLY | _NO_LINKS | getattr(os, "O_NONBLOCK", 0))
        with open(number, "rb") as file:
            facts = os.fstat(number)
            if not stat.S_ISREG(facts.st_mode) or (os.name == "posix" and facts.st_uid != os.geteuid()):
                return None
            if touch and time.time() - facts.st_mtime > DAY:
                with contextlib.suppress(OSError):
                    os.utime(number if os.utime in os.supports_fd else path)
            return file.read()
    except (OSError, MemoryError):
        return None


def _write(path: Path, data: bytes) -> bool:
    """Write for the owner alone; False where that fails."""
    try:
        write_whole(path, data, 0o600)
        return True
    except OSError:
        return False


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
