"""Functions under fuse as torch operators; where they can be none, torch sees what they do themselves."""

from __future__ import annotations

import pytest

import fusedsl as fd

torch = pytest.importorskip("torch")
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
    pytest.skip("torch.compile of operators needs torch 2.6", allow_module_level=True)

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from fusedsl.interop import torch_function  # noqa: E402


class Graphs:
    """A backend that keeps what torch.compile gives it."""

    def __init__(self):
        self.seen = []

    def __call__(self, graph, inputs):
        self.seen.append(graph)
        return graph.forward

    def compile(self, function, **more):
        torch._dynamo.reset()
        return torch.compile(function, fullgraph=True, backend=self, **more)

    @property
    def operators(self):
        """How many of our operators each graph holds."""
        return [sum(str(n.target).startswith("fusedsl.function_") for n in graph.graph.nodes) for graph in self.seen]


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def operator_in(recorded):
    """The name of the one operator in a graph."""
    (found,) = [str(n.target) for n in recorded.graph.nodes if "fusedsl.function_" in str(n.target)]
    return found.split(".")[1]


@fd.fuse
def parts(x, y, s=2.0):
    return torch.tanh(x * s) + y, {"sum": (x - y).sum(-1), "same": x, "none": None}


def test_a_call_in_a_compiled_function_is_one_operator(monkeypatch):
    x, y, graphs = torch.randn(4, 6), torch.randn(6), Graphs()
    function = graphs.compile(lambda x, y: parts(x + 1, y=y)[1]["sum"] * 2)
    torch.testing.assert_close(function(x, y), (x + 1 - y).sum(-1) * 2)
    assert graphs.operators == [1]
    monkeypatch.setattr(torch_function, "_operator_for", None)  # no operator is resolved while the graph runs
    torch.testing.assert_close(function(x, y), (x + 1 - y).sum(-1) * 2)
    monkeypatch.undo()
    torch.testing.assert_close(compiled(lambda x, y: parts(x, y, s=3)[0] + 1)(x, y), torch.tanh(3 * x) + y + 1)
    torch.testing.assert_close(compiled(lambda x: parts(x, x)[1]["same"] + 1)(x), x + 1)


def test_sizes_and_numbers_may_be_symbols():
    @fd.fuse
    def branch(x, s):
        return x.sum(0) * s if x.shape[0] > 6 else x.mean(0) - s

    graphs = Graphs()
    function = graphs.compile(lambda x, y, s: parts(x, y, s)[0] + 1, dynamic=True)
    for rows, s in ((3, 2), (5, 3), (8, 4)):
        x, y = torch.randn(rows, 4), torch.randn(4)
        torch.testing.assert_close(function(x, y, s), torch.tanh(x * s) + y + 1)
    assert graphs.operators == [1]
    function = graphs.compile(lambda x, s: branch(x, s) + 1, dynamic=True)
    for rows in (3, 7):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(function(x, 2.5), branch(x, 2.5) + 1)
    assert graphs.operators == [1, 1, 1]


def test_arguments_are_written():
    @fd.fuse
    def step(x, state, scale):
        y = torch.tanh(x) * scale
        state["total"] += y
        state["last"].copy_(x)
        return y, state["total"]

    @fd.fuse
    def double(x):
        x *= 2

    def around(x, total, last):
        y, now = step(x, {"total": total, "last": last}, 3)
        double(last)
        return y - now

    x, states = torch.randn(4, 6), [[torch.ones(4, 6), torch.zeros(4, 6)] for _ in range(2)]
    torch.testing.assert_close(compiled(around)(x, *states[0]), around(x, *states[1]))
    torch.testing.assert_close(states[0], states[1])


