"""fd.attention: arrays and the expressions of score and mask, called as one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .caller_scope import CONSTANTS
from .config import OPTION_NAMES, cache_size, split_options
from .errors import ArgumentError, DTypeError, kind_of, public_api
from .evaluation import kernel_of
from .lru import Memo, shared
from .runtime import dynamo


@public_api
def attention(
    q: Any,
    k: Any,
    v: Any,
    *surplus: Any,
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
    """softmax(score) @ v for each head, in one kernel that stores no score, if the device has one.

    `q` is (batch, heads, n, d); `k` and `v` are (batch or 1, kv_heads, m, ·), of one dtype with q. Head h of q reads
    head h // (heads // kv_heads). `score` and `mask` are expressions in quotes that see `score` (q · k · scale), the
    integers `b h i j` (i and j from 0 in their own sequence), q k v inside `size`, and arrays that are given by name
    (in `arrays`, if a name is that of an option or keyword). They are elementwise and may gather: `bias[h, i, j]`;
    what is read without an index is aligned with [i, j] or [j], and refused if its axes fit other places too. `mask`
    keeps what is True; a row that is masked whole is 0, and its log-sum-exp -inf. `scale` is d**-0.5 unless given.

    `lengths` (batch,) end the keys of each sequence, and score and mask may read them, as lengths[b]. `offsets` (of q,
    of k; sequences + 1 each) cut (tokens, heads, d) into sequences: they ascend from 0, and tokens of no sequence give
    0. `pages` (batch, n) are numbers of pages, with k and v (pages, page, kv_heads, d); pages that are not there give
    NaN. `verify=True` raises where indices, of pages or of arrays in expressions, are out of range.

    Returns the result, of q's dtype, or with `return_lse` also the natural logarithm of the sum of exp(score), float32
    (float64 for float64), (batch, heads, n). `out` is written as in any call; other keywords are options.

    >>> import numpy as np
    >>> import fusedsl as fd
    >>> q = k = v = np.ones((1, 2, 4, 8), np.float32)
    >>> fd.attention(q, k, v, mask="j <= i").shape
    (1, 2, 4, 8)

    Raises ShapeError, DTypeError and ArgumentError for operands that do not go together; faults of score and mask
    are drawn in them.
    """
    if surplus:
        raise _surplus(surplus)
    for name, text in (("score", score), ("mask", mask)):
        if text is not None and not isinstance(text, str):
            raise _no_text(name, text)
    if arrays is not None and not isinstance(arrays, Mapping):
        help = 'arrays={"bias": bias}, or by name: bias=bias'
        message = f"arrays is a mapping of names to arrays, not {kind_of(arrays)}"
        raise ArgumentError(message, "argument.mapping", help=help)
    if not isinstance(return_lse, bool):
        message, help = f"return_lse is True or False, not {return_lse!r}", "write return_lse=True, or leave it out"
        raise ArgumentError(message, "argument.attention", help=help)
    if isinstance(scale, complex):
        help = "write a float, e.g. scale=d**-0.5"
        raise DTypeError(f"scale is a real number, not {scale}", "dtype.attention", help=help)
    changes, given = split_options(named)
    given = _merged_arrays(arrays or {}, given)
    values = {"q": q, "k": k, "v": v}
    values |= {n: x for n, x in (("scale", scale), ("lengths", lengths), ("pages", pages)) if x is not None}
    if offsets is not None:
        _check_offsets(offsets)
        values |= {OFFSETS[0]: offsets[0], OFFSETS[1]: offsets[1]}
    text, keywords = _constant_text(score, mask, tuple(values), tuple(given), return_lse)
    shadowed = tuple([name for name in given if name in CONSTANTS])
    return kernel_of(text, changes, shadowed)(out=out, **values, **dict(zip(keywords, given.values())))


OFFSETS = ("offsets_of_q", "offsets_of_k")  # their names in the program


def _surplus(surplus: tuple) -> ArgumentError:
    shape = getattr(surplus[0], "shape", None)
    from .lang.attention_keywords import quoted_text_help

    help = "score, mask, scale and all others go by name"
    if shape is not None or isinstance(surplus[0], str):
        help = "write mask='j <= i'" if shape is None else quoted_text_help("mask", tuple(shape))
    return ArgumentError("attention takes 3 positional arguments: q, k and v", "argument.surplus", help=help)


def _merged_arrays(arrays: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of score and mask by name; ArgumentError for two of one name, or a name that is none."""
    for name in arrays:
        if not isinstance(name, str):
            help = 'arrays={"bias": bias}, for an expression that reads bias'
            raise ArgumentError(f"arrays names an array {name!r}, which is no string", "argument.mapping", help=help)
        if name in named:
            help = f"keep one of them: arrays has {name}, and so have the keywords"
            raise ArgumentError(f"{name} is given twice", "argument.twice", help=help)
    return {**arrays, **named}


