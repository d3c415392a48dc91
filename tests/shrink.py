"""Makes a program that breaks a law small, and prints a script that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from draw import Program
from oracle import graph_of

from fusedsl.ir.interp import interpret

Breaks = Callable[[Program], str | None]  # what is wrong with a program, or None


def shrunk(program: Program, breaks: Breaks, attempts: int = 80) -> tuple[Program, str]:
    """The smallest program found that breaks a law too, and what it does wrong."""
    fault = breaks(program)
    assert fault is not None
    while True:
        for candidate in _smaller(program):
            attempts -= 1
            if attempts < 0:
                return program, fault
            try:
                found = breaks(candidate)
            except Exception:  # what has no meaning breaks no law
                continue
            if found is not None:
                program, fault = candidate, found
                break
        else:
            return program, fault


def _smaller(p: Program) -> Iterator[Program]:
    """Programs with a little less in them, the large steps first."""
    if len(p.results) > 1:
        half = len(p.results) // 2
        yield from (tidy(replace(p, results=part)) for part in (p.results[:half], p.results[half:]))
        yield from (tidy(replace(p, results=p.results[:k] + p.results[k + 1 :])) for k in range(len(p.results)))
    elif len(p.lines) > 1 and "(" not in (before := p.lines[-2].partition(" = ")[0]):
        yield tidy(replace(p, results=tuple(before.split(", "))))
    for k in reversed(range(len(p.lines))):
        if (cut := _cut(p, k)) is not None:
            yield cut
    for name, x in p.arrays.items():
        if isinstance(x, np.ndarray) and not (x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative):
            plain = np.array(x, x.dtype.newbyteorder("=") if x.dtype.kind in "iuf" else x.dtype, order="C")
            yield replace(p, arrays=p.arrays | {name: plain})
    for extent in sorted({n for x in p.arrays.values() for n in np.shape(x) if n > 2}, reverse=True):
        for less in (2, extent // 2, extent - 1):
            arrays = {n: _shortened(x, extent, less) for n, x in p.arrays.items()}
            yield replace(p, arrays=arrays)
    for name, x in p.arrays.items():
        if isinstance(x, np.ndarray) and x.size > 1 and (x != x.ravel()[0]).any():
            yield replace(p, arrays=p.arrays | {name: np.full_like(x, x.ravel()[0])})


def _shortened(x, extent: int, less: int):
    if not isinstance(x, np.ndarray) or extent not in x.shape:
        return x
    return np.array(x[tuple(slice(less) if n == extent else slice(None) for n in x.shape)])


def _cut(p: Program, k: int) -> Program | None:
    """The values of a line as arguments."""
    names, is_line, _ = p.lines[k].partition(" = ")
    if not is_line or "(" in names:
        return None
    text = "\n".join([*p.lines[: k + 1], f"return {names}"])
    try:
        found = interpret(*graph_of(text, p.arrays))
    except Exception:  # an array that the lines left over do not read
        return None
    arrays = p.arrays | dict(zip(names.split(", "), found))
    return tidy(replace(p, lines=p.lines[:k] + p.lines[k + 1 :], arrays=arrays))


def tidy(p: Program) -> Program:
    """Without lines and arrays that no result needs."""
    needed, kept = set(p.results), []
    for line in reversed(p.lines):
        names, _, text = line.partition(" = ")
        defined = {names.split("(")[0]} if "(" in names else set(names.split(", "))
        if defined & needed:
            kept.append(line)
            needed |= set(re.findall(r"[A-Za-z_]\w*", text))
    return replace(p, lines=tuple(reversed(kept)), arrays={n: x for n, x in p.arrays.items() if n in needed})


def script(program: Program, fault: str) -> str:
    """A script that runs a program beside the interpreter; it needs no file of the tests."""
    lines = ["import numpy as np", "from numpy import inf, nan", "import ml_dtypes", "import fusedsl as fd", ""]
    lines += [f"{name} = {_literal(x)}" for name, x in program.arrays.items()]
    lines += [f"# {part}" for part in fault.splitlines()[:6]]
    lines += [f'kernel = fd.kernel("""\n{program.text}\n""", verify=True, fallback=False)']
    given = ", ".join(f"{n}={n}" for n in program.arrays)
    return "\n".join([*lines, f"print(kernel({given}))"])


def _literal(x) -> str:
    if not isinstance(x, np.ndarray | np.generic):
        return repr(x)
    name = {"bool": "bool_"}.get(x.dtype.name, x.dtype.name)
    own = f"ml_dtypes.{name}" if name.startswith(("bfloat16", "float8")) else f"np.{name}"
    values = x.astype(np.float64).tolist() if x.dtype.kind not in "biu" else x.tolist()
    made = f"np.array({values!r}).reshape({x.shape}).astype({own})"
    if name in ("float64", "int64", "uint64"):
        made = f"np.array({values!r}, {own}).reshape({x.shape})"
    strides = getattr(x, "strides", ())
    order = x.ndim > 1 and x.flags.f_contiguous and not x.flags.c_contiguous
    made = f"np.asfortranarray({made})" if order else made
    return made if order or not x.ndim or x.flags.c_contiguous else f"{made}  # of strides {strides}"
