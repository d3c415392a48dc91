"""The recorder of a trace: the graph under construction, captured arrays, and the conditions of the path taken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import FusedslError, TraceError
from ..ir import shapes
from ..ir.graph import Node, Site
from ..lang.evaluate import TextEvaluator
from .array_library import library
from .expression_spans import ExpressionNodes
from .source_location import innermost, site_of
from .trace_values import TraceValues
from .tracer import Tracer


def _torch_records() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.is_grad_enabled()


class Recorder(TraceValues):
    """One trace: a builder, and tracers for the arguments."""

    _records = False  # whether torch recorded gradients as the trace began

    def __init__(self, function: Callable, *given: Any, **named: Any) -> None:
        self.expressions = ExpressionNodes(function)
        super().__init__(*given, **named)
        self._records = _torch_records()

    def locate(self, frame: Any) -> tuple[Site, str | None]:
        """The user's line that runs in a frame, with a note; values that follow belong to it."""
        self.expressions.enter(frame)
        return site_of(frame)

    def tracer(self, node: Node, mutable: bool = True, captured: bool = False) -> Tracer:
        """The tracer of a node; of a constant to derivatives, where the function turns torch's gradients off."""
        constant = self._records and not _torch_records()
        return super().tracer(self.builder.stop_gradient(node) if constant else node, mutable, captured)

    def axes(self, a: Any, axes: Any) -> tuple[int, ...]:
        """Axes of an array, normalised to count from 0; None is all of them.

        ShapeError for an axis out of range, ArgumentError for one given twice.
        """
        with self.at_user_line():
            x = self.node(a)
            if axes is None:
                return tuple(range(x.type.rank))
            settled = self.specialized(tuple(axes) if isinstance(axes, (tuple, list)) else (axes,))
            if not all(isinstance(k, int) for k in settled):
                raise TypeError("an axis is an integer")
            shapes.normalize_axes(self.builder, x, settled)
            return tuple(k % x.type.rank for k in settled)

    def axis(self, a: Any, axis: Any) -> int:
        """One axis, normalised."""
        return self.axes(a, (axis,))[0]

    def inline(self, text: str, program: Any, names: Sequence[str], constants: Mapping, values: Sequence) -> Any:
        """Inline a program of the language on tracers; a single result is returned without a tuple."""
        inner = TextEvaluator(self.builder, text, self.limits)
        results = inner.program(program, constants, {name: self.node(v) for name, v in zip(names, values)})
        wrapped = tuple(self.tracer(r) for r in results)
        return wrapped[0] if len(wrapped) == 1 else wrapped

    @contextmanager
    def tracing(self, function: Callable):
        """Attribute errors without a location to the innermost user's line of their traceback."""
        try:
            yield
        except FusedslError as error:
            if error.help and library(self.array_class) in ("torch", "cupy"):  # help lines are written for NumPy
                error.help = error.help.replace("np.", "torch." if library(self.array_class) == "torch" else "cp.")
            if error.span is None and error.text is None:
                site, note = site_of(innermost(error.__traceback__))
                error.text, error.span, error.caret = site.text, site.span, site.caret
                error.note = error.note or note
            raise
        except RecursionError:
            raise TraceError(
                f"{function.__name__} recurses without end",
                "trace.recursion",
                help="end it by a plain number or a shape, which are known while it is traced",
            ) from None
