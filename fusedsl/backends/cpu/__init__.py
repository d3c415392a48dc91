"""Kernels on the CPU: readable loops in Python, which frontend.py lowers and LLVM vectorises."""
