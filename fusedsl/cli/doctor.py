"""`doctor`: checks versions, devices and the cache, compiles a kernel for each target, and says how to fix problems."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

NEEDED = ("numpy", "numba", "llvmlite", "lark", "ml_dtypes", "platformdirs")
OPTIONAL = {
    "numba-cuda": "compiles for NVIDIA GPUs: pip install 'fusedsl[cu13]' (or cu12)",
    "nvidia-nvjitlink": "links CUDA kernels; comes with the cu13 and cu12 extras",
    "cuda-core": "comes with the cu13 and cu12 extras",
    "cupy": "arrays on the GPU: pip install cupy-cuda13x (or cupy-cuda12x)",
    "torch": "tensors as arguments: pip install torch",
}
SPELLINGS = {
    "cupy": ("cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x"),
    "nvidia-nvjitlink": ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12", "nvidia-nvjitlink-cu13"),
}
MARKS = {"ok": "ok     ", "problem": "PROBLEM", "note": "-      "}
LONGEST = 120  # timeout of a check in seconds

CPU_CHECK = """
import numpy as np, fusedsl as fd
x = np.linspace(-1, 1, 1000, dtype="float32")
assert abs(fd.evaluate("sum(x * x + 1)", x=x, device="cpu", fallback=False) - (x * x + 1).sum()) < 1e-2
"""
CUDA_CHECK = """
import fusedsl as fd
x = fd.spec((1000,), "float32")
print(fd.kernel("x * x + 1", fallback=False).resources(x, cc={cc})[0].figures.registers, "registers")
"""
GPU_CHECK = """
import numpy as np, fusedsl as fd
x = np.linspace(-1, 1, 1000, dtype="float32")
assert np.allclose(fd.evaluate("x * x + 1", x=x, device="cuda", fallback=False), x * x + 1)
"""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    mark: str  # "ok", "note" or "problem"
    about: str
    found: str
    help: str = ""

    def __str__(self) -> str:
        line = f"{MARKS[self.mark]}  {self.about:<22}{self.found}"
        return line + (f"\n{'':9}{'':22}-> {self.help}" if self.help else "")


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `doctor`."""
    parser.add_argument("--no-compile", action="store_true", help="versions only: compile nothing")


def run(chosen: argparse.Namespace) -> int:
    """Print the findings; exit code 1 if there is a problem."""
    problems = 0
    for finding in findings(compile=not chosen.no_compile):
        print(finding, flush=True)
        problems += finding.mark == "problem"
    print(f"\n{problems} problem{'s' * (problems != 1)}" if problems else "\nall is well")
    return 1 if problems else 0


def findings(compile: bool = True) -> Iterator[Finding]:
    """All findings, yielded as they are computed."""
    yield from system()
    yield from packages()
    yield from clashes(version("numpy"), version("numba-cuda"))
    gpus = list(devices())
    yield from gpus
    yield cache()
    if compile:
        present = any(g.mark == "ok" and g.about.startswith("GPU") for g in gpus)
        yield from checks(present)


# -- versions


def version(name: str) -> str | None:
    """The installed version of a distribution, under any of its names."""
    for spelling in SPELLINGS.get(name, (name,)):
        try:
            return importlib.metadata.version(spelling)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def system() -> Iterator[Finding]:
    """Python and the package itself."""
    from .. import __version__, config

    yield Finding("ok", "fusedsl", __version__)
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {config.num_threads()} threads"
    old = sys.version_info < (3, 10)
    yield Finding("problem" if old else "ok", "python", python, "Python 3.10 or newer is needed" if old else "")


def packages() -> Iterator[Finding]:
    """Required packages, then optional ones."""
    for name in NEEDED:
        installed = version(name)
        yield (
            Finding("ok", name, installed) if installed else Finding("problem", name, "missing", f"pip install {name}")
        )
    for name, use in OPTIONAL.items():
        installed = version(name)
        yield Finding("ok", name, installed) if installed else Finding("note", name, "not installed", use)


