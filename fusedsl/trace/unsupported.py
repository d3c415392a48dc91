"""Unsupported functions of NumPy and torch in a trace: for each family of names, what to write instead."""

from __future__ import annotations

from ..errors import Unsupported
from ..lang import functions
from ..lang.hints import function_hint

OUTSIDE = "compute it outside of the function, and pass the result"
# (names, help)
FAMILIES: tuple[tuple[str, str], ...] = (
    (
        "index_reduce put place masked_scatter",
        "x[i] = values writes at indices, np.add.at and index_add_ add there; or do it outside of the function",
    ),
    (
        "segment_reduce",
        "fd.kernel has segment_sum, segment_mean, segment_max and segment_min; index_add_ adds rows of one index here",
    ),
    (
        "histogram2d histogramdd histogram_bin_edges unique_counts",
        "count few bins by ((x[:, None] >= edges[:-1]) & (x[:, None] < edges[1:])).sum(0), and many outside",
    ),
    (
        "histc",
        "fd.kernel has histogram(x, bins, (low, high)); count few bins by "
        "((x[:, None] >= edges[:-1]) & (x[:, None] < edges[1:])).sum(0)",
    ),
    (
        "conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc convolution fold col2im deform_conv2d",
        "call the library outside, and fuse what surrounds it; a filter of few taps is a sum of shifted slices",
    ),
    (
        "nonzero argwhere flatnonzero unique unique_all unique_consecutive unique_inverse unique_values union1d "
        "intersect1d setdiff1d setxor1d trim_zeros combinations",
        "its shape depends on values: where(mask, x, 0), or a reduction of x[mask]",
    ),
    (
        "mode lexsort",
        "sort(x) and its slices are there, median, quantile and topk",
    ),
    (
        "inv solve det slogdet logdet svd svdvals qr eig eigh eigvals eigvalsh cholesky cholesky_ex cholesky_inverse "
        "cholesky_solve lu lu_factor lu_solve lstsq pinv pinverse matrix_exp matrix_power matrix_rank cond geqrf "
        "lobpcg triangular_solve solve_triangular tensorinv tensorsolve pca_lowrank svd_lowrank householder_product "
        "ldl_factor roots polyfit",
        "matrices are decomposed outside of the function; products, norms and traces are there",
    ),
    (
        "complex polar view_as_complex view_as_real fft ifft rfft irfft fft2 ifft2 fftn ifftn hfft ihfft stft istft "
        "angle_ sort_complex cfloat cdouble chalf",
        "there are no complex numbers: compute it outside",
    ),
    (
        "digamma polygamma psi zeta erfinv ndtri igamma igammac gammainc gammaincc mvlgamma multigammaln i0 i0e i1 i1e "
        "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
        "modified_bessel_k1 spherical_bessel_j0 erfcx log_ndtr frexp gcd lcm bitwise_count",
        OUTSIDE,
    ),
    (
        "bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_ binomial dropout1d "
        "dropout2d dropout3d rand",
        "random numbers would be drawn once for all calls: pass them, or use uniform(seed, x) of fd.kernel",
    ),
    (
        "flex_attention",
        "write fusedsl.attention(q, k, v, score=..., mask=...), or scaled_dot_product_attention, which is traced",
    ),
    (
        "lstm lstm_cell gru gru_cell rnn_tanh rnn_relu rnn_tanh_cell rnn_relu_cell ctc_loss embedding_bag "
        "multi_head_attention_forward grid_sample affine_grid grid_sampler",
        "call the library outside, and fuse what surrounds it",
    ),
    (
        "to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc to_dense to_mkldnn "
        "quantize_per_tensor dequantize storage untyped_storage resize resize_ resize_as resize_as_ set_ byteswap "
        "getfield tobytes tofile dump dumps require",
        "what a tensor is in memory is for outside of the function: x.reshape and x.astype are there",
    ),
)
HELP = {name: help for names, help in FAMILIES for name in names.split()}


def of_list(name: str) -> str:
    """The help for a ufunc whose reduction of an array is not there, but that of a list of arrays is.

    >>> of_list("bitwise_or")
    'compute it outside of the function, and pass the result; a list of arrays is fine: np.bitwise_or.reduce([a, b])'
    """
    return f"{OUTSIDE}; a list of arrays is fine: np.{name}.reduce([a, b])"


def refusal(name: str, message_if_unplanned: str) -> Unsupported:
    """The error for an unsupported function; the message is `message_if_unplanned` unless the function is planned."""
    help = HELP.get(name.rpartition(".")[2]) or HELP.get(name.removeprefix("special_").removeprefix("linalg_"))
    if name in functions.UNSUPPORTED:
        message = f"{name} is not supported ({functions.UNSUPPORTED[name]})"
        return Unsupported(message, "unsupported.function", help=help or function_hint(name, ()))
    return Unsupported(message_if_unplanned, "unsupported.trace", help=help or OUTSIDE)
