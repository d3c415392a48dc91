"""Layer 6: kernels as short readable Python, for CUDA and for the CPU."""
