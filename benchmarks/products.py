"""The cases of the suite `products`: texts and functions around products of matrices, their arrays, what they have to
reach."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import linear_problems
import llama_block

CUBLAS, COMPILED, TUNED = "cublas", "torch.compile", "torch.compile (tuned)"
SQUARES = tuple((n, n, n) for n in (1024, 2048, 4096, 8192))
MODELS = ((4096, 14336, 4096), (8192, 14336, 4096), (4096, 4096, 14336))  # m, n, k of a Llama block's products
FEW = (1, 4, 16, 64)
MOST, MOST_FLOPS = 16_384, 2e12  # extents and work of the random shapes
ERRORS = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3, "bfloat16": 1e-2, "int8": 0.0}

Wanted = tuple[tuple[str, float], ...]
"""One of these (peer, how many times faster than it) has to hold; the peer "copy" is the floor."""


@dataclass(frozen=True)
class Array:
    """An operand: its shape, its dtype, by what random numbers are scaled; `turned` if its rows are contiguous last."""

    shape: tuple[int, ...]
    dtype: str
    scale: float = 1.0
    turned: bool = False

    @property
    def bytes(self) -> int:
        return prod(self.shape) * {"float64": 8, "float32": 4, "int8": 1}.get(self.dtype, 2)


@dataclass(frozen=True)
class Product:
    """A case: what fusedsl computes, a text or a function of torch; `twin` says what the peers compute."""

    name: str
    extents: tuple[int, ...]
    dtype: str
    does: str | Callable
    twin: str | Callable
    arrays: dict[str, Array]
    flops: int
    written: int  # bytes of the results
    wanted: tuple[Wanted, ...]
    peers: tuple[str, ...] = (COMPILED,)
    options: dict[str, Any] = field(default_factory=dict)
    allowed: float | None = None  # of the largest error, over the largest element of the result
    bounded: bool = False  # by reading and writing: the floor is that many bytes at the speed of a copy

    @property
    def shape(self) -> str:
        return "x".join(map(str, self.extents))

    @property
    def case(self) -> tuple[str, str, str, str]:
        return ("products", self.name, self.shape, self.dtype)

    @property
    def bytes(self) -> int:
        return sum(a.bytes for a in self.arrays.values()) + self.written

    @property
    def most_error(self) -> float:
        return ERRORS[self.dtype] if self.allowed is None else self.allowed


def core() -> Iterator[Product]:
    """Every case but the random ones."""
    for size in (*SQUARES, *MODELS):
        yield plain(size)
        yield with_gelu(size)
    yield from around()
    for m in FEW:
        for n, k in ((14336, 4096), (4096, 14336)):
            yield few_rows(m, n, k)
    yield from batched()
    yield from other_dtypes()
    yield from blocks()
    yield from linear()


def _operands(m: int, n: int, k: int, dtype: str) -> dict[str, Array]:
    return {"x": Array((m, k), dtype), "w": Array((k, n), dtype, k**-0.5)}


def plain(size: tuple[int, int, int]) -> Product:
    """The product alone, beside the library's."""
    m, n, k = size
    least = 0.9 if size == SQUARES[0] else 0.95
    peers = (COMPILED, TUNED, "triton", "cupy float16", "quack")
    wanted = (((CUBLAS, least),), ((TUNED, 1.0),))
    return Product(
        *("product", size, "bfloat16", "x @ w", "product", _operands(m, n, k, "bfloat16")),
        *(2 * m * n * k, 2 * m * n, wanted, peers),
    )


def with_gelu(size: tuple[int, int, int]) -> Product:
    """The product with bias and GELU, beside the library's without them."""
    m, n, k = size
    least = 0.9 if size == SQUARES[0] else 0.95
    peers = ("cublaslt epilogue", COMPILED, TUNED, "triton", "cupy float16", "quack")
    wanted = (((CUBLAS, least),), (("cublaslt epilogue", 1.0),), ((TUNED, 1.0),))
    arrays = _operands(m, n, k, "bfloat16") | {"b": Array((n,), "bfloat16")}
    return Product("gelu", size, "bfloat16", "gelu(x @ w + b)", "gelu", arrays, 2 * m * n * k, 2 * m * n, wanted, peers)


