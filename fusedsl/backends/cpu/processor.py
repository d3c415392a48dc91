"""Target processors: architecture, LLVM features, cpuinfo flags, compatibility. Imports no compiler."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...errors import not_installed
from .vector_registers import VectorRegisters

# LLVM features that portable code may use, with their flag in /proc/cpuinfo if its name is different. Other features
# (hints, system instructions) are disabled in portable code.
X86_64 = """
64bit=lm cmov cx8 cx16 fxsr mmx sse sse2 sse3=pni ssse3 sse4.1=sse4_1 sse4.2=sse4_2 sse4a crc32=sse4_2 sahf=lahf_lm
popcnt movbe xsave avx avx2 fma f16c bmi=bmi1 bmi2 lzcnt=abm adx aes pclmul=pclmulqdq sha=sha_ni gfni vaes vpclmulqdq
avx512f avx512dq avx512cd avx512bw avx512vl avx512ifma avx512vbmi avx512vbmi2=avx512_vbmi2 avx512vnni=avx512_vnni
avx512bitalg=avx512_bitalg avx512vpopcntdq=avx512_vpopcntdq avx512bf16=avx512_bf16 avx512fp16=avx512_fp16
avx512vp2intersect=avx512_vp2intersect avxvnni=avx_vnni
"""
AARCH64 = """
fp-armv8=fp neon=asimd lse=atomics rdm=asimdrdm dotprod=asimddp crc=crc32 fullfp16=asimdhp fp16fml=asimdfhm bf16 i8mm
rcpc=lrcpc jsconv=jscvt complxnum=fcma aes sha2
"""
FLAGS = {
    architecture: {name: flag or name for name, _, flag in (word.partition("=") for word in text.split())}
    for architecture, text in (("x86_64", X86_64), ("aarch64", AARCH64))
}


@dataclass(frozen=True)
class Processor:
    """A target processor."""

    architecture: str  # as `uname -m`
    name: str  # LLVM's CPU name
    features: str = ""  # LLVM's feature string
    flags: tuple[str, ...] = ()  # flags of /proc/cpuinfo that a machine needs to run its code

    @property
    def tag(self) -> str:
        """The part of a binary's cache key that depends on the processor."""
        return f"{self.architecture}|{self.name}|{self.features}"

    @property
    def available(self) -> set[str]:
        """The features that its code may use, and the flags."""
        return {f[1:] for f in self.features.split(",") if f.startswith("+")} | set(self.flags)

    @property
    def converts_float16(self) -> bool:
        """Whether it has instructions that convert float16 from and to float32: of ARMv8, and of F16C on x86."""
        return self.architecture == "aarch64" or "f16c" in self.available

    @property
    def vectors(self) -> VectorRegisters:
        """Its vector registers."""
        available = self.available
        if "avx512f" in available:
            return VectorRegisters(64, 32)
        if "avx" in available:
            return VectorRegisters(32, 16)
        return VectorRegisters(16, 32 if available & {"neon", "asimd"} else 16)

    def __str__(self) -> str:
        return f"{self.name} ({self.architecture})"


# x86-64-v3: Intel from Haswell (2013), AMD from Excavator (2015) on; x86-64 psABI, section 3.1.1.
_V3 = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
X86_64_V3 = Processor("x86_64", "x86-64-v3", "", tuple(_V3.split()))
ARMV8 = Processor("aarch64", "generic", "+fp-armv8,+neon", ("fp", "asimd"))  # every 64-bit ARM server
BASELINES = {"x86_64": X86_64_V3, "aarch64": ARMV8}


@cache
def host() -> Processor:
    """This machine's processor, with all features; CompileError without llvmlite."""
    llvm = _llvm()
    return Processor(_architecture(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


@cache
def native() -> Processor:
    """This machine's processor, with the features that another machine can check in /proc/cpuinfo."""
    llvm, architecture = _llvm(), _architecture()
    names, available = FLAGS[architecture], llvm.get_host_cpu_features()
    used = [name for name, there in available.items() if there and name in names]
    features = ",".join(f"+{name}" if name in used else f"-{name}" for name in sorted(available))
    flags = tuple(sorted({names[name] for name in used}))
    return Processor(architecture, llvm.get_host_cpu_name(), features, flags)


def _architecture() -> str:
    """This machine's architecture in LLVM's notation: on Linux the same as `uname -m`."""
    return _llvm().get_process_triple().partition("-")[0]


def _llvm() -> Any:
    try:
        import llvmlite.binding as llvm
    except ImportError as missing:
        raise not_installed(missing) from None
    return llvm


@cache
def flags() -> frozenset[str]:
    """The flags of this machine's CPU in /proc/cpuinfo; empty without such a file."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                head, _, words = line.partition(":")
                if head.strip() in ("flags", "Features"):
                    return frozenset(words.split())
    except OSError:
        pass
    return frozenset()


def obstacle(processor: Processor) -> str | None:
    """Why this machine cannot run code for a processor; None if it can."""
    if sys.platform != "linux":
        return f"this system is {sys.platform}, and its code is for Linux"
    if os.uname().machine != processor.architecture:
        return f"this CPU is {os.uname().machine}, and its code is for {processor.architecture}"
    if processor.flags and not flags():
        return "the features of this CPU are unknown: /proc/cpuinfo cannot be read"
    lacking = [flag for flag in processor.flags if flag not in flags()]
    return f"this CPU lacks {', '.join(lacking)}, which {processor.name} has" if lacking else None
