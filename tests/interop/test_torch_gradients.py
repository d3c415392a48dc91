"""Kernels and fused functions in torch's autograd: gradients, second derivatives, torch.compile, checkpoints."""

from __future__ import annotations

import pytest

import fusedsl as fd

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("error:.*ran without fusion")


def leaf(*shape: int, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def same(f, reference, *leaves) -> None:
    """Both give equal gradients by all leaves."""
    found = torch.autograd.grad(f(*leaves), leaves)
    for made, right in zip(found, torch.autograd.grad(reference(*leaves), leaves)):
        assert made.dtype is right.dtype
        torch.testing.assert_close(made, right)


def test_a_kernel_has_first_and_second_derivatives():
    kernel = fd.kernel("softmax(x) * w")
    x, w = leaf(3, 4), leaf(4)
    assert torch.autograd.gradcheck(kernel, (x, w))
    assert torch.autograd.gradgradcheck(kernel, (x, w))
    with torch.no_grad():
        assert not kernel(x, w).requires_grad


def test_several_results_of_which_some_are_integers():
    kernel = fd.kernel("return sort(x), argsort(x), sum(x * 2.0), x * s")
    x = leaf(3, 5)
    values, positions, total, scaled = kernel(x, 3)
    assert not positions.requires_grad and total.requires_grad and total.shape == ()
    (values[:, 0].sum() + scaled.sum()).backward()  # nothing comes from the total
    first = torch.zeros_like(x).scatter(1, x.argmin(1, keepdim=True), 1.0)
    torch.testing.assert_close(x.grad, first + 3)


def test_numbers_that_are_tensors():
    s, x = torch.tensor(1.5, requires_grad=True), torch.randn(4, 3)
    fd.kernel("sum(x * s)")(x, s).backward()
    torch.testing.assert_close(s.grad, x.sum())


def test_evaluate_and_attention():
    q, k, v = leaf(1, 2, 4, 8), leaf(1, 2, 5, 8), leaf(1, 2, 5, 8)
    mask = torch.ones(4, 5).tril(1).bool()
    same(lambda q, k, v: (fd.attention(q, k, v, mask="j <= i + 1") ** 2).sum(),
         lambda q, k, v: (F.scaled_dot_product_attention(q, k, v, attn_mask=mask) ** 2).sum(), q, k, v)  # fmt: skip
    same(lambda q: fd.evaluate("sum(tanh(q))", q=q), lambda q: torch.tanh(q).sum(), q)


def test_a_fused_function():
    scale = leaf(4)

    @fd.fuse
    def block(x, weights, eps):
        y = F.layer_norm(x, (4,), weights["w"], None, eps)
        with torch.no_grad():
            largest = x.amax(-1, keepdim=True)
        return {"y": F.gelu(y) * scale - largest * x + x.detach() ** 2, "at": x.argmax(-1), "x": [x]}

    x, w = leaf(3, 4), leaf(4)
    found = block(x, {"w": w}, 1e-5)
    assert found["y"].requires_grad and not found["at"].requires_grad and found["x"][0] is x
    with torch.no_grad():  # a trace without marks
        torch.testing.assert_close(block(x, {"w": w}, 1e-5)["y"], found["y"].detach())
    loss = lambda f: lambda x, w, s: f(x, {"w": w}, 1e-5)["y"].sin().sum()  # noqa: E731
    same(loss(block), loss(block.function), x, w, scale)
    (first,) = torch.autograd.grad(loss(block)(x, w, scale), x, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), x)
    (first,) = torch.autograd.grad(loss(block.function)(x, w, scale), x, create_graph=True)
    torch.testing.assert_close(second, torch.autograd.grad((first**2).sum(), x)[0])


def test_a_step_of_training():
    linear, norm = fd.fuse(lambda x, w, b: F.relu(x @ w.T + b)), fd.kernel("rms_norm(x, g)")
    layer, g = torch.nn.Linear(4, 6), torch.nn.Parameter(torch.ones(6))
    x = torch.randn(5, 4)
    loss = (norm(linear(x, layer.weight, layer.bias), g) ** 2).mean()
    loss.backward()
    found = [p.grad.clone() for p in (layer.weight, layer.bias, g)]
    plain = (F.rms_norm(F.relu(layer(x)), (6,), g, 1e-6) ** 2).mean()
    right = torch.autograd.grad(plain, (layer.weight, layer.bias, g))
    for made, wanted in zip(found, right):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)


def test_compiled_checkpointed_and_transformed():
    kernel = fd.kernel("tanh(x) * w, argmax(x, axis=-1)")
    x, w = leaf(3, 4), leaf(4)

    def loss(x, w):
        return (kernel(x * 2, w)[0] ** 2).sum()

    def plain(x, w):
        return ((torch.tanh(2 * x) * w) ** 2).sum()

    same(torch.compile(loss, fullgraph=True, backend="aot_eager"), plain, x, w)
    same(lambda x, w: torch.utils.checkpoint.checkpoint(loss, x, w, use_reentrant=False), plain, x, w)
    found = torch.func.grad(loss)(x.detach(), w.detach())
    torch.testing.assert_close(found, torch.func.grad(plain)(x.detach(), w.detach()))


def test_what_has_no_derivative_is_said_by_name():
    x = leaf(3)
    with pytest.raises(fd.Unsupported, match="nextafter has no derivative"):
        fd.kernel("nextafter(x, 2.0)")(x).sum().backward()
