"""Whether a call's extents pass a check, and the text of the ShapeError of each kind of check that fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..errors import LimitError, ShapeError
from . import attention_checks
from .dims import Symbol, evaluate
from .graph import Check, Type

# Verbs of binary operations in messages; `phrase` has those of the others.
PHRASES = {
    "+": "add {0} and {1}",
    "-": "subtract {1} from {0}",
    "*": "multiply {0} and {1}",
    "@": "multiply {0} by {1}",
    "/": "divide {0} by {1}",
    "//": "divide {0} by {1}",
    "%": "take {0} modulo {1}",
    "**": "raise {0} to the power {1}",
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "compare {0} with {1}"),
}
# Messages and helps of operations whose operands must have one shape.
FIXED = {
    "where=": ("where= of {1} does not fit {0}", "{y} needs {elements} there"),
    "broadcast_to": ("cannot broadcast {0} to {shape}", "{x} needs {elements} there; or ask for {b}"),
    "concat": (
        "cannot concat {0} and {1}",
        "arrays that are joined agree in all axes but the one they are joined along",
    ),
    "stack": ("cannot stack {0} and {1}", "arrays that are stacked have one shape"),
    "scaled_dot_product_attention": (
        "heads of {0} and {1} do not pair",
        "pass enable_gqa=True where heads of query share those of key and value",
    ),
}
UNARY = {"-": "negate", "sign": "take the sign of"}
MOST_ELEMENTS = 1 << 48  # elements of an array: minutes on the fastest device
CONVOLUTIONS = ("convolve", "correlate")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def describe(t: Type, extents: Mapping[Symbol, int]) -> str:
    """A type with concrete extents; a weak number is shown as Python's type."""
    if t.weak and not t.shape:
        return {"i": "a Python int", "f": "a Python float", "b": "a bool"}[t.dtype.kind]
    shape = ", ".join(str(evaluate(d, extents)) for d in t.shape)
    return f"{t.dtype}[{shape}]" if t.shape else str(t.dtype)


def require_size(t: Type, extents: Mapping[Symbol, int]) -> None:
    """LimitError for an array with more elements than any device can compute."""
    sizes = [evaluate(d, extents) for d in t.shape]
    if any(n < 0 for n in sizes):
        message = f"an axis of {shortened(min(sizes))} elements"
        raise ShapeError(message, "shape.negative", help="extents are 0 or more")
    if math.prod(sizes) > MOST_ELEMENTS:
        message = f"an array of {' x '.join(map(shortened, sizes))} elements"
        raise LimitError(message, "limit.elements", help=f"nothing computes more than {MOST_ELEMENTS:,}")


def shortened(value: int) -> str:
    """An extent as messages show it."""
    return f"{value:,}" if abs(value) < 10**30 else spelled(value)


def spelled(value: int) -> str:
    """An integer as messages show it: a very long one by its number of digits."""
    return str(value) if abs(value) < 10**40 else f"{'-' * (value < 0)}10**{int(math.log10(abs(value)))}..."


def phrase(what: str, operands: Sequence[str]) -> str:
    """Operation and operand types in words: `add float32[3] and float32[4]`."""
    if len(operands) == 2 and what in PHRASES:
        return PHRASES[what].format(*operands)
    *first, last = operands
    verb = UNARY.get(what, f"apply {what} to") if not first else f"apply {what} to"
    return f"{verb} {', '.join(first)} and {last}" if first else f"{verb} {last}"


def holds(check: Check, extents: Mapping[Symbol, int]) -> bool:
    """Whether extents pass the check."""
    values = [evaluate(d, extents) for d in check.dims]
    match check.kind:
        case "equal" | "pairs":
            return values[0] == values[1]
        case "index":
            return -values[1] <= values[0] < values[1]  # type: ignore[operator]
        case "nonempty":
            return all(values)
        case "groups":
            return values[1] > 0 and values[0] % values[1] == 0
        case "same_size" | "contract":
            return values[0] == values[1]
        case "enough":
            return values[0] >= values[1]
    return attention_checks.holds(check, values)


def shape_error(check: Check, extents: Mapping[Symbol, int]) -> ShapeError:
    """Error of a failed check, pointing at the operation that needs it."""
    message, note, help, code = _words(check, extents)
    site = check.site
    location = {"text": site.text, "span": site.span, "caret": site.caret, "inside": site.inside}
    return ShapeError(message, f"shape.{code}", note=note, help=help, **location)  # type: ignore[arg-type]


def _empty_words(check: Check, shown: Sequence[str]) -> tuple[str, str | None, str | None, str]:
    if check.what in CONVOLUTIONS:
        return f"{check.what} with no taps: {shown[0]}", None, "give one tap or more", "convolve"
    if check.what.startswith("segment"):
        help = "there is one more than segments: segment k ends before offsets[k + 1]"
        return f"{check.what} with no offsets: {shown[0]}", None, help, "segment"
    help = "guard the call, or use sum, any or all, which have one"
    help = "mode='constant' needs no elements to go on from" if check.what == "pad" else help
    return f"{check.what} of an empty array {shown[0]} has no value", None, help, "empty"


