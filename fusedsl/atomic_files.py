"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from .errors import ArgumentError

PART = ".part"  # suffix of an unfinished file


def named_file(path: Any) -> Path:
    """The file of this name (a string, bytes or a path object); ArgumentError for what names none."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise ArgumentError(f"a file is named by a string or a path, not by {type(path).__name__}", "argument.file",
                            help='"softmax.fused", or pathlib.Path("softmax.fused")') from None  # fmt: skip
    if not Path(name).name or "\0" in name:
        raise ArgumentError(f"{name!r} names no file", "argument.file", help='"softmax.fused" does')
    return Path(name)


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write to a temporary file, then rename it into place; an interrupt leaves nothing behind.

    No link is followed. `mode` are the permissions of a new file, less the process's mask. Raises OSError, with the
    name of the file, if that fails.
    """
    part = path.with_name(f"{path.name[:100]}.{os.getpid()}.{os.urandom(6).hex()}{PART}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        number = os.open(part, flags | getattr(os, "O_NOFOLLOW", 0), mode)
        with open(number, "wb") as file:
            file.write(data)
        os.replace(part, path)
    except BaseException as fault:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(fault, OSError) and fault.errno is not None:
            raise OSError(fault.errno, fault.strerror, str(path)) from None
        raise
