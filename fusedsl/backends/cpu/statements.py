"""Statements of generated loops as Python trees: what a loop reads, defines and calls. Each text is parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ...generated_code import syntax_tree

MOST_PARSED = 1 << 14


def code_of(line: str) -> str:
    """A line without its comment."""
    return line.partition("#")[0].rstrip()


@lru_cache(MOST_PARSED)
def parsed(code: str) -> ast.stmt | None:
    """The statement of a line without its comment; None for a part of a block."""
    if code.startswith(" ") or code.endswith(":"):
        return None
    (statement,) = syntax_tree(code).body
    return statement


@lru_cache(MOST_PARSED)
def _name_nodes(code: str) -> tuple[ast.Name, ...]:
    nodes = [node for node in ast.walk(syntax_tree(code)) if isinstance(node, ast.Name)]
    return tuple(sorted(nodes, key=lambda node: node.col_offset, reverse=True))


def names_in(texts: Iterable[str]) -> set[str]:
    """The names in statements or expressions, of functions too."""
    return {node.id for text in texts for node in _name_nodes(text)}


def renamed(lines: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Lines with names replaced by names or expressions; comments stay."""
    renamed_lines = []
    for line in lines:
        for node in _name_nodes(code_of(line)):
            if (name := names.get(node.id)) is not None:
                line = line[: node.col_offset] + name + line[node.end_col_offset :]
        renamed_lines.append(line)
    return renamed_lines


def target_of(code: str) -> str | None:
    """The name that a statement defines; None for others."""
    match parsed(code):
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return None
