"""Black-Scholes: prices of calls and puts, two results, a function defined in the text, and numbers as arguments.

python examples/black_scholes.py [--device cuda] [--size 65536]
"""

import math

import numpy as np
from _comparison import arguments, compare, library

import fusedsl as fd

prices = fd.kernel(
    """
    Phi(z) = 0.5 * (1 + erf(z * 0.7071067811865476))
    d1 = (log(S / K) + (r + v*v/2) * t) / (v * sqrt(t))
    d2 = d1 - v * sqrt(t)
    call = S * Phi(d1) - K * exp(-r*t) * Phi(d2)
    put = call - S + K * exp(-r*t)
    return call, put
    """,
    params="S K t r v",
)


def with_erf(xp, erf):
    """The twin for an array library and its erf."""

    def unfused(S, K, t, r, v):
        d1 = (xp.log(S / K) + (r + v * v / 2) * t) / (v * xp.sqrt(t))
        d2 = d1 - v * xp.sqrt(t)
        paid = K * xp.exp(-r * t)
        call = S * (0.5 * (1 + erf(d1 * 0.7071067811865476))) - paid * (0.5 * (1 + erf(d2 * 0.7071067811865476)))
        return call, call - S + paid

    return unfused


def erf_by_formula(x):
    """NumPy has no erf; this is Abramowitz and Stegun's formula 7.1.26, accurate to within 1.5e-7."""
    k = 1 / (1 + 0.3275911 * np.abs(x))
    tail = k * (0.254829592 + k * (-0.284496736 + k * (1.421413741 + k * (-1.453152027 + k * 1.061405429))))
    return np.copysign(1 - tail * np.exp(-x * x), x)


def main() -> None:
    chosen = arguments(__doc__, 64)
    xp = library(chosen.device)
    draw = np.random.default_rng(0)
    shape = (chosen.size, 1024)
    S, K, t = (xp.asarray(draw.uniform(*ends, shape).astype(np.float32)) for ends in ((10, 100), (10, 100), (0.1, 3)))
    if xp is np:
        unfused, exact = with_erf(np, erf_by_formula), with_erf(np, np.vectorize(math.erf))
    else:
        from cupyx.scipy.special import erf

        unfused = exact = with_erf(xp, erf)
    title = f"Black-Scholes, {S.size} options in float32 on {chosen.device}"
    compare(title, prices, unfused, [S, K, t, 0.03, 0.3], exact)


if __name__ == "__main__":
    main()