def around() -> Iterator[Product]:
    """Two and three products of one x; folds of rows beside the product; a norm before it; a router."""
    m, n, k, kind = 4096, 14336, 4096, "bfloat16"
    x, one = Array((m, k), kind), 2 * m * n * k
    w = Array((k, n), kind, k**-0.5)
    yield Product(
        *("swiglu", (m, n, k), kind, "silu(x @ g) * (x @ u)", "swiglu", {"x": x, "g": w, "u": w}),
        *(2 * one, 2 * m * n, ((("cublas, then fused", 1.15),),), ("cublas, then fused", COMPILED, TUNED)),
    )
    a = Array((k, k), kind, k**-0.5)
    yield Product(
        *("three products", (m, k, k), kind, "return x @ a, x @ b, x @ c", "three"),
        *({"x": x, "a": a, "b": a, "c": a}, 6 * m * k * k, 6 * m * k, ((("cublas joined", 1.0),),)),
        ("cublas joined", COMPILED),
    )
    beside = ((("product alone", 0.97),),)
    for name, fold, twin in (
        ("row sums", "sum(float32(y), axis=-1)", "row_sums"),
        ("row maxima", "max(absolute(y), axis=-1)", "row_maxima"),
        ("row logsumexp", "logsumexp(float32(y), axis=-1)", "row_logsumexp"),
    ):
        text = f"y = x @ w\nreturn y, {fold}"
        operands = _operands(m, n, k, kind)
        yield Product(name, (m, n, k), kind, text, twin, operands, one, 2 * m * n, beside, ("product alone", COMPILED))
    normed = {"x": x, "g": Array((k,), kind), "w": w}
    yield Product(
        *("norm", (m, n, k), kind, "rms_norm(x, g) @ w", "norm", normed, one, 2 * m * n),
        *(((("fused norm, then cublas", 1.05),),), ("fused norm, then cublas", COMPILED, TUNED)),
    )
    tokens, experts = 32_768, 8
    yield Product(
        *("router", (tokens, experts, k), kind, "topk(softmax(x @ w), 2)", "router"),
        *(_operands(tokens, experts, k, kind), 2 * tokens * experts * k, tokens * 2 * 10),
        *(((("torch", 1.0),),), ("torch", COMPILED)),
        allowed=0.05,  # the share of indices that differ: near equals
        bounded=True,
    )


def few_rows(m: int, n: int, k: int) -> Product:
    """What decoding computes: the time is that of reading w."""
    wanted = ((("copy", 0.9),), ((CUBLAS, 1.0),))
    return Product(
        *("few rows", (m, n, k), "bfloat16", "x @ w", "product", _operands(m, n, k, "bfloat16")),
        *(2 * m * n * k, 2 * m * n, wanted),
        bounded=True,
    )


def batched() -> Iterator[Product]:
    """Many small products: as fast as the library's, or near a copy."""
    for b, m, n, k, kind in (
        (4096, 64, 64, 64, "bfloat16"),
        (65536, 16, 16, 16, "float32"),
        (64, 1024, 1024, 64, "bfloat16"),
    ):
        arrays = {"x": Array((b, m, k), kind), "w": Array((b, k, n), kind, k**-0.5)}
        size = 4 if kind == "float32" else 2
        yield Product(
            *("batched", (b, m, n, k), kind, "x @ w", "product", arrays, 2 * b * m * n * k, size * b * m * n),
            *((((CUBLAS, 1.0), ("copy", 0.9)),),),
            bounded=True,
        )


