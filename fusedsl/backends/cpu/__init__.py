"""Kernels on the CPU: readable loops in Python that Numba types and LLVM vectorises."""
