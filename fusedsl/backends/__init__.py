"""Backends: kernels as data to readable Python files, and those to machine code."""
