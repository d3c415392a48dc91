"""Small layout: matrices of at most 32 rows and columns, each the work of a few threads of a block."""

from __future__ import annotations

from dataclasses import dataclass

OWN = 4  # rows and columns of a thread
EDGES = (8, 16, 32)  # rows, columns or steps of a tile
THREADS = 128  # of a block
BANKS = 32


@dataclass(frozen=True)
class SmallLayout:
    """Rows, columns and steps of the tiles that hold a matrix; a thread sums OWN x OWN elements."""

    rows: int
    columns: int
    depth: int
    block: int = THREADS  # threads of a block

    @property
    def threads(self) -> int:
        """Threads of a matrix."""
        return self.rows // OWN * self.columns // OWN

    @property
    def matrices(self) -> int:
        """Matrices of a block."""
        return self.block // self.threads

    def elements(self, kind: str) -> int:
        """Elements that a thread loads of a factor: the one with the rows ("row"), or with the columns ("column")."""
        return self.edge(kind) * self.depth // self.threads

    def edge(self, kind: str) -> int:
        return self.rows if kind == "row" else self.columns

    def pitch(self, kind: str) -> int:
        """Elements from one step to the next in shared memory."""
        return self.edge(kind) + OWN

    def area(self, kind: str) -> int:
        """Elements of a matrix in shared memory: neighbours begin half the banks apart."""
        used = self.depth * self.pitch(kind)
        return used + (BANKS // 2 - used) % BANKS
