"""Kernels as torch operators: torch.compile without a break, fake tensors, torch's own checks of an operator."""

from __future__ import annotations

import pytest

import fusedsl as fd

torch = pytest.importorskip("torch")
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
    pytest.skip("torch.compile of operators with lists of tensors needs torch 2.6", allow_module_level=True)

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from fusedsl.interop import torch_operator  # noqa: E402


def compiled(function, **more):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager", **more)


def test_a_kernel_in_a_compiled_function_is_no_break():
    kernel = fd.kernel("softmax(x * s, axis=-1)")
    x = torch.randn(4, 5)
    found = compiled(lambda x: kernel(x + 1, 2.5) * 2)(x)
    assert torch.equal(found, kernel(x + 1, 2.5) * 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: fd.evaluate("softmax(x) * s", x=x, s=2.5, fastmath=True),
        lambda x: fd.attention(x, x, x, score="score + slope * i", slope=0.5, mask="j <= i", return_lse=True)[1],
        lambda x: fd.foreach("x * s", [x, x + 1], s=2.0)[1],
        lambda x: fd.foreach("return x * 2, sum(x)", [x, x[0]])[1][1],
    ],
    ids=["evaluate", "attention", "foreach", "foreach of several results"],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_whatever_is_made_of_texts_is_no_break(call, dynamic):
    x = torch.randn(1, 2, 5, 16)
    found = compiled(lambda x: call(x + 1) * 2, dynamic=dynamic)(x)
    torch.testing.assert_close(found, call(x + 1) * 2)


def test_sizes_and_numbers_may_be_symbols():
    kernel = fd.kernel("x * s + sum(x, axis=0)")
    counted = []

    def backend(graph, inputs):
        counted.append(graph)
        return graph.forward

    torch._dynamo.reset()
    function = torch.compile(lambda x, s: kernel(x, s) - 1, fullgraph=True, backend=backend, dynamic=True)
    for rows, s in ((3, 2), (5, 3), (8, 4)):
        x = torch.randn(rows, 7)
        assert torch.equal(function(x, s), kernel(x, s) - 1)
    assert len(counted) == 1


def test_several_results_and_outputs():
    kernel = fd.kernel("return topk(x, 2)")
    x = torch.randn(6, 9)
    values, places = compiled(lambda x: kernel(x))(x)
    assert torch.equal(values, torch.topk(x, 2).values) and torch.equal(places, torch.topk(x, 2).indices)

    def written(x, out):
        return kernel(x, out=(out, None))[1] + 1, out * 2

    out = torch.empty(6, 2)
    places, doubled = compiled(written)(x, out)
    assert torch.equal(out, values) and torch.equal(doubled, 2 * values)
    assert torch.equal(places, torch.topk(x, 2).indices + 1)

    def in_place(x):
        fd_kernel(x, out=x)
        return x

    fd_kernel = fd.kernel("exp(x)")
    y = x.clone()
    assert compiled(in_place)(y) is y or torch.equal(y, fd_kernel(x))
    assert torch.equal(y, fd_kernel(x))


@pytest.mark.parametrize(
    "text, arguments",
    [
        ("gelu(x) * y", lambda: (torch.randn(3, 4), torch.randn(4))),
        ("x + y", lambda: (torch.randn(4, 3).T, torch.randn(5, 4)[:3])),
        ("mean(x, axis=0)", lambda: (torch.randn(3, 4).to(torch.bfloat16),)),
        ("x * s", lambda: (torch.arange(5), 3)),
        ("return argmax(x, axis=-1), sum(x)", lambda: (torch.randn(3, 4),)),
    ],
)
def test_torchs_own_checks_pass(text, arguments):
    kernel, values = fd.kernel(text), arguments()
    kinds = "".join("t" if isinstance(v, torch.Tensor) else "n" for v in values)
    name = torch_operator.operator(kernel._program.name, kinds)
    torch.library.opcheck(getattr(torch.ops.fusedsl, name).default, values)
    made = kernel(*values)
    outs = made if isinstance(made, tuple) else (made,)
    name = torch_operator.operator(kernel._program.name, kinds, len(outs))
    torch.library.opcheck(getattr(torch.ops.fusedsl, name).default, (*values, *map(torch.clone, outs)))


def test_fake_tensors_tell_what_a_call_would_return():
    kernel = fd.kernel("transpose(x) * y")
    with FakeTensorMode():
        x, y = torch.empty(3, 4, dtype=torch.float16), torch.empty(3)
        found = kernel(x, y)
        assert (found.shape, found.dtype) == ((4, 3), torch.float32)
        with pytest.raises(fd.ShapeError):
            kernel(x, torch.empty(5))
        with pytest.raises(fd.ArgumentError, match="out"):
            kernel(x, y, out=torch.empty(4, 4))
    assert kernel(torch.ones(3, 4), torch.ones(3)).shape == (4, 3)


def test_an_exported_program_holds_the_kernel():
    kernel = fd.kernel("x * sigmoid(x)")

    class Module(torch.nn.Module):
        def forward(self, x):
            return kernel(x) + 1

    x = torch.randn(5)
    program = torch.export.export(Module(), (x,))
    assert "fusedsl.kernel_" in str(program.graph)
    assert torch.equal(program.module()(x), kernel(x) + 1)


def test_an_operator_records_gradients():
    kernel = fd.kernel("x * 2")
    leaf = torch.randn(3, requires_grad=True)
    compiled(lambda x: (kernel(x) ** 2).sum())(leaf).backward()
    torch.testing.assert_close(leaf.grad, 8 * leaf.detach())
    with torch.no_grad():
        assert torch.equal(compiled(lambda x: kernel(x))(leaf), leaf * 2)


def test_kernels_that_differ_have_operators_of_their_own():
    x = torch.ones(3)
    names = {
        torch_operator.operator(kernel._program.name, "t")
        for kernel in (fd.kernel("x+1"), fd.kernel("x + 1"), fd.kernel("x+1", fastmath=True), fd.kernel("x+1"))
    }
    assert len(names) == 3
    assert torch.equal(fd.kernel("x+1")(x), x + 1)


def test_who_records_what_is_done_to_tensors_sees_warm_calls_too():
    x, kernel = torch.randn(4, 6), fd.kernel("tanh(x) * 2")

    @fd.fuse
    def function(x):
        return torch.tanh(x) * 2

    listed = fd.foreach("x * 2", [x, x + 1])
    for _ in range(3):
        kernel(x), function(x), fd.foreach("x * 2", [x, x + 1])
    assert "fusedsl.kernel_" in make_fx(lambda x: kernel(x))(x).code
    recorded = make_fx(lambda x: function(x))(x)
    assert "fusedsl.function_" in recorded.code
    torch.testing.assert_close(recorded(x + 1), function(x + 1))
    assert make_fx(lambda x: fd.foreach("x * 2", [x, x + 1])[1])(x).code.count("fusedsl.kernel_") == 2
    assert listed[0].equal(x * 2)
