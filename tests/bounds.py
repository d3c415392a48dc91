"""Derived error bounds: a graph evaluated in float64 beside how far a correct float32 target may be from it.

Every rounding adds half an ulp (a documented number of ulps for functions), and an operation passes the errors of its
operands on: the bound is the largest change of the exact result when each operand moves by its own bound. A bound of
infinity says that anything may come, NaN included: a comparison of values within their bounds of one another, a value
beside the edge of a function's domain or beside the largest float. What is neither NaN nor a float is exact or such.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import ml_dtypes
import numpy as np

from fusedsl.ir.contraction import Subscripts
from fusedsl.ir.graph import Graph, Node, walk
from fusedsl.ir.interp import ACCUMULATE, RULES, cast, extents_of
from fusedsl.ir.ops import OPS
from fusedsl.ir.types import FLOAT32, FLOAT64, DType, numpy_dtype

EPS = {"float64": 2.0**-53, "float32": 2.0**-24}  # half an ulp, relative
HALF_ULP = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134)}  # relative; of subnormal numbers
TINY = {"float64": 2.0**-1074, "float32": 2.0**-149}
LARGEST = {"float64": np.finfo(np.float64).max, "float32": float(np.finfo(np.float32).max)}
SMALLEST = {"float64": 2.0**-1022, "float32": 2.0**-126}  # that are normal
FUNCTION_ULPS = 4.0  # the largest in CUDA's table of single-precision functions but lgamma's
EXACT = {"negative", "absolute", "sign", "maximum", "minimum", "fmax", "fmin", "where", "floor", "ceil", "trunc"}
EXACT |= {"rint", "copysign", "nextafter"}
ARITHMETIC = {"add", "subtract", "multiply", "divide", "sqrt", "fma", "fmod", "remainder"}
CORRECT = {"add", "subtract", "divide", "sqrt"}  # of exact operands they have one right result
SPLIT = 2.0**27 + 1

Known = tuple[np.ndarray, np.ndarray]  # (exact value, bound)


def evaluate(graph: Graph, arguments: list) -> list[Known]:
    """(exact value, bound) of each result, stored in its dtype. Values that are not floats have bound 0 or infinity."""
    extents = extents_of(arguments)
    known: dict[Node, Known] = {}
    with np.errstate(all="ignore"):
        for n in graph.nodes():
            known[n] = of_node(n, [known[a] for a in n.args], arguments, extents)
            if n.op == "contract" and n.type.dtype.kind == "f":
                known[n] = _parted(n, known, arguments, extents)
        return [stored(*known[r], r.type.dtype) for r in graph.results]


def of_node(n: Node, args: list[Known], arguments, extents) -> Known:
    """One node, given its arguments' values and bounds."""
    if n.op in OPS:
        return _operation(n, args)
    if n.op in ("reduce", "scan", "ranked"):
        return {"reduce": _reduce, "scan": _scan, "ranked": _ranked}[n.op](n, *args[0], arguments, extents)
    if n.op == "contract":
        return _contract(n, args, arguments, extents)
    values = [v for v, _ in args]
    if n.op == "cast" or (n.op == "convert" and n.type.dtype.kind == "f"):
        return stored(*args[0], n.type.dtype if n.op == "cast" else n.type.dtype.compute)
    value = _wide(np.asarray(RULES[n.op](n, values, arguments, extents)), n.type.dtype)
    if n.op == "scalar":
        return _wide(cast(value, n.type.dtype.compute), n.type.dtype), np.zeros(value.shape)
    if not n.args:
        return value, np.zeros(value.shape)
    moved = np.asarray(RULES[n.op](n, [args[0][1], *values[1:]], arguments, extents))
    bound = np.where(np.isnan(moved), 0.0, moved)  # what a gather does not find is NaN, to the bit
    return value, np.where(_unknown(args[1:], value.shape), np.inf, bound)


