"""A kernel that is missing in a file: the error of the call, or if compilers are installed, a line in the log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from ..backends.cpu.processor import obstacle
from ..errors import DeviceError, DTypeError, FusedslError, ShapeError
from ..ir.dims import Symbol
from ..ir.graph import Parameter
from ..runtime.arrays import ArrayFacts, Weak
from .saved import SavedFile, SavedPlan

COMPILERS = ("lark", "llvmlite")  # needed to compile for the CPU
CUDA_COMPILERS = (*COMPILERS, "numba", "numba_cuda")
LETTERS = "nmkpqrstuvw"  # stand for extents
NUMBERS = {"b": "a Python bool", "i": "a Python int", "f": "a Python float"}

Arguments = Sequence["ArrayFacts | Weak"]


def compile_instead(saved: SavedFile, fault: FusedslError, on_cpu: bool) -> None:
    """Log that a missing kernel is compiled; raises the fault if no compiler is installed, or none may be used."""
    if not saved.compiles or not _installed(COMPILERS if on_cpu else CUDA_COMPILERS):
        raise fault
    _log_once(f"{fault.message}: compiling one")


@cache
def _installed(names: tuple[str, ...]) -> bool:
    try:
        for name in names:
            import_module(name)
    except ImportError:
        return False
    return True


@cache
def _log_once(line: str) -> None:
    """One line in the log, the first time."""
    import logging

    logging.getLogger("fusedsl").warning(line)


# -- no plan


def no_plan(saved: SavedFile, parameters: Sequence[Parameter], arguments: Arguments, on_cpu: bool) -> FusedslError:
    """The error for arguments of a signature that a file has no plan for, on one kind of device."""
    plans = [each for each in saved.plans if each.on_cpu is on_cpu]
    if not plans:
        return _no_target(saved, on_cpu)
    own = plans[0].plan.parameters
    differing = [k for k, pair in enumerate(zip(own, parameters)) if not _alike(*pair)]
    typed = [k for k in differing if _kind(own[k]) != _kind(parameters[k])]
    if not differing:
        return _no_lengths(saved, arguments)
    chosen = typed or differing
    named = len(own) > 1
    passed = ", ".join(_spelled(arguments[k], own[k].name if named else "") for k in chosen)
    saved_patterns = ", ".join(_pattern(plans[0], k, named) for k in chosen)
    message = f"{saved.name} has no kernel for {passed}; it has {saved_patterns}"
    if typed:
        return DTypeError(message, "file.dtype", help=_other_dtypes([own[k] for k in typed], arguments))
    return ShapeError(message, "file.shape", help=f"save one for them too: {_specs(arguments)}")


def _alike(own: Parameter, other: Parameter) -> bool:
    """Whether an argument is of the kind that a plan is for; unit extents are a kind of their own."""
    ones = [(d == 1) is (e == 1) for d, e in zip(own.type.shape, other.type.shape)]
    return _kind(own) == _kind(other) and own.type.rank == other.type.rank and all(ones)


def _kind(p: Parameter) -> tuple:
    return p.type.dtype, p.type.weak, p.scalar


def _other_dtypes(own: Sequence[Parameter], arguments: Arguments) -> str:
    """The help for arguments that `own` parameters take in other dtypes."""
    wanted: dict[str, list[str]] = {}
    for p in own:
        wanted.setdefault(_number(p) if p.scalar and p.type.weak else str(p.type.dtype), []).append(p.name)
    ways = ", ".join(f"{' and '.join(names)} as {dtype}" for dtype, names in wanted.items())
    return f"pass {ways}, or save a kernel for these: {_specs(arguments)}"


def _specs(arguments: Arguments) -> str:
    each = (f'fd.spec({a.shape}, "{a.dtype}")' if isinstance(a, ArrayFacts) else repr(a.value) for a in arguments)
    return f"kernel.save(path, {', '.join(each)})"


# -- a plan, but no machine code


def no_code(saved: SavedFile, arguments: Arguments, cc: tuple[int, int] | None) -> FusedslError:
    """The error for a kernel with a plan but no machine code: on this CPU, or a compute capability."""
    if (cc is None and not saved.runnable) or (cc is not None and cc not in saved.capabilities):
        return _no_target(saved, cc is None, cc)
    return _no_lengths(saved, arguments)


def _no_lengths(saved: SavedFile, arguments: Arguments) -> ShapeError:
    """The error for arguments of a saved signature, with other lengths."""
    names = saved.names if len(saved.names) > 1 else ("",)
    passed = ", ".join(_spelled(a, name) for name, a in zip(names, arguments) if isinstance(a, ArrayFacts))
    help = f"save one for lengths like these too: {_specs(arguments)}"
    return ShapeError(f"{saved.name} has no kernel for lengths like {passed}", "file.shape", help=help)


def _no_target(saved: SavedFile, on_cpu: bool, cc: tuple[int, int] | None = None) -> DeviceError:
    """The error for a device without kernels in the file."""
    has = [f"compute capability {major}.{minor}" for major, minor in saved.capabilities]
    has += [str(processor) for processor in saved.processors]
    lacks = "this CPU" if on_cpu else f"compute capability {cc[0]}.{cc[1]}" if cc else "CUDA"
    why = [obstacle(processor) for processor in saved.processors] if on_cpu else []
    message = f"{saved.name} has kernels for {', '.join(has)}, none for {lacks}"
    target = '"cpu"' if on_cpu else f"[{cc[0]}{cc[1]}]" if cc else "[90]"
    return DeviceError("; ".join(filter(None, [message, *why])), "file.device",
                       help=f"save it with cc={target}: a file may hold several targets")  # fmt: skip


# -- arguments in words


def _spelled(a: ArrayFacts | Weak, name: str) -> str:
    text = NUMBERS[a.kind] if isinstance(a, Weak) else f"{a.dtype}{list(a.shape)}"
    return f"{name}: {text}" if name else text


def _pattern(saved: SavedPlan, k: int, named: bool) -> str:
    """A parameter of a plan, with letters for its extents."""
    p = saved.plan.parameters[k]
    dims = [d for each in saved.plan.parameters for d in each.type.shape if isinstance(d, Symbol)]
    letters = {d: LETTERS[n] if n < len(LETTERS) else str(d) for n, d in enumerate(dims)}
    shape = ", ".join(letters.get(d, str(d)) if isinstance(d, Symbol) else str(d) for d in p.type.shape)
    text = _number(p) if p.scalar and p.type.weak else f"{p.type.dtype}[{shape}]"
    return f"{p.name}: {text}" if named else text


def _number(p: Parameter) -> str:
    return NUMBERS[{"b": "b", "i": "i", "u": "i", "f": "f"}.get(p.type.dtype.kind, "f")]
