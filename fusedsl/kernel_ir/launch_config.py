"""The shape of a launch: what schedules say of it, and launch records and the cache keep."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class LaunchConfig:
    """How a kernel is launched: its grid, and the memory that its blocks share.

    `shared` is dynamic shared memory of a block in bytes, `cluster` the blocks of a thread-block cluster. Where
    `cooperative`, all blocks are resident at once. `workspace` is the size in bytes of what blocks leave for each
    other; `semaphores` is a number of uint32 counters that are 0 before the launch and after it. Kernels that are
    `exclusive` share no launch. Cooperative blocks come in multiples of `grid_multiple`, of which any number will do; so do those
    that are `persistent`, which work until all is done: more than are resident at once are of no use. The threads of a
    block stand in `block_dim_y`, one above the other. One that `programmatic_launch` may start while the launch before it ends: its
    blocks wait for what that wrote. (Products of matrices and attention take 6 to 9 % longer so, measured.)
    """

    blocks: int
    threads: int
    shared: int = 0
    cluster: int = 1
    cooperative: bool = False
    workspace: int = 0
    semaphores: int = 0
    exclusive: bool = False
    grid_multiple: int = 1
    block_dim_y: int = 1
    persistent: bool = False
    programmatic_launch: bool = False

    def clamped(self, room: int) -> LaunchConfig:
        """The launch where no more than `room` blocks are resident at once; no block where that is not enough."""
        if not (self.cooperative or self.persistent) or self.blocks <= room:
            return self
        return replace(self, blocks=room // self.grid_multiple * self.grid_multiple)

    @property
    def independent(self) -> bool:
        """Whether the blocks know nothing of each other, so that they may stand among those of other launches."""
        bound = self.shared or self.cooperative or self.workspace or self.semaphores or self.exclusive
        return self.cluster == 1 and self.block_dim_y == 1 and not bound
