"""The state of a traced array: its own value or a view of another array, and the effect of writes on both."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, Unsupported
from ..ir import shapes
from ..ir.graph import Node
from ..ir.types import DType, numpy_dtype
from .views import View


def check_cast(new: Node, to: DType, casting: str) -> None:
    """DTypeError if NumPy's rule `casting` forbids a cast of the value to dtype `to`."""
    if not new.type.weak and not np.can_cast(numpy_dtype(new.type.dtype), numpy_dtype(to), casting):  # type: ignore[arg-type]
        raise DTypeError(f"{new.type.dtype} does not go into {to}", "dtype.write", help="cast it first: astype")
    if new.type.weak and new.type.dtype.kind == "f" and to.kind != "f" and casting != "unsafe":
        raise DTypeError(f"a float does not go into {to}", "dtype.write", help="cast it first: astype")


class ArrayState:
    """The current value of one traced array, replaced by each write (functionalisation).

    `recorder` is the Recorder of its trace, which stands above it.
    """

    def __init__(
        self,
        recorder: Any,
        node: Node | None,
        mutable: bool = True,
        base: ArrayState | None = None,
        view: View | None = None,
        captured: bool = False,
    ) -> None:
        self.recorder = recorder
        self.mutable = mutable
        self.captured = captured
        self.writes = 0
        self._node = node
        self._base, self._view, self._version_read = base, view, -1
        if base is not None and view is not None:
            self._node, self._version_read = view.read(base.node), base.version
        elif node is not None:
            recorder.expressions.add(node)

    @property
    def rebinds(self) -> bool:
        """True if `+=` binds a new value, as for Python numbers and NumPy scalars; False if it writes in place."""
        if self._base is not None:
            return self._base.rebinds
        return not self.mutable or (not self.node.type.shape and all(self is not a for a in self.recorder.arguments))

    @property
    def node(self) -> Node:
        """The current value."""
        if self._base is not None and self._version_read != self._base.version:
            assert self._view is not None
            if not self._view.certain:
                raise Unsupported(
                    "a reshaped array is read after its base was written: whether it shares the memory, strides decide",
                    "unsupported.view",
                    help="reshape once more after writing",
                )
            self._node, self._version_read = self._view.read(self._base.node), self._base.version
        if self._node is None:
            raise Unsupported(
                "an array is read after what may be a view of it was written: whether it is, strides decide",
                "unsupported.view",
                help="copy it before writing",
            )
        return self._node

    @property
    def version(self) -> int:
        return self.writes if self._base is None else self._base.version

    def viewed(self, view: View) -> Any:
        """A view of this array; errors point at the line that creates it."""
        with self.recorder.at_user_line():
            return type(self)(self.recorder, None, base=self, view=view)

    def _new(self, node: Node) -> Any:
        return type(self)(self.recorder, node)

    # -- writing in place

    def _write(self, new: Node, casting: str) -> None:
        """Write a value, cast and broadcast to this array's dtype and shape."""
        b, own = self.recorder.builder, self.node.type
        self._check_cast(new, casting)
        exact = new.type.weak and not (new.type.dtype.kind == "f" and own.dtype.kind != "f")
        self._store(shapes.broadcast_to(b, b.coerce(new, own.dtype) if exact else b.cast(new, own.dtype), own.shape))

    def _check_cast(self, new: Node, casting: str) -> None:
        """DTypeError if NumPy would not cast `new` to this array's dtype."""
        check_cast(new, self.node.type.dtype, casting)

    def _store(self, value: Node) -> None:
        """Set the value; a view writes through to its base."""
        if self._base is not None:
            assert self._view is not None
            if not self._view.certain and self._release_base():
                self._base, self._view, self._node = None, None, value
                return
            if self._view.write is None:
                raise Unsupported(
                    "writing to this view is not supported", "unsupported.view", help="write to the array itself"
                )
            self._base._store(self._view.write(self._base.node, value))
            return
        if self.captured:
            raise Unsupported(
                "writing to an array from outside is not supported", "unsupported.write", help="pass it as an argument"
            )
        if not self.mutable:
            raise ArgumentError("a number cannot be written to", "trace.write", help="use a 0-d array")
        self._node = value
        self.writes += 1
        self.recorder.expressions.add(value)

    def _release_base(self) -> bool:
        """Detach a possible view from its base, which no one may read afterwards; False if the caller can read it."""
        root = self
        while root._base is not None:
            root = root._base
        if root.captured or any(root is a for a in self.recorder.arguments):
            return False
        root._node = None
        return True

    def _from_number(self, value: Node) -> Node:
        """A value to assign; the library decides how a number converts to this array's dtype."""
        return value

    def _assignable(self, value: Node) -> Node:
        """A value to assign, without leading axes of extent 1 that the target lacks, as in NumPy."""
        value = self._from_number(value)
        extra = max(0, value.type.rank - self.node.type.rank)
        droppable = [a for a in range(extra) if self.recorder.builder.is_unit(value.type.shape[a])]
        return shapes.squeeze(self.recorder.builder, value, droppable) if len(droppable) == extra else value
