"""The package as an import graph: modules, what each imports, strongly connected components, classes by name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "fusedsl"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the package by its dotted name."""
    return {name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name(path: Path) -> str:
    """The dotted name of a file; of a package's __init__.py, that of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(module: str, lazy: bool = False) -> set[str]:
    """The modules of the package that a module imports, those under TYPE_CHECKING too; if `lazy`, inside functions."""
    path = modules()[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in _nodes(tree(path), lazy):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = package.split(".")
            base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
            found |= {f"{base}.{a.name}" if f"{base}.{a.name}" in modules() else base for a in node.names}
    return {m for m in found if m in modules()} - {module}


def _nodes(root: ast.AST, lazy: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(root):
        if lazy or not isinstance(child, FUNCTIONS):
            yield child
            yield from _nodes(child, lazy)


def external(module: str) -> set[str]:
    """The packages outside of this one that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree(modules()[module])):
        if isinstance(node, ast.Import):
            found |= {a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


def cycles() -> list[frozenset[str]]:
    """The sets of modules that import each other, imports under TYPE_CHECKING counted (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(imported(module)):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            component = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(component) > 1:
                found.append(frozenset(component))

    for module in modules():
        if module not in index:
            visit(module)
    return found


def classes() -> dict[str, list[str]]:
    """The modules that define a class of each name."""
    found = defaultdict(list)
    for module, path in modules().items():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    return found


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function, with its module and name."""
    for module, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                yield f"{module}.{node.name}", node


def parameters(function: ast.FunctionDef) -> list[str]:
    """The names of a function's parameters, `self` and `cls` aside."""
    given: Iterable[ast.arg] = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return [a.arg for a in given if a.arg not in ("self", "cls")]