def clashes(numpy: str | None, numba_cuda: str | None) -> Iterator[Finding]:
    """Known incompatible versions: numba-cuda 0.30 uses np.row_stack, which NumPy 2.5 removed."""
    if numpy is None or numba_cuda is None or _parts(numpy) < (2, 5) or _parts(numba_cuda) >= (0, 31):
        return
    message = f"numba-cuda {numba_cuda} does not work with NumPy {numpy} (np.row_stack is gone)"
    yield Finding("problem", "numpy, numba-cuda", message, "pip install 'numpy<2.5', or a newer numba-cuda")


def _parts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


# -- the machine


def devices() -> Iterator[Finding]:
    """The driver and its GPUs; without them kernels run on the CPU, but still compile for GPUs."""
    from ..errors import FusedslError
    from ..runtime.driver import driver

    try:
        count = driver().device_count()
        yield Finding("ok", "NVIDIA driver", f"CUDA {_driver_version()}, {count} GPU{'s' * (count != 1)}")
        for k in range(count):
            gpu = driver().facts(k)
            description = f"{gpu.name}, compute capability {gpu.cc[0]}.{gpu.cc[1]}, {gpu.memory / 1e9:.0f} GB"
            old = gpu.cc < (7, 5)
            yield Finding("note" if old else "ok", f"GPU {k}", description, "too old: 7.5 is the oldest" if old else "")
    except FusedslError as fault:
        missing = fault.code == "device.none"
        message = "none: kernels run on the CPU" if missing else fault.message
        yield Finding("note" if missing else "problem", "NVIDIA driver", message, "" if missing else fault.help or "")


def _driver_version() -> str:
    from ctypes import byref, c_int

    from ..runtime.driver import driver

    number = c_int()
    driver().call("cuDriverGetVersion", byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def cache() -> Finding:
    """The cache folder, and whether it is usable."""
    import warnings

    from ..report.units import bytes_text
    from ..runtime.cache import Cache

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        disk_cache = Cache()
        entries = disk_cache.list()
    if caught:
        help = "chmod 700 it, or set FUSEDSL_CACHE_DIR to a folder of your own"
        return Finding("problem", "cache", str(caught[0].message), help)
    size = bytes_text(sum(e.size for e in entries))
    return Finding("ok", "cache", f"{disk_cache.folder}: {len(entries)} entries, {size}")


# -- compiling


def checks(gpu: bool) -> Iterator[Finding]:
    """A small kernel on the CPU, for CUDA, and on the GPU, each compiled in a process of its own, without the cache."""
    yield attempt("CPU kernels", CPU_CHECK, "compiled and ran")
    if version("numba-cuda") is None:
        needed = Finding("problem", "CUDA kernels", "a GPU is there, numba-cuda is not", OPTIONAL["numba-cuda"])
        yield needed if gpu else Finding("note", "CUDA kernels", "not checked: numba-cuda is not installed")
        return
    for cc in (80, 90):
        yield attempt(f"CUDA kernels sm_{cc}", CUDA_CHECK.format(cc=cc), "compiled")
    if gpu:
        yield attempt("GPU kernels", GPU_CHECK, "compiled and ran")


def attempt(about: str, code: str, done: str) -> Finding:
    """Run code in a subprocess with an empty cache; a crash of a compiler becomes a finding."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
        paths += [p for p in (os.environ.get("PYTHONPATH"),) if p]
        environment = os.environ | {"FUSEDSL_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, "-c", code]
        try:
            process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return Finding("problem", about, f"not done after {LONGEST} s", "see whether the machine is overloaded")
    seconds = time.perf_counter() - start
    if process.returncode == 0:
        output = f", {process.stdout.strip()}" if process.stdout.strip() else ""
        return Finding("ok", about, f"{done} in {seconds:.1f} s, imports included{output}")
    return Finding("problem", about, *_error_summary(process.stderr, process.returncode))


def _error_summary(stderr: str, code: int) -> tuple[str, str]:
    """(last line of a traceback, help line of our error)."""
    lines = stderr.strip().splitlines() or [f"the process ended with code {code}"]
    ours = [k for k, line in enumerate(lines) if re.match(r"fusedsl\.errors\.\w+: ", line)]
    if not ours:
        return lines[-1], "see the packages above"
    message = lines[ours[-1]].partition(": ")[2]
    help = [line.partition("help:")[2].strip() for line in lines[ours[-1] :] if line.startswith("  help:")]
    return message, " ".join(help)
