"""Long formulas of kernels are shown in the user's own names and expressions."""

import numpy as np

import fusedsl as fd

PRICES = """
cdf(x) = 0.5 * (1 + erf(x / sqrt(2)))
d1 = (log(s / k) + (r + v * v / 2) * t) / (v * sqrt(t))
d2 = d1 - v * sqrt(t)
return s * cdf(d1) - k * exp(-r * t) * cdf(d2)
"""
VECTOR = fd.spec((1 << 20,))


def members(kernel, *arguments):
    """The formulas of a call's only kernel."""
    (only,) = kernel.explain(*arguments, device="cuda", compile=False).kernels
    return only.members


def test_an_assigned_value_has_its_name():
    (price,) = members(fd.kernel(PRICES), *[VECTOR] * 5)
    assert price == "result = s * 0.5 * (1 + erf(d1 / 1.4142)) - k * exp(-r * t) * 0.5 * (1 + erf(d2 / 1.4142))"


def test_what_is_reduced_has_its_name():
    program = PRICES.replace("return ", "price = ") + "return mean(price)"
    total, _ = members(fd.kernel(program), *[VECTOR] * 5)
    assert total == "sum of price"


def test_names_of_a_traced_function_too_unless_assigned_twice():
    def price(s, k, r, v, t):
        d1 = (np.log(s / k) + (r + v * v / 2) * t) / (v * np.sqrt(t))
        d2 = d1 - v * np.sqrt(t)
        d2 = np.exp(d2) + np.tanh(d2) * np.sqrt(1 + d2 * d2)
        return s * np.tanh(d1) - k * np.exp(-r * t) * np.tanh(d2) + np.cos(d1 * k) * np.sin(d1 * d2)

    (text,) = members(fd.fuse(price), *[VECTOR] * 5)
    assert "tanh(d1)" in text and "np.cos(d1 * k)" in text and "tanh(d2)" not in text


def test_a_parameter_of_a_definition_is_not_a_name_of_the_program():
    program = "f(a) = exp(a * 2 + 1) * tanh(a * 3 - 1) * sqrt(a * a + 1) * log1p(a * a); return f(x + y * 2) + f(x - y)"
    (text,) = members(fd.kernel(program), VECTOR, VECTOR)
    assert "a * 2" not in text


def test_reductions_are_known_by_what_they_reduce():
    program = """
    centred = x - mean(x, -1, keepdims=True)
    scaled = centred * rsqrt(mean(centred * centred, -1, keepdims=True) + 0.00001)
    return tanh(scaled) * exp(scaled * g) + log1p(scaled * scaled) * sin(scaled - g) - cos(scaled)
    """
    *_, text = members(fd.kernel(program), fd.spec((4096, 1024)), fd.spec((1024,)))
    assert text == "result = tanh(scaled) * exp(scaled * g) + log1p(scaled ** 2) * sin(scaled - g) - cos(scaled)"


def test_short_formulas_stay_as_they_are():
    assert members(fd.kernel("e = exp(x); return e + 1"), VECTOR) == ("result = exp(x) + 1",)
