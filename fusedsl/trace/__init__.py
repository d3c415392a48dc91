"""Traces Python functions: `trace` calls one with stand-ins for its arguments and returns the graph of what it did."""

from .function import Argument, Array, Traced, leaves, trace

__all__ = ["Argument", "Array", "Traced", "leaves", "trace"]
