"""The options of a kernel, as one frozen value, and the few environment knobs (read here and nowhere else)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

from . import foreign_options
from .errors import ArgumentError, kind_of, public_api, suggest


@dataclass(frozen=True)
class Limits:
    """Limits of a program and its graph; exceeding one is a LimitError."""

    text: int = 65536  # bytes of UTF-8
    nesting: int = 256
    literal: int = 32  # characters
    operations: int = 4096
    arrays: int = 64
    dimensions: int = 32
    exponent: int = 1024  # of a power that is folded at compile time
    bits: int = 64  # of a folded integer

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if type(value) is not int or value < 1:
                what = f"limit {limit.name} is {value!r}"
                raise ArgumentError(what, "argument.option", help="use a positive integer")


TENSOR_FLOAT = ("tf32", "3xtf32")  # how tensor cores multiply float32
LIMIT_NAMES = tuple(f.name for f in fields(Limits))


@dataclass(frozen=True)
class Options:
    """The options of a kernel; frozen, hashable, and fixed when the kernel is made.

    fastmath: the hardware's approximations on CUDA. max_kernels: FusionError when more would be emitted. rounding:
    "store" rounds narrow floats once, "op" after each operation. matmul: "exact", "tf32" if products may be rounded
    so, "3xtf32" if they may be as far off as twice float32's own bound, or "library" if the arrays' own library
    computes every product that it can. autotune: try schedules on first use. device: the device on which NumPy arrays
    are computed. deterministic: True, "batch" for bits that do not depend on other rows, or False if scatters on CUDA
    may add floats in any order. verify: compare with the reference interpreter. fallback: interpret what no kernel can
    do yet. dynamic: on CUDA, False compiles for each class of lengths, True for lengths in general, None specialises
    for the first ones (runtime/specialize.py). fp_contract: a product that a sum reads may enter it unrounded, as a
    multiply-add. bounds: the value of an element whose index is out of range: "zero" (0, NaN of floats), or on the CPU
    "raise". limits: a Limits, or a mapping of the ones to change.
    """

    fastmath: bool = False
    max_kernels: int | None = None
    rounding: str = "store"
    matmul: str = "exact"
    autotune: bool = False
    device: str | None = None
    deterministic: bool | str = True
    verify: bool = False
    fallback: bool = True
    dynamic: bool | None = None
    fp_contract: bool = True
    bounds: str = "zero"
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.limits is None:
            object.__setattr__(self, "limits", Limits())
        elif isinstance(self.limits, Mapping):
            _check_names(self.limits, LIMIT_NAMES, "limit")
            object.__setattr__(self, "limits", Limits(**self.limits))
        for name, (accepts, form) in _ACCEPTED.items():
            value = getattr(self, name)
            if not accepts(value):
                raise _invalid_option(name, value, form)

    @property
    def batch_invariant(self) -> bool:
        """Whether a row's bits must not depend on other rows."""
        return self.deterministic == "batch"

    @property
    def tunes(self) -> bool:
        """Whether schedules are tried: those of rows in batches are fixed by their length."""
        return self.autotune and not self.batch_invariant

    def changed(self, changes: Mapping[str, Any]) -> Options:
        """These options with `changes`; ArgumentError for an unknown name or a value that has no meaning."""
        if not changes:
            return self
        _check_names(changes, OPTION_NAMES, "option")
        limits = changes.get("limits")
        if isinstance(limits, Mapping):
            _check_names(limits, LIMIT_NAMES, "limit")
            changes = {**changes, "limits": replace(self.limits, **limits)}
        return replace(self, **changes)


class OptionChanges(TypedDict, total=False):
    """The options as keywords, for type checkers: those of Options, each by what it accepts."""

    fastmath: bool
    max_kernels: int | None
    rounding: Literal["store", "op"]
    matmul: Literal["exact", "tf32", "3xtf32", "library"]
    autotune: bool
    device: str | None
    deterministic: Literal[True, False, "batch"]
    fp_contract: bool
    bounds: Literal["zero", "raise"]
    verify: bool
    fallback: bool
    dynamic: bool | None
    limits: Limits | Mapping[str, int] | None


_DEVICE = re.compile(r"cpu|cuda(:\d{1,3})?")


def _flag(value: object) -> bool:
    return value is True or value is False


def _one_of(*choices: object):
    return lambda value: any(value is choice or (type(value) is str and value == choice) for choice in choices)


_FLAG = (_flag, "True or False")
_ACCEPTED = {
    "fastmath": _FLAG,
    "max_kernels": (lambda v: v is None or (type(v) is int and v >= 1), "None or an integer of at least 1"),
    "rounding": (_one_of("store", "op"), '"store" or "op"'),
    "matmul": (_one_of("exact", *TENSOR_FLOAT, "library"), '"exact", "tf32", "3xtf32" or "library"'),
    "autotune": _FLAG,
    "device": (
        lambda v: v is None or (isinstance(v, str) and bool(_DEVICE.fullmatch(v))),
        'None, "cpu", "cuda" or "cuda:1"',
    ),
    "deterministic": (_one_of(True, False, "batch"), 'True, False or "batch"'),
    "verify": _FLAG,
    "fallback": _FLAG,
    "dynamic": (lambda v: v is None or _flag(v), "None, True or False"),
    "fp_contract": _FLAG,
    "bounds": (_one_of("zero", "raise"), '"zero" or "raise"'),
    "limits": (lambda v: isinstance(v, Limits), f"a mapping of {', '.join(LIMIT_NAMES)}"),
}

