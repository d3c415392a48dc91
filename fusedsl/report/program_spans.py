"""Program spans: the expressions of a program's text, each with the nodes that it builds and the kernels of those."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..config import Limits
from ..ir.builder import GraphBuilder
from ..ir.graph import Node, walk
from ..ir.ops import VIEWS
from ..lang.environment import Environment, source_span
from ..lang.evaluate import TextEvaluator
from ..lang.evaluate_expression import Visit
from ..lang.syntax_tree import CallArgument, Name, ParsedText, Span
from ..program.resolve_call import ResolvedCall
from ..program.text_source import TextSource
from .provenance import Owners


@dataclass(frozen=True)
class TextPiece:
    """A piece of a program's text, and the launches that compute its expression."""

    text: str
    kernels: tuple[int, ...] = ()


def program_pieces(call: ResolvedCall, owned: Owners) -> tuple[TextPiece, ...]:
    """The text of a call's program, or the source of its function, in pieces."""
    source = call.plans.source
    colours: list[tuple[int, ...]] = [()] * len(source.text)
    for (start, end), nodes in sorted(expression_nodes(call).items(), key=lambda item: (item[0][0], -item[0][1])):
        kernels = {k for n in nodes for k in owned.get(below_views(n), ())}
        if kernels:
            colours[start:end] = [tuple(sorted(kernels))] * (end - start)
    for margin in re.finditer(r"\s*\n\s*", source.text):
        colours[margin.start() : margin.end()] = [()] * len(margin[0])
    return _joined(source.text, colours)


def expression_nodes(call: ResolvedCall) -> dict[Span, list[Node]]:
    """The nodes that each expression of the program's text, or of the source of its function, builds."""
    source = call.plans.source
    if isinstance(source, TextSource):
        return _spans(call, source.program, source.constants)
    return getattr(source, "expression_nodes", dict)()  # a saved function has none


def below_views(n: Node) -> Node:
    """The array that a node is a view or a wider copy of."""
    while n.op in ("convert", *VIEWS):
        n = n.args[0]
    return n


def _joined(text: str, colours: list[tuple[int, ...]]) -> tuple[TextPiece, ...]:
    """Neighbouring characters of the same kernels as one piece."""
    pieces: list[TextPiece] = []
    for letter, kernels in zip(text, colours):
        if pieces and pieces[-1].kernels == kernels:
            pieces[-1] = TextPiece(pieces[-1].text + letter, kernels)
        else:
            pieces.append(TextPiece(letter, kernels))
    return tuple(pieces)


def _spans(call: ResolvedCall, program: ParsedText, constants: Any) -> dict[Span, list[Node]]:
    """The nodes that each expression of the text builds, those of inlined functions at their calls."""
    builder = GraphBuilder(call.plan.parameters, call.extents, call.plans.options.rounding)
    evaluator = _SpanRecorder(builder, program.text, call.plans.options.limits)
    results = evaluator.program(program, constants)
    spans, nodes = [span for span, _ in evaluator.seen], [n for _, n in evaluator.seen]
    finished = builder.finish([*results, *nodes]).results[len(results) :]
    by_span: dict[Span, list[Node]] = {}
    for span, n in zip(spans, finished):
        by_span.setdefault(span, []).append(n)
    return by_span


class _SpanRecorder(TextEvaluator):
    """An evaluator that remembers the nodes that each expression adds to those of its parts; names add none."""

    def __init__(self, builder: GraphBuilder, text: str, limits: Limits):
        super().__init__(builder, text, limits)
        self.seen: list[tuple[Span, Node]] = []
        self.values: list[Node] = []  # of all expressions so far

    def visit(self, node: Any, env: Environment) -> Visit:
        first = len(self.values)
        value = yield from super().visit(node, env)
        if isinstance(value, Node):
            parts = set(self.values[first:])
            if not isinstance(node, (Name, CallArgument)):
                spans = self._spans_of(node, env)
                self.seen += [(span, n) for n in walk([value], parts) if n.args for span in spans]
            self.values.append(value)
        return value

    def _spans_of(self, node: Any, env: Environment) -> list[Span]:
        """Where an expression is in the text: for an inlined one its call, and the function's body if that is there."""
        outer = source_span(env, node, node.span[0])[0]
        spans = [] if outer is None else [outer]
        return [*spans, node.span] if env.parent is not None and env.source == self.text else spans
