"""attention(q, k, v, …): the graph of the operations that it stands for, with the texts of score and mask inlined.

    s = q @ k.mT * scale;  s = score text;  e = exp(where(mask, s, -inf) - max);  sum(e * v) / sum(e)

It is nothing that a text could not say. Heads that share k and v are an axis of their own, so that k and v broadcast;
what is masked weighs nothing, whatever v holds there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..errors import ArgumentError, DTypeError, ShapeError
from ..ir import shapes
from ..ir.builder import Builder
from ..ir.contraction import matmul
from ..ir.dims import Dim
from ..ir.graph import Node, value_of, walk
from ..ir.types import BOOL, FLOAT32
from .attention_layout import Layout, Request, laid_back, laid_out, same_here
from .frames import BROKEN, Broken, Frame
from .functions import show_value
from .parse import parse
from .syntax import Assign, Call, Definition, Literal, Name, Program, Span, Subscript, postorder

if TYPE_CHECKING:
    from .evaluate import Evaluator

FOLDING = ("reduce", "scan", "ranked", "contract")
NAMES = ("score", "b", "h", "i", "j", "q", "k", "v")


def attention(ev: Evaluator, r: Request) -> Node | tuple[Node, Node]:
    """The result, or (result, log-sum-exp)."""
    b = ev.builder
    found = laid_out(b, r)
    width = r.q.type.shape[-1]
    scale = r.scale if r.scale is not None else b.elementwise("rsqrt", b.convert(b.extent(width), FLOAT32))
    wide = r.q.type.dtype.compute
    q, k, v = (b.convert(x, wide) for x in (found.q, found.k, found.v))
    score = b.elementwise("multiply", matmul(b, q, shapes.swapaxes(b, k, -1, -2)), b.convert(scale, wide))
    score, keep = _scored(ev, r, score, found)
    out, lse = _weighed(b, score, keep, v)
    out = laid_back(b, found, b.cast(out, r.q.type.dtype))
    return (out, laid_back(b, found, shapes.squeeze(b, lse, [4]))) if r.return_lse else out


def _weighed(b: Builder, score: Node, keep: Node | None, v: Node) -> tuple[Node, Node]:
    """(sum(e * v) / sum(e), log(sum(e)) of the scores themselves); 0 and -inf where all is masked."""
    zero, one = b.literal(0.0), b.literal(1.0)
    if keep is not None:
        score = b.elementwise("where", keep, score, b.literal(float("-inf")))
    largest = shapes.reduce(b, "max", score, -1, keepdims=True, empty=True)
    largest = b.elementwise("where", b.elementwise("isfinite", largest), largest, zero)
    e = b.elementwise("exp", b.elementwise("subtract", score, largest))
    total = shapes.reduce(b, "sum", e, -1, keepdims=True)
    if keep is None:
        weighed = matmul(b, e, v)
    else:
        kept, weights = (shapes.expand_dims(b, x, -1) for x in (keep, e))
        products = b.elementwise("multiply", weights, shapes.expand_dims(b, v, -3))
        weighed = shapes.reduce(b, "sum", b.elementwise("where", kept, products, zero), -2)
    nothing = b.elementwise("equal", total, zero)
    out = b.elementwise("divide", weighed, b.elementwise("where", nothing, one, total))
    return out, b.elementwise("add", largest, b.elementwise("log", total))


# -- texts


def _scored(ev: Evaluator, r: Request, score: Node, found: Layout) -> tuple[Node, Node | None]:
    """(the scores, where they count or None: everywhere)"""
    b, keep = ev.builder, list(found.keep)
    taken = [name for name in r.arrays if name in NAMES]
    if taken:
        message = f"{taken[0]} means something else in score and mask"
        raise ArgumentError(message, code="argument.attention", help=f"give the array another name than {taken[0]}")
    for text in (r.score, r.mask):
        if isinstance(text, str) and not found.ragged:
            _match_extents(b, parse(text), r, found)
    values = {"score": score, **found.places, "q": r.q, "k": r.k, "v": r.v, **r.arrays}
    shape = score.type.shape
    if r.score is not None:
        made = _inlined(ev, "score", r.score, values)
        if made.op == "where" and made.args[2].op == "const" and value_of(made.args[2]) == float("-inf"):
            keep.append(made.args[0])
        if made.type.dtype.kind != "f":
            made = b.convert(made, score.type.dtype)
        score = b.cast(_fitted(b, "score", made, shape), score.type.dtype)
    if r.mask is not None:
        made = _inlined(ev, "mask", r.mask, values)
        if made.type.dtype is not BOOL:
            message = f"mask is a condition, and this is {b.describe(made.type)}"
            raise DTypeError(message, code="dtype.attention", help="compare it: doc[i] == doc[j]", text=r.mask, caret=0)
        keep.append(_fitted(b, "mask", made, shape))
    whole: Node | None = None
    for condition in keep:
        whole = condition if whole is None else b.elementwise("logical_and", whole, condition)
    return score, None if whole is None else shapes.broadcast_to(b, whole, shape)


def _match_extents(b: Builder, program: Program, r: Request, found: Layout) -> None:
    """Arrays that are read at b, h, i or j itself, and are as long as these run, are read as they lie: no position is
    computed. The plan holds for calls where it is so."""
    batch, kv, several, n, _ = found.q.type.shape
    extents = {"b": batch, "i": n, "j": found.k.type.shape[-2]}
    extents |= {"h": kv} if b.is_unit(several) else {"h": several} if b.is_unit(kv) else {}
    for part in (part for root in _roots(program) for part in postorder(root)):
        if not (isinstance(part, Subscript) and isinstance(part.value, Name) and part.value.name in r.arrays):
            continue
        shape = r.arrays[part.value.name].type.shape
        for one, index in zip(shape, part.indices):
            if not isinstance(index, Name) or index.name not in extents:
                break
            same_here(b, one, extents[index.name])


def _fitted(b: Builder, name: str, x: Node, shape: tuple[Dim, ...]) -> Node:
    """A score or mask for every pair: (batch, heads, n, m), heads in two axes."""
    if x.type.rank > len(shape):
        message = f"{name} is a value for each b, h, i and j, and this is {b.describe(x.type)}"
        raise ShapeError(message, code="shape.attention", help="index arrays with b, h, i and j: bias[h, i, j]")
    return shapes.broadcast_to(b, x, shape)


def _inlined(ev: Evaluator, name: str, text: str, values: Mapping[str, Node]) -> Node:
    """The value of a text; its faults are drawn in it."""
    from .evaluate import Evaluator

    if not isinstance(text, str):
        message = f"{name} is a text, not {show_value(text)}"
        raise ArgumentError(message, code="argument.attention", help=f"e.g. {name}='j <= i'")
    program = parse(text)
    _check_names(program, name, text)
    inner = Evaluator(ev.builder, text, ev.limits)
    results = inner.texts(program, Frame(dict(values)))
    ev.operations += inner.operations
    if len(results) != 1:
        message = f"{name} is one expression, and this has {len(results)} results"
        raise ArgumentError(
            message,
            code="argument.attention",
            text=text,
            span=program.results[-1].span,
            help="keep one; names and functions above it take the others",
        )
    _check_elementwise(results[0], program, name, text, values)
    return results[0]


def _roots(program: Program) -> list:
    bodies = [
        s.body if isinstance(s, Definition) else s.value if isinstance(s, Assign) else s for s in program.statements
    ]
    return [*bodies, *program.results]


def _check_names(program: Program, name: str, text: str) -> None:
    """q, k and v are there for their sizes."""
    parts = [part for root in _roots(program) for part in postorder(root)]
    sized = {part.arguments[0].value for part in parts if isinstance(part, Call) and part.function in ("size", "shape")}
    for part in parts:
        if isinstance(part, Name) and part.name in ("q", "k", "v") and part not in sized:
            message = f"{name} sees {part.name} inside size alone"
            help = "score is q times k already; pass what else it needs as an array"
            raise ArgumentError(message, code="argument.attention", text=text, span=part.span, help=help)


def _check_elementwise(made: Node, program: Program, name: str, text: str, values: Mapping[str, Node]) -> None:
    """Nothing is reduced, scanned, put in order or multiplied as matrices in a score or a mask."""
    given = set(walk(values.values()))
    if not any(n.op in FOLDING for n in walk([made]) if n not in given):
        return
    calls = [part for root in _roots(program) for part in postorder(root) if isinstance(part, Call)]
    span = next((c.span for c in calls if c.function not in ("where", "size")), program.results[0].span)
    message = f"{name} is elementwise: it cannot look at other pairs"
    help = "reduce before, and pass the result as an array"
    raise ArgumentError(message, code="argument.attention", text=text, span=span, help=help)


# -- the call in a text


def unquoted(call: Call, text: str) -> Iterator[tuple[Span, str]]:
    """The score and the mask that a call gives as expressions of its own text, each with what to write instead."""
    for argument in call.arguments if call.function == "attention" else ():
        if argument.keyword in ("score", "mask") and not isinstance(argument.value, (Literal, Name)):
            start, end = argument.value.span
            yield argument.value.span, f"a {argument.keyword} is quoted: {argument.keyword}='{text[start:end]}'"


def call(ev: Evaluator, node: Call, frame: Frame):
    """`attention(q, k, v, score=..., bias=bias, …)` in a text: keywords that it does not know are arrays."""
    given: dict[str, object] = {}
    expressions: dict[str, object] = {}
    for place, argument in enumerate(node.arguments):
        if argument.keyword is None and place > 2:
            error = ArgumentError("attention takes 3 positional arguments", code="argument.surplus", help=FORM)
            raise ev.fault(error, frame, argument.value)
        name = argument.keyword or "qkv"[place]
        if name in given:
            error = ArgumentError(f"{name} is given twice", code="argument.twice", help="keep one of them")
            raise ev.fault(error, frame, argument, argument.span[0])
        expressions[name] = argument.value
        given[name] = yield argument.value, frame
    if any(value is BROKEN for value in given.values()):
        raise Broken
    missing = [name for name in "qkv" if name not in given]
    if missing:
        error = ArgumentError(f"attention misses {' and '.join(missing)}", code="argument.missing", help=FORM)
        raise ev.fault(error, frame, node, node.close)
    for name in ("score", "mask"):
        if given.get(name) is not None and not isinstance(given[name], str):
            raise ev.fault(_no_text(name, given[name]), frame, expressions[name])  # type: ignore[arg-type]
    with ev.at(frame, node, node.function_span[0], tuple(expressions[name] for name in "qkv")):
        return attention(ev, requested(ev.builder, given))


FORM = "call it as attention(q, k, v, score='...', mask='...', scale=..., lengths=..., bias=bias)"
OPTIONAL = ("lengths", "pages", "scale")


def _no_text(name: str, value: object) -> ArgumentError:
    help = f"quote it, e.g. {name}='j <= i'"
    return ArgumentError(f"{name} is a text, not {show_value(value)}", code="argument.attention", help=help)


def requested(b: Builder, given: Mapping[str, object]) -> Request:
    """The request of keyword arguments; ArgumentError where one is not of its kind."""
    rest = dict(given)
    texts = {name: rest.pop(name, None) for name in ("score", "mask")}
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise _no_text(name, text)
    offsets, flag = rest.pop("offsets", None), rest.pop("return_lse", False)
    if offsets is not None and not (isinstance(offsets, tuple) and len(offsets) == 2):
        raise ArgumentError("offsets are two arrays, of q and of k", code="argument.attention", help="offsets=(q, k)")
    if isinstance(flag, Node) and flag.op == "const":
        flag = bool(value_of(flag))
    if not isinstance(flag, bool):
        raise ArgumentError("return_lse is True or False", code="argument.attention", help=FORM)
    nodes: dict[str, Node] = {}
    for name, x in [*((n, x) for n, x in rest.items() if x is not None), *(("offsets", x) for x in offsets or ())]:
        if not isinstance(x, Node):
            raise ArgumentError(f"{name} is an array, not {show_value(x)}", code="argument.attention", help=FORM)
        nodes[name] = x
    q, k, v = (nodes.pop(name) for name in "qkv")
    nodes.pop("offsets", None)
    known = {name: nodes.pop(name, None) for name in OPTIONAL}
    return Request(q, k, v, **texts, **known, offsets=offsets, return_lse=flag, arrays=nodes)  # type: ignore[arg-type]