def stored(value, bound, d: DType) -> Known:
    """A value cast to a dtype: casts are monotone, so what is within the bound lies between the casts of its ends."""
    if value.dtype.kind == "f" and d is FLOAT64:
        return value, bound
    middle = _wide(cast(value, d), d)
    if not bound.any():
        return middle, np.zeros(middle.shape)
    moved = _distance(middle, *(_wide(cast(v, d), d) for v in _corners(value, bound)))
    if d.kind == "b" and value.dtype.kind == "f":  # only 0 is False
        moved = np.where((bound > 0) & (np.abs(value) <= bound), np.inf, moved)
    return middle, np.where(np.isinf(bound) & (value.dtype.kind != "b"), np.inf, moved)


def _distance(middle, *others):
    """How far the others are, at most; infinity where one is NaN and the other not, or where integers differ."""
    found = np.zeros(middle.shape)
    for other in others:
        if middle.dtype.kind != "f":
            change = np.where(middle == other, 0.0, np.inf)
        else:
            change = np.abs(other - middle)
            change = np.where(np.isnan(change), np.where(np.isnan(middle) == np.isnan(other), 0.0, np.inf), change)
            change = np.where((middle == other) | (np.isnan(middle) & np.isnan(other)), 0.0, change)
        found = np.maximum(found, change)
    return found


def _wide(x: np.ndarray, d: DType) -> np.ndarray:
    return x.astype(np.float64) if d.kind == "f" else x.astype(numpy_dtype(d))


def _unknown(args: list[Known], shape) -> np.ndarray:
    """Where an operand may be anything."""
    return _any(args, shape, np.isinf)


def _any(args: list[Known], shape, holds) -> np.ndarray:
    """Where something holds for the bound of an operand."""
    found = np.zeros(shape, bool)
    for _, bound in args:
        found = found | holds(bound)
    return found


# -- elementwise


def _operation(n: Node, args: list[Known]) -> Known:
    values, compute = [v for v, _ in args], n.type.dtype.compute
    if n.op == "nextafter":
        values = [v.astype(numpy_dtype(compute)) for v in values]
    value = np.asarray(OPS[n.op].meaning(*values))
    value = value.astype(np.float64) if value.dtype.kind == "f" else value
    if n.op == "where":
        return value, _chosen(args, value)
    moved = _any(args, value.shape, lambda bound: bound > 0)
    bound = _passed_on(n.op, args, value) if moved.any() else np.zeros(value.shape)
    if n.op in ("signbit", "copysign"):  # the sign of a NaN is no target's business
        bound = np.where(np.isnan(values[-1]), np.inf, bound)
    if value.dtype.kind != "f":
        return value, np.where(bound > 0, np.inf, 0.0)
    if n.op in ("maximum", "minimum", "fmax", "fmin"):
        bound = np.maximum(bound, _of_either_sign(value, lambda holds: holds(values[0]) | holds(values[1])))
    value, bound = _rounded(n.op, values, value, bound, ~moved, compute)
    value, bound = _bounded(n.op, values, value, bound, compute)
    return value, np.where(_unknown(args, value.shape), np.inf, bound)


def _of_either_sign(value, some: Callable):
    """The bound of a largest or a smallest value that is 0, of either sign: NumPy's depends on the processor, too."""
    positive = some(lambda x: (x == 0) & ~np.signbit(x))
    return np.where((value == 0) & positive & some(lambda x: (x == 0) & np.signbit(x)), TINY["float64"], 0.0)


def _chosen(args: list[Known], value):
    """An unsure condition may give either of two values."""
    (condition, unsure), (a, ea), (b, eb) = args
    bound = np.where(condition, ea, eb)
    if not unsure.any():
        return bound
    if value.dtype.kind != "f":
        return np.where((unsure > 0) & ((a != b) | (ea + eb > 0)), np.inf, bound)
    either = _distance(np.broadcast_to(a, value.shape), np.broadcast_to(b, value.shape)) + np.maximum(ea, eb)
    return np.where(unsure > 0, either, bound)


