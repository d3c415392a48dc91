"""Namespace of a generated CUDA file: the intrinsics that packages declare, and the scalar functions of bodies."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ....ir.types import DTYPES
from .. import (  # noqa: F401  (declare their intrinsics)
    byte_table,
    columns,
    elementwise,
    matmul,
    mma,
    radix_select,
    rows_and_columns,
    scan,
    scatter,
    skinny,
    small_matmul,
    sort,
    tile,
)
from ..attention import intrinsics  # noqa: F401
from ..emit.intrinsic import FILES

FAMILIES = __package__.rpartition(".")[0]


@cache
def namespace() -> dict[str, Any]:
    """Every name that a generated file may use."""
    from ..math.vocabulary import vocabulary
    from ..tile.element import fetch

    names = dict(vocabulary())
    for file, words in FILES.items():
        code = import_module(f"{FAMILIES}.{file}")
        names |= {word: getattr(code, word) for word in words}
    return names | {f"fetch_{name}": fetch(name) for name in DTYPES}
