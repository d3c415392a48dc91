"""The generated files of the corpus and their machine code, and how they compare with what they were."""

from __future__ import annotations

import difflib
import hashlib
import os
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from replay.corpus import TARGETS, corpus

RAISED = "raised "
SAMPLE = 30  # cases whose machine code is compared too, where that is asked for
SECTION = struct.Struct("<IIQQQQIIQQ")  # of an ELF file of 64 bits: name, type, flags, address, offset, size, …


def sources() -> dict[str, str]:
    """The generated file of every case for its targets, or what it raises; plans are made anew."""
    with _empty_cache():
        return {f"{case.name} @ {target}": _told(case.source, target) for case in corpus() for target in TARGETS}


def machine_code(count: int = SAMPLE) -> dict[str, str]:
    """A digest of the machine code of a sample of the corpus for sm_90, which names do not change; needs numba-cuda."""
    cases = list(corpus())
    with _empty_cache():
        return {f"{case.name} @ sm_90": _told(_digest, case) for case in cases[:: max(1, len(cases) // count)]}


def _told(call, argument) -> str:
    try:
        return call(argument)
    except Exception as fault:
        return f"{RAISED}{type(fault).__name__}: {fault}"


def is_fault(text: str) -> bool:
    """Whether a case raised something."""
    return text.startswith(RAISED)


def _digest(case) -> str:
    found = hashlib.sha256()
    for cubin in case.machine_code("sm_90"):
        for code in text_sections(cubin):
            found.update(code)
    return found.hexdigest()[:16]


def text_sections(cubin: bytes) -> Iterator[bytes]:
    """The sections of a cubin that are machine code."""
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [SECTION.unpack_from(cubin, offset + k * size) for k in range(count)]
    table = sections[names][4]
    for name, _, _, _, begin, length, *_ in sections:
        label = cubin[table + name : cubin.index(b"\0", table + name)]
        if label.startswith(b".text."):
            yield cubin[begin : begin + length]


@contextmanager
def _empty_cache() -> Iterator[None]:
    before = os.environ.get("FUSEDSL_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="fusedsl-replay-") as folder:
        os.environ["FUSEDSL_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("FUSEDSL_CACHE_DIR")
            if before is not None:
                os.environ["FUSEDSL_CACHE_DIR"] = before


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The cases that are not what they were, those that are new or gone among them."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def without_comments(text: str) -> str:
    """A generated file without the comments behind instructions, which say in the user's names what these compute."""
    return "\n".join(line.partition("  # ")[0].rstrip() for line in text.splitlines())


def difference(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """A case as a unified diff."""
    texts = (before.get(name, "").splitlines(), after.get(name, "").splitlines())
    return "\n".join(difflib.unified_diff(*texts, "before", "after", lineterm="", n=2))
