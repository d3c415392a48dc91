"""Largest errors of every float function in ulps, on hard inputs, beside a reference of twice the digits.

    python benchmarks/accuracy.py [--device cpu | cuda] [--count 1048576] [--json FILE] [NAME ...]

float32 is held to NumPy's float64 (the C library's, for the functions that NumPy lacks), float64 to NumPy's long
double; where that has no function, to mpmath on fewer inputs. An ulp is that of the exact result; beyond the largest
number, below the least and at NaN, what is asked for is the same special value. A function beyond its bound fails the
run: 4 ulp on the CPU (powers: 1), CUDA's documented error on a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import fusedsl as fd
from fusedsl.bench.record import machine, versions

NUMPY_ONE = """
    sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan
    sinh cosh tanh arcsinh arccosh arctanh
"""
NUMPY_TWO = "divide power arctan2 hypot fmod remainder"
C_ONE = ("erf", "erfc", "lgamma")
MPMATH_COUNT = 1 << 14  # inputs of a function whose reference mpmath computes one by one
# Where a function has its difficulties: numbers around which, and scales on which, the inputs are drawn.
NEAR = {
    "log": (1.0,), "log2": (1.0,), "log10": (1.0,), "arcsin": (0.5, 1.0), "arccos": (0.5, 1.0), "arccosh": (1.0,),
    "arctanh": (0.5, 1.0), "lgamma": (1.0, 2.0), "arctan": (1.0,), "log1p": (-1.0,),
}  # fmt: skip
# The mathematical appendix of the CUDA C++ Programming Guide, full range: ulps from the correctly rounded result.
# remainder has Python's sign: an fmod and a correction, rounded once.
CUDA_ULPS = {  # of float32, of float64
    "sqrt": (0, 0), "rsqrt": (2, 1), "cbrt": (1, 1), "exp": (2, 1), "exp2": (2, 1), "expm1": (1, 1), "log": (1, 1),
    "log2": (1, 1), "log10": (2, 1), "log1p": (1, 1), "sin": (2, 2), "cos": (2, 2), "tan": (4, 2), "arcsin": (2, 2),
    "arccos": (2, 2), "arctan": (2, 2), "sinh": (3, 2), "cosh": (2, 1), "tanh": (2, 1), "arcsinh": (3, 3),
    "arccosh": (4, 3), "arctanh": (3, 2), "erf": (2, 2), "erfc": (4, 5), "lgamma": (6, 4), "divide": (0, 0),
    "power": (4, 2), "arctan2": (3, 2), "hypot": (3, 2), "fmod": (0, 0), "remainder": (0, 0),
}  # fmt: skip
LGAMMA_ZEROS = {"float32": (-10.001, -2.264), "float64": (-23.0001, -2.2637)}  # where CUDA documents no bound
CPU_ULPS, CPU_POWER_ULPS = 4, 1


@dataclass(frozen=True)
class Measured:
    """The worst of one function in one dtype: `ulps` at `at`; special values that differ are counted in `wrong`."""

    name: str
    dtype: str
    count: int
    ulps: float
    at: tuple[float, ...]
    wrong: int
    bound: float | None = None

    def holds(self) -> bool:
        """Whether special values are right and the error is within the bound."""
        return not self.wrong and (self.bound is None or self.ulps <= self.bound)

    def __str__(self) -> str:
        bound = "" if self.bound is None else f" of {self.bound:.1f}"
        told = f"{self.name:14}{self.dtype:9}{self.ulps:9.3f} ulp{bound} at {self.at}"
        return told + f"  WRONG {self.wrong}" * bool(self.wrong) + "  BEYOND" * (not self.holds())


def patterns(kind: type, count: int) -> np.ndarray:
    """Numbers of all exponents and signs, evenly by representation; NaN and infinities among them."""
    word = np.uint32 if kind is np.float32 else np.uint64
    bits = 8 * np.dtype(kind).itemsize
    step = (1 << bits) // count | 1
    return (np.arange(count, dtype=word) * word(step)).view(kind)


def drawn(name: str, kind: type, count: int, seed: int) -> np.ndarray:
    """Half of all exponents, half where the function bends: near its zeros, poles and turns, and of common sizes."""
    random = np.random.default_rng(seed)
    half = count // 2
    parts = [random.standard_normal(half // 4) * s for s in (0.1, 1.0, 10.0, 100.0)]
    for centre in NEAR.get(name, ()):
        parts.append(centre * (1 + random.standard_normal(half // 2) * 10.0 ** random.uniform(-9, 0, half // 2)))
    if name in ("sin", "cos", "tan"):
        parts.append(random.integers(-(2**20), 2**20, half // 2) * (math.pi / 4))
    mixed = np.concatenate(parts)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2])
    chosen = random.permutation(mixed)[: count - half - len(special)]
    return np.concatenate([patterns(kind, half), special.astype(kind), chosen.astype(kind)])


def operands(name: str, kind: type, count: int, arity: int) -> list[np.ndarray]:
    """The inputs of a function; for two, bases and exponents of every size meet one another."""
    first = drawn(name, kind, count, 1)
    if arity == 1:
        return [first]
    second = np.random.default_rng(2).permutation(drawn(name, kind, count, 3))
    second[: count // 8] = first[: count // 8]  # equal operands
    if name == "power":
        first[count // 2 :] = np.abs(first[count // 2 :])
    if name in ("fmod", "remainder"):  # quotients of common sizes
        with np.errstate(all="ignore"):
            second[count // 4 :] = (first / np.random.default_rng(4).uniform(-1e3, 1e3, count))[count // 4 :]
    return [np.ascontiguousarray(first), np.ascontiguousarray(second)]


def reference(name: str, inputs: list[np.ndarray]) -> np.ndarray:
    """The exact values, in float64 for float32 and in long double for float64."""
    wide = np.float64 if inputs[0].dtype == np.float32 else np.longdouble
    values = [x.astype(wide) for x in inputs]
    if name in C_ONE:
        return _by_c(name, values[0]) if wide is np.float64 else _by_mpmath(name, inputs[0])
    if name == "rsqrt":
        return 1 / np.sqrt(values[0])
    return getattr(np, name)(*values)


def _by_c(name: str, x: np.ndarray) -> np.ndarray:
    def one(v: float) -> float:
        try:
            return getattr(math, name)(v)
        except (ValueError, OverflowError):
            return math.inf if not math.isnan(v) else v

    return np.array([one(v) for v in x.tolist()])


def _by_mpmath(name: str, x: np.ndarray) -> np.ndarray:
    import mpmath

    function = {"erf": mpmath.erf, "erfc": mpmath.erfc, "lgamma": lambda v: mpmath.loggamma(v).real}[name]

    def one(v: float) -> np.longdouble:
        settled = name != "lgamma" and abs(v) > 30  # 1, -1, 0 or 2 to every digit
        if settled or not math.isfinite(v) or (name == "lgamma" and v <= 0 and v == math.floor(v)):  # a pole
            return np.longdouble(_by_c(name, np.array([v]))[0])
        with mpmath.workprec(160):
            exact = function(mpmath.mpf(v))
            high = float(exact)
            return np.longdouble(high) + np.longdouble(float(exact - high) if math.isfinite(high) else 0.0)

    return np.array([one(v) for v in x.tolist()])


def measure(name: str, found: np.ndarray, exact: np.ndarray, inputs: list[np.ndarray]) -> Measured:
    """The worst error of these results."""
    kind = found.dtype.type
    with np.errstate(all="ignore"):
        rounded, finfo = exact.astype(kind), np.finfo(kind)
        exponent = np.maximum(np.frexp(rounded)[1], finfo.minexp + 1) - finfo.nmant - 1
        unit = np.ldexp(np.ones_like(exact), exponent)
        distance = np.abs(found.astype(exact.dtype) - exact) / unit
    one_infinite = np.isinf(found) ^ np.isinf(rounded)
    close = one_infinite & (np.minimum(np.abs(found), np.abs(rounded)) >= finfo.max * (1 - 4 * finfo.eps))
    special = ~np.isfinite(rounded) | ~np.isfinite(found)
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded)) | close
    distance = np.where(special, 0, distance)
    worst = int(np.argmax(distance))
    at = tuple(float(x[worst]) for x in inputs)
    return Measured(name, found.dtype.name, found.size, float(distance[worst]), at, int((special & ~same).sum()))


def functions(kind: type) -> dict[str, int]:
    """The names to measure and how many operands each takes."""
    found = dict.fromkeys((*NUMPY_ONE.split(), "rsqrt", *C_ONE), 1)
    return found | dict.fromkeys(NUMPY_TWO.split(), 2)


def run(names: list[str], kind: type, count: int, device: str) -> list[Measured]:
    """All functions in one dtype."""
    found = []
    for name in names:
        arity = functions(kind)[name]
        size = min(count, MPMATH_COUNT) if name in C_ONE and kind is np.float64 else count
        inputs = operands(name, kind, size, arity)
        kernel = fd.kernel(f"{name}({', '.join('xy'[:arity])})", fallback=False, device=device)
        result = np.asarray(kernel(*inputs))
        with np.errstate(all="ignore"):
            exact = reference(name, inputs)
            for part, chosen, bound in parts(name, inputs, device):
                told = measure(part, result[chosen], exact[chosen], [x[chosen] for x in inputs])
                found.append(replace(told, bound=bound))
                print(found[-1], flush=True)
    return found


def parts(name: str, inputs: list[np.ndarray], device: str) -> list[tuple[str, np.ndarray, float | None]]:
    """(name, which inputs, bound) of what is measured of a function: lgamma beside its zeros stands apart on CUDA."""
    kind = inputs[0].dtype.name
    everywhere = np.ones(inputs[0].size, bool)
    if device == "cpu":
        return [(name, everywhere, CPU_POWER_ULPS if name == "power" else CPU_ULPS)]
    bound = CUDA_ULPS[name][kind == "float64"] + 0.5
    if name != "lgamma":
        return [(name, everywhere, bound)]
    low, high = LGAMMA_ZEROS[kind]
    beside = (inputs[0] > low) & (inputs[0] < high)
    return [(name, ~beside, bound), ("lgamma, zeros", beside, None)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--count", type=int, default=1 << 20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[Measured] = []
    for kind in (np.float32, np.float64):
        rows += run(given.names or list(functions(kind)), kind, given.count, given.device)
    if given.json:
        head = {"device": given.device, "machine": machine(), "versions": versions()}
        text = json.dumps(head | {"rows": [asdict(row) for row in rows]}, indent=1)
        given.json.write_text(text + "\n")
    sys.exit(not all(row.holds() for row in rows))


if __name__ == "__main__":
    main()
