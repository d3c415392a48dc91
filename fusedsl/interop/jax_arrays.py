"""Arrays of JAX as arguments: kernels read them through DLPack, and results go back to JAX the same way."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..runtime.arrays import library_of
from .labelled import Label, Labelled


def is_array(kind: type) -> bool:
    """Whether a class of JAX's is of arrays that have memory."""
    return "Tracer" not in kind.__name__ and hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__")


def columns(x: Any) -> None:
    """There are none."""
    return


def read(x: Any, name: str) -> Labelled:
    """The array itself, which has no labels."""
    return Labelled("jax", x, (None,) * x.ndim)


def differ(a: Label, b: Label) -> None:
    """Nothing is labelled."""
    return


def as_given(results: list, arguments: Sequence[Any]) -> list:
    """The results of a function: JAX's where an argument is, and none belongs to another library of devices."""
    if "jax" not in sys.modules or not any(_is_jax(type(x)) for x in arguments):
        return results
    if any(library_of(x) in ("torch", "cupy") for x in arguments):
        return results
    return [wrap(r, (), ()) for r in results]


def _is_jax(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("jax", "jaxlib") and is_array(kind)


def wrap(result: Any, labels: Sequence[Label | None], arguments: Sequence[Labelled]) -> Any:
    """The result as an array of JAX's, in the same memory where JAX takes it (on the CPU, aligned to 64 bytes)."""
    jax: Any = sys.modules["jax"]
    try:
        return jax.dlpack.from_dlpack(result)
    except (BufferError, TypeError, RuntimeError):  # NumPy exports neither bfloat16 nor float8
        return jax.numpy.asarray(result)
