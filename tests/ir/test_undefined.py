"""Undefined behaviour of LLVM and PTX is never reached: integer operations and casts at the edges of every dtype, alone
and as operands of every other, equal the interpreter's, which follow Python's integers."""

from __future__ import annotations

import math
import re
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from edges import FLOATS, INTEGERS, combined, edges, nested
from oracle import evaluate

import fusedsl as fd
from fusedsl.lru import LRU
from fusedsl.runtime.array_copies import to_host

TOGETHER = 48  # results of one kernel


def wrapped(value: int, dtype: str) -> int:
    """An integer modulo the width of a dtype."""
    kind = np.iinfo(dtype)
    return (value - int(kind.min)) % (1 << kind.bits) + int(kind.min)


# -- what is meant, by Python's integers


def power(x: int, y: int, width: int) -> int:
    if y < 0:
        return x ** (y & 1) if x in (1, -1) else 0
    return pow(x, y, 1 << width)


def truncated(x: int, y: int) -> int:
    return int(Fraction(x, y))


EXACT = {
    "x + y": lambda x, y, width: x + y,
    "x - y": lambda x, y, width: x - y,
    "x * y": lambda x, y, width: x * y,
    "x // y": lambda x, y, width: x // y if y else 0,
    "x % y": lambda x, y, width: x % y if y else 0,
    "fmod(x, y)": lambda x, y, width: x - truncated(x, y) * y if y else 0,
    "x ** y": power,
    "x & y": lambda x, y, width: x & y,
    "x | y": lambda x, y, width: x | y,
    "x ^ y": lambda x, y, width: x ^ y,
    "x << y": lambda x, y, width: x << y if 0 <= y < width else 0,
    "x >> y": lambda x, y, width: x >> (y if 0 <= y < width else width),
    "minimum(x, y)": lambda x, y, width: min(x, y),
    "maximum(x, y)": lambda x, y, width: max(x, y),
    "-x": lambda x, y, width: -x,
    "~x": lambda x, y, width: ~x,
    "abs(x)": lambda x, y, width: abs(x),
    "sign(x)": lambda x, y, width: (x > 0) - (x < 0),
    "x < y": lambda x, y, width: x < y,
    "x <= y": lambda x, y, width: x <= y,
    "x == y": lambda x, y, width: x == y,
    "x != y": lambda x, y, width: x != y,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_interpreter_computes_what_integers_are(dtype):
    x, y = combined(edges(dtype), edges(dtype))
    for text, meaning in EXACT.items():
        found = evaluate(text, **{name: value for name, value in (("x", x), ("y", y)) if name in text.split("(")[-1]})
        wanted = [meaning(a, b, np.iinfo(dtype).bits) for a, b in zip(x.tolist(), y.tolist())]
        wanted = wanted if found.dtype == bool else [wrapped(v, dtype) for v in wanted]
        assert found.tolist() == wanted, text


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("source", (*INTEGERS, *FLOATS, "bool"))
def test_the_interpreter_wraps_integers_and_saturates_floats(source):
    x = edges(source)
    for to in INTEGERS:
        kind = np.iinfo(to)
        for value, found in zip(x.tolist(), evaluate(f"{to}(x)", x=x).tolist()):
            if isinstance(value, float):
                wanted = 0 if math.isnan(value) else int(min(max(value, -(2.0**70)), 2.0**70))
                wanted = min(max(wanted, kind.min), kind.max)
            else:
                wanted = wrapped(int(value), to)
            assert found == wanted, (value, to)


# -- the targets


def on_cpu(kernel, arrays):
    return kernel(*arrays)


def on_cuda(kernel, arrays):
    """Compiled for CUDA, and run by the interpreter of PTX."""
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu() as gpu:
        found = kernel(*map(gpu.asarray, arrays))
        return tuple(map(to_host, found)) if isinstance(found, tuple) else to_host(found)


TARGETS = {"cpu": on_cpu, "cuda": on_cuda}


def check(texts, given, target, beside=""):
    """The texts, many to a kernel, give on a target what the interpreter gives; `beside` is one more in each kernel."""
    wrong, together = [], 7 if beside and target == "cpu" else TOGETHER
    for begin in range(0, len(texts), together):
        part = [*texts[begin : begin + together], *([beside] if beside else [])]
        kernel = fd.kernel(", ".join(part), fallback=False)
        arrays = {name: given[name] for name in kernel.params}
        found, wanted = TARGETS[target](kernel, arrays.values()), evaluate(kernel.text, **arrays)
        for text, made, right in zip(part, *((r if len(part) > 1 else (r,)) for r in (found, wanted))):
            different = np.flatnonzero((made != right) & ((made == made) | (right == right)))
            if made.dtype != right.dtype or different.size:
                at = {name: x[different[0]] for name, x in arrays.items()} if different.size else {}
                wrong.append(f"{text} of {given['x'].dtype} at {at}: {made[different[:1]]}, not {right[different[:1]]}")
    assert not wrong, "\n".join(wrong)


def triples(dtype):
    return dict(zip("xyz", combined(*[edges(dtype)] * 3)))


# A power makes it worth while to compute a loop in vectors, which what divides takes part in.
VECTORS = "x ** y"


def share(texts, dtype, target):
    """Of some texts those of a dtype, so that all dtypes together have each of every third (CUDA: every tenth)."""
    return texts[INTEGERS.index(dtype) :: 8][:: 3 if target == "cpu" else 10]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_operations_as_operands_of_others(dtype, target):
    check(share(nested(dtype), dtype, target), triples(dtype), target, VECTORS)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_operation_as_operand_of_every_other(dtype, target):
    check(nested(dtype), triples(dtype), target, VECTORS)


DIVISORS = ("(3 << y)", "(y*2 + 1 << z*40)", "((y | 1) << z)", "(3 << (y & 31))", "(~(x & 0) >> y)",
            "(0*x - (1 << y))", "((x ** y | 1) >> z)", "(y | 1)", "(z*2 - 1)", "(1 << y)", "(x // y | 1)")  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisors_that_a_shift_or_a_bit_keeps_from_0(dtype, target):
    """What a compiler takes for never 0: of a shift by the width or more, which is 0, it may say so too."""
    texts = [f"x // {y}" for y in DIVISORS] + [f"fmod(z, {y})" for y in DIVISORS]
    check(texts if target == "cpu" else texts[INTEGERS.index(dtype) :: 8], triples(dtype), target, VECTORS)


def of_literals(dtype):
    """Every operation with each literal that the dtype holds: a compiler knows more of it than of an array."""
    wide = [f"({value})" if value > -(2**63) else f"({value + 1} - 1)" for value in edges(dtype).tolist()]
    symbols = ["+", "-", "*", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "<=", "==", ">"]
    texts = [t for s in symbols for v in wide for t in (f"x {s} {v}", f"{v} {s} x")]
    return texts + [f"fmod(x, {v})" for v in wide] + [f"fmod({v}, x)" for v in wide]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_literals_as_operands(dtype, target):
    check(share(of_literals(dtype), dtype, target), {"x": edges(dtype)}, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_literal_as_operand(dtype, target):
    check(of_literals(dtype), {"x": edges(dtype)}, target)


OF_CASTS = ("{x}", "{x} // T(3)", "7 // {x}", "{x} << 3", "1 << {x}", "{x} + 1 > {x}", "-{x}", "abs({x})", "5 % {x}",
            "T(float32({x}))", "int16({x})", "uint64({x})")  # fmt: skip
SOURCES = (*FLOATS, "bool", *INTEGERS)


def of_casts():
    return [t.format(x="T(x)").replace("T(", f"{to}(") for to in INTEGERS for t in OF_CASTS]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_casts_as_operands(source, target):
    every = 12 if target == "cuda" else 1 if source in FLOATS else 5
    check(of_casts()[SOURCES.index(source) % every :: every], {"x": edges(source)}, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_cast_as_operand(source, target):
    check(of_casts(), {"x": edges(source)}, target)


# -- what is written for LLVM, and what it makes of it


@pytest.fixture
def anew(monkeypatch, tmp_path):
    """Kernels are compiled, whatever has been compiled before."""
    from fusedsl.runtime import cache, compile

    own = cache.Cache(tmp_path)
    monkeypatch.setattr(compile, "disk", lambda: own)
    monkeypatch.setattr(cache, "disk", lambda: own)
    monkeypatch.setattr(compile, "_compiled_kernels", LRU(lambda: 64))


SHIFT = re.compile(r"(%\S+) = (?:shl|lshr|ashr) i\d+ [^,]+, (\S+)$")
DIVISION = re.compile(r"= [su](?:div|rem) i(?:8|16|32) [^,]+, (\S+)$")
PROMISE = re.compile(r"\b(nsw|nuw|exact|disjoint|nneg|samesign|nnan|ninf|nsz|arcp|afn|fast)\b|llvm.assume")
CONVERSION = re.compile(r"= fpto[su]i (?:float|double) (\S+) to")
COUNTER = re.compile(r"= add nsw i64 \S+, 1$")  # of a loop, where it is below the end


@pytest.mark.parametrize("dtype", ("int8", "uint32"))
def test_what_llvm_is_given_on_the_cpu_promises_nothing(dtype, anew, monkeypatch):
    """A shift by anything but a number within its width is frozen, a divisor is chosen, and so is a float that becomes
    an integer; no result is said not to overflow, or to be no NaN. (Divisions of 64 bits share the work among
    threads.)"""
    from fusedsl.backends.cpu import compiler

    seen: list[str] = []
    optimise = compiler.optimise
    monkeypatch.setattr(
        compiler, "optimise", lambda modules, *target: seen.extend(map(str, modules)) or optimise(modules, *target)
    )
    texts = [*nested(dtype)[::7], *of_literals(dtype)[::9]] + [f"{to}(sqrt(x))" for to in INTEGERS]
    for begin in range(0, len(texts), TOGETHER):
        kernel = fd.kernel(", ".join(texts[begin : begin + TOGETHER]), fallback=False)
        kernel.compile(*(fd.spec((1000 + begin,), dtype) for _ in kernel.params))
    shifts, counts = 0, Counter()
    for module in seen:
        lines = [line.strip() for line in module.splitlines()]
        assert not [line for line in lines if PROMISE.search(line) and not COUNTER.search(line)]
        frozen = {line.split()[-1] for line in lines if "= freeze " in line}
        chosen = {line.split()[0] for line in lines if "= select " in line}
        for line in lines:
            if found := SHIFT.search(line):
                shifts += found[1] in frozen
                assert found[1] in frozen or (found[2].isdigit() and int(found[2]) < 64), line
            for what in (DIVISION, CONVERSION):
                if found := what.search(line):
                    counts[what] += 1
                    assert found[1] in chosen, line
    assert shifts > 20 and counts[DIVISION] > 20 and counts[CONVERSION] > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ("x86-64", "haswell"))
@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisors_on_other_processors(dtype, name, anew, monkeypatch):
    """Which loops are computed in vectors, and what a vector's shift makes of a distance, differs between them."""
    from fusedsl.backends.cpu import processor
    from fusedsl.runtime import compile

    if "avx2" not in processor.flags():
        pytest.skip("this processor has no AVX2")
    monkeypatch.setattr(compile, "host", lambda: processor.Processor("x86_64", name))
    check([f"x // {y}" for y in DIVISORS], triples(dtype), "cpu", VECTORS)
    check(share(nested(dtype), dtype, "cpu"), triples(dtype), "cpu", VECTORS)
