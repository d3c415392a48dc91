"""Six kinds of attention, each one line: a formula, not a template. Compared with float64.

python examples/attention.py [--length 512]
"""

import argparse

import numpy as np

import fusedsl as fd

HEADS, WIDTH, WINDOW = 4, 64, 128

# As plain text: what becomes of the scores s, how they are masked and what they are divided by is yours to say.
TEXTS = {
    "causal": "s = q @ k.mT * 0.125; softmax(where(iota(s, -1) <= iota(s, -2), s, -inf)) @ v",
    "window and softcap": "s = q @ k.mT * 0.125; "
    f"softmax(30 * tanh(s / 30), where=abs(iota(s, -1) - iota(s, -2)) < {WINDOW}) @ v",
    "sinks": "s = q @ k.mT * 0.125; m = maximum(max(s, axis=-1, keepdims=True), sink[:, None, None]); "
    "e = exp(s - m); (e @ v) / (sum(e, -1, keepdims=True) + exp(sink[:, None, None] - m))",
    "sigmoid": "s = q @ k.mT * 0.125; sigmoid(s - log(1.0 * size(s, -1))) @ v",
}

# With fd.attention, i and j count the positions, h the heads; arrays are read by these.
CALLS = {
    "slopes (ALiBi)": {"score": "where(j <= i, score + slope[h] * (j - i), -inf)"},
    "documents": {"mask": "doc[i] == doc[j] and j <= i"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=512)
    length = parser.parse_args().length
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, HEADS, length, WIDTH), dtype=np.float32) for _ in range(3))
    arrays = {
        "slope": np.float32(2.0) ** -np.arange(1, HEADS + 1, dtype=np.float32),
        "doc": np.sort(random.integers(0, 4, length)),
        "sink": random.standard_normal(HEADS, dtype=np.float32),
    }
    expected = in_float64(q, k, v, **arrays)
    for name, text in TEXTS.items():
        kernel = fd.kernel(text)
        given = {p: {"q": q, "k": k, "v": v, **arrays}[p] for p in kernel.params}
        report(name, kernel(**given), expected[name])
    for name, texts in CALLS.items():
        read = {a: x for a, x in arrays.items() if any(f"{a}[" in text for text in texts.values())}
        report(name, fd.attention(q, k, v, **texts, **read), expected[name])


def report(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    error = np.abs(found - expected).max()
    print(f"{name:20} farthest from float64: {error:.1e}")
    assert error < 1e-4, name


def in_float64(q, k, v, slope, doc, sink):
    """The same by NumPy: every score is stored."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ k.swapaxes(-1, -2) * 0.125
    i, j = np.arange(s.shape[-2])[:, None], np.arange(s.shape[-1])
    sink = sink.astype(np.float64)[:, None, None]

    def attended(scores, extra=0.0):
        largest = scores.max(-1, keepdims=True)
        e = np.exp(scores - largest)
        return e @ v / (e.sum(-1, keepdims=True) + extra * np.exp(sink - largest))

    return {
        "causal": attended(np.where(j <= i, s, -np.inf)),
        "window and softcap": attended(np.where(abs(i - j) < WINDOW, 30 * np.tanh(s / 30), -np.inf)),
        "sinks": attended(s, 1.0),
        "sigmoid": 1 / (1 + np.exp(-(s - np.log(s.shape[-1])))) @ v,
        "slopes (ALiBi)": attended(np.where(j <= i, s + slope[:, None, None] * (j - i), -np.inf)),
        "documents": attended(np.where((doc[i] == doc[j]) & (j <= i), s, -np.inf)),
    }


if __name__ == "__main__":
    main()
