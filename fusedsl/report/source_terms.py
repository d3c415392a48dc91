"""The user's own expressions and names of values as terms of kernels' formulas, which long formulas are shown in."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..ir.dims import evaluate
from ..ir.folds import SCAN_NAMES
from ..ir.graph import Graph, Node, value_of, walk
from ..ir.ops import OPS, VIEWS
from ..ir.types import BOOL
from ..lang.syntax_tree import Assign
from ..program.resolve_call import ResolvedCall
from ..program.text_source import TextSource
from ..rewrite.engine import rewrite
from .body_formulas import BOOLS, WIDE, Formulas, FormulaTerm, SourceTerms, number_text
from .program_spans import expression_nodes

MOST_NODES = 2000  # of a graph that is read
LONGEST = 60  # characters of an expression that stands for a term

Span = tuple[int, int]
FoldTerms = Mapping[tuple[str, FormulaTerm], FormulaTerm]
"""The terms of a kernel's folds and scans, by their kind and the term of what they reduce."""


def source_terms(call: ResolvedCall, formulas: Formulas, folds: FoldTerms) -> SourceTerms:
    """The expressions of a call's program that compute one value each, as terms of a kernel's formulas."""
    roots = dict(_roots(call))
    rewritten = rewrite(replace(call.graph, results=(*call.graph.results, *roots.values()), checks=()))
    terms = _GraphTerms(call, formulas, folds).read(rewritten)
    assigned, again = _assigned(call)
    names, expressions = dict[FormulaTerm, str](), dict[FormulaTerm, str]()
    for span, n in zip(roots, rewritten.results[len(call.graph.results) :]):
        term = terms.get(n)
        if term is None or not term.args:
            continue
        if (name := assigned.get(span)) is not None:
            names.setdefault(term, name)
        text = " ".join(call.plans.source.text[slice(*span)].split())
        if len(text) <= LONGEST and again.isdisjoint(re.findall(r"\w+", text)):
            expressions.setdefault(term, text)
    return SourceTerms(names, expressions)


def _roots(call: ResolvedCall) -> Iterator[tuple[Span, Node]]:
    """The expressions of the program outside of definitions, each with its value if that is one."""
    source = call.plans.source
    definitions = source.program.functions if isinstance(source, TextSource) else ()
    if len(call.graph.nodes()) > MOST_NODES:
        return
    for (start, end), nodes in expression_nodes(call).items():
        if any(d.span[0] <= start and end <= d.span[1] for d in definitions):
            continue
        inner = {a for n in nodes for a in n.args}
        outer = dict.fromkeys(n for n in nodes if n not in inner)
        if len(outer) == 1:
            yield (start, end), next(iter(outer))


def _assigned(call: ResolvedCall) -> tuple[dict[Span, str], set[str]]:
    """(the names of values that are assigned once, by the spans of their expressions; names of several values)."""
    source = call.plans.source
    if isinstance(source, TextSource):
        statements = [s for s in source.program.statements if isinstance(s, Assign) and len(s.targets) == 1]
        assignments = [(s.value.span, s.targets[0].name) for s in statements]
    else:
        assignments = list(_assignments(source.text))
    counts = Counter(name for _, name in assignments)
    return {span: name for span, name in assignments if counts[name] == 1}, {n for n in counts if counts[n] > 1}


def _assignments(text: str) -> Iterator[tuple[Span, str]]:
    """The assignments of a function's source to one name; none if it is not source alone."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for s in ast.walk(tree):
        if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            yield (-1, -1), s.target.id
        elif isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
            v = s.value
            assert v.end_lineno is not None and v.end_col_offset is not None
            first, last = starts[v.lineno - 1] + v.col_offset, starts[v.end_lineno - 1] + v.end_col_offset
            yield (first, last), s.targets[0].id


class _GraphTerms:
    """Reads a graph as terms of a kernel's formulas; what the kernel loads in another way has no term."""

    def __init__(self, call: ResolvedCall, formulas: Formulas, folds: FoldTerms):
        self.call, self.formulas, self.folds = call, formulas, folds

    def read(self, graph: Graph) -> dict[Node, FormulaTerm]:
        terms: dict[Node, FormulaTerm] = {}
        for n in walk(graph.results):
            args = [terms[a] for a in n.args if a in terms]
            if len(args) == len(n.args) and (term := self._term(n, args)) is not None:
                terms[n] = term
        return terms

    def _term(self, n: Node, args: list[FormulaTerm]) -> FormulaTerm | None:
        f = self.formulas
        match n.op:
            case "const":
                value = value_of(n)
                if isinstance(value, (int, float)) and value < 0:
                    return f.simplified("-", f.term(number_text(-value)))
                return f.term(number_text(value))
            case "param" | "scalar":
                return f.term(self.call.plan.parameters[n.attr].name)
            case "size":
                return f.term(str(evaluate(n.attr, self.call.extents)))
            case "reduce" | "scan":
                name = n.attr[0] if n.op == "reduce" else SCAN_NAMES[n.attr[0]]
                return self.folds.get((name, args[0]))
            case "contract" if len(args) == 2:
                return self.folds.get(("sum", f.simplified("*", *args)))
            case "cast" if n.type.dtype.name not in WIDE:
                return f.simplified(n.type.dtype.name, args[0])
            case "cast" | "convert" | "transpose" | "broadcast" | "reshape":
                return args[0]
            case op if op in OPS and op not in VIEWS:
                boolean = n.args and n.args[-1].type.dtype is BOOL
                return f.simplified((BOOLS.get(op) if boolean else None) or OPS[op].symbol or op, *args)
        return None
