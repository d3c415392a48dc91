"""Products by cuBLAS: how arrays are mapped to its calls, on a host that computes them, and the values on a card."""

import contextlib
import itertools
import threading

import numpy as np
import pytest
from cublas import STREAM, HostCublas
from product_layouts import SHAPES, layouts

import fusedsl as fd
from fusedsl import config
from fusedsl.hardware import hardware_facts
from fusedsl.ir.types import numpy_dtype
from fusedsl.program.library_product import LibraryProduct, library_product
from fusedsl.report.explain import resolved_call
from fusedsl.runtime import cublas_launch
from fusedsl.runtime.cublas import cublas_of, loaded_cublas
from fusedsl.runtime.cublas_launch import MAX_CALLS, CublasLaunch
from fusedsl.runtime.parameter_packing import BlockLayout, PointerSlot

PRODUCT = fd.kernel("x @ w", matmul="library")


def cublas_decision(text, *values, matmul="library", **options):
    """The library product of the only kernel of a text on an H100, or the reason why it is ours."""
    program = fd.kernel(text, matmul=matmul, **options)._program
    case = resolved_call(program, values, "cuda", 90)
    ((_, bound),) = case.kernels
    return library_product(bound, "torch", program.options, hardware_facts((9, 0)))


def launch_on_host(product, arrays, host, stream=STREAM, of="torch"):
    """Launch a GEMM on arrays of the host, in the order of the kernel's operands."""
    layout = BlockLayout(bytes(24), [PointerSlot(8 * n, k) for n, k in enumerate(product.arrays)])
    launch = CublasLaunch(product, layout, host.cublas(of), 0)
    launch.fire([x.ctypes.data for x in arrays], stream)


