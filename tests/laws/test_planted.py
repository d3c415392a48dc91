"""The test of the test: faults of the kinds that kernels have, planted one by one, are caught by random expressions,
most of them by a few hundred."""

from __future__ import annotations

import copy
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import bounds
import numpy as np
import pytest
from draw import Program, draw
from laws import Case, hold, keeps
from memory import again
from oracle import graph_of

from fusedsl.accuracy.elementwise import needs_no_rounding
from fusedsl.backends.cpu import schedule
from fusedsl.errors import FusedslError
from fusedsl.ir import folds
from fusedsl.ir.interp import RULES, interpret
from fusedsl.ir.ops import OPS
from fusedsl.ir.types import FLOAT64
from fusedsl.kernel_ir import instruction
from fusedsl.kernel_ir.build import body_builder
from fusedsl.lru import LRU
from fusedsl.rewrite.engine import rewrite
from fusedsl.runtime.cache import Cache

PROGRAMS = 240  # about 2,000 expressions
SEARCHED = 960  # programs that a fault of a rare operation may take; drawn as far as they are needed


@cache
def case(k: int) -> Case:
    """A random program with what the judge says of it."""
    return Case(draw(10_000 + k, 9))


# -- faults of operations and rules: a wrong meaning for one row of the tables


def _op(name, wrong):
    return patch.dict(OPS, {name: replace(OPS[name], meaning=wrong)})


def _rule(name, wrong):
    right = RULES[name]
    return patch.dict(RULES, {name: lambda *given: wrong(right, *given)})


def _real(x) -> bool:
    return np.asarray(x).dtype.kind == "f"


def _off(meaning, error):
    return lambda *args: (meaning(*args) * (1 + error)).astype(args[0].dtype)


def _reduced(change, only=None):
    """A reduction of other elements, or of the right ones in another way."""

    def wrong(right, n, args, arguments, extents):
        fold, axes = n.attr
        (x,) = args
        if (only is None or fold in only) and x.size and all(x.shape[a] > 1 for a in axes):
            return change(right, n, x, fold, axes)
        return right(n, args, arguments, extents)

    return _rule("reduce", wrong)


def _without_last(right, n, x, fold, axes):
    return right(n, [x[tuple(slice(-1) if a == axes[0] else slice(None) for a in range(x.ndim))]], None, {})


def _last_twice(right, n, x, fold, axes):
    return right(n, [np.concatenate([x, x.take([-1], axes[0])], axes[0])], None, {})


def _other_axis(right, n, x, fold, axes):
    return right(n, [x.T.reshape(x.shape)], None, {})


def _in_half(right, n, x, fold, axes):
    return right(n, [x.astype(np.float16).astype(x.dtype) if _real(x) else x], None, {})


def _last_tie(right, n, x, fold, axes):
    return x.shape[axes[0]] - 1 - right(n, [np.flip(x, axes[0])], None, {})


def _from_zero(right, n, x, fold, axes):
    return {"max": np.maximum, "min": np.minimum}[fold](right(n, [x], None, {}), np.zeros((), x.dtype))


def _shifted(right, n, args, arguments, extents):
    x = args[0]
    found = right(n, args, arguments, extents)
    return np.roll(found, 1, n.attr[1]) if x.size and n.attr[0] == "sum" else found


def _next_row(right, n, args, arguments, extents):
    return right(n, [np.roll(args[0], 1, 0) if args[0].ndim else args[0]], arguments, extents)


def _rounds(right, n, args, arguments, extents):
    return right(n, [np.rint(args[0]) if n.type.dtype.kind != "f" and _real(args[0]) else args[0]], arguments, extents)


def _wraps(right, n, args, arguments, extents):
    x, d = args[0], n.type.dtype
    if d.kind in "iu" and _real(x):
        return np.nan_to_num(x).astype(np.int64).astype(d.name)
    return right(n, args, arguments, extents)


