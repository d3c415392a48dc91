"""Explanations name what attention stores: each operand that another kernel computes, and scores, with their bytes."""

from __future__ import annotations

import pytest

import fusedsl as fd

Q, WIDE = (2, 8, 512, 64), (2, 8, 512, 512)
ATTEND = "softmax(q @ k.mT) @ v"
FIRST = ": attention multiplies arrays, of one dtype"


def notes(text: str, cc=(9, 0), **arrays) -> list[str]:
    """What an explanation notes of stored arrays; an array is a shape of bfloat16, or a shape and a dtype."""
    given = {n: fd.spec(*(x if isinstance(x[-1], str) else (x, "bfloat16"))) for n, x in arrays.items()}
    told = fd.kernel(text).explain(**given, device="cuda", cc=cc, compile=False)
    return [note for note in told.notes if "stored" in note]


@pytest.mark.parametrize(
    "text, arrays, expected",
    [
        ("attention(q, k, v)", {"q": Q, "k": Q, "v": Q}, []),
        (
            "attention(rms_norm(q, g), k, v)",
            {"q": Q, "k": Q, "v": Q, "g": (64,)},
            ["q of kernel 1 is stored first, as temporary 0 (1.05 MB)" + FIRST],
        ),
        (
            "attention(q, bfloat16(k), bfloat16(v))",
            {"q": Q, "k": (Q, "float8_e4m3fn"), "v": (Q, "float8_e4m3fn")},
            ["k and v of kernel 1 are stored first, as temporary 0 (1.05 MB) and temporary 1 (1.05 MB)" + FIRST],
        ),
        (
            "softmax((x @ a) @ (x @ b).mT) @ (x @ c)",
            {"x": (1024, 1024), "a": (1024, 64), "b": (1024, 64), "c": (1024, 64)},
            [
                "q and k and v of kernel 1 are stored first, as temporary 0 (131 kB) and temporary 1 (131 kB) and "
                "temporary 2 (131 kB)" + FIRST
            ],
        ),
        (
            ATTEND,
            {"q": Q, "k": Q, "v": WIDE},
            ["scores, and weights computed from them, are stored: temporary 0 (16.8 MB), temporary 1 (8.39 MB)"],
        ),
    ],
)
def test_what_attention_stores_is_named(text, arrays, expected):
    assert notes(text, **arrays) == expected
