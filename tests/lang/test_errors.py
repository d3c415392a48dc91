"""Every error draws the text it is about, with the caret where the fault is."""

import pickle
import sys
import traceback
import warnings
from functools import cached_property

import numpy as np
import pytest

import fusedsl as fd
from fusedsl import config, errors
from fusedsl.errors import FusedslError, LimitError, ParseError, ShapeError, caller_stacklevel, suggest
from fusedsl.runtime.cache import Cache

FAMILY = {
    "ParseError": (ValueError,),
    "UnknownNameError": (NameError,),
    "ArgumentError": (TypeError,),
    "DTypeError": (TypeError,),
    "ShapeError": (ValueError, IndexError),
    "TraceError": (TypeError,),
    "LimitError": (ValueError,),
    "MemoryLimitError": (ValueError, MemoryError),
    "DeviceError": (RuntimeError,),
    "FusionError": (RuntimeError,),
    "CompileError": (RuntimeError,),
    "Unsupported": (NotImplementedError,),
}


def drawn(text, span, caret=None, **more):
    """The lines below the header."""
    return str(ParseError("m", "c", text, span, caret, **more)).split("\n")[1:]


@pytest.mark.parametrize("name", FAMILY)
def test_the_family_extends_pythons_own_classes_and_says_what_it_is_for(name):
    found = getattr(errors, name)
    assert issubclass(found, FusedslError)
    assert all(issubclass(found, base) for base in FAMILY[name])
    assert found.__doc__


def test_an_error_prints_as_the_language_page_shows():
    error = ShapeError(
        "cannot add float32[4096, 1024] and float32[1000]",
        "shape.broadcast",
        "(x + w) * b",
        (1, 6),
        3,
        "1000 and 1024 differ in the last axis",
        "w needs 1024 elements, or 1",
    )
    assert str(error) == (
        "fusedsl.ShapeError[shape.broadcast]: cannot add float32[4096, 1024] and float32[1000]\n"
        "  1 | (x + w) * b\n"
        "    |  ~~^~~  1000 and 1024 differ in the last axis\n"
        "  help: w needs 1024 elements, or 1"
    )
    assert (error.column, error.line, error.code) == (4, 1, "shape.broadcast")


def test_a_fault_of_the_call_itself_has_no_drawing():
    error = LimitError("too much")
    assert str(error) == "fusedsl.LimitError[limit]: too much"
    assert error.column is error.span is error.line is None


def test_the_line_of_the_caret_is_shown_with_its_number():
    assert drawn("y = a\ny +\n  b )", (14, 15)) == ["  3 |   b )", "    |     ^"]
    assert drawn("\n" * 11 + "ab", (12, 13)) == ["  12 | ab", "     |  ^"]


def test_a_caret_may_stand_one_past_the_end():
    assert drawn("a +", (3, 4)) == ["  1 | a +", "    |    ^"]
    assert drawn("", (0, 1)) == ["  1 |", "    | ^"]


def test_a_span_over_lines_is_drawn_in_the_carets_line_only():
    assert drawn("(a\n+ b)", (1, 6), 3) == ["  2 | + b)", "    | ^~~"]


def test_tabs_and_control_characters_take_one_column():
    assert drawn("a\tb\x1b[31mc", (2, 3)) == ["  1 | a b?[31mc", "    |   ^"]


def test_a_long_line_is_cropped_around_the_caret():
    text = "a + " * 200 + "!" + " + a" * 200
    line, marks = drawn(text, (800, 801))
    assert len(line) < 120 and line.startswith("  1 | ...") and line.endswith("...")
    assert line[marks.index("^")] == "!"
    assert ParseError("m", "c", text, (800, 801)).column == 801


def test_an_error_survives_pickling():
    error = ShapeError("m", "shape.x", "a + b", (0, 5), 2, "n", "h", [ParseError("other", "p", "a + b", (0, 1))])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ShapeError and str(again) == str(error) and again.column == 3
    assert "also: line 1, column 1: other" in str(again)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("tahn", "tanh"), ("expp", "exp"), ("epsilon", "eps"), ("sofmax", "softmax"), ("X", "x"), ("banana", None)],
)
def test_a_misspelt_name_is_guessed(typed, meant):
    assert suggest(typed, ["x", "exp", "expm1", "tan", "tanh", "eps", "axis", "softmax"]) == meant


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("3 outputs for 1 results", "3 outputs for 1 result"),
        ("1 axes, 1 indices, 1 launches and 1 threads", "1 axis, 1 index, 1 launch and 1 thread"),
        ("11 axes, 1.1 threads, -1 axes, 64 x 1 axes", "11 axes, 1.1 threads, -1 axes, 64 x 1 axis"),
        ("1 × 1 blocks", "1 × 1 blocks"),
    ],
)
def test_one_of_them_is_not_many(text, shown):
    assert errors.singular(text) == shown
    assert FusedslError(text, help=text).message == shown and shown in str(FusedslError("x", help=text))


def frames(fault):
    """The files of a traceback, ours as one word."""
    found = traceback.extract_tb(fault.__traceback__)
    return ["ours" if frame.filename.startswith(errors.PACKAGE) else frame.name for frame in found]


def traced(x):
    return asks(x) * 2


def asks(x):
    return float(x)


