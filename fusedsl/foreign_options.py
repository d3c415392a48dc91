"""Attributes and options that people look for who come from other packages, and what fusedsl has instead."""

from __future__ import annotations

ATTRIBUTES = {
    "ElementwiseKernel": "write fusedsl.kernel(expression); types and the loop follow from the arguments",
    "NumExpr": "write fusedsl.kernel(expression)",
    "RawKernel": "a kernel in CUDA C stays CuPy's; both run on the current stream",
    "ReductionKernel": "write fusedsl.kernel(expression), as in sqrt(sum(x * x, axis=-1))",
    "compile": "decorate a function with fusedsl.fuse; fusedsl.kernel(expression).compile(...) compiles ahead",
    "create_block_mask": "leave it out: fusedsl.attention(q, k, v, mask='j <= i') finds out which tiles are empty",
    "flex_attention": "write fusedsl.attention(q, k, v, score=..., mask=...)",
    **dict.fromkeys(("jit", "njit", "guvectorize"), "decorate a function of arrays with fusedsl.fuse"),
    "scaled_dot_product_attention": "write fusedsl.attention(q, k, v, mask='j <= i')",
    **dict.fromkeys(("set_vml_num_threads", "detect_number_of_cores"), "see fusedsl.set_num_threads"),
    "re_evaluate": "keep a kernel, fusedsl.kernel(expression), and call it",
    "vectorize": "decorate the function with fusedsl.fuse: it takes arrays of any shape; where(c, a, b) is its branch",
}

OPTIONS = {
    "kernel_name": "leave it out: a kernel is named after what it computes",
    **dict.fromkeys(("nopython", "parallel", "cache", "nogil"), "leave it out: it is always so"),
    "fullgraph": "max_kernels=1 makes it an error that there are more kernels",
    "mode": "autotune=True times schedules at the first call",
    **dict.fromkeys(("backend", "target"), 'device="cpu" or "cuda" chooses where; else the arrays do'),
    "static_argnums": "leave it out: what is no array or number is part of the signature",
    "static_argnames": "leave it out: what is no array or number is part of the signature",
}
