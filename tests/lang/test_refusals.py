"""Texts and calls to refuse: the class, the code, the column and the form to use; and nothing hostile gets through."""

import contextlib
import json
import lzma
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.errors import FusedslError
from fusedsl.ir.dims import Extents, Symbol, evaluate, expression, from_json, substitute, to_json
from fusedsl.lang.parse import parse
from fusedsl.specs import spec

CASES = json.loads((Path(__file__).parents[1] / "data" / "refusals.json").read_text())
ARRAYS = {name: np.ones(shape, dtype) for name, (dtype, shape) in CASES["arrays"].items()}
SPECS = {name: spec(tuple(shape), dtype) for name, (dtype, shape) in CASES["arrays"].items()}


def refused(text, **options):
    """The error of a text for the arrays above, found without compiling anything."""
    with pytest.raises(FusedslError) as caught:
        made = fd.kernel(text, **options)
        missing = [name for name in made.params if name not in SPECS]
        if missing:
            fd.evaluate(text, ARRAYS, **options)
        made.source(**{name: SPECS[name] for name in made.params}, device="cpu")
    return caught.value


def place(error):
    return (error.line, error.column) if error.line and error.line > 1 else error.column


@pytest.mark.parametrize("case", CASES["texts"], ids=lambda case: repr(case["text"][:40]))
def test_a_text_is_refused_at_its_column_with_the_form_to_use(case):
    error = refused(case["text"])
    found = {"class": type(error).__name__, "code": error.code, "column": place(error)}
    assert found == {key: tuple(v) if isinstance(v := case[key], list) else v for key in found}
    assert case["says"] in str(error), str(error)


def test_codes_begin_with_their_class():
    starts = {"UnknownNameError": "name", "Unsupported": "unsupported"}
    for case in CASES["texts"]:
        name = case["class"]
        assert case["code"].split(".")[0] == starts.get(name, name.removesuffix("Error").lower())


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("expp(x) + tahn(y)", [1, 11]),
        ("sum(x, axis=5) + sum(y, axis=7)", [13, 30]),
        ("expp(tahn(x))", [1, 6]),
        ("t = x + w; u = expp(x); v = sum(x, axis=9); t + u + v", [7, 16, 41]),
        ("stack([x, w]) + expp(x)", [11, 17]),
        ("concat([x, x, x[0], w], axis=-1)", [15]),
        ("broadcast_to(x, (2, 3, 5))", [24]),
        ("expand_dims(x, 4)", [16]),
        ("a1 = foo1(x); a2 = a1 + 1; a3 = bar1(a2); a3 + baz1(a1)", [6, 33, 48]),
        ("g(t) = sum(t, axis=5); g(x) + g(y)", [24]),
        ("(x + w) * (y + w)", [4, 14]),
        ("x + w * y", [7]),
        ("t = x + w; u = t * y; u + w", [7]),
        ("group_norm(x, 3)", [1]),
    ],
)
def test_faults_that_stand_alone_are_reported_together(text, columns):
    error = refused(text)
    assert [one.column for one in (error, *error.others)] == columns


def test_all_names_that_are_missing_are_told_at_once():
    with pytest.raises(fd.UnknownNameError) as caught:
        fd.evaluate("zz + qq + expp(x)", ARRAYS)
    assert [one.column for one in (caught.value, *caught.value.others)] == [1, 6, 11]


def test_a_fault_in_a_function_points_at_the_call_and_says_where_inside():
    error = refused("g(t) = t * w; f(t) = g(t); f(x)")
    assert error.column == 28 and error.inside == ("f: g(t)", "g: t * w") and "w needs 4 elements" in error.help
    assert "  inside g: t * w" in str(error)
    error = refused("layer_norm(x, w)")
    assert error.column == 1 and error.inside == ("layer_norm: x * weight",)
    assert pickle.loads(pickle.dumps(error)).inside == error.inside


def test_the_preludes_private_functions_are_nobody_elses():
    assert refused("f(t) = _normal(t, -1, 0.1); f(x)").code == "name.function"


# ---- inputs that others have to refuse too

DEVIATIONS = {
    "b009": ("ParseError", 2),  # the star is the first offence
    "b204": ("UnknownNameError", 23),  # an unknown keyword is an UnknownNameError; columns count from 1
    "b258": ("ShapeError", 3),  # (3, 4) and (3, 1, 4, 1) do not broadcast
}
with lzma.open(Path(__file__).parents[1] / "data" / "bad_inputs.json.xz", "rt") as file:
    BAD = [case for case in json.load(file)["cases"] if case["category"] != "call"]


