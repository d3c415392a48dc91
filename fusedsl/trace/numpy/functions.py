"""Dispatch of NumPy's functions and ufuncs on tracers to functions of the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ArgumentError, DTypeError, ShapeError, Unsupported
from ...ir.ops import OPS
from ...ir.types import BOOL, DType
from ...lang.declared_signatures import declared
from ..array_state import check_cast
from ..recorder import Recorder
from ..scattered_writes import at
from ..subscripts import positions
from ..tracer import Tracer
from ..unsupported import of_list
from .contractions import PRODUCTS
from .creation import LIKE
from .indexing import INDEXING
from .nan_functions import NAN_FAMILY
from .out import single_out, write, write_out
from .reduce import UFUNC_REDUCTIONS
from .scattering import SCATTERING
from .shapes import SHAPES
from .signatures import SIGNATURES, arguments
from .sorting import ORDER
from .split_join import SPLIT_JOIN
from .statistics import FORMULAS
from .views import moveaxis, ravel, reshape, swapaxes, transpose, view_or_value

ALIASES = {
    "amax": "max", "amin": "min", "around": "round", "round_": "round",
    "permute_dims": "transpose", "expit": "sigmoid", "gammaln": "lgamma",
}  # fmt: skip
METHODS = frozenset([
    "sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin", "clip", "round",
    "copy", "astype", "reshape", "transpose", "swapaxes", "squeeze", "ravel", "flatten", "dot", "cumsum",
    "cumprod", "sort", "argsort", "take", "repeat", "nonzero", "diagonal", "trace", "choose",
    "searchsorted",
])  # fmt: skip
REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
SCANS = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin", "logaddexp": "logcumsumexp"}
CAST_FIRST = ("var", "std", "nansum", "nanmean", "clip")  # their dtype= is a cast first: the language has none there


def call_ufunc(recorder: Recorder, ufunc: Any, method: str, inputs: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of a ufunc or one of its methods, dispatched by NumPy or CuPy."""
    name = ufunc.__name__
    if method == "reduce" and name in REDUCTIONS:
        kwargs.setdefault("axis", inputs[1] if len(inputs) > 1 else 0)
        kwargs["out"] = single_out(kwargs.get("out"))
        return call_function(recorder, REDUCTIONS[name], inputs[:1], kwargs)
    if method == "reduce" and name in UFUNC_REDUCTIONS:
        return UFUNC_REDUCTIONS[name](recorder, *inputs, **kwargs)
    if method == "outer":
        a, b = map(recorder.lifted, inputs)
        a = a[(..., *[None] * recorder.node(b).type.rank)] if isinstance(a, Tracer) else a
        return call_ufunc(recorder, ufunc, "__call__", (a, b), kwargs)
    if method == "accumulate" and name in SCANS:
        return _accumulate(recorder, SCANS[name], *inputs, **kwargs)
    if method == "at":
        return at(recorder, name, recorder.lifted(inputs[0]), positions(recorder, inputs[1]), *inputs[2:])
    if method != "__call__":
        helps = {
            "reduce": of_list(name),
            "accumulate": "add, multiply, maximum, minimum and logaddexp accumulate; or write it with slices",
        }
        help = helps.get(method, "reduce slices: x[a:b].sum()")
        raise Unsupported(f"{name}.{method} is not supported", "unsupported.function", help=help)
    if name in SPECIAL and (("where" not in kwargs and "out" not in kwargs) or name == "vecdot"):
        kwargs.pop("casting", None)
        return call_function(recorder, name, inputs, kwargs)
    return _strong(recorder, call_elementwise(recorder, ALIASES.get(name, name), inputs, kwargs))


