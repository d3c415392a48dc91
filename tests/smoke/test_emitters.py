"""Emitters of CUDA sources: few, flat, and changed by nobody else; the kernel IR has no optional part of one family."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from source_tree import modules, tree

from fusedsl.kernel_ir.kernel import KernelIR

WRITES = ("assign", "emit", "bind")  # methods of a file builder that add text
MOST_EMITTERS = 11  # classes named so
# These lists only shrink.
DERIVED = {"ElementAddresses", "MatmulCoordinates", "PanelEpilogue", "RankedRow", "BroadcastIndex", "RowTileIndex"}
SHARED_OPTIONAL = {"batched"}  # of the kernel IR: any family's kernel may be called in batches


def cuda_nodes(kind: type) -> Iterator[ast.AST]:
    """The statements of this kind at the top of the modules of the CUDA backend."""
    for module, path in modules().items():
        if module.startswith("fusedsl.backends.cuda"):
            yield from (node for node in tree(path).body if isinstance(node, kind))


def writers() -> dict[str, ast.ClassDef]:
    """The classes that add text to a file."""

    def writes(node: ast.AST) -> bool:
        called = node.func if isinstance(node, ast.Call) else None
        return isinstance(called, ast.Attribute) and called.attr in WRITES and ast.unparse(called.value)[-3:] == "src"

    return {c.name: c for c in cuda_nodes(ast.ClassDef) if any(map(writes, ast.walk(c)))}  # type: ignore[attr-defined]


def test_emitters_are_few():
    emitters = [c.name for c in cuda_nodes(ast.ClassDef) if c.name.endswith("Emitter")]
    assert 0 < len(emitters) <= MOST_EMITTERS, emitters


def test_writers_do_not_derive_from_each_other():
    """A writer has the parts that it needs. Those that are derived from another one are listed, and from one alone."""
    found = writers()
    assert len(found) > 20, "writers are not recognised any more"
    bases = {name: [b.id for b in c.bases if isinstance(b, ast.Name) and b.id in found] for name, c in found.items()}
    assert {name for name, own in bases.items() if own} <= DERIVED
    assert not {name for name, own in bases.items() for b in own if len(own) > 1 or bases[b]}


def test_free_functions_change_no_writer():
    """Functions outside of a class set no attribute of what they are given."""
    faults = []
    for function in cuda_nodes(ast.FunctionDef):
        given = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
        for node in ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            owners = {t.value.id for t in targets if isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name)}
            faults += [f"{function.name} sets {ast.unparse(node)}"] * bool(owners & given)
    assert not faults


def test_the_kernel_ir_has_no_optional_part_of_a_family():
    optional = {f.name for f in dataclasses.fields(KernelIR) if f.default is None or "None" in str(f.type)}
    assert optional == SHARED_OPTIONAL
