"""Tracing of Python functions: `trace` calls a function with tracers and returns the graph of its operations."""

from .function import ArgumentRef, ResultRef, Traced, leaves, trace
from .trace_values import TraceInputs

__all__ = ["ArgumentRef", "ResultRef", "TraceInputs", "Traced", "leaves", "trace"]
