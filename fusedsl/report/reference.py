"""The reference of all functions, from the op table, the prelude and executed examples: a page, or an entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..config import DEFAULT
from ..errors import FusedslError, UnknownNameError
from ..ir.interp import interpret
from ..ir.laws import LAWS
from ..ir.ops import OPS
from ..lang import argument_binding, calls, functions, prelude
from ..lang.functions import REQUIRED
from ..lang.hints import function_hint
from ..program import Program
from ..program.text_source import TextSource
from ..runtime.arrays import describe_all
from .catalogue import ARRAYS, ELSEWHERE, EXAMPLES, FAMILIES, PLAIN

COMMAND = "python -m fusedsl reference --write docs/reference.md"
PRELUDE_WORDS = {  # of definitions in the prelude, which have no entry
    "given": "given(p) is True unless the argument p is None",
    "as_float": "as_float(x, ...) is x as the float that NumPy would compute in",
    "summand": "summand(x) is x as a mean adds it up",
}


@dataclass(frozen=True)
class ReferenceEntry:
    """The reference of one function."""

    name: str
    signature: str
    others: tuple[str, ...]  # its other names
    meaning: str
    dtypes: str
    elsewhere: str
    example: str
    result: str


def entry(name: str) -> ReferenceEntry:
    """The entry of a function, by any of its names. Raises UnknownNameError."""
    name = functions.ALIASES.get(name, name)
    if not calls.exists(name):
        help = function_hint(name)
        raise UnknownNameError(f"there is no function {name}", "name.function", help=help)
    example = EXAMPLES.get(name) or f"{name}({', '.join('vwp'[: _required(name)])})"
    others = tuple(alias for alias, known in functions.ALIASES.items() if known == name)
    elsewhere = ELSEWHERE.get(name, f"numpy.{name}")
    dtypes = _dtypes(PLAIN.get(name, example))
    return ReferenceEntry(name, _signature(name), others, _meaning(name), dtypes, elsewhere, example, _result(example))


# -- from the tables


@cache
def _parameters(name: str) -> tuple[tuple[str, str | None, bool], ...]:
    """(name, default as text or None, whether by keyword only) of each parameter."""
    table = functions.lookup(name)
    if name == "attention":
        options = {
            **dict.fromkeys(("score", "mask", "scale", "lengths", "offsets", "pages"), "None"),
            "return_lse": "False",
        }
        return (*((operand, None, False) for operand in "qkv"), *((name, text, True) for name, text in options.items()))
    if table is not None:
        return tuple(
            ("*" * p.many + p.name, None if p.default is REQUIRED else _default(p.default), p.named)
            for p in table.parameters
        )
    function = prelude.definition(name)
    assert function is not None
    text = prelude.own_source(name)
    defaults = {p.name: None if p.default is None else text[slice(*p.default.span)] for p in function.parameters}
    return tuple((p.name, defaults[p.name], p.named) for p in argument_binding.signature(function, defaults))


def _default(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _required(name: str) -> int:
    return sum(default is None for _, default, _ in _parameters(name))


def _signature(name: str) -> str:
    parts: list[str] = []
    for parameter, default, named in _parameters(name):
        if named and "*" not in parts:
            parts.append("*")
        parts.append(parameter if default is None else f"{parameter}={default}")
    return f"{name}({', '.join(parts)})"


def _meaning(name: str) -> str:
    if name == "attention":
        return ("softmax(q @ k.mT * scale) @ v; `score` and `mask` are quoted formulas of score, b, h, i, j and of "
                "arrays, which further keywords name")  # fmt: skip
    table = functions.lookup(name)
    if table is not None:
        about = table.about.rstrip(".")
        return about[0].lower() + about[1:] if about[1:2].islower() else about
    comments = [line[2:] for line in prelude.own_source(name).splitlines() if line.startswith("# ")]
    return re.sub(r" \((numpy|scipy\.special|torch)\.\w+\)$", "", " ".join(comments))


# -- from running


def _graph(text: str, arrays: dict[str, np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    source = TextSource(text, DEFAULT, None, None)
    values = [arrays[name] for name in source.names]
    return Program(source, source.names, DEFAULT).plans.graph(describe_all(source.names, values)), values


def _result(text: str) -> str:
    graph, values = _graph(text, ARRAYS)
    results = interpret(graph, values)
    shown = [_show(part.tolist(), part.dtype.kind == "f" or part.dtype.itemsize < 3) for part in results]
    return ", ".join(shown)


def _show(value: Any, real: bool) -> str:
    """Nested lists with four digits of each number."""
    if isinstance(value, list):
        return f"[{', '.join(_show(part, real) for part in value)}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


KINDS = ("bool", "int32", "float32")
WORDS = {
    ("bool", "int32", "float32"): "any; kept",
    ("", "int32", "float32"): "numbers; kept",
    ("int8", "int32", "float32"): "numbers; kept",
    ("float16", "int32", "float32"): "numbers; kept",
    ("int64", "int32", "float32"): "numbers; kept",
    ("bool", "int32", ""): "bools and integers; kept",
    ("float16", "float64", "float32"): "floats; int32 gives float64",
    ("float64", "float64", "float32"): "floats; int32 gives float64",
    ("", "float64", "float32"): "floats; int32 gives float64",
    ("int64", "int64", "float32"): "numbers; int32 gives int64",
}


def _dtypes(text: str) -> str:
    """The dtype of the result, given arrays of bools, int32 and float32 in the example."""
    results = tuple(_dtype(text, kind) for kind in KINDS)
    if results in WORDS:
        return WORDS[results]
    if len(set(results)) == 1:
        return f"any; gives {results[0]}"
    return ", ".join(f"{kind} gives {result}" for kind, result in zip(KINDS, results) if result)


def _dtype(text: str, kind: str) -> str:
    """The dtype of the first result, given numbers of a kind in the example; "" if that is refused.

    Integers beside floats are indices and exponents: they stay.
    """
    read = {name: ARRAYS[name] for name in TextSource(text, DEFAULT, None, None).names}
    kinds = "f" if any(a.dtype.kind == "f" for a in read.values()) else "i"
    try:
        graph, _ = _graph(text, {name: a.astype(kind) if a.dtype.kind in kinds else a for name, a in read.items()})
    except FusedslError:
        return ""
    return str(graph.results[0].type.dtype)


# -- as text


def card(name: str) -> str:
    """The entry of one function for a terminal, with its definition if it is in the prelude."""
    e = entry(name)
    also = f"   (also {', '.join(e.others)})" if e.others else ""
    lines = [e.signature + also, "", f"  {e.meaning}", "", f"  dtypes    {e.dtypes}"]
    lines += [f"  like      {e.elsewhere}"] * bool(e.elsewhere) + [
        f"  example   {e.example}",
        f"            {e.result}",
    ]
    lines += [f"            where {name} = {_show(a.tolist(), True)}" for name, a in ARRAYS.items()
              if name in TextSource(e.example, DEFAULT, None, None).names]  # fmt: skip
    if e.name in prelude.names():
        source = prelude.source(e.name)
        used = [f"# {meaning}" for word, meaning in PRELUDE_WORDS.items() if re.search(rf"\b{word}\(", source)]
        lines += ["", *("  " + line if line else "" for line in [*source.splitlines(), *([""] * bool(used)), *used])]
    return "\n".join(lines)


def page() -> str:
    """The whole reference in Markdown."""
    lines = [*HEAD.format(command=COMMAND).strip().splitlines(), ""]
    lines += ["```python", *(f"{k} = {_show(a.tolist(), True)}" for k, a in ARRAYS.items()), "```", ""]
    lines += ["## Operators", "", *_table(("operator", "function", "note"), _operators()), ""]
    for family, names in FAMILIES.items():
        rows = []
        for name in names.split():
            e = entry(name)
            also = "".join(f"<br>`{other}`" for other in e.others)
            like = f"<br>as {e.elsewhere}" if e.elsewhere and e.elsewhere != f"numpy.{name}" else ""
            rows.append((f"`{e.signature}`{also}", e.meaning + like, e.dtypes, f"`{e.example}`<br>{e.result}"))
        lines += [f"## {family}", "", *_table(("function", "computes", "dtypes", "example"), rows), ""]
    lines += ["## What numbers do", "", *_table(("law", "example", "otherwise"), _laws()), ""]
    return "\n".join(lines).rstrip() + "\n"


HEAD = """
# Language reference

