"""The front end of the CPU target: a function means what Python makes of it, and other forms are refused."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import ir

from fusedsl.backends.cpu import compiler, frontend, processor
from fusedsl.backends.cpu.memory import element_pointer
from fusedsl.backends.cpu.vocabulary import Word, always, shared_words
from fusedsl.runtime import object_loader


def put(builder, slots, index, value):
    builder.store(value.value, element_pointer(builder, slots, index, ir.IntType(64)))


WORDS = shared_words(processor.host().vectors) | {"put": Word("put", always(None), put), "seven": 7, "half": 0.5}
HEAD = "def kernel(slots, begin, end):\n"


def text(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


def compiled(source: str, given: list[int], end: int = 5) -> list[int]:
    """The slots, after the machine code of a function has run over them."""
    functions = frontend.functions_of(source)
    code = compiler.object_code(functions, WORDS, processor.host())
    (function,) = object_loader.load(code, tuple(functions))
    slots = np.array(given, np.int64)
    function(slots.ctypes.data, 0, end)
    return slots.tolist()


def interpreted(source: str, given: list[int], end: int = 5) -> list[int]:
    """The same by Python."""
    slots = list(given)
    names = {"slot": list.__getitem__, "put": list.__setitem__, "smaller": min, "seven": 7, "int64": int}
    exec(source, names)
    names["kernel"](slots, 0, end)
    return slots


PROGRAMS = {
    "a sum in a loop": ["s = 0", "for i in range(begin, end):", "    s = s + i * i", "put(slots, 0, s)"],
    "a range of no steps": ["s = 3", "for i in range(end, begin):", "    s = s + 1", "put(slots, 0, s)"],
    "loops in loops": [
        "s = 0",
        "for i in range(end):",
        "    t = s",
        "    for j in range(i, end):",
        "        t = t + j",
        "    s = s + t",
        "put(slots, 1, s)",
    ],
    "what a loop changes is read behind it": [
        "a = 1",
        "b = 2",
        "while a < 100:",
        "    c = a + b",
        "    a = b",
        "    b = c",
        "put(slots, 0, a)",
        "put(slots, 1, b)",
    ],
    "both paths": ["if end > 3:", "    a = 1", "else:", "    a = 2", "put(slots, 0, a)"],
    "one path": ["a = slot(slots, 1)", "if (end & 1) == 0:", "    a = a * 2", "put(slots, 0, a)"],
    "paths in loops": [
        "a = 0",
        "for i in range(end):",
        "    if (i & 1) != 0:",
        "        a = a + i",
        "    else:",
        "        if i > 2:",
        "            a = a * 3",
        "    put(slots, i, a)",
    ],
    "a name keeps the last count": ["for i in range(end):", "    a = i", "put(slots, 0, a)"],
    "a loop does not read what its body makes of the counter": [
        "s = 0",
        "for i in range(end):",
        "    i = i * 2",
        "    s = s + i",
        "put(slots, 0, s)",
    ],
    "constants": ["put(slots, 0, -seven + 2 * 3)", "put(slots, 1, (1 << 40) + (seven // 2))"],
    "shifts of a counter": [
        "level = 0",
        "rest = end * 8",
        "while (rest & 1) == 0:",
        "    level = level + 1",
        "    rest = rest >> 1",
        "put(slots, 0, level)",
        "put(slots, 1, smaller(rest, 3))",
    ],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_computes_what_python_does(name):
    source = text(*PROGRAMS[name])
    for end in (1, 5, 8):
        assert compiled(source, [11] * 8, end) == interpreted(source, [11] * 8, end)


def test_several_functions_are_one_object():
    source = text("put(slots, 0, 1)") + text("put(slots, 1, 2)").replace("kernel", "other")
    functions = frontend.functions_of(source)
    code = compiler.object_code(functions, WORDS, processor.host())
    slots = np.zeros(2, np.int64)
    for function in object_loader.load(code, ("kernel", "other")):
        function(slots.ctypes.data, 0, 1)
    assert slots.tolist() == [1, 2]


def lowered(*lines: str) -> str:
    return str(frontend.lowered(frontend.functions_of(text(*lines))["kernel"], WORDS, "kernel"))


def test_names_that_no_path_brings_a_value_of_are_not_stored():
    assert lowered("a = begin + 1", "b = a * 2", "put(slots, 0, b)").count("store ") == 1
    assert lowered("a = 0", "while a < end:", "    a = a + 1", "put(slots, 0, a)").count("store ") == 3


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["a = 1", "a = half"], "a is int64, and is assigned float64"),
        (["a = begin + half"], "add of int64, float64"),
        (["while begin:", "    a = 1"], "a condition is int64"),
    ],
)
def test_types_that_do_not_fit_are_refused(lines, fault):
    with pytest.raises(TypeError, match=fault):
        lowered(*lines)


@pytest.mark.parametrize(
    "line",
    ["a, b = 1, 2", "return", "a = begin if end else 0", "a = unknown(begin)", "a = begin < end < 3", "a = 'text'"],
)
def test_forms_that_no_file_has_are_refused(line):
    with pytest.raises(NotImplementedError):
        lowered(line)


def test_a_text_is_parsed_again_where_another_thread_interrupted(monkeypatch):
    parse, calls = frontend.ast.parse, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch")
        return parse(*arguments)

    monkeypatch.setattr(frontend.ast, "parse", interrupted)
    assert set(frontend.functions_of(text("a = 1"))) == {"kernel"}
    assert len(calls) == 3
