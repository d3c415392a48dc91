"""Facts per GPU architecture, with their sources, and the occupancy that follows from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hardware:
    """One architecture, with the figures of one card.

    Limits per SM and block: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (the same
    numbers are in CCCL's cuda/__device/arch_traits.h). Results per clock and SM (`fp32`, `fp64`, `special`): CUDA C++
    Best Practices Guide, "Throughput of Native Arithmetic Instructions".

    `multiprocessors`, `bandwidth` (bytes/s), `clock` (Hz, boost) and `l2` (bytes) are those of the card in `card`,
    from its data sheet or whitepaper; a program that knows its own card replaces what it knows.
    """

    cc: tuple[int, int]
    card: str
    multiprocessors: int
    bandwidth: float
    clock: float
    l2: int
    threads: int  # resident, per SM
    blocks: int  # resident, per SM
    shared: int  # bytes per SM
    block_shared: int  # bytes per block, at most (opt-in)
    fp32: int  # add, multiply or fma results a clock, per SM
    fp64: int
    tensor: int  # float16 to float32 multiply-adds a clock of the tensor cores, per SM
    special: int = 16  # reciprocals, square roots, 2**x and the like of float32, on every architecture here
    registers: int = 65536  # 32-bit, per SM
    block_threads: int = 1024
    thread_registers: int = 255
    warp_issue: float = 4  # warp instructions an SM issues a clock: one per scheduler, on every architecture here

    @property
    def warps(self) -> int:
        return self.threads // 32

    @property
    def cluster(self) -> int:
        """Blocks of a thread-block cluster, at most (CUDA C++ Programming Guide, "Thread Block Clusters").

        Eight are portable; sm_90 and sm_100 allow sixteen for kernels that opt in.
        """
        return 1 if self.cc < (9, 0) else 16 if self.cc[0] in (9, 10) else 8

    @property
    def double_tensor_cores(self) -> bool:
        """Whether its tensor cores multiply float64, at the rate of twice the `fp64` units."""
        return self.cc in ((8, 0), (9, 0))

    @property
    def issue_rate(self) -> float:
        """Thread instructions per second."""
        return self.rate(self.warp_issue * 32)

    def rate(self, results: float) -> float:
        """Results per second of a unit that has so many a clock on each SM."""
        return self.multiprocessors * results * self.clock


KIB, MIB = 1 << 10, 1 << 20
# Two cores of a server, as the time model sees them: two instructions a clock on vectors of 8 float32 (AVX2), functions
# are instructions like others, and 10 GB/s of memory a core.
CPU = Hardware((0, 0), "CPU", 2, 20e9, 3e9, 32 * MIB, 1, 1, 0, 0, 16, 8, 16, 1 << 20, warp_issue=0.5)
_KNOWN = (
    # Turing whitepaper (T4: 40 SMs, 1.59 GHz, 320 GB/s, 4 MB of L2; 2 FP64 units an SM)
    Hardware((7, 5), "T4", 40, 320e9, 1.59e9, 4 * MIB, 1024, 16, 64 * KIB, 64 * KIB, 64, 2, 512),
    # A100 whitepaper (108 SMs, 1.41 GHz, 40 MB of L2; 80 GB: 2039 GB/s)
    Hardware((8, 0), "A100 80GB", 108, 2039e9, 1.41e9, 40 * MIB, 2048, 32, 164 * KIB, 163 * KIB, 64, 32, 1024),
    # GA102 whitepaper (RTX 3090: 82 SMs, 1.695 GHz, 936 GB/s, 6 MB of L2)
    Hardware((8, 6), "RTX 3090", 82, 936e9, 1.695e9, 6 * MIB, 1536, 16, 100 * KIB, 99 * KIB, 128, 2, 256),
    # Ada whitepaper (AD102: 96 MB of L2), L40S data sheet (142 SMs, 2.52 GHz, 864 GB/s)
    Hardware((8, 9), "L40S", 142, 864e9, 2.52e9, 96 * MIB, 1536, 24, 100 * KIB, 99 * KIB, 128, 2, 512),
    # H200 data sheet (4.8 TB/s); H100 SXM5 whitepaper (132 SMs, 1.98 GHz boost, 50 MB of L2)
    Hardware((9, 0), "H200", 132, 4.8e12, 1.98e9, 50 * MIB, 2048, 32, 228 * KIB, 227 * KIB, 128, 64, 2048),
    # Blackwell B200 data sheet (148 SMs, 8 TB/s), Blackwell Tuning Guide and measurements (126 MB of L2)
    Hardware((10, 0), "B200", 148, 8e12, 1.965e9, 126 * MIB, 2048, 32, 228 * KIB, 227 * KIB, 128, 64, 4096),
    # RTX Blackwell whitepaper (RTX 5090: 170 SMs, 2.407 GHz, 1792 GB/s, 96 MB of L2)
    Hardware((12, 0), "RTX 5090", 170, 1792e9, 2.407e9, 96 * MIB, 1536, 24, 100 * KIB, 99 * KIB, 128, 2, 256),
)


def hardware_facts(cc: tuple[int, int]) -> Hardware:
    """The facts of this compute capability, or of the newest known one that is not newer."""
    older = [known for known in _KNOWN if known.cc <= cc]
    if not older:
        raise ValueError(f"compute capability {cc[0]}.{cc[1]} is older than {_KNOWN[0].cc[0]}.{_KNOWN[0].cc[1]}")
    return older[-1]


@dataclass(frozen=True)
class Occupancy:
    """Blocks that are resident on an SM, and the resource that limits them."""

    blocks: int
    limiter: str
    share: float  # of the SM's threads


def occupancy(hardware: Hardware, registers: int, threads: int, shared: int) -> Occupancy:
    """The blocks that are resident on an SM, given threads a block, registers a thread and shared bytes a block.

    Registers are allocated to a warp in units of 256 (CUDA occupancy calculator), shared memory in 128 bytes plus 1 KiB
    that the system takes of every block from sm_80 on.
    """
    warps = -(-threads // 32)
    per_warp = -(-registers * 32 // 256) * 256
    block_bytes = -(-shared // 128) * 128 + (KIB if hardware.cc >= (8, 0) else 0)
    limits = {
        "registers": (hardware.registers // 4 // max(per_warp, 1)) * 4 // warps,
        "shared memory": hardware.shared // block_bytes if block_bytes else hardware.blocks,
        "threads": hardware.warps // warps,
        "blocks": hardware.blocks,
    }
    blocks = min(limits.values())
    limiter = next(name for name in ("threads", "registers", "shared memory", "blocks") if limits[name] == blocks)
    return Occupancy(blocks, limiter, blocks * warps / hardware.warps)


def registers_for(hardware: Hardware, blocks: int, threads: int) -> int:
    """The registers a thread may take so that so many blocks fit: an SM's warps are spread over four partitions."""
    warps = -(-blocks * -(-threads // 32) // 4)
    return min(hardware.registers // 4 // (warps * 32) // 8 * 8, hardware.thread_registers)


def blocks_for(hardware: Hardware, registers: int, threads: int) -> int:
    """The largest launch bound (blocks an SM) that leaves each thread at least so many registers."""
    for blocks in range(min(hardware.blocks, hardware.threads // threads), 1, -1):
        if registers_for(hardware, blocks, threads) >= registers:
            return blocks
    return 1
