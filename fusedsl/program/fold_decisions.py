"""Decisions of a partition where folds of products are in the kernels that compute these."""

from __future__ import annotations

from dataclasses import replace

from ..fusion.formulation import Formulation, ProductMode
from ..fusion.fusion_group import Decision, Partition
from ..fusion.partition_graph import Fits
from ..fusion.refusal_reasons import describe_fold
from ..kernel_ir.folded_products import folded_products, grouped_products
from ..kernel_ir.plan import KernelPlan

FOLDED = "the second folds panels of columns, the first merges their states"
GROUPED = "tiles of the second have whole groups of what the first folds, which is done there"


def with_fold_decisions(cut: Partition, kernels: tuple[KernelPlan, ...], way: Formulation, fits: Fits) -> Partition:
    """The partition with a decision for each fold that begins, or ends, where its product is computed, instead of
    those that keep it from the product's kernel."""
    if way.products is not ProductMode.FOLDED:
        return cut
    folded, grouped = folded_products(kernels), grouped_products(kernels, fits)
    decisions = [
        Decision(True, (kernels[one.reader].name, kernels[one.products].name), reason)
        for ones, reason in ((folded, FOLDED), (grouped, GROUPED))
        for one in ones
    ]
    readers = [kernels[one.reader] for one in (*folded, *grouped)]
    stored = [{(use.kind, use.index) for use in reader.arrays[reader.inputs :]} for reader in readers]
    moved = [g for g in cut.groups if {(s.kind, s.index) for s in g.all_stores} in stored]
    members = {(describe_fold(f),) for g in moved for f in g.folds}
    members |= {(describe_fold(s),) for g in moved for s in g.all_stores}
    others = [d for d in cut.decisions if d.joined or d.members not in members]
    return replace(cut, decisions=(*others, *decisions))