def _rounded(op: str, values, value, passed, sure, compute: DType) -> Known:
    """The value with the bound that its rounding adds to what is passed on; nothing comes from operands that are sure,
    and may be too little for float64 to show from those that are not."""
    ulps = 0.0 if op in EXACT else 0.5 if op in ARITHMETIC else 8.0 if op == "lgamma" else FUNCTION_ULPS
    ulps *= 2 if compute is FLOAT64 else 1  # the reference itself is computed in float64
    size = np.abs(np.where(np.isfinite(value), value, 0))
    if op == "lgamma":  # its zeros are known to an absolute error only
        size = np.maximum(size, 1.0)
    bound = np.where(np.isfinite(value), 2 * ulps * (EPS[compute.name] * size + TINY[compute.name]), 0.0)
    if op == "fma":  # the product may be rounded by itself
        product = np.abs(np.multiply(*values[:2]))
        bound = bound + EPS[compute.name] * np.where(np.isfinite(product), product, 0.0)
    if op == "divide":  # where the remainder is subnormal, 2 ulp
        near = (size < 4 * SMALLEST[compute.name]) | (np.abs(values[0]) < 2.0**24 * SMALLEST[compute.name])
        bound = np.where(near, 4 * bound, np.where(sure, 0.0, bound))
    elif op in CORRECT:
        bound = np.where(sure, 0.0, bound)
    elif op == "multiply":
        bound = np.where((sure) & _needs_no_rounding(*values, value, compute), 0.0, bound)
    nearest = value.astype(np.float32).astype(np.float64) if compute is FLOAT32 and op in CORRECT else value
    return np.where(sure, nearest, value), passed + bound


def _needs_no_rounding(a, b, product, compute: DType):
    """Whether a product is exact: one that is not may be rounded together with the sum that it enters."""
    if compute is FLOAT32:
        return product == product.astype(np.float32)
    high_a, high_b = (x * SPLIT - (x * SPLIT - x) for x in (a, b))  # Dekker's exact product, 1971
    low_a, low_b = a - high_a, b - high_b
    exact = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b == 0
    return exact & ((np.abs(product) >= 2.0**54 * SMALLEST["float64"]) | (a == 0) | (b == 0))  # its parts are normal


def _bounded(op: str, values, value, bound, compute: DType):
    """Beyond the largest float is infinity; a product (a power) that is added to may escape that, where both are
    rounded once."""
    largest, size = LARGEST[compute.name], np.abs(value)
    beyond = np.isfinite(value) & (size - bound > largest)
    unsure = (size + bound > largest) & np.isfinite(value) & ~beyond
    if op == "multiply" or (op == "power" and (np.abs(values[1]) >= 2).all()):
        unsure = unsure | beyond | (np.isinf(value) & ((bound > 0) | (np.isfinite(values[0]) & np.isfinite(values[1]))))
    return np.where(beyond, np.copysign(np.inf, value), value), np.where(unsure, np.inf, np.where(beyond, 0.0, bound))


def _corners(value, bound):
    """The ends of what an operand may be; a bool that is unsure may be either."""
    if value.dtype.kind == "f":
        step = np.where(np.isfinite(bound), bound, 0.0)
        return (value - step, value + step) if step.any() else (value,)
    return (value, value ^ (bound > 0)) if value.dtype.kind == "b" and bound.any() else (value,)


def _passed_on(op: str, args: list[Known], value):
    """The largest change of the result over the corners of the operands' bounds, where it is monotone between them."""
    with np.errstate(all="ignore"):
        found = [np.asarray(OPS[op].meaning(*moved)) for moved in itertools.product(*(_corners(*a) for a in args))]
        worst = _distance(value, *found)
        if op in WAVES:
            worst = WAVES[op](worst, found, args, value)
    whole = [a for a in args if a[0].dtype.kind in "iu"]
    unknown = whole if args[0][0].dtype.kind == "b" else args
    return np.where(_unknown(unknown, value.shape), np.inf, worst)