def test_what_reads_arrays_from_outside_or_has_a_gradient_is_torchs_own():
    weight, x = torch.randn(6), torch.randn(4, 6)

    @fd.fuse
    def weighed(x):
        return x * weight

    @fd.fuse
    def decides(x):
        return x * 2 if x.sum() > 0 else x

    @fd.fuse
    def named(x):
        return torch.max(x, 1)

    graphs = Graphs()
    torch.testing.assert_close(compiled(lambda x: named(x).values + 1)(x), x.max(1).values + 1)
    torch.testing.assert_close(graphs.compile(lambda x: weighed(x) + 1)(x), x * weight + 1)
    leaf = x.clone().requires_grad_()
    graphs.compile(lambda x: parts(x, weight)[0].sum())(leaf).backward()
    torch.testing.assert_close(leaf.grad, 2 * (1 - torch.tanh(2 * x) ** 2))
    assert graphs.operators == [0, 0]
    with torch.no_grad():
        graphs.compile(lambda x: parts(x, weight)[0])(leaf)
    assert graphs.operators == [0, 0, 1]
    with pytest.raises(Exception, match="branch"):
        compiled(lambda x: decides(x))(x)


def test_what_is_read_from_outside_is_looked_at_when_it_runs():
    x, kept = torch.randn(4, 6), {"scale": 2.0, "several": False}

    @fd.fuse
    def scaled(x):
        return (x * kept["scale"], x) if kept["several"] else x * kept["scale"]

    graphs = Graphs()
    function = graphs.compile(lambda x: scaled(x) + 1)
    torch.testing.assert_close(function(x), 2 * x + 1)
    kept["scale"] = 3.0
    torch.testing.assert_close(function(x), 3 * x + 1)
    kept["several"] = True
    with pytest.raises(fd.ArgumentError, match="does not return what it returned"):
        function(x)


def test_who_records_sees_the_operator_and_torchs_own_checks_pass():
    @fd.fuse
    def both(x, y, s):
        y += s * x
        return torch.tanh(x), x.sum(-1)

    for values in ((torch.randn(3, 4), torch.randn(3, 4), 2), (torch.randn(4, 3).T, torch.randn(5, 4)[:3], 0.5)):
        x, y, s = values
        name = operator_in(make_fx(lambda x, y: both(x, y, s)[0])(x, y))  # noqa: B023
        torch.library.opcheck(getattr(torch.ops.fusedsl, name).default, values)


def test_where_tensors_have_no_memory():
    class Module(torch.nn.Module):
        def forward(self, x, y):
            return parts(x, y)[0]

    x, y = torch.randn(4, 6), torch.randn(6)
    right = parts(x, y)
    with FakeTensorMode() as mode:
        found = parts(mode.from_tensor(x), mode.from_tensor(y))
    assert (found[0].shape, found[1]["sum"].shape) == (right[0].shape, right[1]["sum"].shape)
    for strict in (False, True):
        exported = torch.export.export(Module(), (x, y), strict=strict)
        assert "fusedsl.function_" in str(exported.graph)
        torch.testing.assert_close(exported.module()(x, y), right[0])
    torch.testing.assert_close(torch.func.vmap(lambda a: parts(a, y)[0])(x), right[0])
    torch.testing.assert_close(compiled(torch.func.vmap(lambda a: parts(a, y)[0]))(x), right[0])
    slope = torch.func.grad(lambda a: parts(a, y)[0].sum())(x)
    torch.testing.assert_close(slope, 2 * (1 - torch.tanh(2 * x) ** 2))


double = fd.kernel("x * 2")


@fd.fuse
def shown(x):
    return [parts(x, x)[0] + double(x), [torch.max(x, 1)[0]]]


@fd.fuse
def moved(x, y):
    x[1:] = 0
    y *= 2
    return x[0], y.T


