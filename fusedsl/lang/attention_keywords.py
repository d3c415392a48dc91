"""Names of attention: its keywords, what the texts of score and mask see, and what to write for any other name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..errors import suggest
from .foreign_names import ATTENTION, PLACES
from .hints import is_function
from .syntax import CallExpr, ParsedText, free_names

KEYWORDS = ("score", "mask", "scale", "lengths", "offsets", "pages", "return_lse")
VISIBLE_NAMES = ("score", "b", "h", "i", "j", "q", "k", "v")


def keyword_for(name: str) -> str:
    """The keyword that gives a call in a text an array of this name: attention's own have a _ behind.

    >>> keyword_for("bias"), keyword_for("mask")
    ('bias', 'mask_')
    """
    return f"{name}_" if name.rstrip("_") in KEYWORDS else name


def name_of(keyword: str, read: Collection[str]) -> str:
    """The name of the array that a keyword gives, where score and mask read these names."""
    name = keyword[:-1]
    return name if name in read and keyword_for(name) == keyword else keyword


def names_read(program: ParsedText) -> set[str]:
    """The values that a text reads, and what it calls that is no function: an array, most likely."""
    own = [definition.name for definition in program.functions]
    called = {part.function for part in program.parts if isinstance(part, CallExpr)}
    return {name for name, _ in free_names(program)} | {n for n in called if n not in own and not is_function(n)}


def unread_keyword(
    keyword: str, read: Iterable[str], given: Collection[str], others: Iterable[str] = ()
) -> tuple[str, str]:
    """(message, help) for a keyword that attention does not have and that neither text reads as a name; `given` are
    all keywords of the call, and `others` are some that it has besides."""
    read = sorted(read)
    missing = [name for name in read if name not in VISIBLE_NAMES and name not in given]
    near = suggest(keyword, [*KEYWORDS, *missing, *others])
    if keyword in ATTENTION:
        return f"attention has no keyword {keyword}", ATTENTION[keyword]
    if near and near not in missing:
        return f"attention has no keyword {keyword}", f"did you mean {near}?"
    help = f"did you mean {near}?" if near else f"they read {', '.join(read) or 'no names'}"
    return f"neither score nor mask reads {keyword!r}", help


EXAMPLES = {"score": "'score + slope[h] * (j - i)'", "mask": "'j <= i'"}


def quoted_text_help(name: str, shape: Sequence[int] | None) -> str:
    """The help where score or mask is given an array of this shape, or something else, and no text.

    >>> text_for("mask", (3, 4)), text_for("mask", None)
    ("write mask='m[i, j]', m=...", "quote it, e.g. mask='j <= i'")
    """
    if not shape or len(shape) > 4:
        return f"quote it, e.g. {name}={EXAMPLES[name]}"
    axes = {1: "j", 2: "ij", 3: "hij", 4: "bhij"}[len(shape)]
    indices = ", ".join("0" if extent == 1 else axis for axis, extent in zip(axes, shape))
    other = f", or m[b{indices[1:]}] where its first axis is of sequences" if indices[0] == "h" else ""
    return f"write {name}='{'score + ' if name == 'score' else ''}m[{indices}]', m=...{other}"


def missing_name_help(name: str) -> str | None:
    """The help for a name that a text reads and nobody gives; None where there is nothing to say."""
    if name in PLACES:
        return f"write {PLACES[name]}"
    if name == "lengths":
        return "pass lengths=..., which score and mask may read"
    if name in KEYWORDS:
        return f"what {name}= is given is no array of the texts: pass it once more, by another name"
    return None
