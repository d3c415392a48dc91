"""Entries of the cache as files: packed with a digest, written at once, read without following links."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from pathlib import Path
from typing import NamedTuple

from ..atomic_files import write_whole


class CacheEntry(NamedTuple):
    """One entry of `Cache.list`: size in bytes, time of writing (or last use, to a day) in seconds since 1970."""

    key: str
    size: int
    written: float


def folder_fault(folder: Path) -> str | None:
    """Why a folder cannot be used, or None; creates a missing folder."""
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


def pack(key: str, facts: bytes, binary: bytes) -> bytes:
    head = {"format": FORMAT, "key": key, "facts": len(facts), "binary": len(binary)}
    head["sha256"] = digest_of(key, facts, binary)
    return json.dumps(head).encode("ascii") + b"\n" + facts + binary


def unpack(key: str, data: bytes) -> tuple[dict, bytes] | None:
    try:
        line, _, rest = data.partition(b"\n")
        head = json.loads(line)
        facts, binary = rest[: head["facts"]], rest[head["facts"] :]
        if head["format"] != FORMAT or head["key"] != key or len(binary) != head["binary"]:
            return None
        if head["sha256"] != digest_of(key, facts, binary):
            return None
        return json.loads(facts), binary
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def digest_of(key: str, facts: bytes, binary: bytes) -> str:
    digest = hashlib.sha256(f"{FORMAT} {key} {len(facts)} {len(binary)}\n".encode("ascii"))
    digest.update(facts)
    digest.update(binary)
    return digest.hexdigest()


FORMAT = 1  # version of the file format of entries
DAY = 86400  # seconds; an entry's time of use is accurate to one
NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read_file(path: Path, touch: bool = False) -> bytes | None:
    """The bytes of a file of ours, or None; `touch` keeps its time accurate to a day."""
    try:
        number = os.open(path, os.O_RDONLY | NO_LINKS | getattr(os, "O_NONBLOCK", 0))
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


def write_file(path: Path, data: bytes) -> bool:
    """Write for the owner alone; False if that fails."""
    try:
        write_whole(path, data, 0o600)
        return True
    except OSError:
        return False


def remove_file(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
