"""Scratch arrays of a generated CPU function: one allocation for all of them."""

from __future__ import annotations

from .roles import ScratchArray


def allocate(arrays: list[ScratchArray]) -> list[str]:
    """Allocate all scratch arrays in one call."""
    if not arrays:
        return []
    lines = ["size = 0"]
    for array in arrays:
        lines += [f"{array.label}_from = size", f"size = size + {array.bytes}"]
    return [*lines, "memory = allocate(size)", *(f"{a.label}_at = offset(memory, {a.label}_from)" for a in arrays)]


def free(arrays: list[ScratchArray]) -> list[str]:
    return ["release(memory)"] if arrays else []
