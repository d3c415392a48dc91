"""Kernel.graph, and calls while a CUDA graph is captured: on an emulated GPU, and on a card where there is one."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.graph_capture import CALLS_BEFORE_CAPTURE

pytest.importorskip("numba.cuda")

from ptx import emulated_gpu
from threads import at_once

TEXT = "m = sum(x); return cumsum(x - m, axis=-1), m"  # several kernels, memory between them, and tickets


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_on_the_cpu_calls_are_made_in_turn():
    x, y, z = normal(40, 5), np.zeros((40, 5), np.float32), np.zeros(40, np.float32)
    steps = fd.kernel("x + 1").graph(x, out=y).then(fd.kernel("sum(y, -1)"), y, out=z)
    assert not y.any() and len(steps) == 2
    for _ in range(2):
        x += 1
        assert steps() is z is steps.result
        np.testing.assert_allclose(z, (x + 1).sum(-1), 1e-5)
    with pytest.raises(fd.ArgumentError, match="goes on with a kernel"):
        steps.then(5)


def test_a_graph_launches_what_the_calls_would():
    with emulated_gpu(multiprocessors=4) as gpu:
        x = gpu.asarray(normal(30, 70))
        kernel, after = fd.kernel(TEXT), fd.kernel("y * 2")
        right = [r.get() for r in kernel(x)]
        gpu.launches.clear()
        graph = kernel.graph(x)
        result, total = graph.result
        steps = graph.then(after, result)
        assert not gpu.launches  # recorded, and nothing computed
        for _ in range(2):
            steps()
            np.testing.assert_array_equal(total.get(), right[1])
            np.testing.assert_array_equal(result.get(), right[0])
            np.testing.assert_array_equal(steps.result.get(), 2 * right[0])
        assert len(gpu.launches) >= 2 * 3
        graph()
        assert len(gpu.library.graphs) == 2
        del steps, graph
        assert not gpu.library.graphs


def test_a_graph_runs_in_one_place_on_arrays_as_they_are():
    with emulated_gpu(multiprocessors=4) as gpu:
        x, host = gpu.asarray(normal(6, 4)), normal(6, 4)
        double = fd.kernel("2 * x")
        with pytest.raises(fd.DeviceError, match="cuda:0 and the CPU"):
            double.graph(x).then(double, host)
        with pytest.raises(fd.ArgumentError, match="copies"):
            fd.kernel("x + x[::-1]").graph(x, out=x)
        assert not gpu.library.recording


def test_nothing_is_compiled_while_a_graph_is_captured():
    with emulated_gpu(multiprocessors=4) as gpu:
        x, out = gpu.asarray(normal(5, 9)), gpu.asarray(normal(5, 9))
        kernel, kept = fd.kernel("x * 3 - 1"), out.get()
        gpu.library.recording[0] = []
        with pytest.raises(fd.DeviceError, match="captured") as told:
            kernel(x, out=out)
        assert told.value.code == "device.capture" and "call it once before" in str(told.value)
        assert not gpu.library.recording.pop(0)
        np.testing.assert_array_equal(out.get(), kept)
        kernel(x, out=out)
        expected = out.get()
        out.set(kept)
        gpu.library.recording[0] = []
        for _ in range(3):  # prepared, repeated, replayed
            kernel(x, out=out)
        work = gpu.library.recording.pop(0)
        np.testing.assert_array_equal(out.get(), kept)
        assert len(work) == 3
        work[0]()
        np.testing.assert_array_equal(out.get(), expected)


@pytest.mark.gpu
class TestOnACard:
    """What the libraries' own captures see."""

    @pytest.mark.parametrize("text", ["x * y + 1", "softmax(x) * y", TEXT.replace("x - m", "x*y - m"), "sum(x * y, 0)"])
    def test_torch_captures_calls(self, text):
        torch = pytest.importorskip("torch")
        x, y = torch.randn(300, 40, device="cuda"), torch.randn(300, 40, device="cuda")
        kernel = fd.kernel(text)
        right = kernel(x, y)
        outs = tuple(map(torch.empty_like, right)) if isinstance(right, tuple) else torch.empty_like(right)
        kernel(x, y, out=outs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel(x, y, out=outs)
            new = kernel(x, y)
        for seed in range(3):
            torch.manual_seed(seed)
            x.copy_(torch.randn_like(x))
            for out in outs if isinstance(outs, tuple) else [outs]:
                out.fill_(float("nan"))
            graph.replay()
            expected = kernel(x, y)
            for given, made, one in zip(*map(self.parts, (outs, new, expected))):
                assert torch.equal(given, one) and torch.equal(made, one)

    @staticmethod
    def parts(value):
        return value if isinstance(value, tuple) else (value,)

    def test_cupy_captures_calls(self):
        cupy = pytest.importorskip("cupy")
        x, out = cupy.asarray(normal(300, 40)), cupy.zeros((300, 40), np.float32)
        kernel = fd.kernel("cumsum(softmax(x), axis=0)")
        kernel(x, out=out)
        stream = cupy.cuda.Stream(non_blocking=True)
        stream.synchronize()
        with stream:
            kernel(x, out=out)
            stream.synchronize()
            stream.begin_capture()
            kernel(x, out=out)
            graph = stream.end_capture()
            x[...] = cupy.asarray(normal(300, 40)[::-1])
            out.fill(0)
            graph.launch()
            expected = kernel(x)
            stream.synchronize()
        assert (out == expected).all()

    def test_a_graph_of_ours_is_replayed_on_any_stream_and_in_captures(self):
        torch = pytest.importorskip("torch")
        x = torch.randn(500, 30, device="cuda")
        first, second = torch.empty_like(x), torch.empty(500, device="cuda")
        graph = fd.kernel("exp(x)").graph(x, out=first).then(fd.kernel("sum(y, -1)"), first, out=second)
        outer, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(outer):
            graph()
        for run in (graph, outer.replay):
            torch.cuda.synchronize()
            x.copy_(torch.randn_like(x))
            second.zero_()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                run()
            stream.synchronize()
            torch.testing.assert_close(second, x.exp().sum(-1))

    def test_the_first_call_inside_a_capture_says_what_to_do(self):
        torch = pytest.importorskip("torch")
        x = torch.randn(7, 300, device="cuda")
        out = torch.empty_like(x)
        kernel = fd.kernel("x * 0.12345 + cos(x)")
        graph = torch.cuda.CUDAGraph()
        with pytest.raises(fd.DeviceError, match="call it once before"), torch.cuda.graph(graph):
            kernel(x, out=out)
        torch.cuda.synchronize()
        torch.testing.assert_close(kernel(x, out=out), x * 0.12345 + x.cos())

    def test_calls_that_are_repeated_often_are_right_and_captured_all_the_same(self):
        """They are launched as graphs of their own by then: on one stream, which others capture, and by one thread."""
        torch = pytest.importorskip("torch")
        x, y = (torch.randn(700, device="cuda") for _ in range(2))
        out = torch.empty_like(x)
        kernel, several = fd.kernel("x*y + c"), fd.kernel("cumsum(x - sum(x), axis=0) * y")
        for k in range(2 * CALLS_BEFORE_CAPTURE):
            assert torch.equal(kernel(x, y, k, out=out), torch.addcmul(torch.full_like(x, k), x, y))
            x, y = y, torch.randn_like(x) if k % 3 else x
        right = torch.addcmul(torch.full_like(x, 2.0), x, y)
        bound, chain = kernel.bind(x, y, 2, out=out), several.bind(x, y)
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
            stream.wait_stream(torch.cuda.default_stream())
            with torch.cuda.stream(stream):
                for _ in range(CALLS_BEFORE_CAPTURE):
                    assert torch.equal(bound(), right) and torch.equal(kernel(x, y, 2), right)
                torch.testing.assert_close(chain(), (x - x.sum()).cumsum(0) * y, rtol=1e-3, atol=1e-2)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(2 * CALLS_BEFORE_CAPTURE):
                bound(), kernel(x, y, 2, out=out)
            for call in (bound, lambda: kernel(x, y, 2, out=out)):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    call()
                out.zero_()
                graph.replay()
                assert torch.equal(out, right)

        def work(seed):
            given = torch.full((700,), float(seed), device="cuda")
            for k in range(300):
                wrong.extend([] if (kernel(given, given, k) == seed * seed + k).all() else [(seed, k)])

        wrong = []
        at_once(work, range(4))
        assert not wrong
