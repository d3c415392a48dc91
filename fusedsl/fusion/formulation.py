"""Formulations of a program: ways to cut it into kernels, of which a call takes the first whose kernels can run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

STORED = "no attention kernel fits the card and these arrays"  # why scores are; a report names the limit


class AttentionMode(Enum):
    """How reductions over products are computed; the value stands in cached plans and their keys.

    Scores that are not stored are reduced tile by tile, where they are computed.
    """

    TILE_MAX = "tile max"  # each tile is measured from its own references
    RUNNING_MAX = "running max"  # tiles are measured from the running references
    RUNNING_MAX_STAGED = "running max, staged"  # the same, and computed operands are stored first
    MATERIALIZED = "materialized"  # scores are stored by a kernel of their own

    @property
    def running_reference(self) -> bool:
        return self in (AttentionMode.RUNNING_MAX, AttentionMode.RUNNING_MAX_STAGED)


class ProductMode(Enum):
    """Where operands and results of large matrix products are; the value stands in cached plans and their keys.

    A product that attention computes, or a small one, is as in `FUSED` in all of them.
    """

    FUSED = "fused"  # operands are computed for each output tile, and the epilogue is part of the kernel
    STORED_OPERANDS = "stored operands"  # each operand is an array in memory
    FOLDED = "folded"  # the same, and what folds their results gets states of panels from the products' kernels
    ALONE = "alone"  # each operand is an array, and a kernel computes one product and nothing else: a library can


@dataclass(frozen=True)
class OperandCopy:
    """An argument of which large products multiply a copy: `turned`, in the order in which a product reads it."""

    argument: int
    turned: bool


@dataclass(frozen=True)
class Formulation:
    """How a program may be cut into kernels."""

    together: bool = True  # one kernel may reduce over rows and over columns
    attention: AttentionMode = AttentionMode.TILE_MAX
    products: ProductMode = ProductMode.FUSED
    copies: tuple[OperandCopy, ...] = ()
    budget: int | None = None  # registers of a kernel's values; None: as few kernels as possible
    steady: bool = False  # batch-invariant: one row is partitioned as many rows are
    unordered: bool = False  # on CUDA, scattered floats are added in any order


ON_CPU, ON_CUDA = Formulation(), Formulation(attention=AttentionMode.RUNNING_MAX)  # the first that is tried
