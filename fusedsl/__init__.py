"""fusedsl: array math as text, compiled to single fused kernels."""