def _wave(worst, found, args, value):
    """No steeper than 1."""
    return np.minimum(np.maximum(worst, args[0][1]), 2.0)


def _tangent(worst, found, args, value):
    return np.where((args[0][1] > 0) & ((found[-1] < found[0]) | (args[0][1] > 1)), np.inf, worst)


def _quotient(worst, found, args, value):
    (_, _), (b, eb) = args
    return np.where((eb > 0) & (np.abs(b) <= eb), np.inf, worst)


def _raised(worst, found, args, value):
    """A negative number has powers at whole exponents alone."""
    (a, ea), (_, eb) = args
    return np.where((eb > 0) & (a - ea < 0), np.inf, worst * 1.01)


def _whole_quotient(worst, found, args, value):
    """The quotient's whole part must be sure; a remainder is steep at its steps."""
    (a, ea), (b, eb) = args
    ends = [np.floor(x / y) for x in (a - ea, a, a + ea) for y in (b - eb, b, b + eb)]
    steady = np.all([end == ends[0] for end in ends], axis=0)
    return np.where((ea + eb > 0) & ~steady, np.inf, _quotient(worst, found, args, value))


def _equality(worst, found, args, value):
    (a, ea), (b, eb) = args
    slack = ea + eb
    return np.where((slack > 0) & (np.abs(np.subtract(a, b, dtype=np.float64)) <= slack), np.inf, worst)


def _gamma(worst, found, args, value):
    """It has poles at the negative integers and turns between them."""
    return np.where((args[0][1] > 0) & (args[0][0] < 0), np.inf, worst * 1.1 + args[0][1])


WAVES = {"sin": _wave, "cos": _wave, "tan": _tangent, "divide": _quotient, "power": _raised}
WAVES |= {"remainder": _whole_quotient, "fmod": _whole_quotient, "floor_divide": _quotient, "lgamma": _gamma}
WAVES |= {"equal": _equality, "not_equal": _equality}


# -- along axes


def _reduce(n: Node, value, bound, arguments, extents) -> Known:
    fold, axes = n.attr
    unknown = np.isinf(bound).any(axis=axes, keepdims=True)
    if not value.size and fold in ("max", "min", "argmax", "argmin"):
        total = np.asarray(RULES["reduce"](n, [value], arguments, extents))
        return total, np.zeros(total.shape)
    if fold in ("sum", "prod") and n.type.dtype.kind == "f":  # in float64: one float32 after another is off by more
        total = np.asarray(getattr(np, fold)(value, axis=axes, keepdims=True))
        count = max(1, int(np.prod([value.shape[a] for a in axes])))
        found = _sum if fold == "sum" else _product
        passed = found(value, bound, total, n.type.dtype.compute, count, lambda f, x: f.reduce(x, axes, keepdims=True))
        total, passed = _bounded("add", (), total, passed, n.type.dtype.compute)
        return total, np.where(unknown, np.inf, passed)
    total = np.asarray(RULES["reduce"](n, [value], arguments, extents))
    if fold in ("argmax", "argmin"):
        return total, np.where(_close_to_best(fold, value, bound, axes[0]), np.inf, 0.0)
    if fold in ("sum", "prod"):
        return total, np.where(unknown, np.inf, 0.0)
    if value.dtype.kind == "b":
        either = [np.where(bound > 0, v, value) for v in (True, False)]
        return total, _distance(total, *(RULES["reduce"](n, [v], arguments, extents) for v in either))
    moved = _distance(total, *(RULES["reduce"](n, [v], arguments, extents) for v in _corners(value, bound)))
    if total.dtype.kind == "f":
        either = _of_either_sign(total, lambda holds: holds(value).any(axis=axes, keepdims=True))
        moved = np.maximum(moved, either)
    return total, np.where(unknown, np.inf, moved)