def text_of(case):
    told = case.get("recipe", {"text": case.get("expr")})
    if "open" in told:
        return told["open"] * told["n"] + told["core"] + told["close"] * told["n"]
    return told.get("text") or told.get("first", "") + told["repeat"] * told["n"] + told.get("then", "")


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["id"])
def test_bad_inputs_are_refused_by_their_class_at_their_column(case):
    wanted, column = DEVIATIONS.get(case["id"], (case["error"], case.get("column")))
    arrays = {name: np.ones(shape, dtype) for name, (dtype, shape) in case.get("vars", {}).items()}
    if wanted.startswith("none") or wanted == "decide":
        made = fd.kernel(text_of(case))
        made.source(*(arrays[name] for name in made.params), device="cpu")
        return
    with pytest.raises(FusedslError) as caught:
        fd.evaluate(text_of(case), arrays, **dict.fromkeys(case.get("names", ()), np.ones(3)))
    wanted = wanted.replace("LiteralError", "ParseError or LimitError").split(" or ")
    assert type(caught.value).__name__ in wanted
    assert column in (None, caught.value.column)


# ---- limits


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("10**10**10", "limit.exponent"),
        ("1<<2000", "limit.exponent"),
        ("2**64", "limit.constant"),
        ("tile(x, 10**18)", "limit.elements"),
        ("sum(arange(10**18))", "limit.elements"),
        ("pad(x, 10**18)", "limit.elements"),
        ("uniform(1, (10**9, 10**9))", "limit.elements"),
        ("diff(x, 1000000)", "limit.operations"),
        ("a1 = x\n" + "a1 = concat([a1, a1])\n" * 60 + "a1", "limit.elements"),
        ("a1 = a\n" + "a1 = reshape(outer(a1, a1), -1)\n" * 60 + "a1", "limit.elements"),
        ("f0(t) = t + t\n" + "".join(f"f{k}(t) = f{k - 1}(f{k - 1}(t))\n" for k in range(1, 40)) + "f39(x)",
         "limit.operations"),
        ("a1 = x\n" + "a1 = a1[None]\n" * 40 + "a1", "limit.dimensions"),
        ("x" + "[None]" * 31, "limit.dimensions"),
        ("broadcast_to(1.0, (size(x, 0) - 9,))", "shape.negative"),
        ("normal(3, -1)", "shape.negative"),
    ],
)  # fmt: skip
def test_what_grows_without_end_is_refused(text, code):
    assert refused(text).code == code


@pytest.mark.parametrize(
    ("text", "limits"),
    [("x + y + x", {"operations": 1}), ("((x))", {"nesting": 1}), ("x + 1.25", {"literal": 3}), ("x + y", {"text": 4}),
     ("x + y", {"arrays": 1}), ("x[None]", {"dimensions": 2})],
)  # fmt: skip
def test_each_limit_can_be_moved(text, limits):
    error = refused(text, limits=limits)
    assert type(error) is fd.LimitError and error.code == f"limit.{next(iter(limits))}"


def test_extents_that_grow_out_of_each_other_stay_small():
    n = Symbol(0, 0)
    doubled = n
    for _ in range(3000):
        doubled = expression("-", expression("+", doubled, doubled), n)
    assert evaluate(doubled, Extents({n: 1})) == 1 and len(str(doubled)) < 500
    assert from_json(json.loads(json.dumps(to_json(doubled)))) is doubled
    other = substitute(doubled, {n: Symbol(1, 0)})
    assert substitute(other, {Symbol(1, 0): n}) is doubled


def test_doubling_by_places_stays_linear():
    text = "a1 = a\n" + "a1 = concat([a1, a1])\n" * 12 + "a1"
    kernels = fd.kernel(text).source(SPECS["a"], device="cpu")
    assert len(kernels) < 500_000


# ---- injection

CANARY = "CANARY_7f3a"


