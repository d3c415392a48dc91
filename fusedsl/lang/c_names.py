"""Names of C and CUDA, as the bodies of ElementwiseKernel have them, with the form to write instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .unavailable import HELP as UNAVAILABLE

# Types of C → the dtype whose name casts to it; None: a word that only belongs to a type.
TYPES: dict[str, str | None] = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "unsigned": "uint32",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "bool": "bool",
    **{f"{kind}{bits}_t": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("const", "auto", "signed", "static", "volatile", "register"), None),
}
UNSIGNED = {"char": "uint8", "short": "uint16", "int": "uint32", "long": "uint64"}

CASTS = ("static_cast", "reinterpret_cast", "const_cast", "dynamic_cast")
INDICES = ("threadIdx", "blockIdx", "blockDim", "gridDim")
INDEX_HELP = "there are no threads: the position of an element along an axis is iota(x, axis)"

# Constants of C, CUDA and NumPy → what to write.
CONSTANTS = {
    **dict.fromkeys(("M_PI", "CUDART_PI", "CUDART_PI_F"), "pi"),
    **dict.fromkeys(("INFINITY", "HUGE_VAL", "HUGE_VALF", "CUDART_INF", "CUDART_INF_F"), "inf"),
    **dict.fromkeys(("NAN", "CUDART_NAN", "CUDART_NAN_F"), "nan"),
    "M_E": "exp(1)",
    "M_PI_2": "pi / 2",
    "M_1_PI": "1 / pi",
    "M_SQRT2": "sqrt(2)",
    "FLT_MAX": "3.4028235e38",
    "FLT_MIN": "1.1754944e-38",
    "FLT_EPSILON": "1.1920929e-7",
    "DBL_MAX": "1.7976931348623157e308",
    "DBL_MIN": "2.2250738585072014e-308",
    "DBL_EPSILON": "2.220446049250313e-16",
}

# Functions of C and CUDA that have no function of the same meaning → an expression.
EQUIVALENTS = {
    "sincos": "sin(x), cos(x)",
    "sincospi": "sin(pi * x), cos(pi * x)",
    "sinpi": "sin(pi * x)",
    "cospi": "cos(pi * x)",
    "fdividef": "x / y",
    "fdiv": "x / y",
    "frcp": "1 / x",
    "drcp": "1 / x",
    "saturatef": "clip(x, 0, 1)",
}
ROUNDINGS = ("_rn", "_rz", "_ru", "_rd")


def declared_dtype(words: Sequence[str]) -> str | None:
    """The dtype of a type of C, given its words; None if they are no type.

    >>> declared_dtype(["unsigned", "int"]), declared_dtype(["const", "float"]), declared_dtype(["x"])
    ('uint32', 'float32', None)
    """
    if not words or any(word not in TYPES for word in words):
        return None
    named = [word for word in words if TYPES[word] is not None]
    if "unsigned" in named:
        return next((UNSIGNED[word] for word in named if word in UNSIGNED), "uint32")
    return TYPES[named[0]] if named else "float32"


def value_help(name: str) -> str | None:
    """The help for a name of C that stands where a value is."""
    if name in CONSTANTS:
        return f"write {CONSTANTS[name]}"
    if name in CASTS:
        return "a dtype casts: write float32(x)"
    if name in (*INDICES, "_ind"):
        return INDEX_HELP
    return None


def function_help(name: str, is_function: Callable[[str], bool]) -> str | None:
    """The help for a function of C or CUDA, such as expf, __expf or __fmul_rn: the function without its precision."""
    bare = name.lstrip("_")
    for rounding in ROUNDINGS:
        bare = bare.removesuffix(rounding)
    shorter = bare.removesuffix("f") if len(bare) > 3 else bare
    for candidate in (bare, shorter):
        if candidate in EQUIVALENTS:
            return f"write {EQUIVALENTS[candidate]}"
        if candidate != name and is_function(candidate):
            return f"write {candidate}(...)"
        if candidate != name and candidate in UNAVAILABLE:
            return UNAVAILABLE[candidate]
    return None
