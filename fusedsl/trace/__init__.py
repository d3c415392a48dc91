"""Traces Python functions: `trace` calls one with stand-ins for its arguments and returns the graph of what it did."""

from .function import ArgumentRef, ResultRef, Traced, leaves, trace

__all__ = ["ArgumentRef", "ResultRef", "Traced", "leaves", "trace"]
