"""`kernel` and `Kernel`: a program that is compiled once per signature, and called, explained, bound and saved."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .caller_scope import bind_arguments
from .config import Options, current, options
from .errors import ArgumentError, FusedslError, fold, public_api, trimmed
from .inspection import GivenCall, Inspectable, Inspected, SavedCall, check_save_keywords, split_options
from .interop import containers
from .interop.containers import is_container
from .interop.labelled import Labelled
from .kernel_gradients import gradient_text, value_and_gradient_text
from .kernel_variants import Variants
from .profiler_ranges import profiled_calls
from .program import Program
from .program.text_source import TextSource, one_line
from .runtime import dynamo
from .specs import Spec, spec

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .config import OptionChanges
    from .program.plans import Plans
    from .runtime.bound_call import BoundCall
    from .runtime.graph_call import GraphCall

__all__ = ["Kernel", "Spec", "kernel", "options", "spec"]


@profiled_calls(lambda kernel: kernel._title)
class Kernel(Inspectable):
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
        self._definition = (text, params, constants)
        self._begin(TextSource(text, chosen if chosen is not None else current(), params, constants))

    def _begin(self, source: TextSource, plans: Plans | None = None, restored: tuple | None = None) -> None:
        """Set the attributes of every kernel; a kernel of a file has its plans, and how to unpickle it."""
        self.__name__ = "kernel"  # torch.jit.trace asks for one
        self._source, self._restored = source, restored
        self.options, self.params = source.options, source.names
        self._count = len(self.params)
        dynamo.watch()
        self._program = Program(source, self.params, self.options, plans)
        self._variants = Variants()
        self._positions = {name: k for k, name in enumerate(self.params)}

    @property
    def text(self) -> str:
        """The program as it was given."""
        return self._source.text

    @property
    def _title(self) -> str:
        return one_line(self.text)

    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """The result (a tuple of several) for these arguments.

        Raises ArgumentError for missing, surplus or unusable arguments, ShapeError, DTypeError and DeviceError for
        those that do not go together; an error leaves `out` untouched.
        """
        try:
            unknown = named and not named.keys() <= self._positions.keys()
            if unknown and (other := self._variants.for_constants(self, named)) is not self:
                return other(*args, out=out, **named)
            values: Sequence[Any] = args if not named else self._bind(args, named)
            if not dynamo.reads():
                result = self._program.warm_call(values, out)
                if result is not None or (result := self._program.earlier_warm_call(values, out)) is not None:
                    return result
            values = values if len(values) == self._count else self._bind(args, named)
            return self._call(values, None if out is None else self._outs(out))
        except FusedslError as fault:
            if fold(fault):
                raise
            raise trimmed(fault) from fault.__cause__

    def _call(self, values: Sequence[Any], outs: Sequence[Any] | None) -> Any:
        """The result of a call that is not warm, or that torch traces."""
        torch = sys.modules.get("torch")
        if torch is not None and (torch.compiler.is_compiling() or dynamo.records()):
            return self._in_trace(values, outs)
        dynamo.watch()
        kernel, others = self._variants.for_integers(self, values)
        if kernel is not self:
            return kernel(*others, out=outs if outs is None or len(outs) > 1 else outs[0])
        try:
            results = self._run(values, outs)
        except ArgumentError as fault:
            from .trace.tracer import recorder_in

            if (recorder := recorder_in(values)) is not None and outs is None:
                return self._inlined(recorder, values)
            if torch is not None and self._is_abstract(values):
                return self._in_trace(values, outs)
            if self._variants.learn(self, fault, values):
                return self._call(values, outs)
            raise
        return results[0] if len(results) == 1 else tuple(results)

    def _inlined(self, recorder: Any, values: Sequence[Any]) -> Any:
        """The results of a call inside a traced function: its operations become part of the trace."""
        try:
            return recorder.inline(self.text, self._source.program, self.params, self._source.constants, values)
        except ArgumentError as fault:
            if not self._variants.learn(self, fault, values):
                raise
        return self._call(values, None)

    def _run(self, values: Sequence[Any], outs: Sequence[Any] | None) -> list:
        """The results, of the kind of the arguments: lists and labelled arrays are converted first."""
        if not any(map(is_container, values)):
            if outs is None and "torch" in sys.modules and (recorded := self._recorded(values)) is not None:
                return recorded
            return self._program.run(values, outs)
        read = [x if not is_container(x) else containers.read(x, name) for name, x in zip(self.params, values)]
        plain = [x.array if isinstance(x, Labelled) else x for x in read]
        results = self._program.run(plain, outs)
        wrap = containers.wrapper(read, self.params) if outs is None else None
        return results if wrap is None else wrap(results, lambda: self._program.origins(plain))

    def _recorded(self, values: Sequence[Any]) -> list | None:
        """The results, if torch's autograd records the call; else None."""
        from .interop import torch_gradients

        return torch_gradients.run(self._program, values) if torch_gradients.records(values) else None

    @staticmethod
    def _is_abstract(values: Sequence[Any]) -> bool:
        """Whether some argument is a torch tensor without memory."""
        from .interop.torch_operator import is_abstract

        return any(map(is_abstract, values))

    def _in_trace(self, values: Sequence[Any], outs: Sequence[Any] | None) -> Any:
        """The results of a call that torch traces: it records one operator."""
        from .interop.torch_operator import call

        results = call(self._program, values, outs)
        return results[0] if len(results) == 1 else tuple(results)

    def _outs(self, out: Any) -> Sequence[Any]:
        return out if isinstance(out, (tuple, list)) else (out,)

    def _bind(self, args: Sequence[Any], named: Mapping[str, Any], options: Iterable[str] = ("out",)) -> list[Any]:
        """The arguments in order; ArgumentError for what is missing, surplus or unknown, or a misspelt option."""
        return bind_arguments(self, args, named, options)

    def _inspect(self, given: GivenCall, look: Callable[..., Inspected]) -> Inspected:
        """The result of `look`, given the program that these arguments would run, them as plain arrays, and options."""
        named, chosen = split_options(given.named, self.params[len(given.args) :], given.options)
        kernel = self._variants.for_constants(self, named)
        values = kernel._bind(given.args, named, given.options or ("out",))
        other, rest = kernel._variants.for_integers(kernel, values)
        read = [containers.read(x, name) for name, x in zip(other.params, rest)]
        try:
            return look(other._program, [x.array if isinstance(x, Labelled) else x for x in read], **chosen)
        except FusedslError as fault:
            if not other._variants.learn(other, fault, rest):
                raise
        return other._inspect(GivenCall(rest, {}, chosen), look)

    @public_api
    def bind(self, /, *args: Any, out: Any = None, **named: Any) -> BoundCall:
        """A function without arguments that repeats this call on these arrays, whatever they hold by then.

        The results go to `out`, or to arrays that are allocated once: `bound.result`, which a call returns. Numbers
        keep the value that they have now. Compiles, and computes nothing yet; raises what the call would raise. It
        costs less than a call, since no argument is checked.

        >>> import numpy as np
        >>> import fusedsl as fd
        >>> x = np.float32([1, 2])
        >>> double = fd.kernel("2 * x").bind(x)
        >>> x += 1
        >>> double()
        array([4., 6.], dtype=float32)
        """
        outs = None if out is None else self._outs(out)
        return self._inspect(GivenCall(args, named), lambda program, values: program.bind(values, outs))

    @public_api
    def graph(self, /, *args: Any, out: Any = None, **named: Any) -> GraphCall:
        """`bind` with its launches captured in a CUDA graph: a call is one launch, however many kernels it has.

        `then` adds calls of further kernels. On the CPU it makes the calls in turn. Raises what `bind` would raise;
        ArgumentError if a call must copy arrays each time; DeviceError if calls are on several devices.

        >>> import numpy as np
        >>> import fusedsl as fd
        >>> x, y = np.float32([1, 2]), np.zeros(2, np.float32)
        >>> steps = fd.kernel("x + 1").graph(x, out=y).then(fd.kernel("2 * y"), y, out=y)
        >>> steps()
        array([4., 6.], dtype=float32)
        """
        from .runtime.graph_call import GraphCall

        return GraphCall((self.bind(*args, out=out, **named),))

    def _to_save(self, given: GivenCall) -> SavedCall:
        text, params, constants = self._definition
        named, targets = split_options(given.named, self.params[len(given.args) :], given.options)
        check_save_keywords(named, self.params)
        record = {"text": text, "params": params, "constants": dict(constants or {})}
        return SavedCall(record, self._program, self._bind(given.args, named, given.options), targets)

    @public_api
    def grad(self, wrt: Sequence[str] | str | None = None) -> Kernel:
        """A kernel of the gradients by these parameters (None: all of them), given the gradients of the results.

        Its parameters are those of this kernel, then the gradient of each result: `gradient`, or `gradient_0`,
        `gradient_1` ... of several. Its results have the shapes and dtypes of the parameters in `wrt`. What the program
        computes on the way is computed again. It is a kernel like any other, and its `grad` gives second derivatives.

        >>> import numpy as np
        >>> import fusedsl as fd
        >>> backward = fd.kernel("x * x * w").grad(wrt="x")
        >>> backward.params
        ('x', 'w', 'gradient')
        >>> backward(np.float32([1, 2]), np.float32([3, 4]), np.float32([1, 1]))
        array([ 6., 16.], dtype=float32)

        Raises ArgumentError for a name that is no parameter; a call raises DTypeError for what is no float, and
        Unsupported for what has no derivative.
        """
        return self._derived(*gradient_text(self._source, wrt))

    @public_api
    def value_and_grad(self, wrt: Sequence[str] | str | None = None) -> Kernel:
        """A kernel of the result, which is a scalar, and of its gradients by these parameters (None: all of them).

        >>> import numpy as np
        >>> import fusedsl as fd
        >>> loss = fd.kernel("sum((x - y)**2)").value_and_grad(wrt="x")
        >>> [r.tolist() for r in loss(np.float32([1, 2]), np.float32([0, 4]))]
        [5.0, [2.0, -4.0]]

        Raises what `grad` raises; a call raises ShapeError for a result that is no scalar.
        """
        return self._derived(*value_and_gradient_text(self._source, wrt))

    def _derived(self, text: str, params: Sequence[str]) -> Kernel:
        return Kernel(text, params, self._definition[2], self.options)

    def __repr__(self) -> str:
        return f"<fusedsl.Kernel({', '.join(self.params)}): {one_line(self.text)}>"

    def _repr_html_(self) -> str:
        from .report.page.notebook import program_html

        return program_html("fusedsl.Kernel", f"({', '.join(self.params)})", self.text.strip())

    def __reduce__(self) -> tuple:
        return self._restored or (Kernel, (*self._definition, self.options))


@public_api
def kernel(
    text: str,
    params: Sequence[str] | str | None = None,
    constants: Mapping[str, Any] | None = None,
    **changes: Unpack[OptionChanges],
) -> Kernel:
    """A reusable kernel from a program in the language; keywords are options.

    `params` fixes the order of the arrays; `constants` puts literals in for names: numbers, None, strings, tuples.

    >>> import numpy as np
    >>> import fusedsl as fd
    >>> silu_mul = fd.kernel("g * sigmoid(g) * u")
    >>> silu_mul.params
    ('g', 'u')
    >>> silu_mul(np.float32([0, 1]), np.float32([1, 2]))
    array([0.       , 1.4621172], dtype=float32)

    Raises ParseError, LimitError for the program, ArgumentError for params, constants and options.
    """
    return Kernel(text, params, constants, current().changed(changes))
