"""Data-dependent shape: `x[mask]` in a traced function has an unknown number of elements, and so no shape.

Elementwise functions, whole reductions and writes back through the same mask are traced; anything else is refused, at
the line of `x[mask]`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..errors import FusedslError
from .operators import BINARY, COMPARE
from .tracer import Tracer

UNARY = {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert, "abs": operator.abs}
REDUCTIONS = frozenset(["sum", "prod", "mean", "var", "std", "max", "min", "any", "all"])
ALIASES = {"amax": "max", "amin": "min"}
# Elementwise methods and functions other than NumPy's ufuncs.
NUMPY_METHODS = frozenset(["astype", "clip", "round", "copy", "conj"])
TORCH_METHODS = frozenset([
    "to", "float", "double", "half", "bfloat16", "long", "int", "bool", "type", "clone", "detach", "contiguous",
    "add", "sub", "mul", "div", "pow", "square", "neg", "abs", "sign", "exp", "exp2", "expm1", "log", "log2",
    "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid", "reciprocal", "erf", "floor",
    "ceil", "trunc", "round", "clamp", "clamp_min", "clamp_max", "clip", "isnan", "isinf", "isfinite", "minimum",
    "maximum", "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "nan_to_num", "relu", "relu6", "leaky_relu",
    "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign", "hardtanh", "hardsigmoid", "hardswish",
    "logsigmoid",
])  # fmt: skip
LOSSES = frozenset([
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
])  # fmt: skip


def select(array: Any, mask: Any, fault: FusedslError) -> BooleanSelection:
    """The elements that a mask of the leading axes selects; `fault` is raised if their number is needed."""
    array, mask = (x.recorder.tracer(x.node) for x in (array, mask))
    behind = array.ndim - mask.ndim
    return BooleanSelection(array, mask[(..., *[None] * behind)] if behind else mask, mask, fault)


class BooleanSelection:
    """Selected elements: `values` have the whole array's shape, `mask` broadcasts to it, `key` is the original mask."""

    __array_priority__ = 2000

    def __init__(self, values: Any, mask: Any, key: Any, fault: FusedslError) -> None:
        self.__dict__.update(values=values, mask=mask, key=key, fault=fault, node=mask.node)

    def _elementwise(self, function: Callable[..., Any], *operands: Any) -> BooleanSelection:
        """An elementwise function of selections by this mask and of numbers."""
        result = function(*map(self._operand, operands))
        return BooleanSelection(result, self.mask, self.key, self.fault)

    def _operand(self, x: Any) -> Any:
        if isinstance(x, BooleanSelection):
            if x.node is not self.node:
                raise self.fault
            return x.values
        if isinstance(x, (list, tuple)) or (not isinstance(x, type) and getattr(x, "ndim", False)):
            raise self.fault
        return x

    def _reduce(self, name: str, axis: Any = None, **named: Any) -> Any:
        """Reduce all selected elements; rows that a vector selects reduce along the first axis too."""
        axis = named.pop("dim", axis)
        if named.keys() - {"ddof", "correction", "unbiased", "dtype"} or axis not in (
            (None, 0) if self.key.ndim == 1 else (None,)
        ):
            raise self.fault
        if type(self.values) is Tracer:
            from .numpy.functions import call_function

            return call_function(self.values.recorder, name, (self.values, axis), {**named, "where": self.mask})
        from .torch.norms import reduced_where

        if "ddof" in named:  # NumPy's
            raise self.fault
        return reduced_where(name, self.values, self.mask, axis, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in REDUCTIONS:
            return lambda *args, **named: self._reduce(name, *args, **named)
        if name in (NUMPY_METHODS if type(self.values) is Tracer else TORCH_METHODS):
            return lambda *args, **named: self._elementwise(
                lambda x, *rest: getattr(x, name)(*rest, **named), self, *args
            )
        raise self.fault

    def __setattr__(self, name: str, value: Any) -> None:
        raise self.fault

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        from .numpy.functions import call_ufunc

        if method != "__call__" or named or ufunc.signature is not None:
            raise self.fault
        return self._elementwise(lambda *xs: call_ufunc(self.values.recorder, ufunc, method, xs, {}), *inputs)

    def __array_function__(self, function: Any, types: Any, args: tuple, named: dict) -> Any:
        name = ALIASES.get(function.__name__, function.__name__)
        if not args or args[0] is not self or name not in REDUCTIONS | NUMPY_METHODS:
            raise self.fault
        return getattr(self, name)(*args[1:], **named)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple = (), named: Any = None) -> Any:
        from .torch.functions import call, name_of

        self = next(x for x in args if isinstance(x, BooleanSelection))
        name, named = name_of(function), {k: v for k, v in (named or {}).items() if k != "inplace"}
        if name in REDUCTIONS and args[0] is self:
            return self._reduce(name, *args[1:], **named)
        reduction = named.pop("reduction", "mean") if name in LOSSES else "none"
        if name in LOSSES:
            named["reduction"] = "none"
        elif name not in TORCH_METHODS:
            raise self.fault
        result = self._elementwise(lambda *xs: call(self.values.recorder, name, xs, named), *args)
        return result if reduction == "none" else result._reduce(reduction)

    def _refused(self, *args: Any) -> Any:
        raise self.fault

    __iter__ = __len__ = __bool__ = __float__ = __int__ = __index__ = __getitem__ = __setitem__ = _refused
    __array__ = _refused
    __hash__ = None  # type: ignore[assignment]


def _operators() -> None:
    """Add Python's operators to BooleanSelection; `x[mask] += 1` falls back to the binary ones."""
    for python in (*BINARY, *COMPARE):
        plain = getattr(operator, f"__{python}__")
        setattr(
            BooleanSelection, f"__{python}__", lambda self, other, plain=plain: self._elementwise(plain, self, other)
        )
        if python in BINARY:
            setattr(
                BooleanSelection,
                f"__r{python}__",
                lambda self, other, plain=plain: self._elementwise(plain, other, self),
            )
    for python, plain in UNARY.items():
        setattr(BooleanSelection, f"__{python}__", lambda self, plain=plain: self._elementwise(plain, self))


_operators()