@pytest.fixture
def host(monkeypatch):
    class Driver:
        on = staticmethod(lambda device: contextlib.nullcontext())
        relaxed_capture = staticmethod(contextlib.nullcontext)

    class Buffer:
        address = 1 << 20

        def __init__(self, size, device):
            self.size = size

    monkeypatch.setattr(cublas_launch, "driver", Driver)
    monkeypatch.setattr(cublas_launch, "DeviceBuffer", Buffer)
    return HostCublas()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_every_layout_that_cublas_takes_is_mapped_right(left, right, dtype, host):
    rng, kind = np.random.default_rng(8), numpy_dtype(fd.spec((1,), dtype).dtype)
    tolerance = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "float64": 1e-12}[dtype]
    taken = 0
    for x, w in itertools.product(layouts(left, kind, rng), layouts(right, kind, rng)):
        specs = [fd.spec(a.shape, dtype, tuple(s // a.itemsize for s in a.strides)) for a in (x, w)]
        case = resolved_call(PRODUCT._program, specs, "cuda", 90)
        ((plan, bound),) = case.kernels
        product = library_product(bound, "torch", config.Options(matmul="library"), hardware_facts((9, 0)))
        if isinstance(product, str):
            continue
        expected = x.astype("f8") @ w.astype("f8")
        strides = [s * kind.itemsize for s in case.layouts["result", 0].strides]
        out = np.lib.stride_tricks.as_strided(np.full(expected.size, np.nan, kind), expected.shape, strides)
        arrays = [{"argument": [x, w], "result": [out]}[use.kind][use.index] for use in plan.arrays]
        starts = [a.ctypes.data + offset * a.itemsize for a, offset in zip(arrays, bound.offsets)]
        assert starts == [a.ctypes.data for a in arrays] or min(x.strides + w.strides) < 0
        launch_on_host(product.gemm, arrays, host)
        np.testing.assert_allclose(out.astype("f8"), expected, tolerance, tolerance * 10)
        taken += 1
    assert taken >= 9 or 1 in left + right
    assert {"gemm", "batched"} & set(host.calls) or 1 in left + right
    assert "workspace" not in host.calls


def test_cublas_on_another_stream_works_in_a_workspace_of_its_own(host):
    product = cublas_decision("x @ w", fd.spec((8, 16)), fd.spec((16, 4)))
    x, w, out = np.ones((8, 16), "f4"), np.ones((16, 4), "f4"), np.empty((8, 4), "f4")
    launch_on_host(product.gemm, [x, w, out], host, stream=STREAM + 8)
    assert host.calls == ["stream", "workspace", "mode", "gemm", "mode", "stream"]
    assert host.stream == STREAM
    assert (out == 16).all()
    launch_on_host(product.gemm, [x, w, out], host, of="cupy")
    assert host.calls[6:] == ["stream", "mode", "gemm", "mode", "stream"]


def test_what_cublas_computes_and_how():
    def s(dtype, *shape):
        return fd.spec(shape, dtype)

    half = (s("bfloat16", 64, 32), s("bfloat16", 32, 48))
    assert isinstance(cublas_decision("x @ w", *half), LibraryProduct)
    assert cublas_decision("float32(x) @ float32(w)", *half).gemm.out_dtype.name == "float32"
    single = (s("float32", 64, 32), s("float32", 32, 48))
    assert "CUBLAS_COMPUTE_32F)" in cublas_decision("x @ w", *single).source("x", "w", "y")
    large = (s("float32", 4096, 4096), s("float32", 4096, 4096))
    assert "32F_FAST_TF32" in cublas_decision("x @ w", *large, matmul="tf32").source("x", "w", "y")
    assert "dtypes" in cublas_decision("float16(x @ w)", *single)
    assert "before it stores" in cublas_decision("x @ w", s("int8", 64, 32), s("int8", 32, 48))
    assert "other rows" in cublas_decision("x @ w", *half, deterministic="batch")
    views = (fd.spec((100, 9, 20, 30), "float32"), fd.spec((100, 9, 30, 20), "float32"))
    sliced = cublas_decision("x[:, :8] @ w[:, :8]", *views)
    assert isinstance(sliced, LibraryProduct)
    many = (fd.spec((100, 90, 20, 30), "float32"), fd.spec((100, 90, 30, 20), "float32"))
    assert str(MAX_CALLS + 1) in cublas_decision(f"x[:, :{MAX_CALLS + 1}] @ w[:, :{MAX_CALLS + 1}]", *many)


def test_our_own_kernel_stays_where_it_takes_no_longer():
    program, hardware = fd.kernel("x @ w")._program, hardware_facts((9, 0))
    case = resolved_call(program, [fd.spec((4096, 4096), "bfloat16")] * 2, "cuda", 90)
    ((_, bound),) = case.kernels
    tf32 = config.Options(matmul="tf32")
    assert isinstance(library_product(bound, "torch", tf32, hardware, 250e-6), LibraryProduct)
    assert "time model" in library_product(bound, "torch", tf32, hardware, 100e-6)
    assert isinstance(library_product(bound, "torch", program.options, hardware, 250e-6), LibraryProduct)


def test_the_loaded_cublas_is_found_by_its_version():
    torch_s, other = "/site-packages/nvidia/cublas/lib/libcublas.so.12", "/usr/lib/libcublas.so.13.1.0"
    assert loaded_cublas([torch_s, torch_s, "/lib/libcublasLt.so.12", other], 12) == torch_s
    assert loaded_cublas([torch_s, other], 13) == other
    assert loaded_cublas([torch_s, "/opt/libcublas.so.12"], 12) is None
    assert loaded_cublas([], 12) is None
    assert cublas_of("numpy") is None


# ---- on a card


def test_calls_of_every_kind_on_an_emulated_card(monkeypatch):
    from ptx import device, emulated_gpu

    from fusedsl.program import library_product as decisions
    from fusedsl.program import prepare_call

    def memory(address, size):
        arena = device.current()
        arena.write(address, arena.place(address, size).tobytes())  # written from here on
        return arena.place(address, size)

    host, rng = HostCublas(memory), np.random.default_rng(12)
    found = host.cublas("cupy")
    for module in (decisions, prepare_call):
        monkeypatch.setattr(module, "cublas_of", lambda library: found)
    x, w = rng.standard_normal((40, 24)).astype("f4"), rng.standard_normal((24, 32)).astype("f4")
    with emulated_gpu() as gpu:
        a, b = gpu.asarray(x), gpu.asarray(w)
        kernel = fd.kernel("x @ w", matmul="library")
        for _ in range(3):
            np.testing.assert_allclose(kernel(a, b).get(), x @ w, 1e-5, 1e-5)
        out = gpu.asarray(np.zeros((32, 40), "f4")).T
        for _ in range(3):
            assert kernel(a, b, out=out) is out
            np.testing.assert_allclose(out.get(), x @ w, 1e-5, 1e-5)
        np.testing.assert_allclose(kernel.bind(a, b)().get(), x @ w, 1e-5, 1e-5)
        assert not gpu.launches
        assert "cuBLAS through CuPy" in str(kernel.explain(a, b, compile=False))
        assert "cublasGemmEx(x, w, out=result, m=40, n=32, k=24" in kernel.source(a, b)
        assert len(kernel.resources(a, b)) == 0
        for y in fd.foreach("x @ w", [a, a], b, matmul="library"):
            np.testing.assert_allclose(y.get(), x @ w, 1e-5, 1e-5)
        y, z = fd.kernel("return x @ w, w.mT @ w", matmul="library")(a, b)
        np.testing.assert_allclose(y.get(), x @ w, 1e-5, 1e-5)
        np.testing.assert_allclose(z.get(), w.T @ w, 1e-5, 1e-5)
        before = host.calls.count("gemm")
        np.testing.assert_allclose(fd.kernel("x @ w", deterministic="batch")(a, b).get(), x @ w, 1e-5, 1e-5)
        assert host.calls.count("gemm") == before


@pytest.fixture(params=["torch", "cupy"])
def library(request):
    """(the module, a function that copies an array to the card, one that copies it back)."""
    module = pytest.importorskip(request.param)
    if cublas_of(request.param) is None:
        pytest.skip(f"{request.param} has no cuBLAS here")
    if request.param == "cupy":
        return module, module.asarray, module.asnumpy
    return module, lambda x: module.from_numpy(x.copy()).cuda(), lambda x: x.double().cpu().numpy()


def by_library(kernel):
    """Whether every prepared call of a kernel is by cuBLAS."""
    return all(isinstance(r, CublasLaunch) for call in kernel._program._calls.values() for r in call.records)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("left", "right"), SHAPES + [((640, 512), (512, 768)), ((3, 130, 257), (257, 66))], ids=str)
def test_products_on_a_card_are_right(left, right, dtype, library):
    module, there, back = library
    if dtype == "bfloat16" and module.__name__ == "cupy":
        pytest.skip("CuPy has no bfloat16")
    rng, taken = np.random.default_rng(9), 0
    tolerance = {"float16": 5e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-11}[dtype]
    for x, w in itertools.product(range(4), range(4)):
        kernel = fd.kernel("x @ w", matmul="library")
        a, b = (_laid(module, there(rng.standard_normal(shape)), dtype, k) for shape, k in ((left, x), (right, w)))
        expected = back(a).astype("f8") @ back(b).astype("f8")
        for _ in range(3):
            result = kernel(a, b)
            scale = np.abs(expected).max() + 1
            assert np.abs(back(result).astype("f8") - expected).max() <= tolerance * scale
        taken += by_library(kernel)
    assert taken >= 9 or 1 in left + right


def _laid(module, x, dtype, k):
    """An array of this dtype in one of four layouts."""
    x = x.to(getattr(module, dtype)) if module.__name__ == "torch" else x.astype(dtype)
    if k == 1:
        turned = x.swapaxes(-1, -2)
        packed = turned.contiguous() if module.__name__ == "torch" else module.ascontiguousarray(turned)
        return packed.swapaxes(-1, -2)
    if k == 2:
        axis = len(x.shape) - 1
        wide = module.cat([x, x], axis) if module.__name__ == "torch" else module.concatenate([x, x], axis)
        return wide[..., : x.shape[-1]]
    return x[:1].repeat(x.shape[0], 0) if k == 3 and module.__name__ == "cupy" else x


@pytest.mark.gpu
def test_bound_calls_graphs_and_captures_are_right(library):
    module, there, back = library
    rng = np.random.default_rng(10)
    x, w = there(rng.standard_normal((300, 400)).astype("f4")), there(rng.standard_normal((400, 500)).astype("f4"))
    kernel = fd.kernel("y = x @ w; return tanh(y) - y", matmul="library")
    out = module.zeros((300, 500), dtype=module.float32, **({"device": "cuda"} if module.__name__ == "torch" else {}))
    product = fd.kernel("x @ w", matmul="library")
    bound = product.bind(x, w, out=out)
    for _ in range(12):
        x *= 0.5
        out *= 0
        bound()
        np.testing.assert_allclose(back(out), back(x).astype("f8") @ back(w).astype("f8"), 1e-3, 1e-3)
    graph = product.graph(x, w, out=out).then(fd.kernel("y + 1"), out, out=out)
    for _ in range(3):
        graph()
        np.testing.assert_allclose(back(out), back(x).astype("f8") @ back(w).astype("f8") + 1, 1e-3, 1e-3)
    y = back(x).astype("f8") @ back(w).astype("f8")
    np.testing.assert_allclose(back(kernel(x, w)), np.tanh(y) - y, 1e-3, 1e-3)


@pytest.mark.gpu
def test_a_capture_of_torch_contains_the_product():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or cublas_of("torch") is None:
        pytest.skip("torch has no GPU")
    x, w = (torch.randn(512, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out, kernel = torch.zeros_like(x), fd.kernel("x @ w", matmul="library")
    kernel(x, w, out=out)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        kernel(x, w, out=out)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, w, out=out)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.testing.assert_close(out.float(), x.float() @ w.float(), rtol=2e-2, atol=5e-1)
    assert by_library(kernel)


@pytest.mark.gpu
def test_lists_threads_and_torch_s_own_settings_are_right(library):
    module, there, back = library
    rng = np.random.default_rng(11)
    x, w = there(rng.standard_normal((256, 512)).astype("f4")), there(rng.standard_normal((512, 384)).astype("f4"))
    expected = back(x).astype("f8") @ back(w).astype("f8")
    if module.__name__ == "torch":
        module.backends.cuda.matmul.allow_tf32 = True
    try:
        kernel, errors = fd.kernel("x @ w", matmul="library"), []

        def work():
            errors.extend(np.abs(back(kernel(x, w)) - expected).max() for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        errors += [np.abs(back(y) - expected).max() for y in fd.foreach("x @ w", [x, x], w, matmul="library")]
        assert len(errors) == 22
        assert max(errors) < 1e-3  # TF32 would be 1e-2
    finally:
        if module.__name__ == "torch":
            module.backends.cuda.matmul.allow_tf32 = False
