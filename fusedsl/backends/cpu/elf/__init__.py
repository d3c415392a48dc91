"""Linker for LLVM's relocatable objects: it writes shared objects that the operating system loads."""

from .shared import link

__all__ = ["link"]
