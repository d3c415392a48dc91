"""Names of attention: its keywords, what the texts of score and mask see, and what to write for any other name."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..errors import suggest
from .forms import ATTENTION, PLACES

KEYWORDS = ("score", "mask", "scale", "lengths", "offsets", "pages", "return_lse")
SEEN = ("score", "b", "h", "i", "j", "q", "k", "v")


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


def unread(keyword: str, read: Iterable[str], given: Collection[str], others: Iterable[str] = ()) -> tuple[str, str]:
    """(message, help) for a keyword that attention does not have and that neither text reads as a name; `given` are
    all keywords of the call, and `others` are some that it has besides."""
    read = sorted(read)
    missing = [name for name in read if name not in SEEN and name not in given]
    near = suggest(keyword, [*KEYWORDS, *missing, *others])
    if keyword in ATTENTION:
        help = f"write {ATTENTION[keyword]}"
    else:
        help = f"did you mean {near}?" if near else f"they read {', '.join(read) or 'no names'}"
    return f"neither score nor mask reads {keyword!r}", help


def unseen(name: str) -> str | None:
    """The help for a name that a text reads and nobody gives; None where there is nothing to say."""
    if name in PLACES:
        return f"write {PLACES[name]}"
    if name in KEYWORDS:
        return f"what {name}= is given is no array of the texts: pass it once more, by another name"
    return None
