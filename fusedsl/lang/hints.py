"""Hints for unknown names: suggestions for functions, methods, values, keywords and dtypes."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ..errors import suggest
from ..ir.types import DTYPES
from . import c_names, functions, prelude
from .foreign_names import EQUIVALENTS, equivalent
from .misspellings import SHORT, meant_by
from .unavailable import unavailable_help

# Replacements for methods and attributes of arrays that are not just a function call. {rest:...}: the method's
# arguments, or the text after the colon if there are none; {shape:...}: the same as one tuple.
METHODS = {
    "double": "float64({x})",
    "float": "float32({x})",
    "int": "int32({x})",
    "half": "float16({x})",
    "long": "int64({x})",
    "to": "astype({x}, {rest:dtype})",
    "type": "astype({x}, {rest:dtype})",
    "dtype": "the dtype itself: a program does not ask for one",
    "numel": "size({x})",
    "ndim": "size({x}, axis) for each axis you know",
    "dim": "size({x}, axis) for each axis you know",
    "size": "size({x}, {rest:axis})",
    "shape": "shape({x}), or size({x}, axis)",
    "clamp": "clip({x}, {rest:low, high})",
    "unsqueeze": "expand_dims({x}, {rest:axis})",
    "permute": "transpose({x}, {shape:axes})",
    "view": "reshape({x}, {shape:shape})",
    "expand": "broadcast_to({x}, {shape:shape})",
    "t": "{x}.T",
    "grad": "grad(loss, {x}), the gradient of a scalar by {x}",
    "backward": "grad({x}, w), the gradient of {x} by w",
    "H": "{x}.mT",
    "dot": "{x} @ {rest:other}",
    "mm": "{x} @ {rest:other}",
    "bmm": "{x} @ {rest:other}",
    "matmul": "{x} @ {rest:other}",
    "pow": "{x} ** {rest:exponent}",
    "amax": "max({x}, axis={rest:axis})",
    "amin": "min({x}, axis={rest:axis})",
    "item": "{x}, and call .item() on the result",
    "tolist": "{x}, and call .tolist() on the result",
    "numpy": "{x}, and call .numpy() on the result",
}

# Replacements for attributes, and for methods without arguments.
ATTRIBUTES = {"size": "size({x}), the number of elements, or size({x}, axis)"}

# Named values, by lower-case spelling.
LITERALS = {name.lower(): name for name in ("None", "True", "False", "inf", "nan", "pi")}
LITERALS |= {"null": "None", "infinity": "inf"}

DTYPE_NAMES = {
    "float": "float32 or float64",
    "double": "float64",
    "half": "float16",
    "single": "float32",
    "int": "int32 or int64",
    "long": "int64",
    "short": "int16",
    "byte": "uint8",
    "uint": "uint32 or uint64",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "bool_": "bool",
    "float8": "float8_e4m3fn or float8_e5m2",
}

CHOICES = ("none", "tanh")

KEYWORDS = {
    "dim": "axis",
    "dims": "axis",
    "mask": "where",
    "a_min": "min",
    "a_max": "max",
    "low": "min",
    "high": "max",
    "reps": "repetitions",
    "shifts": "shift",
    "newshape": "shape",
    "size": "shape",
    "type": "dtype",
    "reverse": "descending",
    "largest": "descending",
    "value": "constant_values",
}

# Keywords that are not a parameter by another name → what to write.
KEYWORD_FORMS = {
    "out": "give out= to the call of the kernel",
    "unbiased": "write ddof=1 for unbiased=True, ddof=0 for unbiased=False",
    "ord": "norm is the Euclidean norm; others are sum(abs(x)), max(abs(x)), sum(abs(x) ** p) ** (1 / p)",
    "inplace": "nothing is written in place: give out= to the call of the kernel",
    "device": "leave it out: a program runs on the device of its arrays",
    "reduction": "leave it out, and write mean(...) or sum(...) around the call",
}


class TemplateArgument(str):
    """Arguments in a replacement template: formats as its format spec if there are none."""

    def __format__(self, default: str) -> str:
        return str(self) or default


def function_hint(name: str, known: Iterable[str] = ()) -> str | None:
    """The help for a call of an unknown function, given the functions of the program."""
    if name in known:
        return f"define {name} above: a function is called below its definition, and not by itself"
    if (known_form := equivalent(name)) is not None:
        return known_form
    if name in DTYPE_NAMES and name not in METHODS:
        return f"the dtype is called {DTYPE_NAMES[name]}: cast with its name"
    if name in METHODS:
        return f"write {METHODS[name].format(x='x', rest=TemplateArgument(), shape=TemplateArgument())}"
    if name.endswith("_") and (is_function(name[:-1]) or equivalent(name[:-1])):
        return equivalent(name[:-1]) or f"write {name[:-1]}: nothing is written in place, but by out="
    if (of_c := c_names.function_help(name, is_function)) is not None:
        return of_c
    if hasattr(builtins, name):
        return "Python's own functions are not there: a program computes with arrays"
    if (elsewhere := unavailable_help(name)) is not None:
        return elsewhere
    if not (near := _misspelled(name, known)):
        return None
    instead = f" {equivalent(near[0])}" if near[0] in EQUIVALENTS and not is_function(near[0]) else ""
    return f"did you mean {' or '.join(near)}?{instead}"


def _misspelled(name: str, own: Iterable[str] = ()) -> list[str]:
    """The functions that a misspelt name may mean, or else one of other libraries that has an equivalent."""
    known = {*own, *functions.known_names(), *prelude.names(), "attention"}
    return meant_by(name, known) or meant_by(name, EQUIVALENTS)[:1]


def method_hint(name: str, operand: str, arguments: Sequence[str]) -> str | None:
    """The help for `operand.name(arguments)`, or for the attribute alone."""
    if not arguments and name in ATTRIBUTES:
        return f"write {ATTRIBUTES[name].format(x=operand)}"
    if name in METHODS:
        tupled = f"({', '.join(arguments)})" if len(arguments) > 1 else "".join(arguments)
        rest, shape = TemplateArgument(", ".join(arguments)), TemplateArgument(tupled)
        return f"write {METHODS[name].format(x=operand, rest=rest, shape=shape)}"
    if is_function(name):
        return f"write {_call(name, operand, list(arguments))}"
    if (known_form := equivalent(name)) is not None:
        return re.sub(r"\bx\b", lambda _: operand, known_form)
    if not (near := _misspelled(name)):
        return None
    if near[0] in EQUIVALENTS and not is_function(near[0]):
        return f"did you mean {near[0]}? " + re.sub(r"\bx\b", lambda _: operand, equivalent(near[0]) or "")
    return f"did you mean {' or '.join(f'{n}({operand})' for n in near)}?"


def _call(name: str, operand: str, arguments: list[str]) -> str:
    """A method call as a function call: keyword-only arguments get their names, a spread shape becomes one tuple."""
    function = functions.lookup(name)
    parameters = function.parameters[1:] if function is not None else ()
    takes_tuple = parameters and parameters[0].kind in ("shape", "axes", "ints", "extents")
    if takes_tuple and len(arguments) > 1 and all(part.lstrip("-").isdigit() for part in arguments):
        arguments = [f"({', '.join(arguments)})"]
    for k, parameter in enumerate(parameters[: len(arguments)]):
        if parameter.named and "=" not in arguments[k]:
            arguments[k] = f"{parameter.name}={arguments[k]}"
    return f"{name}({', '.join([operand, *arguments])})"


def value_hint(name: str, values: Iterable[str], own: Iterable[str] = ()) -> str | None:
    """The help for an unknown value, given the `values` and the `own` functions of the program."""
    if name in DTYPES:
        return f"{name} is a dtype: cast with {name}(x)"
    if is_function(name) or name in own:
        choice = f'; a choice is written "{name}"' if name in CHOICES else ""
        return f"{name} is a function: call it, {name}(...){choice}"
    if name in DTYPE_NAMES:
        return f"the dtype is called {DTYPE_NAMES[name]}"
    if (of_c := c_names.value_help(name)) is not None:
        return of_c
    near = LITERALS.get(name.lower()) or suggest(name, values) or suggest(name, DTYPES)
    if near:
        return f"did you mean {near}?"
    if name.startswith("complex"):
        return "there are no complex numbers"
    meant = [n for n in _misspelled(name, own) if n in own or (is_function(n) and len(name) > SHORT)]
    return f"did you mean the function {' or '.join(f'{n}(...)' for n in meant)}?" if meant else None


def keyword_hint(keyword: str, names: Iterable[str]) -> str | None:
    """The help for an unknown keyword of a function with these parameters."""
    names = tuple(names)
    if keyword in KEYWORD_FORMS:
        return KEYWORD_FORMS[keyword]
    near = KEYWORDS.get(keyword)
    near = near if near in names else suggest(keyword, names)
    return f"did you mean {near}?" if near else None


def dtype_hint(name: str) -> str | None:
    """The help for a string that is no dtype's name."""
    import numpy as np

    if name in DTYPE_NAMES:
        return f"write {DTYPE_NAMES[name]}"
    if name.startswith("complex"):
        return "there are no complex numbers"
    spelled = ""
    if len(name) <= 16 and name.isalnum():
        with suppress(TypeError, ValueError, SyntaxError):
            spelled = np.dtype(name).name
    if spelled in DTYPES:
        return f"write {spelled}"
    near = suggest(name, DTYPES)
    return f"did you mean {near}?" if near else None


def is_function(name: str) -> bool:
    """True if `name` is a built-in or prelude function."""
    return name in functions.known_names() or name in prelude.names()


def is_known(name: str) -> bool:
    """True if the language defines the name: a function, a dtype or a constant."""
    return is_function(name) or name in DTYPES or name in ("pi", "inf", "nan") or name in functions.UNSUPPORTED
