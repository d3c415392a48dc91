"""nvJitLink: LTO-IR of a kernel to machine code or PTX, with its registers and spills."""

from __future__ import annotations

import re

from cuda.bindings import nvjitlink

from .cuda_binary import CudaBinary, architecture


class UnlinkableError(RuntimeError):
    """nvJitLink refused; the message is its log."""


def link(ltoir: bytes, cc: tuple[int, int]) -> CudaBinary:
    """LTO-IR to machine code. (Never by way of PTX, which links as relocatable code.)"""
    # Where there is a driver, nvJitLink keeps results in ~/.nv and then logs nothing: no registers, no kernel's name.
    options = [f"-arch={architecture(cc)}", "-lto", "-verbose", "-Xptxas=-v", "-no-cache"]
    code, log = _link(ltoir, options, "cubin")
    log = log.replace("\0", "").strip()
    function = re.search(r"Function properties for '?([\w$.]+)'?", log)
    registers = re.search(r"Used (\d+) registers", log)
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    shared = re.search(r"(\d+) bytes smem", log)
    if function is None or registers is None:
        raise UnlinkableError(f"the linker's log names no kernel:\n{log}")
    return CudaBinary(
        code,
        function.group(1),
        int(registers.group(1)),
        sum(map(int, spills.groups())) if spills else 0,
        int(shared.group(1)) if shared else 0,
        log,
    )


def ptx(ltoir: bytes, cc: tuple[int, int]) -> str:
    """The PTX of LTO-IR, to look at."""
    code, _ = _link(ltoir, [f"-arch={architecture(cc)}", "-lto", "-ptx"], "ptx")
    return code.decode().rstrip("\0")


def ptx_and_cubin(ltoir: bytes, cc: tuple[int, int]) -> tuple[str, bytes]:
    """(PTX, machine code) of LTO-IR whose instructions know their lines, both with the lines."""
    options = [f"-arch={architecture(cc)}", "-lto", "-lineinfo"]
    text, _ = _link(ltoir, [*options, "-ptx"], "ptx")
    code, _ = _link(ltoir, [*options, "-no-cache"], "cubin")
    return text.decode().rstrip("\0"), code


def _link(ltoir: bytes, options: list[str], kind: str) -> tuple[bytes, str]:
    linker = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(linker, nvjitlink.InputType.LTOIR, ltoir, len(ltoir), "kernel")
        nvjitlink.complete(linker)
        size = getattr(nvjitlink, f"get_linked_{kind}_size")(linker)
        code = bytearray(size)
        getattr(nvjitlink, f"get_linked_{kind}")(linker, code)
        return bytes(code), _log(linker, "info")
    except nvjitlink.nvJitLinkError as error:
        raise UnlinkableError(_log(linker, "error") or str(error)) from error
    finally:
        nvjitlink.destroy(linker)


def _log(linker: int, kind: str) -> str:
    text = bytearray(getattr(nvjitlink, f"get_{kind}_log_size")(linker))
    if text:
        getattr(nvjitlink, f"get_{kind}_log")(linker, text)
    return text.decode(errors="replace").rstrip("\0")
