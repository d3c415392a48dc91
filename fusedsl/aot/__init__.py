"""Kernels compiled ahead of time: files with plans and machine code, for machines without a compiler."""
