"""JAX arrays as arguments: kernels read them through DLPack, and results return to JAX the same way."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..runtime.argument_errors import library_of
from .labelled import Label, Labelled


def is_array(kind: type) -> bool:
    """True for a JAX class of arrays with memory, not tracers."""
    return "Tracer" not in kind.__name__ and hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__")


def columns(x: Any) -> None:
    """None: JAX has no data frames."""
    return


def read(x: Any, name: str) -> Labelled:
    """The array, without labels."""
    return Labelled("jax", x, (None,) * x.ndim)


def differ(a: Label, b: Label) -> None:
    """None: JAX arrays have no labels."""
    return


def as_given(results: list, arguments: Sequence[Any]) -> list:
    """Results as JAX arrays, if an argument is one and no argument belongs to torch or CuPy."""
    if "jax" not in sys.modules or not any(_is_jax(type(x)) for x in arguments):
        return results
    if any(library_of(x) in ("torch", "cupy") for x in arguments):
        return results
    return [wrap(r, (), ()) for r in results]


def _is_jax(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("jax", "jaxlib") and is_array(kind)


def wrap(result: Any, labels: Sequence[Label | None], arguments: Sequence[Labelled]) -> Any:
    """The result as a JAX array, in the same memory if JAX accepts it (on the CPU, aligned to 64 bytes)."""
    jax: Any = sys.modules["jax"]
    try:
        return jax.dlpack.from_dlpack(result)
    except (BufferError, TypeError, RuntimeError):  # NumPy exports neither bfloat16 nor float8
        return jax.numpy.asarray(result)
