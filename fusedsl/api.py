"""The public names: evaluate, kernel, Kernel, spec, options."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .config import OPTION_NAMES, Options, current, options, split_options
from .errors import ArgumentError, CompileError, Unsupported, suggest
from .program import Program
from .program.text import TextSource
from .runtime import dynamo
from .specs import Spec, spec

if TYPE_CHECKING:
    from .program.plans import Plans
    from .runtime.fixed import BoundCall
    from .runtime.graph import GraphCall

__all__ = ["Kernel", "Spec", "evaluate", "kernel", "options", "spec"]


class Kernel:
    """A program ready to be called. Made by `kernel`; reusable, picklable, thread-safe.

    Compiled once per signature (dtypes, ranks, which extents are 1); a new shape does not recompile. Arrays are given
    by position, in the order of `params`, or by name; `out=` is written in place and returned (a tuple for several
    results, None for those to allocate).
    """

    def __init__(
        self,
        text: str,
        params: Sequence[str] | str | None = None,
        constants: Mapping[str, Any] | None = None,
        chosen: Options | None = None,
    ):
        self._made_from = (text, params, constants)
        self._begin(TextSource(text, chosen if chosen is not None else current(), params, constants))

    def _begin(self, source: TextSource, plans: Plans | None = None, restored: tuple | None = None) -> None:
        """What every kernel has; one of a file has its plans, and what makes it again where it is unpickled."""
        self._source, self._restored = source, restored
        self.options, self.params = source.options, source.names
        self._count = len(self.params)
        dynamo.watch()
        self._program = Program(source, self.params, self.options, plans)
        self._positions = {name: k for k, name in enumerate(self.params)}

    @property
    def text(self) -> str:
        """The program as it was given."""
        return self._source.text

    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """The result (a tuple of several) for these arguments.

        Raises ArgumentError for missing, surplus or unusable arguments, ShapeError, DTypeError and DeviceError for
        those that do not go together; an error leaves `out` untouched.
        """
        values: Sequence[Any] = args if not named else self._bind(args, named)
        if not dynamo.reads():
            result = self._program.replay(values, out)
            if result is not None or (result := self._program.replay_other(values, out)) is not None:
                return result
        values = values if len(values) == self._count else self._bind(args, named)
        return self._call(values, None if out is None else self._outs(out))

    def _call(self, values: Sequence[Any], outs: Sequence[Any] | None) -> Any:
        """The result of a call that is not the one that was made last, or that torch traces."""
        torch = sys.modules.get("torch")
        if torch is not None and (torch.compiler.is_compiling() or dynamo.records()):
            return self._in_trace(values, outs)
        dynamo.watch()
        try:
            results = self._program.run(values, outs)
        except ArgumentError:
            from .trace.tracer import recorder_in

            if (recorder := recorder_in(values)) is not None and outs is None:
                return recorder.inlined(self.text, self._source.program, self.params, self._source.constants, values)
            if torch is not None and self._is_abstract(values):
                return self._in_trace(values, outs)
            raise
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def _is_abstract(values: Sequence[Any]) -> bool:
        """Whether some argument is a tensor of torch's that has no memory."""
        from .interop.torch_operator import is_abstract

        return any(map(is_abstract, values))

    def _in_trace(self, values: Sequence[Any], outs: Sequence[Any] | None) -> Any:
        """The results of a call that torch traces: it sees one operator."""
        from .interop.torch_operator import call

        results = call(self._program, values, outs)
        return results[0] if len(results) == 1 else tuple(results)

    def _outs(self, out: Any) -> Sequence[Any]:
        return out if isinstance(out, (tuple, list)) else (out,)

    def _bind(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The arguments in order; ArgumentError for what is missing, surplus or unknown."""
        signature = f"the kernel takes {', '.join(self.params) or 'no arguments'}"
        if len(args) > len(self.params):
            raise ArgumentError(
                f"{len(args)} arguments for {len(self.params)} parameters", "argument.count", help=signature
            )
        values = dict(zip(self.params, args))
        for name, value in named.items():
            if name not in self._positions:
                hint = f"{name} is an option: give it to kernel(...)" if name in OPTION_NAMES else None
                raise self._unused(name, hint, (), signature)
            if name in values:
                raise ArgumentError(f"{name} is given twice", "argument.twice", help="give it by position or by name")
            values[name] = value
        missing = [name for name in self.params if name not in values]
        if missing:
            help = self._missing_hint(missing) or signature
            raise ArgumentError(f"missing {', '.join(missing)}", "argument.missing", help=help)
        return [values[name] for name in self.params]

    def _missing_hint(self, missing: Sequence[str]) -> str | None:
        """What the text says of missing arguments, where there is a parser."""
        with contextlib.suppress(CompileError):
            from .lang.attention_call import unquoted_help

            return unquoted_help(self._source.program, missing)
        return None

    def _unused(self, name: str, hint: str | None, others: Sequence[str], otherwise: str) -> ArgumentError:
        """The error for an argument that the text does not read; `others` are keywords that it may have meant."""
        near = suggest(name, (*self.params, *others))
        with contextlib.suppress(CompileError):
            from .lang.attention_call import quoted

            hint = hint or quoted(self._source.program, name)
        hint = hint or (f"did you mean {near}?" if near else otherwise)
        return ArgumentError(f"the text does not read {name!r}", "argument.unused", help=hint)

    # -- looking inside: arguments are arrays, or specs that stand for them

    def explain(
        self,
        /,
        *args: Any,
        device: str | None = None,
        cc: Any = None,
        compile: bool = True,
        measure: bool = False,
        **named: Any,
    ):
        """What a call with these arguments launches, and why: an Explanation, whose `str()` is the text, `to_dict()`
        the data, and `mermaid()` and `dot()` diagrams.

        It is about the place where the arrays live (`device` option included); specs alone stand for arrays on CUDA
        with compute capability 9.0. `device="cpu"` or `"cuda"`, or `cc=80`, asks about another place. For CUDA the
        kernels are compiled, for real registers; `compile=False` leaves the predicted ones. Needs no GPU, unless
        `measure=True` asks for the time of each kernel: then it is about this machine, and runs them there on the
        arguments (specs are filled with random numbers), into memory of its own.

        Raises what a call would raise for the text, shapes and dtypes; ArgumentError for an unknown device or cc.
        """
        from .report.explain import explain

        return explain(self._program, self._bind(args, named), device, cc, compile, measure)

    def source(self, /, *args: Any, device: str | None = None, cc: Any = None, **named: Any) -> str:
        """The generated Python of every kernel in launch order, for the place that `explain` would speak of.

        Nothing is compiled, and neither a GPU nor Numba is needed.
        """
        from .report.explain import source

        return source(self._program, self._bind(args, named), device, cc)

    def resources(self, /, *args: Any, cc: Any = None, **named: Any):
        """Registers, spills, shared memory and occupancy of each CUDA kernel, from the real compiler; needs no GPU.

        `cc` is the compute capability (80, 90, 100); by default that of the arrays' GPU, else 90. The result is a
        tuple of KernelResources that prints as a table. CompileError where numba-cuda is missing.
        """
        from .report.explain import resources

        return resources(self._program, self._bind(args, named), cc)

    def compile(self, /, *args: Any, device: str | None = None, cc: Any = None, **named: Any) -> Kernel:
        """Compile now, into memory and the cache, what the first call with these arguments would compile.

        On a GPU it is loaded too, for which the driver waits until the GPU has done all that it was asked before.
        Specs alone stand for arrays of this machine: on its first GPU, or its CPU where it has none.
        """
        from .report.explain import compile_ahead

        compile_ahead(self._program, self._bind(args, named), device, cc)
        return self

    def bind(self, /, *args: Any, out: Any = None, **named: Any) -> BoundCall:
        """A function of nothing that computes this call again and again: on these arrays, whatever they hold by then.

        The results go to `out`, or to arrays that are made once: `bound.result`, which a call returns. Numbers keep
        the value that they have now. Compiles, and computes nothing yet; raises what the call would raise. It costs
        less than a call, since nothing about the arguments is looked at.

        >>> import numpy as np
        >>> x = np.float32([1, 2])
        >>> double = kernel("2 * x").bind(x)
        >>> x += 1
        >>> double()
        array([4., 6.], dtype=float32)
        """
        return self._program.bind(self._bind(args, named), None if out is None else self._outs(out))

    def graph(self, /, *args: Any, out: Any = None, **named: Any) -> GraphCall:
        """As `bind`, with its launches recorded in a CUDA graph: a call of it is one launch, however many kernels it
        has. `then` adds further kernels' calls. On the CPU it makes the calls in turn.

        Raises what `bind` would raise; ArgumentError where a call must copy arrays each time; DeviceError where calls
        are on several devices.

        >>> import numpy as np
        >>> x, y = np.float32([1, 2]), np.zeros(2, np.float32)
        >>> steps = kernel("x + 1").graph(x, out=y).then(kernel("2 * y"), y, out=y)
        >>> steps()
        array([4., 6.], dtype=float32)
        """
        from .runtime.graph import GraphCall

        return GraphCall((self.bind(*args, out=out, **named),))

    def report(
        self, path: Any, /, *args: Any, device: str | None = None, cc: Any = None, measure: bool = False, **named: Any
    ) -> None:
        """Write `explain` of these arguments as a page: one HTML file with a picture, every kernel and its source.

        The other arguments are those of `explain`. OSError where the file cannot be written.
        """
        from .files import named_file
        from .report.explain import explain, sources
        from .report.page import page

        file, values = named_file(path), self._bind(args, named)
        told = explain(self._program, values, device, cc, True, measure)
        file.write_text(page(told, sources(self._program, values, device, cc)), encoding="utf-8")

    def save(self, path: Any, /, *args: Any, cc: Any = (90,), **named: Any) -> None:
        """Compile for these arguments (arrays or specs) and write it all to one file, for `fusedsl.load`.

        `cc` lists targets: compute capabilities (80, 90, 100), "cpu" (on Linux, as this machine is: x86-64-v3, which
        has AVX2 and FMA, or AArch64) and "cpu-native" (all that this machine's CPU has). Code for the CPU serves the
        shapes and layouts of these dtypes and ranks, code for GPUs the shapes that need no other binary.

        Raises what a call would raise for the text, shapes and dtypes; CompileError where a compiler is missing;
        ArgumentError for an unknown target; Unsupported for the CPU outside of Linux; OSError where the file cannot be
        written.
        """
        from .aot.save import save

        text, params, constants = self._made_from
        called = {"text": text, "params": params, "constants": dict(constants or {})}
        save(path, called, self._program, self._bind(args, named), cc)

    def grad(self, wrt: Sequence[str] = ()):
        """Not there yet: Unsupported."""
        raise later("Kernel.grad", "write the backward pass as a text of its own")

    def __repr__(self) -> str:
        return f"<fusedsl.Kernel({', '.join(self.params)}): {' '.join(self.text.split())[:60]}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre><b>Kernel</b>({escape(', '.join(self.params))})\n{escape(self.text.strip())}</pre>"

    def __reduce__(self):
        return self._restored or (Kernel, (*self._made_from, self.options))


def kernel(
    text: str,
    params: Sequence[str] | str | None = None,
    constants: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Kernel:
    """A reusable kernel from a text; keywords are options.

    `params` fixes the order of the arrays; `constants` puts literals in for names: numbers, None, strings, tuples.

    >>> import numpy as np
    >>> silu_mul = kernel("g * sigmoid(g) * u")
    >>> silu_mul.params
    ('g', 'u')
    >>> silu_mul(np.float32([0, 1]), np.float32([1, 2]))
    array([0.       , 1.4621172], dtype=float32)

    Raises ParseError, LimitError for the text, ArgumentError for params, constants and options.
    """
    return Kernel(text, params, constants, current().changed(changes))


@lru_cache(maxsize=1024)
def remembered(text: str, chosen: Options) -> Kernel:
    """The kernel of a text, made once."""
    return Kernel(text, None, None, chosen)


def kernel_of(text: str, changes: tuple[tuple[str, Any], ...]) -> Kernel:
    """The kernel of a text under the options in force with these changes."""
    if dynamo.compiles():
        return getattr(_compiled, _named(text, changes))
    chosen = current().changed(dict(changes))
    return remembered(text, chosen) if isinstance(text, str) else Kernel(text, None, None, chosen)


class _Compiled:
    """Kernels of texts that torch.compile has met, as attributes: those it can read, and notice if they change."""


_compiled = _Compiled()


@dynamo.constant
def _named(text: str, changes: tuple[tuple[str, Any], ...]) -> str:
    """The attribute of `_compiled` that holds the kernel of a text."""
    made = remembered(text, current().changed(dict(changes)))
    name = f"kernel_{id(made)}"
    setattr(_compiled, name, made)
    return name


def evaluate(text: str, arrays: Mapping[str, Any] | None = None, /, *, out: Any = None, **named: Any) -> Any:
    """The value of a text for arrays given by name or in a mapping; compiled once and remembered.

    With no array given at all, names are looked up in the caller's locals, then globals (arrays and numbers only). A
    mapping may hold more than the text uses; an unused keyword is an ArgumentError; a missing name UnknownNameError.

    >>> import numpy as np
    >>> evaluate("2*a + 3*b", a=np.float32([1, 2]), b=np.float32([3, 4]))
    array([11., 16.], dtype=float32)
    """
    if arrays is not None and not isinstance(arrays, Mapping):
        raise ArgumentError(
            f"arrays come by name, and the second argument is a {type(arrays).__name__}",
            "argument.mapping",
            help='evaluate("a + b", a=a, b=b), or a mapping: evaluate("a + b", {"a": a, "b": b})',
        )
    changes, given = split_options(named)
    made = kernel_of(text, changes)
    if arrays is None and not given and made.params:
        found: Mapping[str, Any] = _caller_values(made.params, sys._getframe(1))
    else:
        unused = [name for name in given if name not in made.params]
        if unused:
            read = f"the text reads {', '.join(made.params) or 'no names'}"
            raise made._unused(unused[0], None, OPTION_NAMES, read)
        found = {**(arrays or {}), **given}
    missing = [name for name in made.params if name not in found]
    if missing:
        from .lang.build import undefined

        raise undefined(made._source.program, missing, [name for name in found if isinstance(name, str)])
    return made(*(found[name] for name in made.params), out=out)


def _caller_values(names: Sequence[str], frame: Any) -> dict[str, Any]:
    """Arrays and numbers of these names in a frame's locals, then globals."""
    found = {}
    for name in names:
        for scope in (frame.f_locals, frame.f_globals):
            if name in scope and _is_value(scope[name]):
                found[name] = scope[name]
                break
    return found


def _is_value(x: Any) -> bool:
    return isinstance(x, (bool, int, float)) or (hasattr(x, "dtype") and hasattr(x, "shape"))


def later(what: str, instead: str) -> Unsupported:
    """The error for what the language knows by name and does not do yet."""
    return Unsupported(f"{what} is not there yet", "unsupported", help=instead)