def _sum(value, bound, total, compute: DType, count: int, along):
    """Chunks added one after another, then a tree of what they give; nothing to round where all are small integers."""
    size = along(np.add, np.abs(np.where(np.isfinite(value), value, 0)))
    passed = along(np.add, bound)
    beyond = size + passed > LARGEST[compute.name]  # on the way, in some order
    whole = along(np.logical_and, np.isfinite(value) & (value == np.trunc(value))) & (size * EPS[compute.name] <= 1)
    terms = min(count, 8 + 64 + np.log2(count))
    rounding = np.where((passed == 0) & whole, 0.0, 2 * terms * EPS[compute.name] * size)
    return np.where(beyond, np.inf, np.where(np.isfinite(total), passed + rounding, 0.0))


def _contract(n: Node, args: list[Known], arguments, extents) -> Known:
    """Sums of products: a few hundred one after another, then those of blocks."""
    (x, ex), (y, ey) = (_weighed(a, *known) for a, known in zip(n.args, args))
    total = np.asarray(RULES["contract"](n, [x, y], arguments, extents))
    anything, touched = np.isinf(ex).astype(float), np.isinf(ey).astype(float)
    unknown = np.einsum(n.attr, anything, np.ones(y.shape)) + np.einsum(n.attr, np.ones(x.shape), touched) > 0
    if n.type.dtype.kind != "f":
        return total, np.where(unknown, np.inf, 0.0)
    total, compute = np.einsum(n.attr, x, y), n.type.dtype.compute
    finite = (np.where(np.isfinite(v), np.abs(v), 0) for v in (x, y))
    (a, b), (ea, eb) = finite, (np.where(np.isfinite(e), e, 0) for e in (ex, ey))
    size, most = np.einsum(n.attr, a, b), np.einsum(n.attr, a + ea, b + eb)
    letters = Subscripts.parse(n.attr)
    count = max(1, int(np.prod([x.shape[letters.left.index(c)] for c in letters.summed])))
    serial = min(count, 256) + count // 256 + 8
    subnormal = np.where(size > 0, count * TINY[compute.name], 0.0)  # products, each rounded or not
    bound = most - size + 2 * serial * EPS[compute.name] * size + subnormal
    unsure = unknown | (most > LARGEST[compute.name]) | _masked(n, x, y) | _masked(n, y, x, 1)
    return total, np.where(unsure, np.inf, np.where(np.isfinite(total), bound, 0.0))


def _masked(n: Node, weights, others, side: int = 0) -> np.ndarray:
    """Where weights of 0 that a condition may have chosen stand beside NaN or infinities: they contribute nothing where
    their mask is false, and NaN elsewhere."""
    if all(m.op != "where" for m in walk([n.args[side]])):
        return np.zeros((), bool)
    pair = [(weights == 0).astype(float), (~np.isfinite(others)).astype(float)]
    return np.einsum(n.attr, *(reversed(pair) if side else pair)) > 0


def _parted(n: Node, known: dict[Node, Known], arguments, extents) -> Known:
    """Operands that are products themselves: some of their factors may be multiplied in after the sum, which leaves the
    range of floats, or loses bits of subnormal numbers, where the other factors alone do."""
    value, bound = known[n]
    most = np.einsum(n.attr, *(_reach(a, known, arguments, extents) for a in n.args))
    compute = n.type.dtype.compute.name
    return value, np.where(most > LARGEST[compute], np.inf, bound + np.where(bound > 0, most * TINY[compute], 0.0))


