"""Hand-written kernels that problems are compared with, where installed: Liger-Kernel, QuACK, CuPy (CUB), JAX."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

Calls = dict[str, Callable[[], Any]]


def others(problem: Any, arguments: dict) -> Calls:
    """The calls of every installed library that has a kernel for this problem."""
    makers = {"liger": ("liger_kernel", _liger), "quack": ("quack", _quack), "cupy": ("cupy", _cupy)}
    if problem.suite != "expressions":
        makers["jax"] = ("jax", _jax)
    found: Calls = {}
    for name, (module, make) in makers.items():
        if find_spec(module) is None:
            continue
        try:
            found |= make(problem.twin, arguments)
        except Exception as fault:  # an installed library that does not import is a result
            found[name] = partial(_fail, fault)
    return found


def _fail(fault: Exception) -> None:
    raise fault


def _liger(twin: str, arguments: dict) -> Calls:
    from liger_kernel.ops.cross_entropy import cross_entropy_forward
    from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward
    from liger_kernel.ops.rms_norm import rms_norm_backward, rms_norm_forward
    from liger_kernel.ops.softmax import _softmax_forward

    x, w, b, g, y = (arguments.get(name) for name in "xwbgy")
    if twin == "softmax":
        return {"liger": lambda: _softmax_forward(x)[0]}
    if twin == "rms_norm":
        return {"liger": lambda: rms_norm_forward(x, w, 1e-6, 0.0, "llama", None)[0]}
    if twin.startswith("layer_norm") and b is not None:
        return {"liger": lambda: layer_norm_forward(x, w, b, 1e-5)[0]}
    if twin == "cross_entropy_plain":
        return {"liger": lambda: cross_entropy_forward(x, y, None, -100, 0.0, 0.0, "none", None, False)[0]}
    if twin == "rms_norm_backward":

        def rms_backward():
            _, x2, rstd, block, warps, casting = rms_norm_forward(x, w, 1e-6, 0.0, "gemma", None)
            return rms_norm_backward(g, x2, w, rstd, 0.0, casting, block, warps, False, None)

        return {"liger (with forward)": rms_backward, "liger": _liger_rms_backward(x, w, g)}
    if twin == "layer_norm_backward":
        return {"liger": _liger_layer_backward(layer_norm_forward, layer_norm_backward, x, w, g)}
    return {}


def _liger_rms_backward(x: Any, w: Any, g: Any) -> Callable:
    """The backward kernel alone, given what forward kept."""
    from liger_kernel.ops.rms_norm import rms_norm_backward, rms_norm_forward

    kept: list = []

    def call():
        if not kept:
            kept.extend(rms_norm_forward(x, w, 1e-6, 0.0, "gemma", None)[1:])
        x2, rstd, block, warps, casting = kept
        return rms_norm_backward(g, x2, w, rstd, 0.0, casting, block, warps, False, None)

    return call


def _liger_layer_backward(forward: Callable, backward: Callable, x: Any, w: Any, g: Any) -> Callable:
    kept: list = []

    def call():
        if not kept:
            kept.extend(forward(x, w, torch.zeros_like(w), 1e-5)[1:4])
        return backward(g, kept[0], w, torch.zeros_like(w), kept[1], kept[2])

    return call


def _quack(twin: str, arguments: dict) -> Calls:
    x, w, b, g, y = (arguments.get(name) for name in "xwbgy")
    if twin == "softmax":
        from quack.softmax import softmax_fwd

        return {"quack": lambda: softmax_fwd(x)}
    if twin == "rms_norm":
        from quack.rmsnorm import rmsnorm_fwd

        return {"quack": lambda: rmsnorm_fwd(x, w, eps=1e-6)[0]}
    if twin.startswith("layer_norm") and b is not None:
        from quack.rmsnorm import layernorm_fwd

        return {"quack": lambda: layernorm_fwd(x, w.float(), b.float(), 1e-5)}
    if twin == "cross_entropy_plain":
        from quack.cross_entropy import cross_entropy

        return {"quack": lambda: cross_entropy(x, y, reduction="none")}
    if twin == "rms_norm_backward":
        from quack.rmsnorm import rmsnorm_bwd

        rstd = torch.rsqrt((x.float() ** 2).mean(-1) + 1e-6)
        return {"quack": lambda: rmsnorm_bwd(x, w, g, rstd)[:2]}
    return {}


REDUCTIONS = {
    "sum_all": lambda xp, x: xp.sum(x),
    "sum_columns": lambda xp, x: xp.sum(x, 0),
    "sum_rows": lambda xp, x: xp.sum(x, -1),
    "max_columns": lambda xp, x: xp.max(x, 0),
    "argmax_all": lambda xp, x: xp.argmax(x),
    "var_columns": lambda xp, x: xp.var(x, 0),
    "sum_middle": lambda xp, x: xp.sum(x, 1),
    "max_middle": lambda xp, x: xp.max(x, 1),
    "argmin_middle": lambda xp, x: xp.argmin(x, 1),
    "cumsum": lambda xp, x: xp.cumsum(x, -1),
}


def _cupy(twin: str, arguments: dict) -> Calls:
    """CuPy with CUB, for single reductions of float32."""
    x = arguments.get("x")
    if twin not in REDUCTIONS or len(arguments) != 1 or x.dtype != torch.float32:
        return {}
    import cupy

    a, function = cupy.asarray(x), REDUCTIONS[twin]
    return {"cupy": lambda: torch.as_tensor(function(cupy, a), device="cuda")}


class JaxCall:
    """A call of jax.jit: queued on JAX's own stream, so that events of another do not see it. `wait` ends it."""

    def __init__(self, function: Callable, arrays: dict):
        self.function, self.arrays, self.made = function, arrays, None

    def __call__(self) -> Any:
        self.made = self.function(**self.arrays)
        return self

    def wait(self) -> Any:
        """The results as tensors, once they are there."""
        import jax

        made = jax.block_until_ready(self.made)
        return tuple(torch.from_dlpack(one) for one in made) if isinstance(made, tuple) else torch.from_dlpack(made)


def _jax(twin: str, arguments: dict) -> Calls:
    """jax.jit of the same reductions and rows."""
    functions = _jax_functions()
    if twin not in functions:
        return {}
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    arrays = {k: jax.dlpack.from_dlpack(v) for k, v in arguments.items()}
    return {"jax": JaxCall(jax.jit(functions[twin]), arrays)}


def _jax_functions() -> dict[str, Callable]:
    import jax
    import jax.numpy as jnp

    def layer_norm(x, w, b):
        z = x.astype(jnp.float32)
        centred = z - z.mean(-1, keepdims=True)
        return (centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b).astype(x.dtype)

    def rms_norm(x, w):
        z = x.astype(jnp.float32)
        return (z * jax.lax.rsqrt((z * z).mean(-1, keepdims=True) + 1e-6) * w).astype(x.dtype)

    found: dict[str, Callable] = {name: partial(function, jnp) for name, function in REDUCTIONS.items()}
    found["softmax"] = lambda x: jax.nn.softmax(x.astype(jnp.float32), -1).astype(x.dtype)
    return found | {"rms_norm": rms_norm, "layer_norm": layer_norm}