def other_dtypes() -> Iterator[Product]:
    """float32 exact and by TF32, float64, int8."""
    m, n, k = size = (4096,) * 3
    flops = 2 * m * n * k
    single = _operands(*size, "float32")
    for name, least, options, allowed in (
        ("product", 0.95, {}, None),
        ("product tf32", 0.95, {"matmul": "tf32"}, 3e-3),
        ("product 3xtf32", 1.5, {"matmul": "3xtf32"}, None),
    ):
        yield Product(
            *(name, size, "float32", "x @ w", "product", single, flops, 4 * m * n, (((CUBLAS, least),),)),
            *((COMPILED,), options, allowed),
        )
    double = _operands(*size, "float64")
    yield Product("product", size, "float64", "x @ w", "product", double, flops, 8 * m * n, (((CUBLAS, 0.9),),), ())
    narrow = {"x": Array((m, k), "int8"), "w": Array((k, n), "int8")}
    text = "int32(x) @ int32(w)"
    yield Product("product", size, "int8", text, "int8", narrow, flops, 4 * m * n, (((CUBLAS, 0.9),),), ())


def blocks() -> Iterator[Product]:
    """A Llama block over 4,096 tokens and over 16 sequences' next ones, as a function and as a text."""
    for name, arrays, function, text, extents, least in (
        ("llama block", llama_block.PREFILL, llama_block.prefill, llama_block.PREFILL_TEXT, (4096, 4096, 14336), 1.05),
        ("llama decoding", llama_block.DECODE, llama_block.decode, llama_block.DECODE_TEXT, (16, 4096, 14336), 1.2),
    ):
        operands = {key: Array(shape, "bfloat16", scale) for key, (shape, scale) in arrays.items()}
        flops, written = llama_block.flops(extents[0]), 2 * extents[0] * extents[1]
        for how, does in (("function", function), ("text", text)):
            yield Product(
                *(f"{name}, {how}", extents, "bfloat16", does, function, operands, flops, written),
                *((((COMPILED, least),),), (COMPILED, TUNED)),
                allowed=2e-2,
                bounded=name == "llama decoding",
            )


def linear() -> Iterator[Product]:
    """Linear layers with what follows them, as KernelBench's level 2 has them."""
    for problem in linear_problems.PROBLEMS:
        for kind in problem.dtypes:
            arrays = {
                name: Array(shape, kind, shape[0] ** -0.5 if name.startswith("w") else 1.0)
                for name, shape in problem.shapes(problem.sizes).items()
            }
            extents = tuple(problem.sizes.values())
            yield Product(
                *(f"linear {problem.name}", extents, kind, problem.function, problem.function, arrays),
                *(problem.flops, 0, (((COMPILED, 1.0),),), (COMPILED,)),
                allowed=3e-2 if kind == "bfloat16" else 1e-4,
            )


def drawn(count: int, seed: int) -> list[Product]:
    """Random shapes and layouts with a GELU; a smaller count is a part of a larger."""
    draw = random.Random(seed)
    found = []
    while len(found) < count:
        m, n, k = (_extent(draw) for _ in range(3))
        kind, turned = draw.choice(("bfloat16", "bfloat16", "float16")), (draw.random() < 0.3, draw.random() < 0.5)
        if 2 * m * n * k > MOST_FLOPS:
            continue
        layout = "".join("t" if one else "n" for one in turned)
        arrays = {
            "x": Array((m, k), kind, 1.0, turned[0]),
            "w": Array((k, n), kind, k**-0.5, turned[1]),
            "b": Array((n,), kind),
        }
        found.append(
            Product(
                *(f"random {len(found)} {layout}", (m, n, k), kind, "gelu(x @ w + b)", "gelu", arrays),
                *(2 * m * n * k, 2 * m * n, (((COMPILED, 0.9),),), (COMPILED,)),
            )
        )
    return found


def _extent(draw: random.Random) -> int:
    """From 1 to 16,384, evenly by magnitude; a third of them multiples of 64, a third of 8."""
    one = round(MOST ** draw.random())
    step = draw.choice((1, 8, 64))
    return max(1, one // step * step) if one >= step else one
