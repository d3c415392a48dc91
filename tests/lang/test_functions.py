"""Every function of the language, with every keyword and form of axis, is NumPy's or torch's; other names teach."""

from __future__ import annotations

import re

import numpy as np
import oracle
import pytest
import recipes
from function_table import ARRAYS, GROUPS

import fusedsl as fd
from fusedsl.ir.types import DTYPES, numpy_dtype
from fusedsl.lang import functions, prelude
from fusedsl.lang.foreign_names import EQUIVALENTS, HELP_TEXTS

TOLERANCE = {2: 2e-3, 4: 2e-5, 8: 1e-12}


def torch_(name: str, x: np.ndarray, *args, **keywords) -> np.ndarray:
    """torch's function, or torch.nn.functional's, in float64."""
    torch = pytest.importorskip("torch")
    function = getattr(torch.nn.functional, name, None) or getattr(torch, name)
    return function(torch.from_numpy(x.astype(np.float64)), *args, **keywords).numpy().astype(np.float32)


def cross_entropy(x: np.ndarray, target: np.ndarray, reduction: str = "mean") -> np.ndarray:
    torch = pytest.importorskip("torch")
    tensors = torch.from_numpy(x), torch.from_numpy(target.astype(np.int64))
    return torch.nn.functional.cross_entropy(*tensors, reduction=reduction).numpy()


def normal(x: np.ndarray, axis=-1, eps=1e-5) -> np.ndarray:
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + x.mean().dtype.type(eps))


