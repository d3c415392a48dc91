"""Comments of generated files: expressions of named values, in which two reductions of a kind have two names."""

import re

import pytest

import fusedsl as fd

ROWS = fd.spec((64, 256))


def comments(program: str, *arguments) -> list[str]:
    """The comments behind instructions of a program's generated files for a GPU."""
    source = fd.kernel(program).source(*arguments, device="cuda")
    return re.findall(r"\S  # (.*)", source)


@pytest.mark.parametrize("program", ["sum(x, 1) / sum(x * x, 1)", "cumsum(x, 1) / cumsum(x * x, 1)"])
def test_reductions_of_one_kind_have_numbers(program):
    name = "cumsum" if "cum" in program else "sum"
    told = " ".join(comments(program, ROWS))
    assert f"{name}_0 / {name}_1" in told or f"{name}_1 / {name}_0" in told


def test_the_only_reduction_of_a_kind_has_its_kind_s_name():
    assert "exp(x - max) / sum" in comments("softmax(x)", ROWS)


def test_extents_are_elements_of_shapes():
    assert "sum / x.shape[1]" in comments("mean(x, 1)", ROWS)


def test_long_operands_are_names_between_symbols():
    found = comments("layer_norm(x) * w + b", ROWS, fd.spec((256,)), fd.spec((256,)))
    assert any(re.fullmatch(r"\(x - .*\) \* rsqrt_\d", line) for line in found)
    assert not any("multiply(" in line or "n0_1" in line for line in found)
