"""The page of functions that `@fd.fuse` takes: which names of NumPy, CuPy, SciPy and torch a trace dispatches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from markdown import table

from fusedsl.lang import functions, prelude
from fusedsl.trace.numpy.functions import ALIASES, METHODS, SPECIAL
from fusedsl.trace.numpy.signatures import SIGNATURES
from fusedsl.trace.proxies import CREATORS
from fusedsl.trace.torch.functions import _loaded as torch_table
from fusedsl.trace.unsupported import FAMILIES

HEAD = """# Functions that fuse takes

A function under `@fd.fuse` may call these on arrays. Signatures, defaults, dtypes and results are those of the
library. Anything else raises `fd.Unsupported` with a replacement, before a kernel runs. The table is made from the
dispatch tables of the tracer. Functions that draw random numbers, as `dropout`, are taken where they draw none
(`training=False`), and are a `TraceError` else.

Besides, a traced function may use all operators of Python on arrays, indexing and slicing with any step, integer
arrays as indices, boolean arrays as indices of what is written (`x[mask] = v`) or reduced (`x[mask].sum()`), writes to
slices, and Python's own loops, branches on shapes and numbers, and functions.
"""
SCIPY = "erf erfc expit gammaln log_expit logit logsumexp log_softmax ndtr sinc softmax xlogy cbrt exp2 expm1 log1p"
TITLES = {
    "math": "Elementwise",
    "clamps": "Elementwise",
    "nn": "torch.nn.functional: activations, normalisation, padding",
    "normalization": "torch.nn.functional: activations, normalisation, padding",
    "losses": "torch.nn.functional: losses and distances",
    "pooling": "torch.nn.functional: pooling, unfold",
    "interpolate": "torch.nn.functional: interpolation",
    "reductions": "Reductions, scans, norms",
    "norms": "Reductions, scans, norms",
    "contractions": "Products and attention",
    "shapes": "Shapes and views",
    "joins": "Concatenation, gathers, triangles, diagonals",
    "splitting": "Splits",
    "sorting": "Order",
    "creation": "Casts and creation",
}

# Names by which the tracer calls operators and its own functions.
INTERNAL = frozenset([
    "numpy_T", "common_dtype", "getitem", "invert", "pos", "and", "or", "xor", "lshift", "rshift", "floordiv", "mod",
    "truediv", "alias", "log_sigmoid", "zero", "copy", "unfolded",
])  # fmt: skip


REFUSED = frozenset(["gumbel_softmax", *(name for names, _ in FAMILIES for name in names.split())])  # by their entry


def page() -> str:
    """The whole page."""
    sections = ["## NumPy", *_numpy(), "## CuPy", CUPY, "## torch", *_torch(), "## Not supported", *_refused()]
    return "\n\n".join([HEAD, *sections]) + "\n"


CUPY = """The functions and methods of the tables for NumPy, by their names in `cupy`, `cupy.linalg` and
`cupyx.scipy.special`. Results are CuPy arrays, with CuPy's dtypes."""


def known_numpy() -> set[str]:
    """The names that NumPy's dispatch finds."""
    listed = {*SPECIAL, *SIGNATURES, *ALIASES, *CREATORS, *functions.known_names(), *prelude.names()}
    return {name for name in listed if not name.startswith("_")} - set(functions.UNSUPPORTED)


def _numpy() -> Iterable[str]:
    known = known_numpy()
    ufuncs = {name for name in known if isinstance(getattr(np, name, None), np.ufunc)}
    plain = {name for name in known - ufuncs if callable(f := getattr(np, name, None)) and not isinstance(f, type)}
    linalg = {name for name in known if callable(getattr(np.linalg, name, None))}
    yield f"**Ufuncs**, with `out=`, `where=` and `dtype=`: {_names(ufuncs)}."
    yield (
        "**Methods of ufuncs**: `outer` of all; `accumulate` of `add`, `multiply`, `maximum` and `minimum`; `reduce` "
        "of these and of `logical_and`, `logical_or` and others."
    )
    yield f"**Functions**: {_names(plain)}."
    yield f"**numpy.linalg**: {_names(linalg)}."
    yield f"**scipy.special**, of CuPy and where SciPy dispatches: {_names(known & set(SCIPY.split()))}."
    yield f"**Methods of arrays**: {_names(METHODS - set(functions.UNSUPPORTED))}."


def _torch() -> Iterable[str]:
    yield (
        "Functions of `torch`, `torch.special`, `torch.linalg` and `torch.nn.functional`, methods of tensors of the "
        "same names, and their in-place forms with a trailing `_`."
    )
    families: dict[str, list[str]] = {}
    for name, function in torch_table().items():
        if not is_torch(name):
            continue
        families.setdefault(_title(function), []).append(name.removeprefix("Tensor."))
    for title in dict.fromkeys([*TITLES.values(), *families]):
        yield f"**{title}**: {_names(families[title])}."


def is_torch(name: str) -> bool:
    """Whether torch has a function of this name: operators and their reversed forms have names of the tracer."""
    if name in INTERNAL or name.startswith("_") or name in REFUSED:
        return False
    reversed_name = name[0] == "r" and (name[1:] in torch_table() or name[1:] in ("add", "sub", "div", "true_divide"))
    return not reversed_name or name in ("rsqrt", "rsub", "relu")


def _title(function: Callable) -> str:
    """The title of the file that defines a function, which may be wrapped by its declared signature."""
    held = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    for part in (function, *held):
        name = str(getattr(part, "__module__", "")).rpartition(".")[2].removeprefix("margin_")
        if name in TITLES:
            return TITLES[name]
    return "Others"


def _refused() -> Iterable[str]:
    yield "These are known, and raise `fd.Unsupported` with the replacement in the last column."
    yield table(("functions", "instead"), [(_names(names.split()), help) for names, help in FAMILIES])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(names)))