def _accumulate(recorder: Recorder, name: str, a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """ufunc.accumulate; sums and products widen small integers, as cumsum and cumprod do."""
    if dtype is not None and name not in ("cumsum", "cumprod"):
        a, dtype = recorder.apply("astype", a, recorder.dtype(dtype)), None
    given = {} if dtype is None else {"dtype": recorder.dtype(dtype)}
    result = _strong(recorder, recorder.apply(name, a, axis, **given))
    return write_out(recorder, out, result)


def call_elementwise(recorder: Recorder, name: str, inputs: tuple, kwargs: dict[str, Any]) -> Any:
    """An elementwise function, with NumPy's out=, where= and dtype=."""
    kwargs = dict(kwargs)
    out, where, dtype = kwargs.pop("out", None), kwargs.pop("where", True), kwargs.pop("dtype", None)
    casting = kwargs.pop("casting", "same_kind")
    if kwargs.keys() - {"order", "subok"}:
        raise ArgumentError(
            f"{name} takes no {next(iter(kwargs))}=", "argument.surplus", help="out=, where= and dtype= are there"
        )
    if where is not True and out is None:
        raise Unsupported(f"{name}(where=) without out= has no value elsewhere", "unsupported.where",
                          help="np.where(condition, a, b)")  # fmt: skip
    if dtype is not None:
        inputs = _cast_operands(recorder, name, inputs, recorder.dtype(dtype), casting)
    result = recorder.apply(name, *inputs)
    if out is None:
        return result
    outs = out if isinstance(out, tuple) else (out,)
    results = result if isinstance(result, tuple) else (result,)
    for target, part in zip(outs, results):
        write(recorder, target, part if where is True else recorder.apply("where", where, part, target), casting)
    return outs[0] if len(outs) == 1 else outs


def _cast_operands(recorder: Recorder, name: str, inputs: tuple, dtype: DType, casting: str) -> tuple:
    """The operands cast to the requested dtype; functions that return bools keep their operands' dtype."""
    if name in OPS and OPS[name].rule in GIVES_BOOL:
        if dtype is not BOOL:
            raise DTypeError(f"{name} gives bools, not {dtype}", "dtype.rule", help="leave dtype= away")
        return inputs
    with recorder.at_user_line():
        for x in inputs:
            check_cast(recorder.node(x), dtype, casting)
    return tuple(recorder.apply("astype", x, dtype) for x in inputs)


def call_function(recorder: Recorder, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """NumPy's function `name` with NumPy's signature."""
    result = _call(recorder, name, args, kwargs)
    return result if name in ("shape", "size") else _strong(recorder, result)  # extents are Python's ints


def _strong(recorder: Recorder, result: Any) -> Any:
    """The result with a strong dtype: NumPy's functions of Python numbers return NumPy scalars."""
    if isinstance(result, tuple):
        return tuple(_strong(recorder, part) for part in result)
    if isinstance(result, Tracer) and result.node.type.weak and not any(result is a for a in recorder.arguments):
        return recorder.tracer(recorder.builder.strong(result.node))
    return result


def _call(recorder: Recorder, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    special = SPECIAL.get(name)
    if special is not None:
        return special(recorder, *args, **kwargs)
    name = ALIASES.get(name, name)
    if name not in SIGNATURES:
        if "out" in kwargs or "where" in kwargs:
            return call_elementwise(recorder, name, args, kwargs)
        return view_or_value(recorder, name, args, kwargs)
    given, out = arguments(name, args, kwargs)
    if name == "clip":
        given = {key: recorder.array_like(v) if isinstance(v, (list, tuple)) else v for key, v in given.items()}
    if "dtype" in given and name in CAST_FIRST:
        given["array"] = recorder.apply("astype", given["array"], recorder.dtype(given.pop("dtype")))
    initial = given.pop("initial", None) if name == "nansum" else None
    result = view_or_value(recorder, name, (given.pop("array"),), given)
    if initial is not None:
        result = recorder.apply("add", result, initial)
    target = single_out(out)
    if target is None:
        return result
    if isinstance(target, Tracer) and target.ndim != result.ndim:
        raise ShapeError(
            f"out= has {target.ndim} axes, the result {result.ndim}", "shape.out", help="pass one of its shape"
        )
    write(recorder, target, result, "same_kind")
    return target


# -- functions whose signature or meaning differs from the language's


def _where(recorder: Recorder, condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise Unsupported(
            "where with one argument (nonzero) is not supported",
            "unsupported.function",
            help="its shape depends on values: np.where(condition, a, b), or a reduction with where=",
        )
    return recorder.apply("where", condition, x, y)


def _copyto(recorder: Recorder, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    source = recorder.tracer(dst._assignable(recorder.node(src)))
    write(recorder, dst, source if where is True else recorder.apply("where", where, source, dst), casting)


@declared("recorder, x, dtype, order='K', casting='unsafe', subok=True, copy=True, device=None")
def _astype(recorder: Recorder, x: Any, dtype: Any, casting: str, copy: bool) -> Any:
    with recorder.at_user_line():
        check_cast(recorder.node(x), recorder.dtype(dtype), casting)
    if not copy and isinstance(x, Tracer) and recorder.node(x).type.dtype is recorder.dtype(dtype):
        return x
    return recorder.apply("astype", x, recorder.dtype(dtype))


def _diff(recorder: Recorder, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """diff; edges given as Python numbers take NumPy's default dtypes."""
    edges = {}
    for name, edge in (("prepend", prepend), ("append", append)):
        if edge is not None and edge is not np._NoValue:
            plain = isinstance(edge, (bool, int, float)) and not isinstance(edge, Tracer)
            edges[name] = recorder.apply("astype", edge, recorder.dtype(np.asarray(edge).dtype)) if plain else edge
    return recorder.apply("diff", a, n, axis, **edges)


def _nan_to_num(recorder: Recorder, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None):
    given = {"nan": nan, "posinf": posinf, "neginf": neginf}
    result = recorder.apply("nan_to_num", x, **{name: value for name, value in given.items() if value is not None})
    if copy:
        return result
    write(recorder, x, result, "same_kind")
    return x if x.ndim else result


def _angle(recorder: Recorder, z: Any, deg: bool = False) -> Any:
    result = recorder.apply("arctan2", 0, z)
    return result * (180 / np.pi) if deg else result


def _copy(recorder: Recorder, x: Any) -> Any:
    return recorder.apply("copy", x)


def _result_type(recorder: Recorder, *parts: Any) -> Any:
    """np.result_type; Python numbers contribute only their kind."""
    like = {"b": False, "i": 0, "f": 0.0}

    def part(x: Any) -> Any:
        if not isinstance(x, Tracer):
            return x
        return like[x.node.type.dtype.kind] if x.is_number else x.dtype

    return np.result_type(*map(part, parts))


# Functions of np.linalg that differ from the functions of the same name in np.
QUALIFIED = {("linalg", "trace"): "linalg_trace", ("linalg", "diagonal"): "linalg_diagonal"}
GIVES_BOOL = ("compare", "logical", "test", "float_test")

SPECIAL: dict[str, Callable[..., Any]] = {
    "reshape": reshape,
    "ravel": ravel,
    "flatten": lambda recorder, a, order="C": recorder.apply("copy", reshape(recorder, a, -1, order=order)),
    "transpose": transpose,
    "moveaxis": moveaxis,
    "swapaxes": swapaxes,
    "where": _where,
    "copyto": _copyto,
    "astype": _astype,
    "diff": _diff,
    "iscomplexobj": lambda recorder, x: False,
    "isrealobj": lambda recorder, x: True,
    "shape": lambda recorder, a: a.shape,
    "size": lambda recorder, a, axis=None: a.size if axis is None else a.shape[axis],
    "ndim": lambda recorder, a: a.ndim,
    **LIKE,
    "real": lambda recorder, x: x,
    "conj": _copy,
    "conjugate": _copy,
    "nan_to_num": _nan_to_num,
    "angle": _angle,
    "imag": lambda recorder, x: recorder.apply("zeros_like", x),
    **PRODUCTS,
    **INDEXING,
    **SCATTERING,
    **SHAPES,
    **FORMULAS,
    **NAN_FAMILY,
    **SPLIT_JOIN,
    **ORDER,
    "result_type": _result_type,
}