CALLS = {
    "evaluate": lambda x: fd.evaluate("x + y", x=x, y=np.ones(3)),
    "a kernel": lambda x: fd.kernel("x + y")(x, np.ones(3)),
    "a program that is none": lambda x: fd.kernel("x +"),
    "a method, which an action of the grammar refuses": lambda x: fd.kernel("x.median(-1)"),
    "a keyword that a function lacks": lambda x: fd.fuse(traced)(x, y=2),
    "explain": lambda x: fd.kernel("x + y").explain(x, np.ones(3)),
    "bind": lambda x: fd.kernel("x + y").bind(x, np.ones(3)),
    "attention": lambda x: fd.attention(x, x, x),
    "foreach": lambda x: fd.foreach("x + y", [x], [np.ones(3)]),
    "explain of a function": lambda x: fd.fuse(lambda x, y: x + y).explain(x, np.array(["text"])),
}
OWN_FRAME = ["ours"] * (sys.version_info < (3, 11))  # that raises: before 3.11 Python shows it


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_traceback_ends_at_the_users_line(call, monkeypatch):
    monkeypatch.delenv("FUSEDSL_DEBUG", raising=False)
    with pytest.raises(FusedslError) as caught:
        call(np.ones(4))
    assert frames(caught.value)[1:] == ["<lambda>", *OWN_FRAME]
    shown = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in shown and "direct cause" not in shown
    monkeypatch.setenv("FUSEDSL_DEBUG", "1")
    with pytest.raises(FusedslError) as caught:
        call(np.ones(4))
    assert frames(caught.value).count("ours") > 2


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before Python 3.11 a raised exception keeps its frames")
@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: fd.fuse(3), FusedslError),
        (lambda: fd.options(fast=True), FusedslError),
        (lambda: fd.spec(4, "flat"), FusedslError),
        (lambda: fd.on_compile(3), FusedslError),
        (lambda: fd.load("no/file.fused"), FileNotFoundError),
        (lambda: fd.set_cache_size(program=1), TypeError),
        (lambda: fd.kernel("x", "y", {}, 3), TypeError),
    ],
)
def test_functions_that_only_set_something_up_do_too(call, error, monkeypatch):
    monkeypatch.delenv("FUSEDSL_DEBUG", raising=False)
    with pytest.raises(error) as caught:
        call()
    assert frames(caught.value)[1:] == ["<lambda>"]


def test_a_call_that_does_not_fit_the_function_is_told_with_its_keyword():
    with pytest.raises(fd.ArgumentError, match="unexpected keyword argument 'scal'") as caught:
        fd.fuse(lambda x, *, scale=2.0: x * scale)(np.ones(4), scal=1)
    assert caught.value.help == "did you mean scale?" and isinstance(caught.value, TypeError)


@pytest.mark.parametrize("name, meant", [("evalute", "evaluate"), ("fused", "fuse"), ("jit", "fusedsl.fuse")])
def test_a_name_that_the_package_lacks_suggests_one(name, meant):
    with pytest.raises(AttributeError, match=meant):
        getattr(fd, name)
    assert not hasattr(fd, "__wrapped__")


def test_the_lines_of_a_traced_function_stay():
    with pytest.raises(fd.TraceError) as caught:
        fd.fuse(traced)(np.ones(4))
    assert frames(caught.value)[1:] == [*OWN_FRAME, "traced", "asks"]


def fails(x):
    return x.nothing if x.ndim else {}["key"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before Python 3.11 a raised exception keeps its frames")
def test_exceptions_of_the_users_code_have_the_users_frames(monkeypatch):
    monkeypatch.delenv("FUSEDSL_DEBUG", raising=False)
    for x, error in ((np.ones(4), AttributeError), (np.array(1.0), KeyError)):
        with pytest.raises(error) as caught:
            fd.fuse(lambda x: fails(x))(x)
        assert frames(caught.value)[1:] == ["<lambda>", "fails"]
    monkeypatch.setenv("FUSEDSL_DEBUG", "1")
    with pytest.raises(AttributeError) as caught:
        fd.fuse(fails)(np.ones(4))
    assert "ours" in frames(caught.value)


def test_a_warning_points_at_the_line_of_the_user(tmp_path):
    (tmp_path / "cache").write_text("no folder")
    cache = Cache(tmp_path / "cache")
    with pytest.warns(RuntimeWarning, match="in memory only") as told:
        cache.put("0" * 64, {})
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = Cache(tmp_path / "cache")
        other.put("0" * 64, {"a": 1})
        assert other.get("0" * 64) == ({"a": 1}, b"")


def test_a_warning_of_a_cached_property_points_at_the_line_of_the_user():
    package = {name.__name__: name for name in (cached_property, warnings, caller_stacklevel)}
    text = """
class Own:
    @cached_property
    def made(self):
        warnings.warn("told", RuntimeWarning, stacklevel=caller_stacklevel())
def read():
    return Own().made
"""
    exec(compile(text, "<fusedsl test>", "exec"), package)
    with pytest.warns(RuntimeWarning, match="told") as told:
        package["read"]()
    assert told[0].filename == __file__


def test_a_bad_number_of_threads_in_the_environment_is_told_without_frames_of_the_package(monkeypatch):
    monkeypatch.delitem(config._chosen, "FUSEDSL_NUM_THREADS", raising=False)
    monkeypatch.setenv("FUSEDSL_NUM_THREADS", "abc")
    with pytest.raises(fd.ArgumentError, match="FUSEDSL_NUM_THREADS is 'abc'") as caught:
        fd.get_num_threads()
    assert "ours" not in frames(caught.value)
