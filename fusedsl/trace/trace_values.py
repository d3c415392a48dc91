"""Values of a trace: arguments, captured arrays and numbers as nodes, and tracers of nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..config import Options
from ..errors import ArgumentError, DTypeError, FusedslError, LimitError, TraceError
from ..ir.builder import GraphBuilder
from ..ir.dims import Symbol
from ..ir.graph import Node, Parameter, Site, Type, constant, walk
from ..ir.interp import concrete
from ..ir.types import DTYPES, DType
from ..lang import argument_binding, calls, functions, parameter_kinds
from ..lang.environment import Environment
from ..lang.evaluate import TextEvaluator
from .array_library import LibraryDiscovered, empty, is_array, library
from .data_dependent_shape import BooleanSelection
from .signatures import bind_arguments
from .tracer import Tracer
from .unsupported import refusal


def _kind(array_class: type) -> type[Tracer]:
    """The tracer class for an array class: Tensor for torch, else Tracer."""
    if library(array_class) != "torch":
        return Tracer
    from .torch.tensor import Tensor

    return Tensor


def _element_type(name: str) -> DType:
    """The element type of this name; DTypeError if there is none."""
    if name not in DTYPES:
        raise DTypeError(
            f"{name} is not an element type of fusedsl",
            "dtype.unknown",
            help="these are bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32 and float64",
        )
    return DTYPES[name]


@dataclass(frozen=True)
class TraceInputs:
    """The arguments of a traced call: `Parameter`s for arrays and run-time numbers, other values as they are."""

    positional: Sequence[Any]
    keywords: Mapping[str, Any]
    extents: Mapping[Symbol, int]
    numbers: Mapping[int, Any]  # of scalars (argument → value), used only if a branch or shape needs them
    immutable: frozenset[int] = frozenset()  # arguments that `+=` rebinds (NumPy scalars; weak numbers always are)
    aliases: Mapping[int, int] = field(default_factory=dict)  # arguments that are the same object as an earlier one
    example: Any = None  # an array of the call, whose library's rules apply (None: NumPy)
    labels: Sequence[str] = ()  # how the function's code reaches each parameter, for messages


class TraceValues:
    """The graph under construction, and what enters it."""

    locate: Callable[[Any], tuple[Site, str | None]]  # the source line of a frame, with a note

    def __init__(
        self, parameters: tuple[Parameter, ...], inputs: TraceInputs, options: Options, library_discovered: bool = False
    ) -> None:
        self.extents = dict(inputs.extents)
        self.numbers, self.aliases, self.example = inputs.numbers, inputs.aliases, inputs.example
        self.library_discovered = library_discovered  # True if the example is no argument
        self.array_class = np.ndarray if self.example is None else type(self.example)
        self.kind = _kind(self.array_class)
        self.limits = options.limits
        self.builder = GraphBuilder(parameters, self.extents, options.rounding)
        self.builder.labels = inputs.labels
        self.evaluator = TextEvaluator(self.builder, None, options.limits)
        self.captures: list[Any] = []
        self.conditions: dict[Node, bool | int | float] = {}
        self.baked: dict[int, bool | int | float] = {}
        self.operations = 0
        self.rewrite: Callable[[Callable], Callable] = lambda function: function
        self.outside: dict[int, str] = {}  # id → the name by which the function reads this object
        self._captured: dict[int, Node] = {}
        self.arguments: tuple[Tracer, ...] = ()
        self.pending_error: TraceError | None = None  # the first value that the function needed and a trace lacks
        for k, p in enumerate(parameters):
            mutable = not p.type.weak and k not in inputs.immutable
            alias = self.aliases.get(k)
            tracer = self.tracer(self.builder.parameter(k), mutable) if alias is None else self.arguments[alias]
            self.arguments += (tracer,)

    def discover_library(self, name: str, device: Any = None, array: Any = None) -> None:
        """Restart the trace with this library, on the device of `array`, if no argument is an array."""
        alone = self.example is None and all(p.scalar for p in self.builder.parameters)
        if alone and name != "numpy":
            raise LibraryDiscovered(empty(name, device) if array is None else array)

    def tracer(self, node: Node, mutable: bool = True, captured: bool = False) -> Tracer:
        """The tracer of a node, of the arguments' library."""
        return self.kind(self, node, mutable, captured=captured)

    def lifted(self, x: Any) -> Any:
        """A tracer for an array from outside; any other value unchanged."""
        if isinstance(x, Tracer) or not is_array(x):
            return x
        return self.tracer(self.capture(x), captured=True)

    def index_array(self, positions: Sequence) -> Any:
        """An index list as an array: of its integers, or of the positions where it is True."""
        if any(isinstance(p, Tracer) for p in positions):
            return self.apply("stack", [self.position(p) for p in positions])
        array = np.asarray(positions)
        if array.dtype == bool and array.ndim == 1:
            array = np.flatnonzero(array)
        return self.like_arguments(array if array.size else array.astype(np.int64))

    def array_like(self, x: Sequence) -> Any:
        """A list as an array, as NumPy's functions take it; unchanged for torch, whose functions take no lists."""
        if library(self.array_class) == "torch" or not x:
            return x
        if any(isinstance(part, Tracer) for part in x):
            flat = all(isinstance(part, (Tracer, int, float)) for part in x)
            return self.apply("stack", [self.tracer(self.builder.strong(self.node(part))) for part in x]) if flat else x
        array = np.asarray(x)
        return self.like_arguments(array) if array.dtype.kind in "biuf" else x

    def like_arguments(self, x: np.ndarray) -> Any:
        """A constant array of the arguments' library and device."""
        if self.example is None or library(type(self.example)) == "numpy":
            return x
        module = sys.modules[library(type(self.example))]
        return module.asarray(x) if module.__name__ == "cupy" else module.asarray(x, device=self.example.device)

    # -- values

    def value(self, x: Any) -> Any:
        """A Python value as the language takes it: a node, None, string, dtype or tuple."""
        if isinstance(x, Tracer):
            if x.recorder is not self:
                raise ArgumentError(
                    "this array belongs to another call",
                    "trace.leak",
                    help="return it from that call, and pass it as an argument",
                )
            return x.node
        if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic):
            return self.builder.literal(x)
        if isinstance(x, np.generic) and x.dtype.name in DTYPES:
            if self.kind is not Tracer:  # torch treats them as Python numbers
                return self.builder.literal(x.item())
            return constant(x.item(), DTYPES[x.dtype.name])
        if x is None or isinstance(x, (str, DType)):
            return x
        if isinstance(x, BooleanSelection):
            raise x.fault
        if isinstance(x, (tuple, list)):
            return tuple(self.value(part) for part in x)
        if isinstance(x, np.dtype) or (isinstance(x, type) and issubclass(x, (np.generic, bool, int, float))):
            return self.dtype(x)
        if type(x).__module__ == "torch" and type(x).__name__ == "dtype":
            return self.dtype(x)
        if is_array(x):
            return self.capture(x)
        if isinstance(x, complex):
            raise DTypeError("there are no complex numbers", "dtype.unknown", help="compute with x.real and x.imag")
        raise TraceError(
            f"{type(x).__name__} is not an array or a number",
            "trace.value",
            help="pass an array, a number, or plain data",
        )

    def dtype(self, x: Any) -> DType:
        """The element type of a NumPy or torch dtype, a name, or a Python type."""
        if isinstance(x, DType):
            return x
        if isinstance(x, str) and x in DTYPES:  # NumPy knows bfloat16 only if ml_dtypes was imported
            return DTYPES[x]
        return _element_type(str(x).removeprefix("torch.") if type(x).__module__ == "torch" else np.dtype(x).name)

    def node(self, x: Any) -> Node:
        """An operand as a node."""
        x = self.array_like(x) if isinstance(x, (list, tuple)) else x
        return parameter_kinds.array(self.builder, "this operation", self.value(x))

    def capture(self, x: Any) -> Node:
        """Lift an array from outside: it becomes one more argument of the graph."""
        if id(x) not in self._captured:
            if library(type(x)) in ("torch", "cupy"):
                self.discover_library(library(type(x)), array=x)
            kind = _element_type(str(getattr(x.dtype, "name", x.dtype)).removeprefix("torch."))
            index = len(self.builder.parameters)
            shape = tuple(1 if n == 1 else Symbol(index, a) for a, n in enumerate(x.shape))
            by_value = not shape and str(getattr(x, "device", "cpu")) == "cpu"  # passed to the launch as a number
            self.extents.update((Symbol(index, a), n) for a, n in enumerate(x.shape))
            used_names = {p.name for p in self.builder.parameters}
            names = [self.outside.get(id(x), "captured_0"), *(f"captured_{k}" for k in range(index + 1))]
            label = next(n for n in names if n not in used_names)
            self.builder.parameters += (Parameter(label, Type(kind, shape), scalar=by_value),)
            self.captures.append(x)
            self._captured[id(x)] = self.builder.parameter(index)
        return self._captured[id(x)]

    def wrap(self, value: Any) -> Any:
        """A value of the language as the traced function gets it: tracers for nodes."""
        if isinstance(value, Node):
            return self.tracer(value)
        return tuple(self.wrap(part) for part in value) if isinstance(value, tuple) else value

    def specialize(self, x: Any) -> bool | int | float:
        """The value of a number or extent that decides a branch or shape; the trace is specialised on it."""
        node = self.node(x)
        used = list(walk([node]))
        if node.type.shape or any(map(self._is_unknown, used)):
            raise self.no_value("the value of an array")
        for n in used:
            if n.op == "scalar":
                self.baked[n.attr] = self.numbers[n.attr]
        if node.type.weak:  # a root of an extent is computed in float64
            node = self.builder.coerce(node, node.type.dtype)
        value = concrete(node, self.numbers, self.extents)
        if any(n.op == "size" for n in used):
            self.conditions[node] = value
        return value

    def specialized(self, x: Any) -> Any:
        """An axis, index, shape or flag: specialised on its run-time numbers; its extents stay symbolic."""
        if isinstance(x, (tuple, list)):
            return tuple(self.specialized(part) for part in x)
        if not isinstance(x, Tracer) or x.node.type.shape:
            return int(x) if isinstance(x, np.integer) else x
        leaves = list(walk([x.node]))
        if any(n.op == "scalar" and not self._is_unknown(n) for n in leaves):
            return self.specialize(x)
        return x if x.node.type.weak or any(map(self._is_unknown, leaves)) else self.specialize(x)

    def position(self, x: Any) -> Any:
        """An index: specialised, unless it is computed from elements of arrays, whatever numbers are beside them."""
        return x if isinstance(x, Tracer) and any(map(self._is_unknown, walk([x.node]))) else self.specialized(x)

    def _is_unknown(self, node: Node) -> bool:
        """True for an array, or a captured number, which may change between two calls."""
        return node.op == "param" or (node.op == "scalar" and node.attr not in self.numbers)

    def no_value(self, what: str, help: str | None = None, single: bool = True) -> TraceError:
        """The error for an array's value, known only at run time; untraced, an array of a `single` element has it."""
        what = f"the function needs {what}, which is known only once the kernel has run"
        branch = "where(condition, a, b) and maximum(a, b) choose per element; sizes and numbers may decide a branch"
        error = TraceError(what, "trace.value", help=help or branch)
        self.pending_error = self.pending_error or (error if single else None)
        return error

    def strong(self, x: Any) -> Any:
        """An operand of a strong dtype, as in NumPy's array functions: a Python number becomes a 0-d array."""
        return self.tracer(self.builder.strong(self.node(x))) if not isinstance(x, Tracer) or x.is_number else x

    # -- operations

    def apply(self, name: str, *values: Any, **named: Any) -> Any:
        """Call a function of the language with Python values, located at the user's line."""
        with self.at_user_line():
            return self.wrap(self.call(name, values, named))

    def call(self, name: str, values: tuple, named: dict[str, Any]) -> Any:
        if (table := functions.lookup(name)) is not None:
            return functions.call(self.builder, table, bind_arguments(self, name, table.parameters, values, named))
        composite = calls.prelude_function(self.evaluator, name)
        if composite is None:
            raise refusal(name, f"{name} of an array cannot be traced")
        parameters = argument_binding.signature(composite.definition, composite.defaults)
        given = bind_arguments(self, name, parameters, values, named)
        for p, value in zip(parameters, given):
            if (error := calls.choice_fault(name, p.name, value)) is not None:
                raise error
        calls.check_groups(self.builder, name, given)
        env = Environment(dict(zip((p.name for p in parameters), given)), {}, Environment({}))
        self.evaluator.operations = 0
        return self.evaluator.evaluate(composite.definition.body, env)

    @contextmanager
    def at_user_line(self):
        """Attribute the nodes and errors of this block to the user's line that is running."""
        self.operations += 1
        site, note = self.locate(sys._getframe(2))
        self.builder.site = self.evaluator.python_site = site
        self.builder.find_site, self.builder.names = None, ()
        try:
            if self.operations > self.limits.operations:
                help = "loops are unrolled: write array operations for those over elements, or cut the function in "
                help += "two, or raise the limit: fd.options(limits=...)"
                raise LimitError(f"more than {self.limits.operations} operations", "limit.operations", help=help)
            yield
        except FusedslError as error:
            if error.span is None:
                error.text, error.span, error.caret = site.text, site.span, site.caret
                error.note = error.note or note
            raise