def _check_offsets(offsets: Any) -> None:
    help = "offsets=(cu_seqlens_q, cu_seqlens_k), arrays of sequences + 1 integers each"
    if not isinstance(offsets, tuple) or len(offsets) != 2:
        given = f"{len(offsets)} of them" if isinstance(offsets, tuple) else kind_of(offsets)
        raise ArgumentError(f"offsets is a tuple of two arrays, not {given}", "argument.attention", help=help)
    for index, array in enumerate(offsets):
        if array is None or isinstance(array, str):
            message = f"offsets[{index}] is {kind_of(array)}, no array"
            raise ArgumentError(message, "argument.type", help=f"pass numpy.asarray(offsets[{index}])")


def _no_text(name: str, given: Any) -> ArgumentError:
    from .lang.attention_keywords import EXAMPLES, quoted_text_help

    if callable(given):
        sees = "score, b, h, i and j" if name == "score" else "b, h, i and j"
        help = f"quote what it returns, as an expression of {sees}, e.g. {name}={EXAMPLES[name]}"
    else:
        shape = getattr(given, "shape", None)
        help = quoted_text_help(name, None if shape is None else tuple(shape))
    return ArgumentError(f"{name} is an expression in quotes, not {kind_of(given)}", "argument.text", help=help)


def _new_text(
    score: str | None, mask: str | None, values: tuple[str, ...], arrays: tuple[str, ...], lse: bool
) -> tuple[str, tuple[str, ...]]:
    """The call of attention as a program, and its keywords of the arrays.

    ArgumentError if an array's name means something else in score and mask, or neither reads it.
    """
    from .lang.attention_keywords import VISIBLE_NAMES, keyword_for, unread_keyword

    parts, read = ["q", "k", "v"], set[str]()
    for name, text in (("score", score), ("mask", mask)):
        if text is not None:
            quoted, names = _quoted(text, arrays)
            parts.append(f"{name}={quoted}")
            read |= names
    for name in arrays:
        if name in VISIBLE_NAMES:
            message = f"{name} means something else in score and mask"
            raise ArgumentError(message, "argument.attention", help="give the array another name")
        if name not in read:
            message, help = unread_keyword(name, read, arrays, ("arrays", "out", *OPTION_NAMES))
            raise ArgumentError(message, "argument.unused", help=help)
    parts += [f"{name}={name}" for name in values if name in ("scale", "lengths", "pages")]
    parts += [f"offsets=({', '.join(OFFSETS)})"] if OFFSETS[0] in values else []
    parts += ["return_lse=True"] if lse else []
    keywords = tuple(map(keyword_for, arrays))
    return f"attention({', '.join([*parts, *(f'{name}={name}' for name in keywords)])})", keywords


_texts: Memo[tuple[str, tuple[str, ...]]] = shared(Memo(_new_text, cache_size))


@dynamo.constant
def _constant_text(score: str | None, mask: str | None, values: tuple, arrays: tuple, lse: bool) -> tuple:
    return _texts.call(score, mask, values, arrays, lse)


def _quoted(text: str, arrays: Sequence[str]) -> tuple[str, set[str]]:
    """(the expression as a string of the program, its names); lines become one. `arrays` shadow constants."""
    from .lang.attention_keywords import names_read
    from .lang.parse import parse
    from .lang.printer import show

    program = parse(text, shadowed=arrays)
    if "\n" in text or ("'" in text and '"' in text):
        text = "; ".join(map(show, (*program.statements, *program.results)))
    quote = "'" if "'" not in text else '"'
    return f"{quote}{text}{quote}", names_read(program)
