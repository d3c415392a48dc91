"""Container format of saved kernels: a header (magic number, digest), then compressed JSON and machine code."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentError

MAGIC = b"\x8bFUSED\r\n"  # not text, and damaged by any conversion of text
FORMAT = 5
HEADER = struct.Struct("<8sI32s")  # the magic number, the format, the sha256 of both and of all that follows
LENGTH = struct.Struct("<Q")
OLDER = b"PK"  # format 1 was a ZIP archive


def pack(manifest: Mapping[str, Any], blobs: Mapping[str, bytes]) -> bytes:
    """The bytes of a file with a manifest (JSON) and blobs by name."""
    index = {"manifest": manifest, "blobs": [[name, len(blob)] for name, blob in blobs.items()]}
    text = json.dumps(index, separators=(",", ":")).encode()
    body = zlib.compress(b"".join((LENGTH.pack(len(text)), text, *blobs.values())))
    return HEADER.pack(MAGIC, FORMAT, _digest(FORMAT, body)) + body


def unpack(data: bytes, name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the blobs of a file; nothing of it is executed. `name` is for messages.

    ArgumentError if it is no such file, of another format, damaged or cut off.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise misfit(f"{name} is of an older format" if data[:2] == OLDER else f"{name} is no saved kernel")
    if len(data) < HEADER.size:
        raise misfit(f"{name} is cut off")
    _, version, digest = HEADER.unpack_from(data)
    body = data[HEADER.size :]
    if digest != _digest(version, body):
        raise misfit(f"{name} is damaged or cut off: its checksum is wrong")
    if version != FORMAT:
        raise misfit(f"{name} is of format {version}, and this fusedsl reads format {FORMAT}")
    try:
        return _unpacked(zlib.decompress(body))
    except (zlib.error, struct.error, ValueError, KeyError, TypeError) as fault:
        raise misfit(f"{name} is not what fusedsl writes ({type(fault).__name__})") from None


def _unpacked(content: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    (length,) = LENGTH.unpack_from(content)
    at = LENGTH.size + length
    index = json.loads(content[LENGTH.size : at])
    blobs = {}
    for name, size in index["blobs"]:
        blobs[name], at = content[at : at + size], at + size
    if at != len(content):
        raise ValueError("its parts have other sizes")
    return index["manifest"], blobs


def misfit(what: str) -> ArgumentError:
    """The error for a file that cannot be used."""
    return ArgumentError(what, "argument.file", help="save the kernel anew with Kernel.save")


def _digest(version: int, body: bytes) -> bytes:
    digest = hashlib.sha256(MAGIC + struct.pack("<I", version))
    digest.update(body)
    return digest.digest()