def _words(check: Check, extents: Mapping[Symbol, int]) -> tuple[str, str | None, str | None, str]:
    shown = [describe(t, extents) for t in check.operands]
    values = [evaluate(d, extents) for d in check.dims]
    if check.kind == "equal":
        return _broadcast_words(check, shown, values, extents)
    if check.kind == "contract":
        return _contraction_words(check, shown, values)
    if check.kind == "pairs":
        return _pairs_words(check, shown, values, extents)
    if check.kind in ("agree", "heads", "offsets", "reach", "reading"):
        sizes = [[evaluate(d, extents) for d in t.shape] for t in check.operands]
        return attention_checks.words(check, shown, values, sizes)
    if check.kind == "groups":
        message = f"{values[0]} channels do not make {values[1]} groups: {shown[0]}"
        return message, None, f"choose a number that divides {values[0]}", "group"
    if check.kind == "index":
        n = values[1]
        return (
            f"index {values[0]} is out of range for an axis of {n}",
            None,
            f"indices run from {-n} to {n - 1}",
            "index",
        )  # type: ignore[operator]
    if check.kind == "nonempty":
        return _empty_words(check, shown)
    if check.what in CONVOLUTIONS:
        return (f"{check.what} of {values[1]} taps with an axis of {values[0]}: {shown[0]}", None,
                "taps are no longer than the axis: swap the two", "convolve")  # fmt: skip
    if check.what == "sliding_window":
        return (f"windows of {values[1]} elements in an axis of {values[0]}: {shown[0]}", None,
                f"a window has at most {values[0]} elements here", "sliding_window")  # fmt: skip
    if check.what == "conv":
        return (f"taps that span {values[1]} elements, in an axis of {values[0]}, padding included", None,
                "pad the array, or give fewer taps", "conv")  # fmt: skip
    if check.kind == "enough":
        return (f"{check.what} of {values[1]} from {shown[0]}: its last axis has {values[0]}", None,
                f"k is at most {values[0]} here", check.what)  # fmt: skip
    if check.what == "group":
        return (
            f"an axis of {values[0]} does not hold whole groups: {shown[0]}",
            None,
            "pad it, or choose a group that divides it",
            "group",
        )
    return _reshape_words(shown[0], values[0], values[2:])


def _reshape_words(shown: str, count: int, asked: list[int]):
    wanted = f"({', '.join(map(str, asked))}{',' * (len(asked) == 1)})"
    if -1 in asked:
        note = f"{count} is no multiple of {-math.prod(asked)}"
        return f"cannot reshape {shown} of {count} elements into {wanted}", note, None, "reshape"
    message = f"cannot reshape {shown} of {count} elements into {wanted} of {math.prod(asked)}"
    return message, None, "use -1 for one extent to let it follow", "reshape"


def _broadcast_words(check, shown, values, extents):
    a, b, axis = values[:3]
    rank = max(t.rank for t in check.operands)
    axis_name = "last axis" if axis == -1 else f"{ORDINALS[rank + axis] if rank + axis < 8 else rank + axis} axis"
    if check.what in FIXED:
        message, help = FIXED[check.what]
        named = [check.names[k] if k < len(check.names) and check.names[k] else t for k, t in enumerate(shown)]
        shape = shown[-1][shown[-1].index("[") :]
        elements = "1 element" if a == 1 else f"{a} elements, or 1,"
        words = (
            t.format(*shown, x=named[0], y=named[-1], shape=shape, elements=elements, b=b) for t in (message, help)
        )
        return next(words), f"{a} and {b} differ in the {axis_name}", next(words), "broadcast"
    every = range(len(check.operands))
    differing = [k for k in every if _extent(check.operands[k], axis, extents) in (a, b)] or every
    short = min(differing, key=lambda k: math.prod(evaluate(d, extents) for d in check.operands[k].shape) or 1)
    other = a if _extent(check.operands[short], axis, extents) == b else b
    name = check.names[short] if short < len(check.names) and check.names[short] else shown[short]
    return (
        f"cannot {phrase(check.what, shown)}",
        f"{a} and {b} differ in the {axis_name}",
        f"{name} needs {other} elements{' there' * (check.operands[short].rank > 1)}, or 1",
        "broadcast",
    )


def _pairs_words(check, shown, values, extents):
    """The words of a broadcast check, with help for an array that could be indexed by b, h, i and j."""
    message, note, help, code = _broadcast_words(check, shown, values, extents)
    for array, name in sorted(zip(check.operands, check.names), key=lambda one: one[0].rank):
        sizes = [evaluate(d, extents) for d in array.shape]
        way = attention_checks.indexing_help(name, sizes, values[3:])
        if way is not None:
            return message, note, f"write {way}", code
    return message, note, help, code


def _contraction_words(check, shown, values):
    a, b = values
    if check.what == "matmul":
        help = "the last axis of the left operand and the last but one of the right must agree: transpose one with .mT?"
        return f"cannot multiply {shown[0]} by {shown[1]}", f"{a} and {b} differ", help, "matmul"
    note = f"{check.names[0]} is {a} and {b}" if check.names else f"{a} and {b} differ"
    help = "a letter has one extent, or 1" if check.names else "the axes that are summed over have one extent"
    if len(shown) == 1:
        return f"{shown[0]} has no such diagonal", note, "the axes of a letter have one extent", check.what
    return f"cannot contract {shown[0]} with {shown[1]}", note, help, check.what


def _extent(t: Type, axis: int, extents) -> int | None:
    return evaluate(t.shape[axis], extents) if t.rank >= -axis else None
