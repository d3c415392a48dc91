"""Second derivatives, directions, derivatives by numbers and by values on the way, constants, zeros and masks."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gradient_table import ARRAYS, recurrence  # noqa: E402
from oracle import evaluate, graph_of  # noqa: E402

import fusedsl as fd  # noqa: E402

x, w, z, m = (ARRAYS[name] for name in "xwzm")


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("sum(x**3 * w)", lambda x: (x**3 * torch.tensor(w)).sum()),
        ("logsumexp(x @ w, axis=0)", lambda x: (x @ torch.tensor(w)).logsumexp(0)),
        ("sum(softmax(x)[:, 1:3]**2)", lambda x: (x.softmax(-1)[:, 1:3] ** 2).sum()),
        ("sum(tanh(cumsum(x, axis=1)))", lambda x: torch.tanh(x.cumsum(1)).sum()),
        ("sum(linear_scan(tanh(x), x)**2)", lambda x: (recurrence(torch.tanh(x), x) ** 2).sum()),
        ("sum(sort(x)**2 * w)", lambda x: (x.sort(-1)[0] ** 2 * torch.tensor(w)).sum()),
        ("sum(layer_norm(x, w)**2)", lambda x: (torch.nn.functional.layer_norm(x, (4,), torch.tensor(w)) ** 2).sum()),
        ("sum(concat([x, x**2], axis=1)**2)", lambda x: (torch.cat([x, x**2], 1) ** 2).sum()),
    ],
)
def test_second_derivatives(text, loss):
    """A gradient is an expression again: the product of a Hessian and a vector is the gradient of a gradient."""
    t, v = torch.tensor(x, requires_grad=True), np.cos(np.arange(12.0)).reshape(3, 4)
    (g,) = torch.autograd.grad(loss(t), t, create_graph=True)
    (wanted,) = torch.autograd.grad((g * torch.tensor(v)).sum(), t)
    found = evaluate(f"grad(sum(grad({text}, x) * v), x)", x=x, w=w, v=v)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-8, atol=1e-9)


def test_a_direction_is_the_derivative_along_it():
    function, v = (lambda a, b: torch.tanh(a @ b) * a.sum(1)), np.sin(x)
    tensors = torch.tensor(x), torch.tensor(w)
    _, wanted = torch.func.jvp(function, tensors, (torch.tensor(v), torch.tensor(w * w)))
    found = evaluate("jvp(tanh(x @ w) * sum(x, axis=1), (x, w), (v, w * w))", x=x, w=w, v=v)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-12)
    graph, _ = graph_of("jvp((x**2, sort(x)), x, v)", {"x": x, "v": v})
    assert all(n.attr >= 0 for n in graph.nodes() if n.op == "param")  # no unknown cotangent is left


def test_derivatives_by_numbers():
    assert evaluate("grad(sum(x * s), s)", x=x, s=1.5) == pytest.approx(x.sum())
    assert evaluate("t = s * 2; grad(sum(x * t**2) + sum(t * x), t)", x=x, s=1.5) == pytest.approx(7 * x.sum())
    assert evaluate("grad(s * s, s)", s=3.0) == 6
    assert evaluate("grad(sum(float32(x) * s) + sum(x) * s, s)", x=x, s=1.5) == pytest.approx(2 * x.sum(), rel=1e-6)


def test_derivatives_by_values_on_the_way():
    """By a value, of everything that is computed from it, other values on the way included."""
    a, b, c = evaluate("y = sin(x); z = y * x; grad(sum(z * y), z, y, x)", x=w)
    np.testing.assert_allclose(a, np.sin(w))
    np.testing.assert_allclose(b, 2 * np.sin(w) * w)
    np.testing.assert_allclose(c, np.sin(w) ** 2 + 2 * w * np.sin(w) * np.cos(w), rtol=1e-12)


def test_what_does_not_depend_has_a_gradient_of_zeros():
    g, h = evaluate("grad(sum(w**2), x, w)", x=x, w=w)
    assert g.shape == x.shape and not g.any() and h.tolist() == (2 * w).tolist()
    assert evaluate("grad(sum(float64(int32(x))) + sum(x > 0), x)", x=x).tolist() == np.zeros_like(x).tolist()


def test_constants_of_derivatives():
    np.testing.assert_allclose(evaluate("grad(sum(x * stop_gradient(x**2)), x)", x=w), w**2)
    np.testing.assert_allclose(evaluate("stop_gradient(x) + stop_gradient(2.5)", x=w), w + 2.5)
    straight_through = "y = x + stop_gradient(rint(x) - x); sum(y**2), grad(sum(y**2), x)"
    assert evaluate(straight_through, x=z + 0.2)[1].tolist() == (2 * np.rint(z + 0.2)).tolist()
    graph, _ = graph_of("softmax(x)", {"x": x})
    assert not [n for n in graph.nodes() if n.op == "convert"]


def test_masked_rows_have_no_nan():
    nothing = np.zeros((3, 4), bool)
    nothing[1] = True
    g = evaluate("grad(sum(softmax(x, where=n) * w), x)", x=x, n=nothing, w=w)
    assert np.isfinite(g).all() and not g[[0, 2]].any() and g[1].any()
    q = np.stack([x, x])[None]
    grads = evaluate('grad(sum(attention(q, q * 1.0, q, mask="j < i")**2), q)', q=q)
    assert np.isfinite(grads).all() and grads.any()


@pytest.mark.parametrize("n", [40, 400])
def test_reads_of_computed_positions_are_compared_if_they_are_few_and_added_in_turn_if_not(n):
    v, c = np.cos(np.arange(n)), np.sin(np.arange(n + 6))
    text = 'grad(sum(pad(v, 3, mode="reflect") * c), v)'
    t = torch.tensor(v, requires_grad=True)
    (torch.nn.functional.pad(t[None], (3, 3), mode="reflect")[0] * torch.tensor(c)).sum().backward()
    np.testing.assert_allclose(evaluate(text, v=v, c=c), t.grad.numpy(), rtol=1e-12, atol=1e-12)
    graph, _ = graph_of(text, {"v": v, "c": c})
    assert any(n.op == "scatter" for n in graph.nodes()) is (n == 400)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gradients_have_the_dtype_and_shape_of_their_variable(dtype):
    given = {"x": x.astype(dtype), "w": w.astype("float32"), "b": w[:1].astype(dtype)}
    found = evaluate("grad(sum(tanh(x * w + b)), x, w, b)", **given)
    assert [(g.dtype, g.shape) for g in found] == [(v.dtype, v.shape) for v in given.values()]
    right = evaluate("grad(sum(tanh(x * w + b)), x, w, b)", x=x, w=w, b=w[:1])
    for made, wanted in zip(found, right):
        np.testing.assert_allclose(made, wanted, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("count", [2049, 70000])  # float16 has neither as an integer
def test_many_ties_of_narrow_floats_are_counted_exactly(count):
    ones, places = np.ones(count, np.float16), np.zeros(count, np.int64)
    given = {"v": ones, "s": np.ones(2, np.float16)}
    scattered = {"base": np.zeros(2, np.float16), "i": places}
    for text, more in (
        ("vjp(max(v), s[0], v)", {}),
        ("vjp(min(v[None], axis=1), s[:1], v)", {}),
        ("vjp(scatter_max(base, i, v), s, v)", scattered),
    ):
        for found in (evaluate(text, **given, **more), fd.evaluate(text, **given, **more)):
            np.testing.assert_array_equal(found, np.full(count, 1 / count, np.float16), text)


@pytest.mark.parametrize("wrt", [0, ("x", 1), {"x": 1}, (), "q"])
def test_wrt_names_parameters(wrt):
    with pytest.raises(fd.ArgumentError) as fault:
        fd.kernel("x * w").grad(wrt=wrt)
    assert fault.value.code == "argument.gradient" and fault.value.help


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gradients_of_masked_attention_store_scores_and_nothing_larger(device):
    q = fd.spec((2, 4, 256, 64))
    text = "vjp(attention(q, k, v, mask='j <= i'), g, q, k, v)"
    told = fd.kernel(text).explain(q, q, q, q, device=device, compile=False)
    assert max(t.bytes for t in told.temporaries) == 4 * 2 * 4 * 256 * 256


def test_what_a_mask_leaves_out_of_a_sum_adds_nothing_to_its_gradients():
    x, y = np.float32([[1, 2, 3]]), np.float32([[4], [np.inf]])
    m = np.array([[True, True, False], [False, False, False]])
    text = "vjp(sum(where(m, x * y, 0), 1), g, x, y)"
    dx, dy = fd.evaluate(text, {"x": x, "y": y, "m": m, "g": np.float32([1, 5])})
    assert np.array_equal(dx, [[4, 4, 0]]) and np.array_equal(dy, [[3], [0]])