def _truncates(right, n, args, arguments, extents):
    x = args[0]
    if n.type.dtype.name != "bfloat16" or x.dtype.name != "float32":
        return right(n, args, arguments, extents)
    return (np.array(x).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _clips(right, n, args, arguments, extents):
    x, *at = args
    mode, entries = n.attr
    last = {k: x.shape[axis] - 1 for axis, (kind, k) in enumerate(entries) if kind == "at"}
    moved = [np.clip(a, -last.get(k, 0) - 1, last.get(k, 0)) if mode == "checked" else a for k, a in enumerate(at)]
    return right(n, [x, *moved], arguments, extents)


def _unstable(right, n, args, arguments, extents):
    found = right(n, [args[0][..., ::-1]], arguments, extents)
    return args[0].shape[-1] - 1 - found if n.attr[0] == "positions" else found


def _stale():
    """A temporary that is not written: the value of the run before stands in it."""
    left: dict = {}

    def wrong(right, n, args, arguments, extents):
        found = right(n, args, arguments, extents)
        return left.setdefault((found.shape, found.dtype), found)

    return _rule("reduce", wrong)


def _flushed(a, b):
    found = meaning["add"](a, b)
    return np.where(np.abs(found) < np.finfo(found.dtype).tiny, 0, found).astype(found.dtype) if _real(a) else found


def _rounded_up(a, b):
    return meaning["floor_divide"](a, b) + (meaning["remainder"](a, b) != 0).astype(a.dtype)


meaning = {name: op.meaning for name, op in OPS.items()}
half = lambda a, b: (a * b).astype(np.float16).astype(a.dtype) if _real(a) else meaning["multiply"](a, b)  # noqa: E731
single = lambda a, b: (a + b).astype(np.float32).astype(a.dtype) if _real(a) else meaning["add"](a, b)  # noqa: E731
TABLES = {
    "tanh to 1e-4": lambda: _op("tanh", _off(np.tanh, 1e-4)),
    "exp to 16 ulp": lambda: _op("exp", _off(np.exp, 2.0**-19)),
    "erf to 1e-6": lambda: _op("erf", _off(meaning["erf"], 1e-6)),
    "a product in half precision": lambda: _op("multiply", half),
    "a float64 sum in single precision": lambda: _op("add", single),
    "an approximate division": lambda: _op("divide", lambda a, b: a * (np.ones_like(b) / b)),
    "a square root to 2 ulp": lambda: _op("sqrt", _off(np.sqrt, 2.0**-22)),
    "swapped operands": lambda: _op("subtract", lambda a, b: b - a),
    "swapped operands of a quotient": lambda: _op("floor_divide", lambda a, b: meaning["floor_divide"](b, a)),
    "a mask dropped": lambda: _op("where", lambda c, a, b: np.where(True, a, b)),
    "a condition turned": lambda: _op("where", lambda c, a, b: np.where(c, b, a)),
    "< for <=": lambda: _op("less_equal", np.less),
    "maximum that loses NaN": lambda: _op("maximum", np.fmax),
    "a quotient rounded up": lambda: _op("floor_divide", _rounded_up),
    "a remainder of C": lambda: _op("remainder", meaning["fmod"]),
    "half away from zero": lambda: _op("rint", lambda a: np.trunc(a + np.copysign(0.5, a))),
    "subnormal sums flushed": lambda: _op("add", _flushed),
    "the last element dropped": lambda: _reduced(_without_last),
    "the last element twice": lambda: _reduced(_last_twice, ("sum", "prod")),
    "the wrong axis": lambda: _reduced(_other_axis),
    "a sum in half precision": lambda: _reduced(_in_half, ("sum",)),
    "the last of equals": lambda: _reduced(_last_tie, ("argmax", "argmin")),
    "0 as the identity of max": lambda: _reduced(_from_zero, ("max", "min")),
    "a scan that leaves itself out": lambda: _rule("scan", _shifted),
    "a slice one off": lambda: _rule("index", _next_row),
    "a reshape in the order of columns": lambda: _rule(
        "reshape", lambda right, n, args, a, e: right(n, [args[0].ravel("F").reshape(args[0].shape)], a, e)
    ),
    "a cast that rounds": lambda: _rule("cast", _rounds),
    "a cast that wraps": lambda: _rule("cast", _wraps),
    "a bfloat16 cut off": lambda: _rule("cast", _truncates),
    "indices that are clipped": lambda: _rule("gather", _clips),
    "an order that is not stable": lambda: _rule("sorted", _unstable),
    "a stale temporary": _stale,
}


def interpreted(fault):
    """The rewritten graph on NumPy with a fault planted, as a target."""

    def target(case):
        graph = rewrite(case.graph)

        def run(outs=None):
            with fault():
                found = interpret(graph, case.arguments)
            for k, out in enumerate(outs or ()):
                out[...] = found[k]
            return found if outs is None else outs

        return run

    return target


# -- faults of calls: right values in the wrong memory


def _leaves_out(case, results, outs):
    for x in results if outs is None else outs:
        if x.size > 1:
            x.reshape(-1)[-1:].view(np.uint8)[:] = 0xA5


def _writes_beyond(case, results, outs):
    for out in outs or ():
        if out.flags.c_contiguous and out.size and out.base is not None:
            raw = out.reshape(-1).view(np.uint8)  # as_strided does not know float8
            np.lib.stride_tricks.as_strided(raw, (raw.size + out.itemsize,), (1,))[-out.itemsize :] = 1


def _writes_an_argument(case, results, outs):
    for x in case.arguments:
        if isinstance(x, np.ndarray) and x.size and x.flags.writeable:
            x.reshape(-1)[:1].view(np.uint8)[:] ^= 1


def _changes(case, results, outs):
    case.runs = getattr(case, "runs", 0) + 1
    for x in results:
        if x.dtype == np.float32 and case.runs % 2 == 0:
            x[...] = np.nextafter(x, np.float32(9))


CALLS = {
    "a missing tail": _leaves_out,
    "a store beyond the end": _writes_beyond,
    "a store to an argument": _writes_an_argument,
    "an order that changes": _changes,
}


def careless(fault):
    """The rewritten graph on NumPy, its results spoilt."""

    def target(case):
        right = interpreted(ExitStack)(case)

        def run(outs=None):
            made = right(outs)
            fault(case, made, outs)
            return made

        return run

    return target


def caught(target, programs: int = SEARCHED) -> int | None:
    """How many expressions it takes until a target is found at fault; None if it is not by so many programs."""
    count = 0
    for k in range(programs):
        drawn = copy.copy(case(k))
        drawn.arguments = [again(x) if isinstance(x, np.ndarray) else x for x in drawn.arguments]  # some faults write
        count += len(drawn.program.results)
        before = drawn.bytes()
        try:
            keeps(drawn, target(drawn))
            assert before == drawn.bytes()
        except (AssertionError, FusedslError):
            return count
    return None


PLANTED = {name: interpreted(fault) for name, fault in TABLES.items()}
PLANTED |= {name: careless(fault) for name, fault in CALLS.items()}


def test_without_a_fault_nothing_is_caught():
    assert caught(interpreted(ExitStack), PROGRAMS) is None


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_caught(name):
    assert caught(PLANTED[name]) is not None


# -- faults of generated code, from end to end


@contextmanager
def _anew(tmp_path):
    """Plans and kernels made anew, and forgotten."""
    cache_ = Cache(tmp_path)
    with ExitStack() as stack:
        stack.enter_context(patch("fusedsl.runtime.compile._compiled_kernels", LRU(lambda: 1000)))
        for module in ("fusedsl.runtime.compile", "fusedsl.runtime.cache", "fusedsl.program.text_source"):
            stack.enter_context(patch(f"{module}.disk", lambda: cache_))
        yield


def _one_unit_less(kernel, chosen, extents, right=schedule.launch):
    made = right(kernel, chosen, extents)
    return replace(made, stages=tuple(replace(s, count=s.count - 1) for s in made.stages))


X = np.random.default_rng(3).standard_normal((7, 37)).astype(np.float32) - 3
GENERATED = {
    "swapped operands": ("x - tanh(x)", patch.dict(instruction.FORMS, {"subtract": {"f": "{1} - {0}"}})),
    "a missing tail": ("exp(x) + 1", patch.object(schedule, "launch", _one_unit_less)),
    "0 as the identity of max": (
        "max(x, axis=1)",
        patch.dict(folds.FOLDS, {"max": replace(folds.FOLDS["max"], identity=lambda d: (folds.constant(0, d),))}),
    ),
    "a cast left out": (
        "float32(astype(x, bfloat16)) * 3",
        patch.object(body_builder, "conversion", lambda source, to, rounding: ("copy", to.compute)),
    ),
}


@pytest.mark.parametrize("name", GENERATED)
def test_a_fault_of_generated_code_is_caught(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEDSL_VERIFY", "0")  # not by the verifier of plans: by what the kernel computes
    text, fault = GENERATED[name]
    program = Program((), (text,), {"x": X})
    hold(Case(program))
    with _anew(tmp_path), fault, pytest.raises(AssertionError):
        hold(Case(program))


def test_products_that_are_subnormal_are_not_taken_for_exact():
    """A target may round them together with the sum that they enter; powers of two lose nothing."""
    a, b = np.array([-0.001, -0.5, 3.0, 0.0]), np.array([7e-308, 7.5, 0.5, 5e-324])
    assert needs_no_rounding(a, b, a * b, FLOAT64).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    "text", ["maximum(a, b)", "fmax(b, a)", "max(stack([a, b]), axis=0)", "cummax(stack([a, b]), axis=0)[-1]"]
)
def test_the_largest_of_zeros_has_a_known_sign(text):
    """Extremes order zeros, whatever the processor does: a target that takes the other one is wrong."""
    a, b = np.array([0.0, -0.0]), np.array([-0.0, -0.0])
    ((value, bound),) = bounds.evaluate(*graph_of(f"signbit({text})", {"a": a, "b": b}))
    assert value.tolist() == [False, True] and not bound.any()


def test_a_product_beyond_the_range_may_be_added_to_before_it_is_rounded():
    """By itself it is infinite, and minus itself not known: a multiplication that adds gives an infinity, not NaN."""
    a = np.float32([3e38, 2.0])
    for text in ("a * a - (a * a)[::-1]", "a ** 2 - (a ** 2)[::-1]", "a ** 3 + 1"):
        ((_, bound),) = bounds.evaluate(*graph_of(text, {"a": a}))
        assert np.isinf(bound[0]), text


def test_what_may_be_0_may_be_false():
    """The smallest numbers are within a few units of 0."""
    x = np.float32([1e-45, 1.0])
    ((value, bound),) = bounds.evaluate(*graph_of("astype(expm1(x), bool)", {"x": x}))
    assert value.all() and np.isinf(bound).tolist() == [True, False]


def test_what_a_mask_leaves_out_may_be_no_number():
    """The one departure from NumPy: a weight of 0 whose mask is false contributes nothing."""
    s, v = np.float32([[1, 2], [3, 4]]), np.float32([[1, 2], [np.nan, 3]])
    for text, known in (("where(s > 2, s, 0) @ v", False), ("(s - 1) @ v", True)):
        ((value, bound),) = bounds.evaluate(*graph_of(text, {"s": s, "v": v}))
        assert np.isnan(value[0, 0]) and np.isfinite(bound[0, 0]) == known, text
