"""Products of matrices under each product mode: right results, each product computed once, operands in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.fusion import graph_products
from fusedsl.fusion.formulation import ON_CPU, ON_CUDA, ProductMode
from fusedsl.fusion.graph_products import is_product
from fusedsl.ir.graph import walk
from fusedsl.kernel_ir.kernel import AttentionKernel, KernelIR
from fusedsl.program import product_choice, resolve_call
from fusedsl.report.explain import resolved_call
from fusedsl.rewrite.engine import rewrite

SQUARE = (24, 24)
TEXTS = {
    "a square of a product": ("a = x @ w; a @ a", {"x": SQUARE, "w": SQUARE}),
    "Newton–Schulz": ("A = X @ X.T; B = -4.8 * A + 2 * A @ A; 3.4 * X + B @ X", {"X": (16, 24)}),
    "a product of two products": ("(x @ A) @ (x @ B).T", {"x": (20, 24), "A": SQUARE, "B": SQUARE}),
    "two products in turn": ("(x @ A) @ B", {"x": (20, 24), "A": SQUARE, "B": (24, 16)}),
    "three products of one array": ("return x @ a, x @ b, x @ c", dict.fromkeys("xabc", SQUARE)),
    "a gated layer": ("(silu(x @ g) * (x @ u)) @ d", {"x": (20, 24), "g": (24, 32), "u": (24, 32), "d": (32, 24)}),
    "rows of a product": ("softmax(x @ w + b)", {"x": (20, 24), "w": SQUARE, "b": (24,)}),
    "a product and what follows": ("y = x @ w; return y, sum(y, -1), relu(y)", {"x": SQUARE, "w": SQUARE}),
    "a normalised operand": ("rms_norm(x, g) @ w", {"x": (20, 24), "g": (24,), "w": SQUARE}),
    "a normalised residual": (
        "r = x + a @ w; h = rms_norm(r, g); return r, h @ b, h @ c",
        {"x": (20, 24), "a": (20, 16), "w": (16, 24), "g": (24,), "b": SQUARE, "c": SQUARE},
    ),
    "a product's halves, turned": (
        "y = reshape(x @ w, (20, 3, 8)); y * c + concat([-y[..., 4:], y[..., :4]], -1) * s",
        {"x": (20, 24), "w": SQUARE, "c": (8,), "s": (8,)},
    ),
}
NUMBERED = ("a product's halves, turned",)  # their texts say how large their arrays are


@pytest.fixture(params=list(ProductMode))
def mode(request, monkeypatch):
    """Plans of one mode, in which no product of matrices is small."""
    monkeypatch.setattr(graph_products, "SMALL", 0)
    monkeypatch.setattr(product_choice, "MODES", ())
    monkeypatch.setattr(resolve_call, "ON_CPU", replace(ON_CPU, products=request.param))
    monkeypatch.setattr(resolve_call, "ON_CUDA", replace(ON_CUDA, products=request.param))
    return request.param


def count_products(kernel: KernelIR) -> int:
    """The matrix products that a kernel computes."""
    if isinstance(kernel, AttentionKernel):
        return len(kernel.attention.scores) + len(kernel.attention.weighted_sums)
    return len(kernel.products)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("device", ("cpu", "cuda"))
def test_each_product_is_computed_once(name, device, mode):
    text, shapes = TEXTS[name]
    kernel = fd.kernel(text)
    cc = (9, 0) if device == "cuda" else None
    case = resolved_call(kernel._program, [fd.spec(shapes[n], "float32") for n in kernel.params], device, cc)
    computed = sum(count_products(bound.kernel) for bound in case.bounds)
    assert computed == sum(map(is_product, walk(rewrite(case.graph).results)))
    if mode is ProductMode.ALONE:
        products = [b.kernel for b in case.bounds if b.kernel.products]
        assert all(len(k.products) == 1 and len(k.operands) - k.inputs == 1 for k in products)


@pytest.mark.parametrize("name", TEXTS)
def test_results_are_right(name, mode):
    text, shapes = TEXTS[name]
    generator = np.random.default_rng(0)
    kernel = fd.kernel(text, fallback=False, verify=True)
    kernel(**{n: generator.standard_normal(shape) / 5 for n, shape in shapes.items()})


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("rows, stored", [(2_000, True), (100_000, False)])
def test_operands_far_larger_than_the_arrays_are_not_stored(device, rows, stored):
    kernel = fd.kernel("cos(a[:, None] * b) @ w")
    given = [fd.spec(rows, "float32"), fd.spec(rows, "float32"), fd.spec((rows, 64), "float32")]
    case = resolved_call(kernel._program, given, device, (9, 0) if device == "cuda" else None)
    assert bool(case.plan.temporaries) is stored


# -- the choice of a call


@pytest.fixture
def library(monkeypatch):
    """Calls as of arrays of torch: what they are is not asked for its library."""
    monkeypatch.setattr(resolve_call, "blas_library", lambda _, on_device: "torch" if on_device else "numpy")


def chosen(text: str, dtype: str, device=("cuda", (9, 0)), shapes=None, **options):
    """The resolved call of a text: by default of three square matrices of 4096, and a row."""
    kernel, large = fd.kernel(text, **options), {"x": (4096, 4096), "w": (4096, 4096), "v": (4096, 4096), "b": (4096,)}
    arrays = [fd.spec((shapes or large)[n], dtype) for n in kernel.params]
    return resolved_call(kernel._program, arrays, *device)


def test_large_products_of_one_operand_take_turns_where_they_start_early():
    """Three of them: what each saves by its early start is more than what one kernel saves by reading x once."""
    shapes = dict.fromkeys("xabc", (4096, 4096))
    text = "return x @ a, x @ b, x @ c"
    assert len(chosen(text, "bfloat16", shapes=shapes).launches) == 3
    assert len(chosen(text, "bfloat16", ("cuda", (8, 0)), shapes).launches) == 1
    assert len(chosen(text, "bfloat16", shapes=dict.fromkeys("xabc", (1024, 1024))).launches) == 1
    assert len(chosen(text, "bfloat16", shapes=shapes, max_kernels=1).launches) == 1


def by_library(call) -> int:
    return sum(call.is_by_library(members) for members in call.launches)


@pytest.mark.parametrize("dtype, products", [("float32", 1), ("float64", 1), ("bfloat16", 0)])
def test_a_library_multiplies_where_it_is_faster_even_with_a_kernel_for_the_epilogue(library, dtype, products):
    # measured: H100, 4096³ of float32: 3,072 us in a kernel of ours, cuBLAS takes 2,640 alone and the map some 40
    assert by_library(chosen("gelu(x @ w + b)", dtype)) == products
    assert by_library(chosen("silu(x @ w) * (x @ v)", dtype)) == 2 * products


def test_a_library_multiplies_wherever_it_is_asked_to_if_there_is_memory(library):
    assert by_library(chosen("gelu(x @ w + b)", "bfloat16", matmul="library")) == 1
    narrow = {"x": (32768, 64), "w": (64, 32768), "b": (32768,)}  # 4.3 GB for the product, 2.2 GB for the arrays
    assert by_library(chosen("gelu(x @ w + b)", "bfloat16", shapes=narrow, matmul="library")) == 0


def test_a_kernel_is_priced_once(library, monkeypatch):
    priced = []
    monkeypatch.setattr(resolve_call, "own_seconds", lambda bound, hardware: priced.append(bound) or 1.0)
    call = chosen("x @ w", "bfloat16")
    call.library_product(*call.kernels[0]), call.own_seconds(*call.kernels[0])
    assert len(priced) == len(call.bounds) == 1


@pytest.mark.parametrize("name", [*TEXTS, "two products of their own"])
@pytest.mark.parametrize("device", [("cpu", None), ("cuda", (9, 0))])
def test_no_mode_takes_more_launches_than_a_caller_allows(library, name, device):
    text, shapes = TEXTS.get(name) or ("return x @ a.mT, y @ b.mT", dict.fromkeys("xyab", SQUARE))
    shapes = {n: tuple(d * 16 for d in shape) if name not in NUMBERED else shape for n, shape in shapes.items()}
    refused = 0
    for most in (1, 2, 3, 4):
        try:
            call = chosen(text, "float32", device, shapes, max_kernels=most)
            assert len(call.launches) <= most
        except fd.FusionError as error:
            assert f"max_kernels is {most}" in str(error)
            refused += 1
    assert refused < 4


def test_folds_that_begin_where_their_product_is_are_not_told_to_be_apart():
    told = fd.kernel("logsumexp(x @ w, axis=-1)").explain(
        *[fd.spec((4096, 4096), "bfloat16")] * 2, device="cuda", cc=90, compile=False
    )
    reasons = [refused.reason for refused in told.refused]
    assert reasons == ["kernel 1 merges states of rows, of which a block of kernel 0 has a part"]
