"""The error classes: every fault of a program, a call or a compilation, with a caret under the expression at fault."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import ParamSpec, TypeVar

from .source_caret import line_and_column, underlined

P = ParamSpec("P")
T = TypeVar("T")


class FusedslError(Exception):
    """Base of every error that fusedsl raises.

    `code` is a stable dotted name (`shape.broadcast`). `span` are the offsets (start, end) in `text` of the expression
    at fault, underlined `~`; `caret` is the offset of the exact position, marked `^`, and `column` its 1-based column.
    `note` follows the underline, `help` is a line of its own. `inside` are the positions in called functions where the
    fault arose, outermost first; `others` are further faults of the same program.

    A fault of a call itself has no span, and `column` is then None.
    """

    default_code = "error"

    def __init__(
        self,
        message: str,
        code: str | None = None,
        text: str | None = None,
        span: tuple[int, int] | None = None,
        caret: int | None = None,
        note: str | None = None,
        help: str | None = None,
        others: Iterable[FusedslError] = (),
        inside: Iterable[str] = (),
    ) -> None:
        message, note, help = singular(message), note and singular(note), help and singular(help)
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.text = text
        if span is None and caret is not None:
            span = (caret, caret + 1)
        self.span = span
        self.caret = span[0] if caret is None and span is not None else caret
        self.note = note
        self.help = help
        self.others = tuple(others)
        self.inside = tuple(inside)

    @property
    def column(self) -> int | None:
        """The 1-based column of the caret in its line; None without a span."""
        return None if self.caret is None else line_and_column(self.text or "", self.caret)[1]

    @property
    def line(self) -> int | None:
        """The 1-based line of the caret; None without a span."""
        return None if self.caret is None else line_and_column(self.text or "", self.caret)[0]

    def __str__(self) -> str:
        public = next(kind for kind in type(self).__mro__ if kind.__module__ == __name__)
        lines = [f"fusedsl.{public.__name__}[{self.code}]: {self.message}"]
        if self.text is not None and self.span is not None and self.caret is not None:
            lines += underlined(self.text, self.span, self.caret, self.note)
        else:
            lines += ["  note: " + self.note.replace("\n", "\n        ")] if self.note else []
        lines += [f"  inside {position}" for position in self.inside]
        lines += ["  help: " + self.help.replace("\n", "\n        ")] if self.help else []
        for other in self.others:
            position = f"line {other.line}, column {other.column}: " if other.column else ""
            lines.append(f"  also: {position}{other.message}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from .error_html import error_html

        return error_html(str(self))


class ParseError(FusedslError, ValueError):
    """The program does not follow the grammar of the language."""

    default_code = "parse"


class UnknownNameError(FusedslError, NameError):
    """A function, value or keyword that nothing defines; the help line suggests the nearest known name."""

    default_code = "name"


class ArgumentError(FusedslError, TypeError):
    """A missing, surplus or malformed argument, of a function in a program or of a call from Python."""

    default_code = "argument"


class DTypeError(FusedslError, TypeError):
    """An operation that has no meaning for these element types, or a number that does not fit one."""

    default_code = "dtype"


class ShapeError(FusedslError, ValueError, IndexError):
    """Shapes that do not broadcast, an axis or a static index out of range, a reshape that does not add up."""

    default_code = "shape"


class TraceError(FusedslError, TypeError):
    """A traced Python function asked an array for something that only exists once the kernel has run."""

    default_code = "trace"


class LimitError(FusedslError, ValueError):
    """A program, literal, nesting, graph or result larger than its limit (see the `limits` option)."""

    default_code = "limit"


class MemoryLimitError(LimitError, MemoryError):
    """Results, temporaries or what the interpreter holds would take more memory than there is."""

    default_code = "limit.memory"


class DeviceError(FusedslError, RuntimeError):
    """Arrays of different libraries or devices in one call, or a device that is not there."""

    default_code = "device"


class FusionError(FusedslError, RuntimeError):
    """More kernels would be emitted than `max_kernels` allows; the message names the refused merges."""

    default_code = "fusion"


class CompileError(FusedslError, RuntimeError):
    """A generated kernel did not compile or load; the message names the generated file."""

    default_code = "compile"


class Unsupported(FusedslError, NotImplementedError):
    """Known by name, but not supported."""

    default_code = "unsupported"


def not_installed(fault: ImportError) -> CompileError:
    """The error for a compiler, or a part of it, that is not installed."""
    name = re.sub(r"^(numba_)?cuda$", "numba-cuda", (fault.name or str(fault)).partition(".")[0])
    help = "pip install 'fusedsl[cu13]' (or cu12); no GPU is needed to compile for one; see python -m fusedsl doctor"
    if name in ("lark", "llvmlite", "numba"):
        help = f"pip install {name}; a machine without it runs kernels that another one has saved (fusedsl.load)"
    return CompileError(f"the compiler needs {name}, which is not installed", "compile.missing", help=help)


def caller_stacklevel() -> int:
    """The `stacklevel` with which a warning of the caller's points at the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith((PACKAGE, "<fusedsl", functools.__file__)):
        frame, level = frame.f_back, level + 1
    return level


