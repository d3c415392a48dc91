"""Launch configuration: grid, block, shared memory and attributes of a launch."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class LaunchConfig:
    """A launch: its grid and block, the memory that its blocks share, and its attributes."""

    blocks: int
    threads: int
    shared: int = 0  # dynamic shared memory of a block, in bytes
    cluster: int = 1  # blocks of a thread-block cluster
    cooperative: bool = False  # all blocks are resident at once
    workspace: int = 0  # bytes of partial states in global memory
    semaphores: int = 0  # uint32 counters, 0 before the launch and after it
    exclusive: bool = False  # shares no launch
    grid_multiple: int = 1  # a clamped grid is a multiple of this
    block_dim_y: int = 1  # lines of threads of a block
    persistent: bool = False  # blocks loop until all is done: more than are resident are of no use
    # measured: H200, matmuls and attention take 6 to 9 % longer so
    programmatic_launch: bool = False  # may start while the launch before it ends, and waits for what that wrote
    starts_early: bool = False  # so on any stream: it loads what no launch of its call writes before it waits

    def clamped(self, room: int) -> LaunchConfig:
        """The launch if no more than `room` blocks are resident at once; without blocks if that is too few."""
        if not (self.cooperative or self.persistent) or self.blocks <= room:
            return self
        return replace(self, blocks=room // self.grid_multiple * self.grid_multiple)

    @property
    def independent(self) -> bool:
        """True if the blocks share nothing, so that they may run among those of other launches."""
        bound = self.shared or self.cooperative or self.workspace or self.semaphores or self.exclusive
        return self.cluster == 1 and self.block_dim_y == 1 and not bound
