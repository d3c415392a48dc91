"""Error cascades: removes errors of a program that follow from an earlier error in the values they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import FusedslError
from .parse import parse
from .syntax_tree import Assign, CallExpr, Definition, Expr, Name, ParsedText, Span, postorder


def root_causes(text: str, faults: Sequence[FusedslError], reported: Sequence[FusedslError] = ()) -> list[FusedslError]:
    """The errors, in order, without those that follow from an earlier one of `text`, or from one already reported.

    An error follows from one inside its expression, or inside the definition of a name that it reads.
    """
    if any(fault.text != text or fault.span is None for fault in faults):
        reported_texts = {fault.text for fault in reported}
        return [fault for fault in faults if fault.text not in reported_texts][:1]
    reported = [fault for fault in reported if fault.text in (None, text) and fault.span is not None]
    if len(faults) + len(reported) < 2:
        return list(faults)
    try:
        program = parse(text)
    except FusedslError:  # the program exceeds the default limits
        return list(faults[:1])
    causes = []
    for k, fault in enumerate(faults):
        read = list(_dependencies(program, fault.span))  # type: ignore[arg-type]
        if not any(_within(earlier.span, span) for earlier in (*reported, *faults[:k]) for span in read):  # type: ignore[arg-type]
            causes.append(fault)
    return causes


def _within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _dependencies(program: ParsedText, span: Span) -> Iterator[Span]:
    """The span, and the spans of the assignments and definitions that its value depends on."""
    seen = {span}
    stack = [span]
    while stack:
        current = stack.pop()
        yield current
        for part in _parts(program, current):
            defining = _defining_span(program, part)
            if defining is not None and defining not in seen:
                seen.add(defining)
                stack.append(defining)


def _parts(program: ParsedText, span: Span) -> Iterator[Name | CallExpr]:
    """The names and calls within a span."""
    roots: list[Expr] = [s.body if isinstance(s, Definition) else s.value for s in program.statements]
    for root in (*roots, *program.results):
        if root.span[0] <= span[1] and span[0] <= root.span[1]:
            for part in postorder(root):
                if isinstance(part, (Name, CallExpr)) and _within(part.span, span):
                    yield part


def _defining_span(program: ParsedText, part: Name | CallExpr) -> Span | None:
    """The span of the last assignment or definition of a name before it is read; else None."""
    for statement in reversed(program.statements):
        if statement.span[1] > part.span[0]:
            continue
        match part, statement:
            case CallExpr(function=name), Definition() if statement.name == name:
                return statement.body.span
            case Name(name=name), Assign() if name in [target.name for target in statement.targets]:
                return statement.value.span
    return None
