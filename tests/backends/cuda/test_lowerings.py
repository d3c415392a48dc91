"""Every family's generated files compile by Numba alone and by the own front end, and give the same bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda import compile as cuda
from fusedsl.backends.cuda.combo import ComboSchedule
from fusedsl.fusion.formulation import ProductMode
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

from fusedsl.backends.cuda.compiler import frontend, numba_backend

RANDOM = np.random.default_rng(3)
BRAIN = ml_dtypes.bfloat16
DAILY = ("elementwise", "transpose", "columns", "matmul")


@dataclass(frozen=True)
class Form:
    """A program whose kernels are of one family, on a GPU that is small enough for it to have many blocks."""

    family: str
    text: str
    shapes: dict[str, tuple[int, ...]]
    dtype: type = np.float32
    facts: dict[str, float] = field(default_factory=lambda: {"multiprocessors": 4})
    foreach: bool = False
    settings: dict[str, Any] = field(default_factory=dict)  # what is planned otherwise, by its dotted name


FOLDED = {
    "fusedsl.program.product_choice.WORTH": 1e9,  # whatever is predicted to be faster
    "fusedsl.program.product_choice.MODES": (ProductMode.FOLDED,),
    "fusedsl.fusion.graph_products.SMALL": 0,
}
FEW = {"multiprocessors": 4}
LONG = dict.fromkeys("wb", (65532,))
HEADS = dict.fromkeys("qkv", (1, 2, 70, 64))
FORMS = {
    "elementwise": Form("Elementwise", "x * y + 1, where(x < y, x / y, tanh(x))", {"x": (13, 37), "y": (13, 37)}),
    "maps across rows": Form("Flat", "stack([x, y], axis=-1) * 2", {"x": (13, 37), "y": (13, 37)}),
    "repeated maps": Form("Broadcast", "stack([x, y])", {"x": (996,), "y": (996,)}, facts=FEW | {"l2": 1024}),
    "byte tables": Form("Elementwise", "uint8(255 * (u / 255.0) ** 0.45)", {"u": (999,)}, np.uint8),
    "pairs of random numbers": Form("Elementwise", "normal(3, x) + x", {"x": (13, 36)}),
    "batched": Form("Elementwise", "x * 2 + 1", {"a": (5, 7), "b": (300, 3), "c": (33,)}, foreach=True),
    "combo": Form("Combo", "x.mT + 1, y * 2", {"x": (40, 37), "y": (999,)}),
    "transpose": Form("Transpose", "x.T + y", {"x": (131, 70), "y": (70, 131)}, np.float16),
    "rows": Form("ResidentRow", "softmax(x), argmax(x, -1)", {"x": (5, 1003)}, BRAIN),
    "rows of several axes": Form(
        "ResidentRow", "group_norm(x, 2, w, b)", {"x": (3, 4, 30, 8)} | dict.fromkeys("wb", (4,)), np.float16
    ),
    "clusters": Form("ResidentRow", "softmax(x)", {"x": (2, 30001)}, facts={"multiprocessors": 40}),
    "rows in shared memory": Form("SmemRow", "softmax(x)", {"x": (3, 40001)}, BRAIN, {}),
    "looped rows": Form("LoopedRow", "x / sum(x)", {"x": (37, 1000)}, facts={}),
    "persistent clusters": Form("PersistentCluster", "layer_norm(x, w, b)", {"x": (9, 65532)} | LONG),
    "scan": Form("Lookback", "cumsum(x)", {"x": (40003,)}),
    "scan in two passes": Form("TwoPassScan", "cumsum(x, axis=0)", {"x": (2500, 20)}),
    "sort": Form("Sort", "argsort(x)", {"x": (2, 1003)}),
    "top k of long rows": Form("Sort", "topk(x, 50)", {"x": (2, 5001)}),
    "sort of short rows": Form("Sort", "sort(x)", {"x": (9, 103)}),
    "radix_select": Form("Select", "median(x), topk(x, 70)", {"x": (1, 32_771)}),
    "radix sort": Form("RadixSort", "argsort(x), sort(x)", {"x": (1, 17_001)}),
    "blocks that share a top k": Form("SplitTopK", "topk(x, 5)", {"x": (1, 32771)}),
    "scatter": Form("Scatter", "scatter_max(400, int64(abs(x) * 20), x)", {"x": (700,)}),
    "scatter of sums": Form("Scatter", "scatter_add(400, int64(abs(x) * 20), x)", {"x": (700,)}),
    "scatter of ordered places": Form("OrderedScatter", "segment_sum(x, offsets=90 * arange(8))", {"x": (700,)}),
    "shifted loads": Form("Elementwise", "sum(sliding_window(x, 5), -1)", {"x": (700,)}),
    "scatter of rows": Form("Scatter", "scatter_max(400, int64(abs(x[:, 0]) * 20), x)", {"x": (70, 5)}),
    "scatter of sums of runs": Form("Scatter", "scatter_add(24, int64(abs(x) * 6), x)", {"x": (700,)}),
    "scatter into words of a block": Form("PrivateSum", "scatter_add(20, int64(abs(x) * 20), x)", {"x": (1600,)}),
    "scatter into bins of a block": Form("PrivateScatter", "scatter_max(40, int64(abs(x) * 20), x)", {"x": (700,)}),
    "counts": Form("PrivateScatter", "bincount(int32(abs(x) * 20), 40)", {"x": (700,)}),
    "pairs": Form("LoopedColumn", "exp(-sum((x[:, None] - y) ** 2, -1)) @ b", {"x": (70, 3), "y": (90, 3), "b": (90,)}),
    "blocks that cooperate": Form("Cooperative", "mean(x), max(x), argmax(x)", {"x": (37, 1000)}, facts={}),
    "columns": Form("LoopedColumn", "sum(x, axis=0), argmin(x, axis=0)", {"x": (3000, 33)}),
    "columns of many phases": Form("Column", "softmax(x, axis=0), var(x, 0)", {"x": (400, 35)}),
    "rows and columns": Form("RowColumn", "sum(x, -1), sum(x, 0), argmin(x, axis=0)", {"x": (40, 7)}),
    "matmul": Form("MmaMatmul", "gelu(x @ y + b)", {"x": (70, 50), "y": (50, 40), "b": (40,)}),
    "matmul of computed factors": Form("Matmul", "(x * 2) @ y", {"x": (70, 50), "y": (50, 40)}),
    "tensor cores": Form("Sm90Matmul", "gelu(x @ y + b)", {"x": (136, 72), "y": (72, 200), "b": (200,)}, BRAIN),
    "folds of products": Form(
        "Sm90Matmul", "p = gelu(x @ y + b); argmax(p, -1), logsumexp(p, axis=-1)",
        {"x": (72, 520), "y": (520, 200), "b": (200,)}, BRAIN, settings=FOLDED,
    ),
    "groups of products": Form(
        "Sm90Matmul", "rms_norm(reshape(x @ y, (72, 3, 64)), b)",
        {"x": (72, 520), "y": (520, 192), "b": (64,)}, BRAIN, settings=FOLDED,
    ),
    "few rows": Form("Skinny", "gelu(x @ y + b)", {"x": (9, 799), "y": (799, 136), "b": (136,)}, BRAIN),
    "small matrices": Form("SmallMatmul", "x @ y", {"x": (40, 12, 16), "y": (40, 16, 10)}),
    "attention": Form("Sm90Attention", "attention(q, k, v, mask='j <= i')", HEADS, BRAIN),
    "exact attention": Form("MmaAttention", "attention(q, k, v, mask='j <= i')", HEADS),
    "split keys": Form("MmaAttention", "attention(q, k, v)", HEADS | {"q": (1, 2, 1, 64)}, BRAIN),
}  # fmt: skip


def refused(*arguments):
    raise AssertionError("a form of the generated file was left to Numba")


def unsupported(*arguments):
    raise frontend.UnsupportedForm("Numba lowers it")


def results(monkeypatch, form: Form, arrays, way: str):
    """What a program gives if its files are lowered this way, and the families of its kernels."""
    families, lowered = set(), cuda.lowered

    def noted(source, path, kernel, schedule, *others):
        families.add(type(schedule).__name__.removesuffix("Schedule"))
        return lowered(source, path, kernel, schedule, *others)

    with monkeypatch.context() as patch, emulated_gpu(**form.facts) as gpu:
        patch.setattr(cuda, "lowered", noted)
        for name, value in form.settings.items():
            patch.setattr(name, value)
        if way == "own":
            patch.setattr(numba_backend, "lower", refused)
        if way == "numba":
            patch.setattr(frontend, "lowered", unsupported)
        there = [gpu.asarray(x) for x in arrays.values()]
        made = fd.foreach(form.text, there) if form.foreach else fd.kernel(form.text, fallback=False)(*there)
        return [to_host(x) for x in (made if isinstance(made, (tuple, list)) else (made,))], families


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DAILY else pytest.mark.slow) for name in FORMS]
)
def test_numba_and_the_own_front_end_give_the_same(name, monkeypatch):
    form = FORMS[name]
    arrays = {n: RANDOM.standard_normal(shape).round(2).astype(form.dtype) for n, shape in form.shapes.items()}
    wanted, families = results(monkeypatch, form, arrays, "numba")
    assert form.family in families, families
    found, _ = results(monkeypatch, form, arrays, "own")
    for x, y in zip(found, wanted, strict=True):
        assert x.tobytes() == y.tobytes()


def test_every_family_has_a_form():
    families = {kind.__name__.removesuffix("Schedule") for kind in (*cuda.EMITTERS, ComboSchedule)}
    assert families == {form.family for form in FORMS.values()}
