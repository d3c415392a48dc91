"""Random expressions: every target gives what the interpreter gives, within the bound that each derives."""

from __future__ import annotations

import numpy as np
from draw import Program, draw
from draw_products import draw_products
from forms import names_called
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from laws import Case, hold
from shrink import script, shrunk

from fusedsl.errors import FusedslError
from fusedsl.ir.ops import OPS
from fusedsl.lang import functions

PROGRAMS = 34  # about 330 expressions
OF_PRODUCTS = 14  # about 60 more


def broken(program: Program) -> str | None:
    """Which law a program breaks, or what comes of it that is no error of the language."""
    case = Case(program)
    try:
        hold(case)
    except FusedslError:
        raise
    except Exception as fault:
        return str(fault) if isinstance(fault, AssertionError) else f"{type(fault).__name__}: {fault}"
    return None


@settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 1 << 32))
def test_random_expressions_agree_with_the_interpreter(seed):
    program = draw(seed, 12)
    if broken(program) is not None:
        raise AssertionError(f"seed {seed}: this script shows it:\n\n{script(*shrunk(program, broken))}")


@settings(max_examples=OF_PRODUCTS, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 1 << 32))
def test_random_products_of_products_agree_with_the_interpreter(seed):
    program = draw_products(seed)
    if broken(program) is not None:
        raise AssertionError(f"seed {seed}: this script shows it:\n\n{script(*shrunk(program, broken))}")


def test_products_of_products_are_judged():
    """Most elements of most results are known to a hundredth; what overflows float16 may be anything."""
    cases = [Case(draw_products(seed)) for seed in range(40)]
    found = [known for case in cases for known in case.expected if known[0].dtype.kind == "f" and known[0].size]
    tight = [np.median(bound) <= 0.01 * np.abs(value).mean() for value, bound in found]
    assert np.mean(tight) > 0.85
    programs = [case.program for case in cases]
    assert sum(p.text.count("@") >= 3 for p in programs) > len(programs) / 2
    shapes = [{n for x in p.arrays.values() for n in np.shape(x)} for p in programs]
    assert sum(len(s) == 1 for s in shapes) > len(programs) / 3


def test_every_function_of_the_language_is_drawn():
    functions.lookup("")
    called = {functions.ALIASES.get(name, name) for name in names_called()}
    ours = {name for name in functions.TABLE if not name.startswith("_")}
    assert ours - called <= {"given", "summand", "cumulative_sum", "cumulative_prod"}  # parts and twins of others
    assert {name for name, op in OPS.items() if not op.internal} <= called


def test_a_program_that_breaks_a_law_is_made_small():
    """Here the law is that there is no tanh: what is left is one line, of a few elements."""
    program = next(p for p in map(draw, range(100)) if any("tanh(t" in line for line in p.lines))

    def no_tanh(p: Program) -> str | None:
        Case(p)
        return "tanh" if any("tanh(" in line for line in p.lines) else None

    small, fault = shrunk(program, no_tanh, 200)
    assert len(small.lines) == len(small.results) == 1
    assert "tanh(" in script(small, fault) and max((x.size for x in small.arrays.values()), default=0) <= 8
    exec(script(small, fault), {})


def test_a_program_of_products_that_breaks_a_law_is_made_small():
    """Here the law is that no product is a factor of a product of a product."""
    program = next(p for p in map(draw_products, range(100)) if depth(p) >= 3)

    def not_deep(p: Program) -> str | None:
        return "deep" if depth(p) >= 3 else None

    small, fault = shrunk(program, not_deep, 400)
    assert len(small.lines) <= 3 and len(small.results) == 1
    assert max(n for x in small.arrays.values() for n in np.shape(x)) <= 2
    exec(script(small, fault), {})


def depth(p: Program) -> int:
    """How many products stand inside one another."""
    graph, found = Case(p).graph, {}
    for n in graph.nodes():
        found[n] = max((found[a] for a in n.args), default=0) + (n.op == "contract")
    return max((found[r] for r in graph.results), default=0)


UNSURE = (
    "power(-1.0, a * 10)",  # of a whole exponent or one beside it
    "log(a * 0.1 - 0.01 * (a / a))",  # on both sides of 0
    "floor(a * 10)",
    "where(a * 10 >= 1.0, 5.0, 7.0) * a",
    "astype(a * 10, int32)",
    "a * 10 == 1.0",
)


def test_the_judge_is_unsure_where_a_rounding_decides():
    x = np.array([0.1, 0.1], np.float32)
    for text in UNSURE:
        ((_, bound),) = Case(Program((), (text,), {"a": x})).expected
        assert (bound > 0.05).all(), text
    ((value, bound),) = Case(Program((), ("floor(a * 10 + 0.5), a * 8 == 0.1 * 8",), {"a": x})).expected[:1]
    assert (value == 1).all() and (bound == 0).all()