def unpacked(words: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    parts = np.stack([words >> (bits * k) & ((1 << bits) - 1) for k in range(8 // bits)], -1).astype(np.int64)
    parts = np.where(parts >> (bits - 1), parts - (1 << bits), parts) if signed else parts
    return parts.reshape(*words.shape[:-1], -1).astype(np.int8 if signed else np.uint8)


NAMES = {name: getattr(np, name) for name in dir(np)} | ARRAYS
NAMES |= {"torch_": torch_, "cross_entropy_": cross_entropy, "normal": normal, "unpacked": unpacked}
NAMES |= {name: numpy_dtype(DTYPES[d]).type for name, d in
          (("BFLOAT16", "bfloat16"), ("E4M3", "float8_e4m3fn"), ("E5M2", "float8_e5m2"))}  # fmt: skip


def expected(text: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(eval(text, dict(NAMES)))


def same(found: np.ndarray, wanted: np.ndarray, text: str) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), text
    if found.dtype.kind != "f":
        assert np.array_equal(found, wanted), text
        return
    tolerance = TOLERANCE[found.dtype.itemsize]
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=text)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("group", GROUPS)
def test_every_function_with_every_keyword_is_numpys(group):
    for case in GROUPS[group]:
        text, reference = (case, case) if isinstance(case, str) else case
        same(np.asarray(oracle.evaluate(text, **ARRAYS)), expected(reference), text)


def test_keywords_that_add_work_on_the_cpu():
    """Those that other tests do not compile: what `initial`, `where` and `mode` add to a kernel."""
    text = """
        max(x, axis=-1, where=m, initial=0.5), argmax(x, axis=-1, where=m), argmin(i, axis=-1, where=m),
        var(h, axis=-1, dtype=float32, where=m), nanmean(n, axis=-1, where=m), nansum(n, axis=-1, initial=2, where=m),
        count_nonzero(i, axis=-1, where=m), norm(x, axis=-1, where=m), prod(p, axis=-1, initial=3, where=m),
        cumulative_prod(p, axis=-1, include_initial=True), take(x, at * 5, axis=1, mode='clip'),
        take(x, at * 5, axis=2, mode='wrap'), full_like(x, v, shape=(2, 5)), concat([x, h], dtype=float64)
    """
    text = " ".join(text.split())
    for k, (found, wanted) in enumerate(zip(fd.evaluate(text, ARRAYS), oracle.evaluate(text, **ARRAYS), strict=True)):
        same(found, wanted, f"result {k}")


def test_the_table_covers_every_function():
    texts = " ".join(case if isinstance(case, str) else case[0] for group in GROUPS.values() for case in group)
    names = functions.known_names() | prelude.names()
    others = {
        "uniform",
        "normal",
        "randint",
        "permutation",
        "as_float",
        "given",
        "summand",
        "float8_e4m3fn",
        "float8_e5m2",
    }
    assert {name for name in names if f"{name}(" not in texts} <= others


def test_a_maximum_is_the_same_whatever_is_left_out():
    x = np.float32([[np.nan, 1, -np.inf], [5, -np.inf, -np.inf]])
    keep = np.array([[False, False, True], [False, True, True]])
    assert oracle.evaluate("argmax(x, axis=-1, where=keep)", x=x, keep=keep).tolist() == [2, 1]
    assert oracle.evaluate("argmin(x, axis=-1, where=~keep)", x=x, keep=keep).tolist() == [0, 0]
    assert oracle.evaluate("argmax(x, axis=-1, where=keep)", x=x, keep=keep & False).tolist() == [0, 0]


def test_an_initial_value_is_one_number_in_the_results_type():
    assert oracle.evaluate("sum(i, initial=0.5)", i=np.int32([1, 2])) == 3
    with pytest.raises(fd.ArgumentError, match="one number"):
        fd.evaluate("sum(x, axis=0, initial=x)", x=ARRAYS["x"])
    with pytest.raises(fd.DTypeError, match="300 does not fit int8"):
        fd.evaluate("max(x, initial=300)", x=np.int8([1, 2]))


def test_extremes_of_nothing_are_where_they_start():
    text = "max(x, initial=0.5), min(x, axis=0, initial=-2), max(x.T, axis=0, initial=1)"
    empty = np.zeros((0, 3), np.float32)
    for evaluate in (fd.evaluate, oracle.evaluate):
        assert [part.tolist() for part in evaluate(text, x=empty)] == [0.5, [-2.0] * 3, []]
    with pytest.raises(fd.ShapeError, match="empty"):
        fd.evaluate("max(x)", x=empty)


def test_rows_of_no_elements_need_no_largest_one():
    text = "softmax(x, axis=0), log_softmax(x, axis=0), softmax(x, axis=0, where=x > 0), logsumexp(x, axis=0)"
    for evaluate in (fd.evaluate, oracle.evaluate):
        parts = evaluate(text, x=np.zeros((0, 3), np.float32))
        assert [part.shape for part in parts] == [(0, 3)] * 3 + [(3,)]
        assert np.isneginf(parts[-1]).all()


def recipe(name: str) -> tuple[str, dict]:
    """The form of a name with literals for what shapes it, and its arrays."""
    scope = {**recipes.ARRAYS, "np": np, "nans": recipes.WITH_NAN}
    with np.errstate(all="ignore"):
        arrays = recipes.ARRAYS | {k: eval(text, scope) for k, text in recipes.OTHER.get(name, {}).items()}
    static = {n: text for n, text in recipes.STATIC.items() if not re.search(rf"\b{n} =", EQUIVALENTS[name])}
    return re.sub(rf"\b({'|'.join(static)})\b(?![=(])", lambda word: static[word[1]], EQUIVALENTS[name]), arrays


@pytest.mark.parametrize("name", EQUIVALENTS)
def test_a_name_of_another_library_is_refused_with_a_form_that_does_the_same(name):
    torch = pytest.importorskip("torch")
    with pytest.raises((fd.UnknownNameError, fd.Unsupported)) as fault:
        fd.evaluate(f"{name}(x)", x=ARRAYS["x"])
    assert f"write {EQUIVALENTS[name]}" in str(fault.value)
    text, arrays = recipe(name)
    found = oracle.evaluate(text, **arrays, seed=3)
    if name in recipes.RANDOM_NAMES:
        return

    def filled(x, value):
        x = x.copy()
        np.fill_diagonal(x, value)
        return x

    scope = arrays | {"np": np, "torch": torch, "F": torch.nn.functional, "filled": filled, "nans": recipes.WITH_NAN}
    wanted = eval(recipes.WANTED[name], scope | {"t": lambda a: torch.from_numpy(np.ascontiguousarray(a))})
    several = isinstance(found, (tuple, list))
    pairs = zip(found, wanted, strict=True) if several else [(found, wanted)]
    for one, other in pairs:
        other = np.asarray(other)
        assert np.shape(one) == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-12)


def test_a_name_that_writes_in_place_is_refused_with_the_function():
    for text, words in (("sqrt_(x)", "write sqrt: nothing is written in place"), ("clamp_(x)", "write clip(x")):
        with pytest.raises(fd.UnknownNameError, match=re.escape(words)):
            fd.evaluate(text, x=ARRAYS["x"])


def test_names_without_a_form_say_what_to_do():
    for name, words in HELP_TEXTS.items():
        with pytest.raises((fd.UnknownNameError, fd.Unsupported)) as fault:
            fd.evaluate(f"{name}(x)", x=ARRAYS["x"])
        assert words in str(fault.value)


def test_what_a_keyword_does_not_take_is_refused_with_a_form():
    x = ARRAYS["x"]
    faults = {
        "quantize(x, 0.1, group=3)": "an axis of 5 does not hold whole groups",
        "take(x, [0, 2], axis=1)": "pass the numbers as an array",
        "pad(x, 1, mode='symmetric')": "made of slices",
        "pad(x, -1)": "x[1:-1]",
        "uniform(0.5, x)": "int64(seed)",
    }
    for text, words in faults.items():
        with pytest.raises(fd.FusedslError) as fault:
            fd.evaluate(text, x=x)
        assert words in str(fault.value), text