@fd.fuse
def cast(x, shape, dtype, s):
    return (x.reshape(shape) * s).to(dtype)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: shown(x),
        lambda x: [*moved(x, y := x * 3), x, y],
        lambda x: cast(x, (x.shape[1], -1), torch.float16, 2.5),
        lambda x: cast(x, (6, 4), torch.float64, torch.tensor(2.5)),
        lambda x: parts(torch.empty(0, 6), x[0])[1],
    ],
    ids=["calls of others", "written views", "a number", "a tensor of no axes", "nothing"],
)
def test_other_forms(call):
    (x, y), graphs = torch.randn(4, 6).repeat(2, 1, 1), Graphs()
    torch.testing.assert_close(graphs.compile(lambda x: call(x))(x), call(y))
    assert graphs.operators == [1]


def test_functions_that_are_the_same_have_operators_of_their_own():
    def made(scale):
        @fd.fuse
        def function(x):
            return x * scale

        return function

    assert len({operator_in(make_fx(made(scale))(torch.randn(5))) for scale in (2.0, 2.0, 3.0)}) == 3


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_functions_that_torch_compiles_for_a_card(mode):
    kernel = fd.kernel("m = sum(x); return cumsum(x - m, axis=-1)")

    def around(x, y):
        joined = parts(x * 2, y)[0] + fd.attention(x[None], x[None], x[None], mask="j <= i")[0]
        return kernel(joined.relu()) + 1

    x, y = torch.randn(3, 64, 64, device="cuda").half(), torch.randn(64, device="cuda").half()
    torch._dynamo.reset()
    function = torch.compile(around, fullgraph=True, mode=mode)
    for _ in range(4):
        torch.testing.assert_close(function(x, y).clone(), around(x, y), rtol=1e-2, atol=1e-1)


# ---- eager gradients: a call runs the function itself, which torch records


@pytest.mark.filterwarnings("error:.*ran without fusion")
def test_eager_calls_record_gradients():
    @fd.fuse
    def loss(x, w):
        return (torch.tanh(x @ w) ** 2).mean()

    x, w = torch.randn(5, 4), torch.randn(4, 3, requires_grad=True)
    loss(x, w).backward()
    found, w.grad = w.grad, None
    loss.function(x, w).backward()
    torch.testing.assert_close(found, w.grad)
    with torch.no_grad():
        torch.testing.assert_close(loss(x, w), loss.function(x, w))
        assert len(loss.explain(x, w).kernels) >= 1


@pytest.mark.filterwarnings("ignore:.*ran without fusion")
def test_gradients_flow_to_arrays_from_outside():
    w = torch.randn(4, requires_grad=True)
    weighed = fd.fuse(lambda x: (x * w).sum())
    weighed(torch.ones(4)).backward()
    assert w.grad.tolist() == [1.0] * 4

    def fails(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        fd.fuse(fails)(w)
    assert caught.value.__context__ is None
    kernel = fd.kernel("x * 2")
    with pytest.raises(fd.ArgumentError, match=r"x requires grad.*\n.*x.detach\(\), or call under torch.no_grad"):
        kernel(w, out=torch.empty(4))


def test_transformations_that_a_kernel_cannot_follow_say_what_to_do():
    kernel = fd.kernel("tanh(x) * 2")
    with pytest.raises(fd.Unsupported, match=r"torch.vmap of a kernel.*\n.*programs broadcast"):
        torch.vmap(kernel)(torch.ones(3, 4))
    with pytest.raises(fd.DeviceError, match=r"x is a torch tensor on meta\n.*fusedsl.spec\(x.shape, x.dtype\)"):
        kernel(torch.ones(3, device="meta"))


@pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated, and warns of sizes that a trace takes for granted
def test_a_trace_of_torch_jit_records_the_operator():
    kernel, doubled = fd.kernel("tanh(x) * 2"), fd.fuse(lambda x: torch.tanh(x) * 3)
    x, y = torch.randn(3), torch.randn(3)
    for f in (kernel, doubled, lambda x: kernel(x) + doubled(x)):
        for _ in range(5):
            f(x)  # calls that are short to make are seen too
        torch.testing.assert_close(torch.jit.trace(f, x)(y), f(y))
