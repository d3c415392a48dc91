"""fd.attention: arrays and the texts of score and mask, as one call of the kernel that they make."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .api import kernel_of
from .config import split_options
from .errors import ArgumentError, suggest
from .runtime import dynamo

RESERVED = ("score", "b", "h", "i", "j", "q", "k", "v")


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    score: str | None = None,
    mask: str | None = None,
    scale: float | None = None,
    arrays: Mapping[str, Any] | None = None,
    lengths: Any = None,
    offsets: tuple[Any, Any] | None = None,
    pages: Any = None,
    return_lse: bool = False,
    out: Any = None,
    **named: Any,
) -> Any:
    """softmax(score) @ v for each head, in one kernel that stores no score where the device has one.

    `q` is (batch, heads, n, d); `k` and `v` are (batch or 1, kv_heads, m, ·), of one dtype with q. Head h of q reads
    head h // (heads // kv_heads). `score` and `mask` are texts that see `score` (q · k · scale), the integers `b h i j`
    (i and j from 0 in their own sequence), q k v inside `size`, and arrays that are given by name (in `arrays`, where
    a name is an option's). They are elementwise, with gathers: `bias[h, i, j]`. `mask` keeps what is True; a row that
    is masked whole is 0, and its log-sum-exp -inf. `scale` is d**-0.5 unless given.

    `lengths` (batch,) end the keys of each sequence. `offsets` (of q, of k; sequences + 1 each) cut (tokens, heads, d)
    into sequences. `pages` (batch, n) are numbers of pages, with k and v (pages, page, kv_heads, d).

    Returns the result, of q's dtype, or with `return_lse` also the natural logarithm of the sum of exp(score), float32
    (float64 for float64), (batch, heads, n). `out` is written as in any call; other keywords are options.

    >>> import numpy as np
    >>> q = k = v = np.ones((1, 2, 4, 8), np.float32)
    >>> attention(q, k, v, mask="j <= i").shape
    (1, 2, 4, 8)

    Raises ShapeError, DTypeError and ArgumentError for operands that do not go together; faults of score and mask
    are drawn in them.
    """
    for name, text in (("score", score), ("mask", mask)):
        if text is not None and not isinstance(text, str):
            help = f'write {name}="m[h, i, j]" (or b, as it has axes), and pass the array by that name: m={name}'
            raise ArgumentError(f"{name} is a text, not a {type(text).__name__}", "argument.text", help=help)
    changes, given = split_options(named)
    given = {**(arrays or {}), **given}
    taken = [name for name in given if name in RESERVED]
    if taken:
        help = f"give the array another name than {taken[0]}"
        raise ArgumentError(f"{taken[0]} means something else in score and mask", "argument.attention", help=help)
    values = {"q": q, "k": k, "v": v}
    values |= {n: x for n, x in (("scale", scale), ("lengths", lengths), ("pages", pages)) if x is not None}
    if offsets is not None:
        if not isinstance(offsets, tuple) or len(offsets) != 2:
            help = "offsets=(of q, of k), sequences + 1 integers each"
            raise ArgumentError("offsets are two arrays", "argument.attention", help=help)
        values |= {"offsets_q": offsets[0], "offsets_k": offsets[1]}
    clash = [name for name in given if name in values]
    if clash:
        help = f"give the array another name than {clash[0]}"
        raise ArgumentError(f"{clash[0]} is attention's own", "argument.attention", help=help)
    text = _constant_text(score, mask, tuple(values), tuple(given), bool(return_lse))
    return kernel_of(text, changes)(out=out, **values, **given)


# Keywords of torch's and FlashAttention's functions, as formulas say them.
SPELLED = {
    **dict.fromkeys(("causal", "is_causal"), 'mask="j <= i"'),
    **dict.fromkeys(("attn_mask", "block_mask"), 'mask="m[i, j]", m=…: an array with the axes that it has (b h i j)'),
    **dict.fromkeys(("bias", "attn_bias"), 'score="score + bias[h, i, j]", with the axes that it has'),
    **dict.fromkeys(("window", "window_size"), 'mask="(j <= i) & (i - j < 128)"'),
    **dict.fromkeys(("softmax_scale", "sm_scale"), "scale=…"),
    **dict.fromkeys(("softcap", "logits_soft_cap"), 'score="30 * tanh(score / 30)"'),
    "alibi_slopes": 'score="score + slope[h] * (j - i)", slope=…',
    "enable_gqa": "nothing: heads of q share those of k and v where there are fewer",
}


@lru_cache(maxsize=1024)
def _text(score: str | None, mask: str | None, values: tuple[str, ...], arrays: tuple[str, ...], lse: bool) -> str:
    """The call of attention as a text. ArgumentError where an array is given that neither text reads."""
    parts, read = ["q", "k", "v"], set[str]()
    for name, text in (("score", score), ("mask", mask)):
        if text is not None:
            quoted, names = _quoted(name, text)
            parts.append(f"{name}={quoted}")
            read |= names
    for name in arrays:
        if name not in read:
            near = suggest(name, sorted(read - set(RESERVED)))
            help = f"did you mean {near}?" if near else f"they read {', '.join(sorted(read)) or 'no names'}"
            help = f"write {SPELLED[name]}" if name in SPELLED else help
            raise ArgumentError(f"neither score nor mask reads {name!r}", "argument.unused", help=help)
    parts += [f"{name}={name}" for name in values if name in ("scale", "lengths", "pages")]
    parts += ["offsets=(offsets_q, offsets_k)"] if "offsets_q" in values else []
    parts += ["return_lse=True"] if lse else []
    return f"attention({', '.join([*parts, *(f'{name}={name}' for name in arrays)])})"


@dynamo.constant
def _constant_text(score: str | None, mask: str | None, values: tuple, arrays: tuple, lse: bool) -> str:
    return _text(score, mask, values, arrays, lse)


def _quoted(name: str, text: str) -> tuple[str, set[str]]:
    """(the text as a string of a text, the names that it reads); several lines become one."""
    from .lang.parse import parse
    from .lang.syntax import free_names, show

    if not isinstance(text, str):
        message = f"{name} is a text, not {type(text).__name__}"
        raise ArgumentError(message, "argument.attention", help=f"e.g. {name}='j <= i'")
    program = parse(text)
    if "\n" in text or ("'" in text and '"' in text):
        text = "; ".join(map(show, (*program.statements, *program.results)))
    quote = "'" if "'" not in text else '"'
    return f"{quote}{text}{quote}", {found for found, _ in free_names(program)}
