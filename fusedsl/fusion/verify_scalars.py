"""Rules of scalars: operands, loads, and bound axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir.dims import Dim, evaluate
from ..ir.folds import FOLDS, SCANS
from ..ir.graph import Node
from ..ir.ops import OPS
from ..ir.superaccumulators import SUPERACCUMULATORS
from ..ir.types import BOOL, INT32, INT64
from ..ir.verify import require
from .coordinates import Axis, ComputedIndex, Coordinate
from .scalar_program import ArraySource
from .verify_arrays import Arrays

RESULTS_OF_CONDITIONS = ("compare", "logical", "test", "float_test")  # rules of operations whose results are bools
READS = ("load", "fetch", "pointer", "stride")


def verify_scalars(nodes: Iterable[Node], arrays: Arrays) -> None:
    """VerifyError for the first scalar that is not well formed."""
    sources: dict[ArraySource, tuple[Dim, ...]] = {}
    for n in nodes:
        require(n.type.shape == (), "an element has no axes of its own", n)
        if n.op in READS and n.attr[0] not in sources:
            sources[n.attr[0]] = _shape_of(n.attr[0], arrays)
        if n.op in OPS:
            _operands_have_one_dtype(n)
        elif n.op in RULES:
            RULES[n.op](n, arrays, sources)
        else:
            require(n.op in ("const", "convert", "cast"), "an operation is known", n)


# -- elementwise


def _operands_have_one_dtype(n: Node) -> None:
    op, operands = OPS[n.op], n.args
    require(len(n.args) == op.arity, "an operation has its operands", n)
    if op.rule == "where":
        require(n.args[0].type.dtype is BOOL, "a condition is a bool", n)
        operands = n.args[1:]
    elif op.rule == "ldexp":
        require(n.args[1].type.dtype is INT32, "an exponent is an int32", n)
        operands = n.args[:1]
    dtypes = {a.type.dtype.compute for a in operands}
    require(len(dtypes) == 1, "operands have one dtype", n, [a.type.dtype for a in operands])
    expected = BOOL if op.rule in RESULTS_OF_CONDITIONS else next(iter(dtypes))
    require(n.type.dtype.compute is expected, "a result has the dtype of its operation", n)


# -- what is read


def _shape_of(source: ArraySource, arrays: Arrays) -> tuple[Dim, ...]:
    key = (source.kind, source.index)
    require(key in arrays.readable, "what is read is an argument, or was stored before", source)
    return arrays.index_rules.viewed(arrays.types[key].shape, source.views, source)


def _load(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    source, at = n.attr
    shape = sources[source]
    _has_the_dtype_of_its_array(n, source, arrays)
    require(len(at) == len(shape), "a load has a coordinate for each axis", n)
    for c, extent in zip(at, shape):
        require(isinstance(c, Coordinate), "a load is at coordinates", n)
        arrays.index_rules.inside(c.start, c.step, 1 if c.axis is None else c.axis.extent, extent, n)


def _fetch(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    source, at, held = n.attr
    address, wanted = n.args
    _has_the_dtype_of_its_array(n, source, arrays)
    require(len(at) == len(sources[source]), "a fetch has a coordinate for each axis", n)
    require(all(isinstance(c, (Coordinate, ComputedIndex)) for c in at), "a fetch is at positions", n)
    require(address.type.dtype is INT64 and wanted.type.dtype is BOOL, "a fetch has an address and a condition", n)
    require(held is source.stored_dtype(n.type.dtype), "a fetch reads what memory holds", n)


def _has_the_dtype_of_its_array(n: Node, source: ArraySource, arrays: Arrays) -> None:
    d = arrays.types[source.kind, source.index].dtype
    rounded = source.kind == "temporary" and source.index in arrays.rounded
    require(source.rounded == rounded, "a temporary is read as it is stored, rounded or not", n)
    same = n.type.dtype is d if source.kind == "argument" or rounded else n.type.dtype.compute is d.compute
    require(same, "an element has the dtype of its array", n, d)


def _pointer(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    require(n.type.dtype is INT64, "an address is an int64", n)


def _stride(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    source, axis = n.attr
    require(0 <= axis < len(sources[source]), "a stride is that of an axis", n)


def _scalar(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    require(n.attr in arrays.numbers, "a number is an argument", n)


def _size(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    arrays.index_rules.known_extents([n.attr], n)


# -- axes


def _is_axis(a: object, arrays: Arrays, what: Node) -> None:
    require(isinstance(a, Axis), "a loop runs along an axis", what)
    arrays.index_rules.known_extents([a.extent], what)  # type: ignore[attr-defined]


def _position(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    _is_axis(n.attr, arrays, n)
    require(n.type.dtype is INT64, "a position is an int64", n)


def _fold(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    name, axes = n.attr
    require(name in FOLDS, "a fold is known", n)
    require(0 < len(axes) == len(set(axes)), "a fold binds axes, each once", n)
    require(len(axes) == 1 or not FOLDS[name].positional, "a position is that on one axis", n)
    for a in axes:
        _is_axis(a, arrays, n)


def _scan(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    name, axis, _, _, part = n.attr
    require(name in SCANS, "a scan is known", n)
    require(n.args[0].op != "pair" or name == "linear", "a pair is scanned by a recurrence", n)
    require(part < len(SCANS[name].identity(n.type.dtype.compute)), "a scan has this part of its state", n)
    _is_axis(axis, arrays, n)


def _pair(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    require(len(n.args) == 2 and n.args[0].type == n.args[1].type == n.type, "a pair has two values of one type", n)


def _sort(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    _, column, count = n.attr
    _is_axis(column, arrays, n)
    for extents in arrays.index_rules.samples.extents:
        require(evaluate(count, extents) <= evaluate(column.extent, extents), "an order has the ranks of its column", n)


def _sorted(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    part, rank = n.attr
    require(part in ("values", "positions") and n.args[0].op == "sort", "what is ranked is an order", n)
    (_, _, count) = n.args[0].attr
    if len(n.args) > 1:
        require(rank is None and n.args[1].type.dtype is INT64, "a computed rank is an int64", n)
        return
    if isinstance(rank, Axis):
        _is_axis(rank, arrays, n)
    for extents in arrays.index_rules.samples.extents:
        last = evaluate(rank.extent, extents) if isinstance(rank, Axis) else rank + 1
        require(last <= evaluate(count, extents), "a rank is one of the order", n)


def _update(n: Node, arrays: Arrays, sources: Mapping[ArraySource, tuple[Dim, ...]]) -> None:
    require(n.attr in ("sum", "max", "min", "last", *SUPERACCUMULATORS), "an update merges by a fold", n)
    require(n.args[0].type.dtype is INT64, "an update has an index", n)
    if n.attr in SUPERACCUMULATORS:
        require(
            n.args[1].type.dtype in SUPERACCUMULATORS[n.attr] and n.type.dtype is INT64, "words accumulate floats", n
        )
        return
    require(n.args[1].type.dtype is n.type.dtype, "an update has the dtype of its value", n)


RULES = {
    "update": _update,
    "load": _load,
    "fetch": _fetch,
    "pointer": _pointer,
    "stride": _stride,
    "scalar": _scalar,
    "size": _size,
    "position": _position,
    "fold": _fold,
    "scan": _scan,
    "pair": _pair,
    "sort": _sort,
    "sorted": _sorted,
}
