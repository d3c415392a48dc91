"""Unavailable functions of NumPy, SciPy, torch and JAX, which no program can replace, with help for each family."""

from __future__ import annotations

import sys

UNAVAILABLE = "it is not available in fusedsl: compute it outside, and pass the result"
# (help, names)
FAMILIES: tuple[tuple[str, str], ...] = (
    (
        "there are no complex numbers: compute it outside, and pass the result",
        "fft ifft rfft irfft fft2 ifft2 fftn ifftn rfft2 rfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift stft "
        "istft dct idct dst idst hilbert spectrogram periodogram",
    ),
    (
        "matrices are decomposed outside: pass the result; products, norms and traces are there",
        "inv inverse solve det slogdet logdet svd svdvals qr eig eigh eigvals eigvalsh cholesky lu lu_factor lu_solve "
        "lstsq pinv pinverse matrix_exp expm logm sqrtm matrix_power matrix_rank cond solve_triangular "
        "triangular_solve tensorinv tensorsolve roots polyfit",
    ),
    (
        "recurrences run outside, but for linear_scan, h[t] = a[t] h[t-1] + b[t], and cumsum, cumprod, cummax, cummin",
        "scan associative_scan fori_loop while_loop cond ema ewm ewma lfilter sosfilt filtfilt rnn lstm gru",
    ),
    (
        "write sqrt(sum((x[:, None] - y)**2, -1)) for the distances of all pairs; what reads them shares the kernel",
        "cdist pdist pairwise_distances euclidean_distances",
    ),
    (
        "write sum((x[:, None] - y)**2, -1) for the squared distances of all pairs; what reads them shares the kernel",
        "SqDist SqNorm2 sqdist sqeuclidean squared_distances",
    ),
    (
        UNAVAILABLE,
        "beta factorial comb perm binom digamma polygamma psi zeta erfinv erfcinv ndtri gammainc gammaincc "
        "betainc betaln i0 i0e i1 i1e j0 j1 jn jv y0 y1 yn yv iv kv kn k0 k1 bessel_j0 airy ellipk ellipe hyp2f1 expi "
        "exp1 lambertw gcd lcm bitwise_count frexp interp interp1d spline vmap jacobian hessian mode erfcx "
        "igamma igammac mvlgamma multigammaln log_ndtr binomial chisquare poisson dirichlet weibull lognormal renorm "
        "popcount popc popcll clz ffs brev interpolate grid_sample ctc_loss block_diag",
    ),
)
HELP = {name: help for help, names in reversed(FAMILIES) for name in names.split()}


def unavailable_help(name: str) -> str | None:
    """The help for a function that fusedsl does not have; None for a name that no known library has.

    >>> unavailable_help("det")
    'matrices are decomposed outside: pass the result; products, norms and traces are there'
    >>> unavailable_help("percentileofscore") is None
    True
    """
    return HELP.get(name) or (UNAVAILABLE if _is_in_a_library(name) else None)


def _is_in_a_library(name: str) -> bool:
    """True if an imported library has a function of this name."""
    homes = ("numpy", "numpy.linalg", "numpy.fft", "torch", "torch.nn.functional", "torch.special", "scipy.special",
             "scipy.stats", "scipy.signal", "scipy.ndimage", "jax.numpy", "jax.nn", "jax.lax")  # fmt: skip
    members = (getattr(sys.modules.get(module), name, None) for module in homes)
    return any(callable(member) and not isinstance(member, type) for member in members)