def _reach(n: Node, known: dict[Node, Known], arguments, extents) -> np.ndarray:
    """The largest magnitude, from 1 on, that some of a value's factors multiply to."""
    if n.op in ("multiply", "divide") and n.type.dtype.kind == "f":
        a, b = n.args
        b_reach = np.maximum(1 / np.abs(known[b][0]), 1.0) if n.op == "divide" else _reach(b, known, arguments, extents)
        return _reach(a, known, arguments, extents) * np.where(np.isfinite(b_reach), b_reach, 1.0)
    if n.op in ("cast", "convert"):
        return _reach(n.args[0], known, arguments, extents)
    if n.args and n.op not in OPS and n.op not in ("reduce", "scan", "ranked", "contract", "scalar"):
        values = [_reach(n.args[0], known, arguments, extents), *(known[a][0] for a in n.args[1:])]
        found = np.asarray(RULES[n.op](n, values, arguments, extents))
        return np.where(np.isnan(found), 1.0, found)
    size = np.abs(np.asarray(known[n][0], np.float64))
    return np.where(np.isfinite(size), np.maximum(size, 1.0), 1.0)


def _weighed(n: Node, value, bound) -> Known:
    """What was rounded to enter a sum of products; a stream rounds it before other factors of the sum, or never."""
    half, least = HALF_ULP.get(n.type.dtype.name, (0.0, 0.0))
    if not half or n.op != "cast" or n.args[0].type.dtype.compute is not FLOAT32:
        return value, bound
    return value, bound + np.where(np.isfinite(value), half * np.abs(value) + least, 0.0)


def _product(value, bound, total, compute: DType, count, along):
    """Each factor at the end of its bound. Partial products in some order may leave the range of normal floats."""
    size = np.where(np.isfinite(value), np.abs(value), 1.0)
    ends = along(np.multiply, size + np.where(np.isfinite(bound), bound, 0))
    passed = ends - along(np.multiply, size)
    high = along(np.multiply, np.maximum(size + bound, 1.0)) > LARGEST[compute.name]
    low = along(np.multiply, np.where(size == 0, 1.0, np.minimum(size, 1.0))) < SMALLEST[compute.name]
    moved = along(np.logical_or, bound > 0)
    whole = along(np.logical_and, value == np.trunc(value)) & (ends * EPS[compute.name] <= 1) & ~moved
    rounding = np.where(whole, 0.0, 4 * count * EPS[compute.name] * ends)
    crossing = moved & ~np.isfinite(total)
    return np.where(high | low | crossing, np.inf, np.where(np.isfinite(total), passed * 1.001 + rounding, 0.0))


def _close_to_best(fold: str, value, bound, axis: int):
    """Whether an element that is not the best may be."""
    if not bound.any():
        return np.zeros([1 if a == axis else d for a, d in enumerate(value.shape)], bool)
    if value.dtype.kind != "f":
        return np.isinf(bound).any(axis=axis, keepdims=True)
    signed = value if fold == "argmax" else -value
    best = np.expand_dims(np.argmax(signed, axis=axis), axis)
    least = np.take_along_axis(signed - bound, best, axis)
    others = np.where(np.arange(value.shape[axis]).reshape([-1 if a == axis else 1 for a in range(value.ndim)]) == best,
                      -np.inf, np.where(np.isnan(signed), -np.inf, signed + bound))  # fmt: skip
    unsure = np.isinf(bound).any(axis=axis, keepdims=True)
    return unsure | ((np.max(others, axis=axis, keepdims=True) >= least) & (bound > 0).any(axis=axis, keepdims=True))


