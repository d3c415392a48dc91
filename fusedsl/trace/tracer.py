"""The stand-in for an array or a number while a function is traced: NumPy's operators, methods and protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, DTypeError, TraceError, Unsupported
from ..ir import shapes
from ..ir.gathers import advanced_index
from ..ir.graph import Node
from ..ir.types import numpy_dtype
from ..lang import calls
from ..lang.array_functions import matrix_transpose
from ..lang.functions import dim_of

if TYPE_CHECKING:
    from .recorder import Recorder


class Tracer:
    """A node of the graph under construction, or a view of another tracer, which follows what is written to that."""

    __array_priority__ = 1000

    def __init__(
        self,
        recorder: Recorder,
        node: Node | None,
        mutable: bool = True,
        base: Tracer | None = None,
        view: Callable[[Node], Node] | None = None,
        captured: bool = False,
    ) -> None:
        self.recorder = recorder
        self.mutable = mutable
        self.captured = captured
        self.writes = 0
        self._node = node
        self._base, self._view, self._seen = base, view, -1

    @property
    def rebound(self) -> bool:
        """Whether `+=` gives a new value, as for Python's numbers and NumPy's scalars, and writes nothing."""
        if self._base is not None and not self._base.node.type.shape:
            return self._base.rebound
        return not self.mutable or (not self.node.type.shape and all(self is not a for a in self.recorder.arguments))

    @property
    def node(self) -> Node:
        """The value now."""
        if self._base is not None and self._seen != self._base.version:
            assert self._view is not None
            self._node, self._seen = self._view(self._base.node), self._base.version
        assert self._node is not None
        return self._node

    @property
    def version(self) -> int:
        return self.writes if self._base is None else self._base.version

    def _viewed(self, view: Callable[[Node], Node]) -> Tracer:
        made = Tracer(self.recorder, None, base=self, view=view)
        with self.recorder.here():
            made.node  # noqa: B018  faults belong to this line
        return made

    # -- what it is

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        """What `isinstance` and singledispatch in the user's function see: the class that the value will have."""
        t = self.node.type
        if self.is_number:
            return {"b": bool, "i": int, "f": float}[t.dtype.kind]
        if self.rebound and not t.shape and self.recorder.array_class is np.ndarray:
            return self.dtype.type
        return self.recorder.array_class

    @property
    def shape(self) -> tuple[Any, ...]:
        b = self.recorder.builder
        return tuple(d if isinstance(d, int) else Tracer(self.recorder, b.extent(d)) for d in self.node.type.shape)

    @property
    def ndim(self) -> int:
        return self.node.type.rank

    @property
    def size(self) -> Any:
        found = self.recorder.apply("size", self)
        extent = dim_of(found.node)
        return extent if isinstance(extent, int) else found

    @property
    def dtype(self) -> np.dtype:
        return numpy_dtype(self.node.type.dtype)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def T(self) -> Tracer:
        return self._viewed(lambda x: shapes.transpose(self.recorder.builder, x))

    @property
    def mT(self) -> Tracer:
        return self._viewed(lambda x: matrix_transpose(self.recorder.builder, x))

    @property
    def real(self) -> Tracer:
        return self

    def conj(self) -> Tracer:
        return self

    conjugate = conj

    def __repr__(self) -> str:
        return f"<traced {self.recorder.builder.describe(self.node.type)}>"

    # -- values that a trace can or cannot know

    def _known(self, what: str, help: str | None = None) -> bool | int | float:
        with self.recorder.here():
            node = self.node
            if not node.type.weak and node.op != "const" and not self._decidable():
                raise self.recorder.no_value(what, help)
            return self.recorder.static(self)

    def _decidable(self) -> bool:
        """Whether it is a comparison of numbers and extents."""
        from ..ir.graph import walk

        return not self.node.type.shape and all(n.op != "param" for n in walk([self.node]))

    def __bool__(self) -> bool:
        return bool(self._known("the truth of an array"))

    def __float__(self) -> float:
        return float(self._known("a float of an array", "keep it an array: operators and np functions take it"))

    def __int__(self) -> int:
        return int(self._known("an int of an array", "keep it an array: astype(x, int64)"))

    def __index__(self) -> int:
        if self.node.type.dtype.kind != "i":
            raise TypeError("only integers are an index")
        return int(self._known("an integer from an array"))

    @property
    def is_number(self) -> bool:
        """Whether it stands for one of Python's numbers."""
        return self.node.type.weak and not self.node.type.shape

    def __hash__(self) -> int:
        return hash(self._known("the hash of an array")) if self.is_number else object.__hash__(self)

    def __round__(self, digits: int | None = None) -> Any:
        if self.is_number:
            return round(self._known("a number"), digits)
        return self.recorder.apply("round", self, digits or 0)

    def __format__(self, form: str) -> str:
        return format(self._known("a number") if self.is_number else repr(self), form)

    def __str__(self) -> str:
        return format(self)

    def __complex__(self) -> complex:
        return complex(float(self))

    def __len__(self) -> int:
        if not self.node.type.shape:
            raise TypeError("len() of a number")
        extent = self.shape[0]
        return int(extent)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def item(self, *index: int) -> Any:
        return self._known("the item of an array", "return the array, and take the item outside")

    def tolist(self) -> Any:
        return self._known("the items of an array", "return the array, and take them outside")

    def __array__(self, *args: Any, **kwargs: Any):
        with self.recorder.here():
            raise TraceError(
                "a traced array has no elements yet",
                code="trace.array",
                help="use operators, methods and functions that NumPy dispatches; x.astype(dtype) converts",
            )

    # -- subscripts

    def __getitem__(self, key: Any) -> Tracer:
        with self.recorder.here():
            ready = self._key(key)
        read = advanced_index if any(isinstance(part, Node) for part in ready) else shapes.index
        return self._viewed(lambda x: read(self.recorder.builder, x, ready))

    def _key(self, key: Any) -> tuple:
        return tuple(self._part(part) for part in (key if isinstance(key, tuple) else (key,)))

    def _part(self, part: Any) -> Any:
        if part is None or part is Ellipsis:
            return part
        if isinstance(part, slice):
            return slice(*(self._bound(bound) for bound in (part.start, part.stop, part.step)))
        if isinstance(part, (bool, np.bool_)):
            raise Unsupported("indexing with a bool is not there yet", code="unsupported.gather")
        if isinstance(part, list):
            raise Unsupported(
                "indexing with a list is not there yet", code="unsupported.gather", help="pass it as an array"
            )
        settled = self.recorder.settled(part)
        found = self.recorder.value(settled)
        if not isinstance(found, Node):
            raise calls.not_a_position(found)
        known = dim_of(found)
        return found if known is None else known

    def _bound(self, bound: Any) -> Any:
        if bound is None:
            return None
        settled = self.recorder.settled(bound)
        found = dim_of(self.recorder.value(settled)) if isinstance(settled, (int, Tracer)) else None
        if found is None:
            raise TraceError("a slice bound is an integer", code="trace.slice", help="use sizes and Python integers")
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        with self.recorder.here():
            ready = self._key(key)
            everything = all(part is Ellipsis or part == slice(None) for part in ready)
            if not everything or len(ready) > max(1, self.ndim):
                raise Unsupported(
                    "writing to part of an array is not there yet",
                    code="unsupported.scatter",
                    help="build the whole: x[...] = np.where(condition, new, x)",
                )
            self._write(self._assigned(self.recorder.node(value)), "unsafe")

    def _assigned(self, value: Node) -> Node:
        """A value to assign: NumPy drops leading axes of extent 1 that the target lacks."""
        extra = max(0, value.type.rank - self.ndim)
        droppable = [a for a in range(extra) if self.recorder.builder.is_unit(value.type.shape[a])]
        return shapes.squeeze(self.recorder.builder, value, droppable) if len(droppable) == extra else value

    # -- writing in place

    def _write(self, new: Node, casting: str) -> None:
        """Take a new value, in the dtype and shape that it has."""
        if self._base is not None:
            raise Unsupported(
                "writing to a view is not there yet", code="unsupported.view", help="write to the array itself"
            )
        if self.captured:
            raise Unsupported(
                "writing to an array from outside is not there yet",
                code="unsupported.write",
                help="pass it as an argument",
            )
        if not self.mutable:
            raise ArgumentError("a number cannot be written to", code="trace.write", help="use a 0-d array")
        b, mine = self.recorder.builder, self.node.type
        if not new.type.weak and not np.can_cast(numpy_dtype(new.type.dtype), self.dtype, casting):  # type: ignore[arg-type]
            raise DTypeError(
                f"{new.type.dtype} does not go into {mine.dtype}", code="dtype.write", help="cast it first: astype"
            )
        if new.type.weak and new.type.dtype.kind == "f" and mine.dtype.kind != "f" and casting != "unsafe":
            raise DTypeError(f"a float does not go into {mine.dtype}", code="dtype.write", help="cast it first: astype")
        exact = new.type.weak and not (new.type.dtype.kind == "f" and mine.dtype.kind != "f")
        self._node = shapes.broadcast_to(b, b.coerce(new, mine.dtype) if exact else b.cast(new, mine.dtype), mine.shape)
        self.writes += 1

    def _in_place(self, name: str, other: Any) -> Tracer:
        result = self.recorder.apply(name, self, other)
        if self.rebound:
            return result
        with self.recorder.here():
            self._write(result.node, "same_kind")
        return self

    def fill(self, value: Any) -> None:
        self[...] = value

    # -- NumPy's protocols

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from .numpy_functions import call_ufunc

        return call_ufunc(self.recorder, ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        from .numpy_functions import call_function

        return call_function(self.recorder, function.__name__, args, kwargs)

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        from .numpy_functions import call_elementwise

        name = kernel.name.removeprefix("cupy_").removeprefix("cupyx_scipy_special_").removeprefix("cupyx_")
        return call_elementwise(self.recorder, name, args, kwargs)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", str(function))
        raise Unsupported(f"torch.{name} in a traced function is not there yet", code="unsupported.torch")

    def sort(self, axis: int = -1, **named: Any) -> None:
        """Put this array in order, in place."""
        from .numpy_functions import call_function

        result = call_function(self.recorder, "sort", (self, axis), named)
        with self.recorder.here():
            self._write(result.node, "same_kind")

    def __getattr__(self, name: str) -> Any:
        """Methods: NumPy's function of that name, with this array first."""
        from .numpy_functions import METHODS, call_function

        if name in METHODS:
            return lambda *args, **kwargs: call_function(self.recorder, name, (self, *args), kwargs)
        if not name.startswith("__") and self.is_number and hasattr(self.__class__, name):
            return getattr(self._known("a number"), name)
        raise AttributeError(f"a traced array has no attribute {name}")

    def __matmul__(self, other: Any) -> Any:
        return self.recorder.apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self.recorder.apply("matmul", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self.recorder.apply("divmod", self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return self.recorder.apply("divmod", other, self)

    def __pos__(self) -> Tracer:
        return self.recorder.apply("positive", self)


BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
COMPARE = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
UNARY = {"neg": "negative", "invert": "bitwise_invert", "abs": "absolute"}


def _operators() -> None:
    """Give Tracer Python's operators, each a function of the language."""
    for python, name in (BINARY | COMPARE).items():
        setattr(Tracer, f"__{python}__", lambda self, other, name=name: self.recorder.apply(name, self, other))
    for python, name in BINARY.items():
        setattr(Tracer, f"__r{python}__", lambda self, other, name=name: self.recorder.apply(name, other, self))
        setattr(Tracer, f"__i{python}__", lambda self, other, name=name: self._in_place(name, other))
    for python, name in UNARY.items():
        setattr(Tracer, f"__{python}__", lambda self, name=name: self.recorder.apply(name, self))


_operators()
