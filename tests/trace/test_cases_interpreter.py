"""CuPy's fusion tests as texts and as traced functions on the reference interpreter, with NumPy as the oracle.

`data/cupy_fusion_cases.json.xz` holds the functions and inputs of cupy/cupy's tests/cupy_tests/core_tests/fusion_tests
(commit 6b6d9563, MIT licence), without the complex ones; NumPy runs each of them here again.
"""

from __future__ import annotations

import ast
import base64
import builtins
import collections
import json
import lzma
import warnings
from pathlib import Path

import numpy as np
import pytest
from oracle import call, evaluate

from fusedsl.errors import FusedslError
from fusedsl.lang import functions, prelude

TOLERANCE = 3e-3  # of CuPy's tests, for float16 inputs
DATA = Path(__file__).parents[1] / "data" / "cupy_fusion_cases.json.xz"
# Of these functions' NumPy names the language has none.
ABSENT = {"frexp", "modf", "i0", "angle", "conj", "real", "imag", "copyto"}


def cases():
    """(source line or None, body, argument names, dtypes by name, inputs)"""
    data = json.loads(lzma.decompress(DATA.read_bytes()))
    raw = [(np.dtype(name), base64.b64decode(text)) for name, text in data["arrays"]]
    for case in data["cases"]:
        for dtypes, inputs in case["runs"]:
            yield case["expr"], case["body"], case["args"], dtypes, [_array(raw, value) for value in inputs]


def _array(raw, value):
    if not isinstance(value, list):
        return value
    dtype, content = raw[value[0]]
    found = np.frombuffer(content, dtype).copy()
    return found[0] if value[1] is None else found.reshape(value[1])


NAMES = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
NAMES |= {
    "xp": np,
    "numpy": np,
    "size": 10,
    "divmod": divmod,
    "slice": builtins.slice,
    "get_array_module": lambda x: np,
}


def function_of(body, args, dtypes):
    """The case as a Python function over NumPy."""
    lines = [line for part in body for line in part.split("\n")]
    scope = NAMES | {key: getattr(np, "bool_" if name == "bool" else name) for key, name in dtypes.items()}
    exec(f"def f({', '.join(args)}):\n" + "\n".join(f"    {line}" for line in lines), scope)
    return scope["f"]


def numpy_says(body, args, dtypes, inputs):
    """NumPy's result and the arguments after it, or the exception."""
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in inputs]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function_of(body, args, dtypes)(*copies), copies
        except Exception as error:
            return error, copies


class AsText(ast.NodeTransformer):
    """A NumPy expression as the language writes it: methods are functions, slices are slices."""

    def __init__(self, dtypes):
        self.dtypes = dtypes

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            node.args.insert(0, node.func.value)
            node.func = ast.Name(node.func.attr)
        if node.func.id == "slice":
            return ast.Slice(*(None if getattr(a, "value", 0) is None else a for a in node.args))
        return node

    def visit_Name(self, node):
        return ast.Constant(...) if node.id == "Ellipsis" else ast.Name(self.dtypes.get(node.id, node.id))


def text_of(expression, dtypes):
    tree = AsText(dtypes).visit(ast.parse(expression, mode="eval"))
    text = ast.unparse(ast.fix_missing_locations(tree))
    return "return " + text[1:-1] if isinstance(tree.body, ast.Tuple) else text


def differs(got, wanted):
    """How a result differs from NumPy's, or None."""
    if wanted is None or isinstance(wanted, tuple):
        if type(got) is not type(wanted) or (wanted and len(got) != len(wanted)):
            return "structure"
        return next(filter(None, map(differs, got or (), wanted or ())), None)
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.dtype != wanted.dtype:
        return f"dtype {got.dtype} for {wanted.dtype}"
    if got.shape != wanted.shape:
        return f"shape {got.shape} for {wanted.shape}"
    if wanted.dtype.kind != "f":
        return None if np.array_equal(got, wanted) else "value"
    close = np.allclose(got.astype(float), wanted.astype(float), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    return None if close else "value"


def compare(run):
    """Counts by outcome, and an example for each unexpected one. `run` gives (result, arguments after) or None."""
    count, unexpected = collections.Counter(), {}
    for expression, body, args, dtypes, inputs in cases():
        wanted, wanted_after = numpy_says(body, args, dtypes, inputs)
        try:
            found = run(expression, body, args, dtypes, inputs)
        except (FusedslError, TypeError, ValueError) as error:
            found = error
        if found is None:
            count["not expressible"] += 1
        elif isinstance(wanted, Exception):
            outcome = "both refuse" if isinstance(found, Exception) else "accepted"
            count[outcome] += 1
            if outcome == "accepted":
                unexpected.setdefault(("; ".join(body), f"NumPy: {wanted}"), (dtypes, inputs))
        elif isinstance(found, Exception):
            count["refused"] += 1
            unexpected.setdefault(("; ".join(body), str(found)), (dtypes, inputs))
        else:
            got, after = found
            how = differs(got, wanted) or differs(tuple(after), tuple(wanted_after))
            count["different" if how else "equal"] += 1
            if how:
                unexpected.setdefault(("; ".join(body), how), (dtypes, inputs))
    return count, unexpected


def as_text(expression, body, args, dtypes, inputs):
    if expression is None or expression in ("()", "(x,)") or any(f"{name}(" in expression for name in ABSENT):
        return None
    return evaluate(text_of(expression, dtypes), **dict(zip(args, inputs))), inputs


def as_function(expression, body, args, dtypes, inputs):
    got, after = call(function_of(body, args, dtypes), *inputs)
    arrays = iter(after)
    return got, [next(arrays) if isinstance(v, (np.ndarray, np.generic, int, float)) and not isinstance(v, bool) else v
                 for v in inputs]  # fmt: skip


def test_texts_mean_what_numpy_says():
    count, unexpected = compare(as_text)
    assert not unexpected, next(iter(unexpected.items()))
    assert count["equal"] > 15000


def test_traced_functions_do_what_numpy_does():
    count, unexpected = compare(as_function)
    absent = {body for body, _ in unexpected if body in {f"return {name}(x)" for name in ABSENT}}
    assert absent == {"return frexp(x)", "return i0(x)"}
    unexpected = {key: value for key, value in unexpected.items() if key[0] not in absent}
    assert not unexpected, next(iter(unexpected.items()))
    assert count["equal"] > 17000


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_functions_left_out_of_the_cases_are_not_in_the_language(name):
    assert functions.lookup(name) is None and name not in prelude.names()


if __name__ == "__main__":
    for run in (as_text, as_function):
        count, unexpected = compare(run)
        print(run.__name__, dict(count))
        for key, example in unexpected.items():
            print("  ", *key, "|", example)
