"""Who computes a case of the suite `attention`: fusedsl, and its peers, each as a function without arguments."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import torch

CAP, WINDOW, DOCUMENTS, KEPT, APART = 30.0, 1024, 8, 0.9, 4
CAUSAL = "iota(s, -1) <= iota(s, -2)"
TEXTS = {
    "full": "softmax(s) @ v",
    "causal": f"softmax(where({CAUSAL}, s, -inf)) @ v",
    "window": f"softmax(where(({CAUSAL}) & (iota(s, -1) > iota(s, -2) - {WINDOW}), s, -inf)) @ v",
    "alibi": f"softmax(where({CAUSAL}, s + slope[:, None, None] * (iota(s, -1) - iota(s, -2)), -inf)) @ v",
    "softcap": f"softmax(where({CAUSAL}, {CAP} * tanh(s / {CAP}), -inf)) @ v",
    "documents": f"softmax(where(({CAUSAL}) & (doc[:, None] == doc[None, :]), s, -inf)) @ v",
    "bias": "softmax(s + bias) @ v",
    "dilated": f"softmax(where(({CAUSAL}) & ((iota(s, -2) - iota(s, -1)) % {APART} == 0), s, -inf)) @ v",
    "sigmoid": f"where({CAUSAL}, sigmoid(s - log(1.0 * size(s, -1))), 0) @ v",
    "plus one": f"s = where({CAUSAL}, s, -inf)\nm = maximum(max(s, axis=-1, keepdims=True), 0); e = exp(s - m)\n"
    "(e @ v) / (sum(e, -1, keepdims=True) + exp(-m))",
    "sink": f"s = where({CAUSAL}, s, -inf); t = sink[:, None, None]\n"
    "m = maximum(max(s, axis=-1, keepdims=True), t); e = exp(s - m)\n"
    "(e @ v) / (sum(e, -1, keepdims=True) + exp(t - m))",
    "dropout": f"p = softmax(where({CAUSAL}, s, -inf))\nwhere(uniform(7, p) < {KEPT}, p, 0) * {1 / KEPT!r} @ v",
}
INFLEXIBLE = ("dropout", "sigmoid")  # what FlexAttention has no form for
OWN_STREAM = ("jax cudnn",)  # what events of torch's stream do not see
UNFUSED = ("cupy", "cupy float16")


class Peers:
    """The arrays of a case, and what computes it. `build(name)` gives a call, or raises what keeps the peer from it."""

    def __init__(self, case: Any):
        self.case = case
        batch, heads, n, width = case.shape
        small = (batch, heads // case.shared, case.stream, width)
        self.q, self.k, self.v = (self._random(*shape) for shape in (case.shape, small, small))
        self.slope = torch.logspace(-1, -8, heads, base=2.0, device="cuda")
        self.doc = torch.arange(n, device="cuda", dtype=torch.int32) * DOCUMENTS // n
        self.bias = self._random(n, n) if case.name == "bias" else None
        self.sink = self._random(heads) if case.name == "sink" else torch.zeros(heads, device="cuda")

    def _random(self, *shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    @cached_property
    def names(self) -> tuple[str, ...]:
        case = self.case
        if case.name in ("decode", "dropout"):
            return ("fusedsl", "cudnn", "flash-attention-2")
        if case.name in INFLEXIBLE:
            return ("fusedsl",)
        if case.name in ("full", "causal") and case.shared == 1:
            unfused = UNFUSED if (case.width, case.length) == (128, 4096) else ()
            return ("fusedsl", "cudnn", "flash-attention-2", "triton", "jax cudnn", *unfused)
        return ("fusedsl", "flex", *(("cudnn",) if case.shared > 1 else ()))

    def build(self, name: str) -> Callable[[], Any]:
        return {
            "fusedsl": self.fusedsl,
            "flex": self.flex,
            "triton": self.triton,
            "jax cudnn": self.jax,
            "cupy": partial(self.cupy, "float32"),
            "cupy float16": partial(self.cupy, "float16"),
        }.get(name, partial(self.torch, name))()

    def fusedsl(self) -> Callable[[], Any]:
        import fusedsl as fd

        if self.case.shared > 1:
            mask = None if self.case.name == "decode" else "j <= i"
            return lambda: fd.attention(self.q, self.k, self.v, mask=mask)
        kernel = fd.kernel(self.text(self.case.width**-0.5))
        given = [getattr(self, name) for name in kernel.params]
        return lambda: kernel(*given)

    def text(self, scale: float) -> str:
        return f"s = q @ k.mT * {scale!r}\n{TEXTS['full' if self.case.name == 'decode' else self.case.name]}"

    def torch(self, name: str) -> Callable[[], Any]:
        """scaled_dot_product_attention, as this backend has it."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = SDPBackend.CUDNN_ATTENTION if name == "cudnn" else SDPBackend.FLASH_ATTENTION
        attend = torch.nn.functional.scaled_dot_product_attention
        options = {"is_causal": self.case.causal, "enable_gqa": self.case.shared > 1}
        options |= {"dropout_p": 1 - KEPT} if self.case.name == "dropout" else {}

        def call() -> Any:
            with sdpa_kernel(backend):
                return attend(self.q, self.k, self.v, **options)

        return call

    def flex(self) -> Callable[[], Any]:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        case = self.case
        masks = {
            "window": lambda b, h, i, j: (j <= i) & (j > i - WINDOW),
            "documents": lambda b, h, i, j: (j <= i) & (self.doc[i] == self.doc[j]),
            "dilated": lambda b, h, i, j: (j <= i) & ((i - j) % APART == 0),
        }
        scores = {
            "alibi": lambda score, b, h, i, j: score + self.slope[h] * (j - i),
            "softcap": lambda score, b, h, i, j: CAP * torch.tanh(score / CAP),
            "bias": lambda score, b, h, i, j: score + self.bias[i, j],
        }
        block = None
        if case.causal:
            keep = masks.get(case.name, lambda b, h, i, j: j <= i)
            block = create_block_mask(keep, None, None, case.length, case.length)
        options = {"score_mod": scores.get(case.name), "block_mask": block, "enable_gqa": case.shared > 1}
        if case.name not in ("plus one", "sink"):
            compiled = torch.compile(flex_attention, dynamic=False)
            return lambda: compiled(self.q, self.k, self.v, **options)

        def with_sink(q: Any, k: Any, v: Any, sink: Any) -> Any:
            """A column more of scores, whose weights count in the sum alone, from the others' log-sum-exp."""
            found, total = flex_attention(q, k, v, **options, return_lse=True)
            return (found * torch.sigmoid(total - sink[:, None])[..., None]).to(found.dtype)

        rescaled = torch.compile(with_sink, dynamic=False)
        return lambda: rescaled(self.q, self.k, self.v, self.sink)

    def triton(self) -> Callable[[], Any]:
        import triton_attention

        return triton_attention.prepare(self.q, self.k, self.v, self.case.causal)

    def jax(self) -> Callable[[], Any]:
        """jax.nn.dot_product_attention, of (batch, length, heads, width)."""
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax

        from peers_rows import JaxCall

        def attend(q: Any, k: Any, v: Any) -> Any:
            return jax.nn.dot_product_attention(q, k, v, is_causal=self.case.causal, implementation="cudnn")

        turned = {name: getattr(self, name).transpose(1, 2).contiguous() for name in "qkv"}
        return JaxCall(jax.jit(attend), {name: jax.dlpack.from_dlpack(x) for name, x in turned.items()})

    def cupy(self, dtype: str) -> Callable[[], Any]:
        """One operation after another. (CuPy multiplies no matrices of bfloat16.)"""
        import cupy

        q, k, v = (cupy.asarray(x.to(getattr(torch, dtype))) for x in (self.q, self.k, self.v))
        scale, n = cupy.asarray(self.case.width**-0.5, dtype), self.case.length
        keep = cupy.tri(n, dtype=bool) if self.case.causal else None

        def call() -> Any:
            s = cupy.matmul(q, k.swapaxes(-1, -2)) * scale
            if keep is not None:
                s = cupy.where(keep, s, cupy.asarray(-math.inf, dtype))
            e = cupy.exp(s - s.max(-1, keepdims=True))
            return cupy.matmul(e / e.sum(-1, keepdims=True), v)

        return call

    def result(self, name: str, call: Callable[[], Any]) -> torch.Tensor:
        """What a call computes, as (batch, heads, length, width)."""
        made = call()
        if name in OWN_STREAM:
            return made.wait().transpose(1, 2)
        return torch.as_tensor(made, device="cuda") if name in UNFUSED else made

    def error(self, result: torch.Tensor, rows: int = 256) -> float | None:
        """The largest error of the last rows of a head, over the largest value there, against float64; None where each
        peer draws numbers of its own."""
        if self.case.name == "dropout":
            return None
        n, length = self.case.length, self.case.stream
        rows = min(rows, n)
        q, k, v = (x[-1, -1].double() for x in (self.q, self.k, self.v))
        i, j = torch.arange(n - rows, n, device="cuda")[:, None], torch.arange(length, device="cuda")[None]
        s = q[-rows:] @ k.mT * self.case.width**-0.5
        if self.case.name == "alibi":
            s = s + self.slope[-1].double() * (j - i)
        if self.case.name == "softcap":
            s = CAP * torch.tanh(s / CAP)
        if self.bias is not None:
            s = s + self.bias[-rows:].double()
        if self.case.causal:
            keep = j <= i
            keep = keep & (j > i - WINDOW) if self.case.name == "window" else keep
            keep = keep & (self.doc[i] == self.doc[j]) if self.case.name == "documents" else keep
            keep = keep & ((i - j) % APART == 0) if self.case.name == "dilated" else keep
            s = s.masked_fill(~keep, -math.inf)
        weights = torch.sigmoid(s - math.log(length)) if self.case.name == "sigmoid" else torch.softmax(s, -1)
        expected = weights @ v
        if self.case.name in ("plus one", "sink"):
            expected *= torch.sigmoid(torch.logsumexp(s, -1, keepdim=True) - self.sink[-1].double())
        return float((result[-1, -1, -rows:].double() - expected).abs().max() / expected.abs().max())