OPTION_NAMES = tuple(f.name for f in fields(Options))


def _invalid_option(name: str, value: object, form: str) -> ArgumentError:
    """The error for an invalid option value; an array is more likely an argument of the same name."""
    if hasattr(value, "shape") or isinstance(value, (list, tuple)):
        help = f'{name} is {form}; pass an array of this name in a mapping: evaluate(expression, {{"{name}": {name}}})'
        return ArgumentError(f"option {name} is {kind_of(value)}", "argument.option", help=help)
    return ArgumentError(f"option {name} is {value!r}", "argument.option", help=f"{name} is {form}")


def _check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    known = tuple(known)
    for name in given:
        if name not in known:
            near = suggest(str(name), known)
            hint = f"did you mean {near}?" if near else f"the {what}s are {', '.join(known)}"
            hint = foreign_options.OPTIONS.get(name, hint) if what == "option" else hint
            raise ArgumentError(f"there is no {what} {name!r}", "argument.option", help=hint)


DEFAULT = Options()
_current: ContextVar[Options] = ContextVar("fusedsl_options", default=DEFAULT)


def current() -> Options:
    """The options in force in this thread or task."""
    return _current.get()


class options:
    """`with options(fastmath=True): ...`: options for every kernel made inside, in this thread or task only.

    Blocks nest, and inner blocks keep what they do not mention. `as` gives the options in force inside.

    >>> import fusedsl as fd
    >>> with fd.options(fastmath=True), fd.options(max_kernels=1) as chosen:
    ...     chosen.fastmath, chosen.max_kernels
    (True, 1)
    """

    @public_api
    def __init__(self, **changes: Unpack[OptionChanges]) -> None:
        DEFAULT.changed(changes)  # refuse a bad value here, not at the `with`
        self.changes = changes
        self.tokens: list[Token[Options]] = []

    def __enter__(self) -> Options:
        chosen = current().changed(self.changes)
        self.tokens.append(_current.set(chosen))
        return chosen

    def __exit__(self, *fault: object) -> None:
        _current.reset(self.tokens.pop())


def split_options(keywords: Mapping[str, Any]) -> tuple[tuple[tuple[str, Any], ...], dict[str, Any]]:
    """The options among `keywords` with their values, and the keywords that are not options.

    A keyword spelled like an option is the option.
    """
    changes = tuple([(name, keywords[name]) for name in OPTION_NAMES if name in keywords])
    return changes, {name: value for name, value in keywords.items() if name not in OPTION_NAMES}


# ---- the environment


def cache_dir() -> Path:
    """FUSEDSL_CACHE_DIR, else the platform's folder for caches of this user."""
    named = os.environ.get("FUSEDSL_CACHE_DIR")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("fusedsl", appauthor=False))


_chosen: dict[str, int | None] = {}  # what the process has set instead of environment variables


def choose(variable: str, value: int | None) -> None:
    """Set what an environment variable says otherwise; None for what it says."""
    _chosen[variable] = value


MOST_CACHED = 999_999  # programs, or megabytes


def cache_size() -> int:
    """FUSEDSL_CACHE_SIZE: how many programs are kept in memory, and how many kernels; 512 unless set."""
    return _environment_number("FUSEDSL_CACHE_SIZE", 512, 1, MOST_CACHED)


def cache_megabytes() -> int:
    """FUSEDSL_CACHE_MB: how much the cache folder may hold, in megabytes of files; 512 unless set, 0 for no limit."""
    return _environment_number("FUSEDSL_CACHE_MB", 512, 0, MOST_CACHED)


def debug_level() -> int:
    """FUSEDSL_DEBUG: 0 silent, then kernels, decisions, the graph after each pass, source, rewrites."""
    return _environment_number("FUSEDSL_DEBUG", 0, 0, 5)


def verify_level() -> int:
    """FUSEDSL_VERIFY: 1 if every new plan is verified, 2 (the option `verify`) if also compared with its graph."""
    return _environment_number("FUSEDSL_VERIFY", 0, 0, 2)


def launch_graphs() -> bool:
    """FUSEDSL_GRAPHS: 0 if repeated calls must not become CUDA graphs, which some profilers show as one launch."""
    return _environment_number("FUSEDSL_GRAPHS", 1, 0, 1) == 1


def shows_progress() -> bool:
    """FUSEDSL_PROGRESS: 0 if no terminal must show the progress of long first calls."""
    return _environment_number("FUSEDSL_PROGRESS", 1, 0, 1) == 1


def marks_ranges() -> bool:
    """FUSEDSL_NVTX: 1 if calls and compilations are NVTX ranges."""
    return _environment_number("FUSEDSL_NVTX", 0, 0, 1) == 1


MAX_THREADS = 4096


def num_threads() -> int:
    """The chosen number, else FUSEDSL_NUM_THREADS, else the processors that this process may run on."""
    present = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _environment_number("FUSEDSL_NUM_THREADS", present, 1, MAX_THREADS)


def _environment_number(name: str, default: int, low: int, high: int) -> int:
    if (chosen := _chosen.get(name)) is not None:
        return chosen
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or not low <= int(text) <= high:
        raise ArgumentError(f"{name} is {text!r}", "argument.environment", help=f"set it to {low}..{high}")
    return int(text)
