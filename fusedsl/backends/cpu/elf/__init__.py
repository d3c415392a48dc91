"""Relocatable object code to a shared object that the operating system loads: a linker for what LLVM writes here."""

from .shared import link

__all__ = ["link"]