<!-- Made by `{command}`; a test says when it is out of date. -->

Every function of the language. [The guide](guide/language.md) introduces the language.
[prelude.fd](../fusedsl/lang/prelude.fd) defines the composite functions in the language itself, to read and copy.
`python -m fusedsl reference NAME` prints an entry, with its definition.

A function is NumPy's of the same name unless its row names another. Parameters before `*` are positional or keyword,
those after it keyword-only. Dtypes are those of the result. float16 and bfloat16 are computed in float32; float8 is a
storage type, to be cast before computing. Literals, `size`, `iota` and `arange` are weak: they take the dtype of the
array that they meet.

The examples use these arrays:
"""

NOTES = {
    "//": "floors; an integer divided by 0 is 0", "%": "the sign of y", "**": "right-associative; integers wrap",
    "/": "float64 for integers", "<<": "0 if y >= the bit width", ">>": "0 or -1 if y >= the bit width",
    "and": "of bools, element by element", "or": "of bools, element by element", "not": "of bools",
}  # fmt: skip


def _operators() -> Iterable[Sequence[str]]:
    for op in OPS.values():
        if op.symbol and functions.TABLE[op.name].about:
            others = [alias for alias, known in functions.ALIASES.items() if known == op.name]
            yield (
                f"`{functions.TABLE[op.name].about}`",
                ", ".join(f"`{n}`" for n in (op.name, *others)),
                NOTES.get(op.symbol, ""),
            )
    yield "`x @ y`", "`matmul`", "sums over the last axis of x and the last but one of y"
    yield (
        "`x if c else y`",
        "`where`",
        "element by element; if `c` is a literal, such as a default, only the chosen branch is compiled",
    )
    yield "`x[1:, ::-2, None, ..., i]`", "", "slices, integers, new axes, integer arrays: NumPy's indexing"
    yield "`x.T`, `x.mT`", "`transpose`, `matrix_transpose`", ""


def _laws() -> Iterable[Sequence[str]]:
    for law in LAWS:
        operands = ", ".join(f"{name} = {_column(*column)}" for name, column in zip("xyz", law.given))
        yield law.says, f"`{law.text}` of {operands}<br>{_column(*law.wanted)}", law.elsewhere


def _column(dtype: str, values: Sequence[Any]) -> str:
    return f"{dtype}[{', '.join(str(v) if isinstance(v, int) else f'{v:.12g}' for v in values)}]"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *escaped)]