def test_user_text_reaches_generated_code_as_names_and_comments_only():
    text = f"{CANARY}_v = x * 2  # {CANARY} import os\n{CANARY}_f(t) = t + {CANARY}_v\n{CANARY}_f(y)"
    for device in ("cpu", "cuda"):
        for line in fd.kernel(text).source(x=SPECS["x"], y=SPECS["y"], device=device).splitlines():
            code = line.partition("#")[0]
            assert CANARY not in code or code.lstrip().startswith(CANARY) or f'"{CANARY}' not in code
            assert "import os" not in line


@pytest.mark.parametrize("name", ["class", "x y", "", "a\nb", "a'b", "__import__('os')", "n" * 500, "v0", 'a"""b'])
def test_keys_of_a_mapping_that_are_no_names_are_not_read(name):
    np.testing.assert_array_equal(fd.evaluate("x + y", {**ARRAYS, name: ARRAYS["x"]}), 2)
    with pytest.raises(fd.ArgumentError, match="unexpected argument"):
        fd.evaluate("x + y", x=ARRAYS["x"], y=ARRAYS["y"], **{name: ARRAYS["x"]})


# ---- fuzz: pieces of programs, mutated

PIECES = (Path(__file__).parents[1] / "data" / "pieces.txt").read_text().split()
PROGRAMS = [case["text"] for case in CASES["texts"]] + [
    "mu = mean(x, axis=-1, keepdims=True); return (x - mu) * rsqrt(var(x, axis=-1, keepdims=True) + 1e-5)",
    "f(t, b=1) = t * sigmoid(b * t); f(x, b=2) + f(y)",
    "v, j = topk(x, 2); where(m[:, :2], v, 0) + j",
    "logsumexp(x, -1) - take_along_axis(x, i[:, :1], -1)[:, 0]",
]


def mutated(draw):
    text = draw.choice(PROGRAMS)
    for _ in range(draw.randint(1, 3)):
        at, end = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        end = min(end, at + draw.choice((0, 0, 1, 4)))
        text = text[:at] + draw.choice([*PIECES, ""]) + text[end:]
    return text


def test_mutated_programs_build_or_are_refused_by_our_errors():
    draw = random.Random(5)
    for _ in range(400):
        text = mutated(draw)
        with contextlib.suppress(FusedslError):
            parse(text)
            made = fd.kernel(text, limits={"operations": 200})
            made.source(**{name: SPECS.get(name, 1) for name in made.params}, device="cpu")


# ---- calls


class Raising:
    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("no")


class Hollow:
    __cuda_array_interface__ = {}


@pytest.mark.parametrize("argument", [Raising(), Hollow()], ids=lambda x: type(x).__name__)
def test_an_object_that_cannot_say_what_it_is_is_an_argument_error(argument):
    with pytest.raises(fd.ArgumentError, match=r"x, a .* cannot be read"):
        fd.evaluate("x + 1", x=argument)


@pytest.mark.parametrize("number", [10**400, -(10**5000)], ids=["long", "endless"])
def test_numbers_beyond_float64_are_refused_and_spelled_short(number):
    for refuse in (lambda: fd.evaluate("a + n", ARRAYS | {"n": number}),
                   lambda: fd.kernel("a + n", constants={"n": number})(ARRAYS["a"])):  # fmt: skip
        with pytest.raises(fd.DTypeError, match=r"10\*\*\d+\.\.\. does not fit"):
            refuse()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: fd.kernel("a + b")(ARRAYS["a"], ARRAYS["b"], device="cpu"), "device is an option: give it to kernel"),
        (lambda: fd.evaluate("a + 1", a=ARRAYS["a"], fastmaths=True), "did you mean fastmath"),
        (lambda: fd.evaluate("a + 1", local_dict=ARRAYS), "pass the mapping itself: evaluate(expression, arrays)"),
        (lambda: fd.evaluate("a + 1", a=ARRAYS["a"], casting="safe"), "astype(..., float32)"),
        (lambda: fd.kernel("a * w", constants={3: 2}), "3 is no name"),
        (lambda: fd.kernel("a * w", constants={"w; import os": 2}), "no name of a constant"),
    ],
)
def test_a_fault_of_the_call_has_no_place_and_says_the_form(call, says):
    with pytest.raises(fd.ArgumentError) as caught:
        call()
    assert caught.value.column is None and says in str(caught.value)


def test_an_array_of_too_many_axes_is_refused_as_it_is():
    with pytest.raises(fd.LimitError, match="33 axes"):
        fd.evaluate("x", x=np.ones((1,) * 33))
