"""Names in prose: files that comments and docstrings of the package name exist, and identifiers in back-ticks."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from source_tree import PACKAGE, modules

ROOT = PACKAGE.parent
DOCSTRING = re.compile(r'^[ \t]*"""(.*?)"""', re.M | re.S)
COMMENT = re.compile(r"(?:^|[ \t])#(.*)$", re.M)
FILE = re.compile(r"(?<![\w/.<*])((?:\w+/)*\w+\.(?:py|md|lark|fd|css|js))\b")
IDENTIFIER = re.compile(r"`([A-Za-z_]\w*)(?:\([^`]*\))?`")
WORD = re.compile(r"[A-Za-z_]\w*")
# what other software defines, or the program of a user
ELSEWHERE = {"co_names", "PyArray_DATA", "__reduce_ex__", "einsum", "gradient_0", "gradient_1"}


@cache
def texts() -> dict[Path, str]:
    return {path: path.read_text() for path in modules().values()}


def prose(text: str) -> list[str]:
    """The docstrings and comments of a file."""
    return DOCSTRING.findall(text) + COMMENT.findall(DOCSTRING.sub("", text))


@cache
def code() -> dict[Path, frozenset[str]]:
    """The words of each file's code, generated text included."""
    return {path: frozenset(WORD.findall(COMMENT.sub("", DOCSTRING.sub("", text)))) for path, text in texts().items()}


def named_file(path: Path, name: str) -> Path | None:
    """The file that prose of `path` calls `name`: relative to its folder, or to one above it."""
    folders = (folder for folder in path.parents if folder.is_relative_to(ROOT))
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def test_named_files_exist():
    parts = {path: prose(text) for path, text in texts().items()}
    parts |= {path: [path.read_text()] for path in [*PACKAGE.rglob("*.lark"), *PACKAGE.rglob("*.fd")]}
    found = [(path, name) for path in parts for part in parts[path] for name in FILE.findall(part)]
    missing = [f"{path.relative_to(ROOT)}: {name}" for path, name in found if named_file(path, name) is None]
    assert found and not missing, missing


def test_identifiers_in_back_ticks_are_in_their_folder_or_in_a_file_that_is_named_beside_them():
    words, folders = code(), defaultdict(set)
    for path in words:
        folders[path.parent] |= words[path]
    folders[PACKAGE] = set().union(*words.values())  # the interface: its docstrings name what it returns
    missing, count = [], 0
    for path, text in texts().items():
        for docstring in DOCSTRING.findall(text):
            names = set(IDENTIFIER.findall(docstring))
            count += len(names)
            for name in names - folders[path.parent] - ELSEWHERE:
                beside = (words.get(named_file(path, file), ()) for file in FILE.findall(docstring))
                if not any(name in known for known in beside):
                    missing.append(f"{path.relative_to(ROOT)}: {name}")
    assert count and not missing, missing


def test_prose_begins_with_the_term():
    """A docstring or a field's comment says what the thing is; it does not go on from the line above."""
    begins = {path: [part.lstrip() for part in prose(text)] for path, text in texts().items()}
    found = {path for path, parts in begins.items() if any(part.startswith(("Of ", "…", "... ")) for part in parts)}
    fragments = {str(path.relative_to(ROOT)) for path in found}
    assert not fragments, f"no comment begins with … or Of: say what the thing is: {sorted(fragments)}"