def trimmed(fault: FusedslError) -> FusedslError:
    """A fault with the traceback frames of the user's files alone, unless FUSEDSL_DEBUG is set."""
    if _folds():
        fault.__traceback__ = _user_frames(fault.__traceback__)
    return fault


def fold(fault: BaseException) -> bool:
    """Whether a bare `raise` of this fault now shows the user's frames alone; else it has to be raised `trimmed`.

    Before Python 3.11 a bare `raise` shows the frames that there were, whatever `__traceback__` is. An exception that
    is not of this package keeps its frames unless it came from the user's code.
    """
    if sys.version_info < (3, 11):
        return not isinstance(fault, FusedslError)
    if _folds():
        frames = _user_frames(fault.__traceback__)
        unfit = getattr(fault.__traceback__, "tb_next", None) is None  # arguments that the function does not take
        if frames is not None or unfit or isinstance(fault, (FusedslError, OSError)):
            fault.__traceback__ = frames
    fault.__suppress_context__ |= isinstance(fault, FusedslError)
    return True


def _folds() -> bool:
    return not os.environ.get("FUSEDSL_DEBUG", "").strip("0 ")


def public_api(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates a public function: its faults are raised `trimmed`."""

    @functools.wraps(function)
    def public(*args: P.args, **named: P.kwargs) -> T:
        try:
            return function(*args, **named)
        except FusedslError as fault:
            if fold(fault):
                raise
            raise trimmed(fault) from fault.__cause__
        except Exception as fault:
            fold(fault)
            raise

    return public


def _user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package, and of what calls it back."""
    frames: list[TracebackType] = []
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        frames += [] if is_package_file(file) or _is_stdlib_file(file) or PARSER in file else [traceback]
        traceback = traceback.tb_next
    trimmed_traceback = None
    for frame in reversed(frames):
        trimmed_traceback = TracebackType(trimmed_traceback, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return trimmed_traceback


PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
PARSER = os.sep + "lark" + os.sep  # its files call the actions of the grammar
LIBRARY = os.path.dirname(os.__file__) + os.sep


def is_package_file(file: str) -> bool:
    """Whether a file belongs to this package, or was generated by it."""
    return file.startswith((PACKAGE, "<fusedsl"))


_COUNTED = re.compile(
    r"(?<![\w.,×-])(?<!× )1 (argument|array|block|byte|call|character|channel|column|count|dimension|element|extent|"
    r"function|indice|input|kernel|launche?|letter|name|number|operand|operation|output|pair|parameter|place|product|"
    r"register|result|row|shift|slot|stride|thread|vector|width|axe|entrie)s\b"
)
_SINGULAR = {"indice": "index", "axe": "axis", "launche": "launch", "entrie": "entry"}


def singular(text: str) -> str:
    """A message with nouns in the singular after counts of one.

    >>> singular("3 outputs for 1 results"), singular("1 axes and 11 threads")
    ('3 outputs for 1 result', '1 axis and 11 threads')
    """
    return _COUNTED.sub(lambda match: f"1 {_SINGULAR.get(match[1], match[1])}", text) if "1 " in text else text


def _is_stdlib_file(file: str) -> bool:
    """Whether a file belongs to Python's own library, which the package calls on the way."""
    return file.startswith((LIBRARY, "<frozen")) and "site-packages" not in file


def kind_of(value: object) -> str:
    """`a list`, `an int`, `None`: the class of a value, for messages."""
    name = type(value).__name__
    return "None" if value is None else f"a{'n' * name.lower().startswith(('a', 'e', 'i', 'o', 'nd'))} {name}"


def suggest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was probably meant to be, or None.

    >>> suggest("tahn", ["tan", "tanh", "sin"])
    'tanh'
    >>> suggest("epsilon", ["axis", "eps", "weight"])
    'eps'
    >>> suggest("frobnicate", ["concat", "eps"]) is None
    True
    """
    best, best_score = None, 0.0
    for candidate in sorted(set(candidates)):
        score = _similarity(name.lower(), candidate.lower())
        enough = 0.6 if name.startswith(candidate) or candidate.startswith(name) else 0.68
        if score >= enough and score > best_score:
            best, best_score = candidate, score
    return best


def _similarity(name: str, candidate: str) -> float:
    if name == candidate:
        return 1.0
    if sorted(name) == sorted(candidate):  # swapped letters: difflib alone counts a swap as two edits
        return 0.95
    from difflib import SequenceMatcher

    return SequenceMatcher(None, name, candidate).ratio()
