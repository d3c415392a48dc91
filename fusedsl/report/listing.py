"""A kernel's generated file beside its PTX and its machine code, each instruction with the lines that it comes from."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..backends.cuda.compile import ptx_and_cubin
from ..program.resolve_call import ResolvedCall
from ..runtime.compile import CompiledKernel

DISASSEMBLER = "nvdisasm"
PACKAGE = "nvidia-cuda-nvdisasm"
NO_DISASSEMBLER = f"no SASS: {DISASSEMBLER} is not here; pip install {PACKAGE}, or install the CUDA toolkit"
LONGEST = 60  # seconds that the disassembler may take


@dataclass(frozen=True)
class ListedLine:
    """A line of a listing, and the lines of the generated file that it comes from: innermost first, then callers."""

    text: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Listing:
    """The generated file of a kernel, its PTX and SASS; `note` says what is missing, and why."""

    name: str
    source: str
    ptx: tuple[ListedLine, ...] = ()
    sass: tuple[ListedLine, ...] = ()
    note: str = ""


def list_kernel(call: ResolvedCall, name: str, built: CompiledKernel) -> Listing:
    """The listing of a compiled CUDA kernel: compiled once more with lines, to the same instructions."""
    assert call.target.cc is not None
    ptx, code = ptx_and_cubin(built.source, built.path, built.kernel, built.schedule, call.target.cc, built.blocks)
    tool = disassembler()
    if tool is None:
        return Listing(name, built.source, tuple(read_ptx(ptx)), note=NO_DISASSEMBLER)
    try:
        sass = tuple(read_sass(_disassembled(tool, code)))
    except (OSError, subprocess.SubprocessError) as fault:
        return Listing(name, built.source, tuple(read_ptx(ptx)), note=f"no SASS: {tool} failed: {fault}")
    return Listing(name, built.source, tuple(read_ptx(ptx)), sass)


def disassembler() -> str | None:
    """Where nvdisasm is: on the path, in the CUDA toolkit, or in its Python package."""
    homes = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    for folder in (None, *(str(Path(home) / "bin") for home in homes if home)):
        if (path_of_tool := shutil.which(DISASSEMBLER, path=folder)) is not None:
            return path_of_tool
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(f.locate()) for f in files if f.stem == DISASSEMBLER and f.suffix in ("", ".exe")), None)


def _disassembled(tool: str, code: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(code)
        options = ["--print-code", "--print-line-info-inline"]
        done = subprocess.run([tool, *options, str(file)], capture_output=True, text=True, check=True, timeout=LONGEST)
    return done.stdout


_LOCATION = re.compile(r"\.loc\s+\d+\s+(\d+)\s+\d+(?:.*inlined_at\s+\d+\s+(\d+))?")
_SKIPPED = (".loc", ".file", "//")


def read_ptx(text: str) -> Iterator[ListedLine]:
    """The instructions of PTX, without directives of debuggers."""
    callers: dict[int, int] = {}
    lines: tuple[int, ...] = ()
    for line in text.splitlines():
        if "\t.section" in line or line.startswith(".section"):
            return
        if (location := _LOCATION.search(line)) is not None:
            if location[2] is not None:
                callers[int(location[1])] = int(location[2])
            lines = tuple(_chain(int(location[1]), callers if location[2] is not None else {}))
        elif line.strip() and not line.strip().startswith(_SKIPPED):
            yield ListedLine(line.expandtabs(4).rstrip(), lines)


def _chain(line: int, callers: dict[int, int]) -> Iterable[int]:
    """A line, the line that calls its function, and so on."""
    chain = [line]
    while chain[-1] in callers and callers[chain[-1]] not in chain:
        chain.append(callers[chain[-1]])
    return chain


_POSITION = re.compile(r"line (\d+)")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]+\*/\s+(.*?)\s*;?\s*$")


def read_sass(text: str) -> Iterator[ListedLine]:
    """The instructions and labels of nvdisasm's text."""
    lines: tuple[int, ...] = ()
    continues = False  # whether the line before said where instructions come from
    for line in text.splitlines():
        if line.lstrip().startswith("//##"):
            position = tuple(map(int, _POSITION.findall(line)))
            lines = tuple(dict.fromkeys((*lines, *position))) if continues else tuple(dict.fromkeys(position))
            continues = True
            continue
        continues = False
        if (instruction := _INSTRUCTION.search(line)) is not None:
            yield ListedLine(f"    {instruction[1]}", lines)
        elif line.startswith(".L") and line.rstrip().endswith(":"):
            yield ListedLine(line.rstrip())
