"""Names of attention: its keywords, the names visible in score and mask expressions, and help for unknown names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..errors import suggest
from .foreign_names import ATTENTION, PAIR_INDICES
from .hints import is_function
from .syntax_tree import CallExpr, ParsedText, free_names

KEYWORDS = ("score", "mask", "scale", "lengths", "offsets", "pages", "return_lse")
VISIBLE_NAMES = ("score", "b", "h", "i", "j", "q", "k", "v")


def keyword_for(name: str) -> str:
    """The keyword for an array of this name in a call of attention: with a trailing _ if attention has that keyword.

    >>> keyword_for("bias"), keyword_for("mask")
    ('bias', 'mask_')
    """
    return f"{name}_" if name.rstrip("_") in KEYWORDS else name


def name_of(keyword: str, read: Collection[str]) -> str:
    """The array name of a keyword, given the names that score and mask read."""
    name = keyword[:-1]
    return name if name in read and keyword_for(name) == keyword else keyword


def names_read(program: ParsedText) -> set[str]:
    """The values that an expression reads, and the unknown functions it calls, which are probably arrays."""
    own = [definition.name for definition in program.functions]
    called = {part.function for part in program.parts if isinstance(part, CallExpr)}
    return {name for name, _ in free_names(program)} | {n for n in called if n not in own and not is_function(n)}


def unread_keyword(
    keyword: str, read: Iterable[str], given: Collection[str], others: Iterable[str] = ()
) -> tuple[str, str]:
    """(message, help) for a keyword that attention does not have and neither expression reads.

    `given` are the keywords of the call, `others` further valid keywords."""
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
    """The help for a score or mask that is an array of this shape, or something else, instead of an expression.

    >>> quoted_text_help("mask", (3, 4)), quoted_text_help("mask", None)
    ("write mask='m[i, j]', m=...", "quote it, e.g. mask='j <= i'")
    """
    if not shape or len(shape) > 4:
        return f"quote it, e.g. {name}={EXAMPLES[name]}"
    axes = {1: "j", 2: "ij", 3: "hij", 4: "bhij"}[len(shape)]
    indices = ", ".join("0" if extent == 1 else axis for axis, extent in zip(axes, shape))
    other = f", or m[b{indices[1:]}] where its first axis is of sequences" if indices[0] == "h" else ""
    return f"write {name}='{'score + ' if name == 'score' else ''}m[{indices}]', m=...{other}"


def missing_name_help(name: str) -> str | None:
    """The help for a name that an expression reads and the call does not give; None if there is none."""
    if name in PAIR_INDICES:
        return f"write {PAIR_INDICES[name]}"
    if name == "lengths":
        return "pass lengths=..., which score and mask may read"
    if name in KEYWORDS:
        return (
            f"{name}= is an option of attention, which score and mask do not see: pass the value again, by another name"
        )
    return None