def _scan(n: Node, value, bound, arguments, extents) -> Known:
    """Prefixes: a few hundred additions one after another, then the tree of what they give."""
    fold, axis = n.attr
    accumulate = ACCUMULATE[fold].accumulate
    unknown = np.logical_or.accumulate(np.isinf(bound), axis=axis)
    if n.type.dtype.kind != "f":
        total = accumulate(value, axis=axis, dtype=numpy_dtype(n.type.dtype))
        return total, np.where(unknown, np.inf, 0.0)
    total, compute = accumulate(value, axis=axis), n.type.dtype.compute
    if fold in ("max", "min"):
        moved = _distance(total, *(accumulate(v, axis=axis) for v in _corners(value, bound)))
        either = _of_either_sign(total, lambda holds: np.logical_or.accumulate(holds(value), axis=axis))
        return total, np.where(unknown, np.inf, np.maximum(moved, either))
    count = np.arange(1, value.shape[axis] + 1).reshape([-1 if a == axis else 1 for a in range(value.ndim)])
    if fold == "sum":
        passed = _prefix_sums(value, bound, total, compute, np.minimum(count, 4096 + count // 2048), axis)
    else:
        passed = _product(value, bound, total, compute, count, lambda f, x: f.accumulate(x, axis=axis))
    total, passed = _bounded("add", (), total, passed, compute)
    return total, np.where(unknown, np.inf, passed)


def _prefix_sums(value, bound, total, compute: DType, serial, axis: int):
    size = np.add.accumulate(np.abs(np.where(np.isfinite(value), value, 0)), axis=axis)
    passed = np.add.accumulate(bound, axis=axis)
    whole = np.logical_and.accumulate(np.isfinite(value) & (value == np.trunc(value)), axis=axis)
    exact = (passed == 0) & whole & (size * EPS[compute.name] <= 1)
    found = passed + np.where(exact, 0.0, 2 * serial * EPS[compute.name] * size)
    return np.where(size + passed > LARGEST[compute.name], np.inf, np.where(np.isfinite(total), found, 0.0))


def _ranked(n: Node, value, bound, arguments, extents) -> Known:
    """The k-th of the sorted values moves no further than the k-th of the ends; places may change among close ones."""
    found = np.asarray(RULES["ranked"](n, [value], arguments, extents))
    unknown = np.broadcast_to(np.isinf(bound).any(axis=-1, keepdims=True), found.shape)
    if not bound.any():
        return found, np.zeros(found.shape)
    if n.attr[0] == "values":
        moved = _distance(found, *(RULES["ranked"](n, [v], arguments, extents) for v in _corners(value, bound)))
        return found, np.where(unknown, np.inf, moved)
    ordered, slack = np.sort(value, axis=-1), np.max(bound, axis=-1, keepdims=True)
    near = ((np.diff(ordered, axis=-1) <= 2 * slack) & (slack > 0)).any(axis=-1, keepdims=True)
    return found, np.where(unknown | near, np.inf, 0.0)


# -- the judgement


def misses(made: np.ndarray, value, bound, d: DType) -> tuple[np.ndarray, float]:
    """(where an array is not what it has to be, the largest share of a bound that an error takes)."""
    if d.kind != "f":
        return (made != value) & (bound == 0), 0.0
    got = made.astype(np.float64)
    with np.errstate(all="ignore"):
        error = _distance(np.broadcast_to(value, got.shape), got)
        beyond = np.isinf(got) & (np.abs(value) + bound > float(ml_dtypes.finfo(made.dtype).max))
        wrong = ~((error <= bound) | (beyond & (np.sign(got) == np.sign(value))))
        shares = (
            error[(bound > 0) & np.isfinite(bound) & np.isfinite(error)]
            / bound[(bound > 0) & np.isfinite(bound) & np.isfinite(error)]
        )
    return wrong, float(shares.max(initial=0.0))


def agrees(made: np.ndarray, value, bound, d: DType, what: str) -> float:
    """Raise AssertionError unless an array has the right shape and dtype and lies within the bound; the largest share
    of a bound that an error takes."""
    assert made.shape == value.shape, f"{what}: shape {made.shape}, not {value.shape}"
    assert made.dtype.name == d.name, f"{what}: {made.dtype}, not {d}"
    wrong, share = misses(made, value, bound, d)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise AssertionError(f"{what}: {made[at]} at {at}, expected {value[at]} ± {bound[at]}; {wrong.sum()} wrong")
    return share
