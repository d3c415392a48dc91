"""CUDA: kernels and schedules to readable Python files, and those to machine code."""
