"""Timing on a GPU: events around single calls, a cold L2, random data, and the copy that sets the floor."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fusedsl.bench.timers import reset_persisting_lines
from fusedsl.bench.workloads import Workload

WARM_UP = 3
FLUSH = 256 << 20  # bytes, at least; and at least twice the L2
ISSUE_SHARE = 0.85  # of the issue rate that a kernel of instructions alone can reach


class Card:
    """One GPU: what it is, and how calls are timed on it (torch's current stream)."""

    def __init__(self) -> None:
        torch.cuda.init()
        self.facts = torch.cuda.get_device_properties(0)
        self.clock = _clock(self.facts)
        size = max(FLUSH, 2 * getattr(self.facts, "L2_cache_size", 0))
        self._flushed = torch.randn(size // 4, device="cuda")
        self._sink = torch.empty((), device="cuda")
        self._copies: dict[tuple, list[float]] = {}

    def times(self, call: Callable[[], Any], repetitions: int) -> list[float]:
        """µs of each of these calls, from event to event, each with a cold L2.

        Lines that were loaded with evict_last become normal ones. Then the L2 is emptied by reading, so that no
        write-back of other data falls into the measured time, and the GPU spins while the host enqueues the call: the
        events enclose the GPU's work alone, however slow the host is.
        """
        for _ in range(WARM_UP):
            call()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        call()
        host = time.perf_counter() - begun
        torch.cuda.synchronize()
        spin = int((2 * host + 100e-6) * self.clock)
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repetitions)]
        for start, end in events:
            torch.cuda.synchronize()
            reset_persisting_lines()
            torch.amax(self._flushed, dim=0, out=self._sink)
            torch.cuda._sleep(spin)
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [1e3 * start.elapsed_time(end) for start, end in events]

    def wall_times(self, call: Callable[[], Any], repetitions: int, batch: int = 8) -> list[float]:
        """µs of calls that wait for nothing, `batch` of them after each other, by the host's clock.

        For what runs on a stream of its own; its arrays have to be larger than the L2, which is not emptied.
        """
        for _ in range(WARM_UP):
            call().wait()
        found = []
        for _ in range(repetitions):
            begun = time.perf_counter()
            for _ in range(batch):
                last = call()
            last.wait()
            found.append(1e6 * (time.perf_counter() - begun) / batch)
        return found

    def copy(self, size: int, dtype: str, repetitions: int) -> list[float]:
        """µs of device copies that read and write `size` bytes in total, in elements of `dtype`."""
        key = (size, dtype)
        if key not in self._copies:
            kind = getattr(torch, dtype)
            source = torch.randn(size // 2 // kind.itemsize, device="cuda").to(kind)
            target = torch.empty_like(source)
            self._copies[key] = self.times(lambda: target.copy_(source), repetitions)
        return self._copies[key]

    def transfer(self, read: int, written: int, repetitions: int) -> list[float]:
        """µs that a device takes to read and to write so many bytes: a copy of the smaller, and the rest alone."""
        key = (read, written, "transfer")
        if key not in self._copies:
            both = self.copy(2 * min(read, written), "float32", repetitions) if min(read, written) >= 4 else [0.0]
            rest = self._alone(abs(read - written), read > written, repetitions)
            share = sorted(both)[len(both) // 2]
            self._copies[key] = [share + one for one in rest] if read != written else both
        return self._copies[key]

    def _alone(self, size: int, reading: bool, repetitions: int) -> list[float]:
        """µs to read, or to write, `size` bytes, beyond the fixed cost of a launch where they are few."""
        if size < 1 << 20:
            return [0.0] * repetitions
        words = torch.empty(size // 4, dtype=torch.int32, device="cuda").random_()
        if not reading:
            return self.times(lambda: words.fill_(7), repetitions)
        kernel, sink = _reader(), torch.zeros(1, dtype=torch.int32, device="cuda")
        import cupy

        arguments = (cupy.asarray(words), cupy.uint64(words.numel() // 4), cupy.asarray(sink))
        grid = (self.facts.multi_processor_count * 8,)
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

        def read():
            with stream:
                kernel(grid, (256,), arguments)

        return self.times(read, repetitions)

    def issue_time(self, instructions: float) -> float:
        """µs to issue so many warp instructions: four schedulers an SM, one instruction a clock each."""
        return 1e6 * instructions / (ISSUE_SHARE * self.facts.multi_processor_count * 4 * self.clock)


READER = r"""
extern "C" __global__ void __launch_bounds__(256, 8) reader(const uint4* x, unsigned long long n, int* sink) {
  unsigned found = 0;
  unsigned long long step = (unsigned long long)gridDim.x * 256 * 4, i = blockIdx.x * 1024ull + threadIdx.x;
  for (; i + 768 < n; i += step) {
    uint4 a = x[i], b = x[i + 256], c = x[i + 512], d = x[i + 768];
    found |= (a.x ^ b.y) & (c.z ^ d.w) & (a.y ^ c.x) & (b.z ^ d.x) & a.z & a.w & b.x & b.w & c.y & c.w & d.y & d.z;
  }
  if (found == 0x12345679) *sink = 1;
}
"""


def _reader() -> Any:
    """A kernel that reads an array in 16-byte words and keeps nothing: what reading costs."""
    import cupy

    return cupy.RawKernel(READER, "reader")


def _clock(facts: Any) -> float:
    """The highest SM clock in Hz."""
    from fusedsl.bench.record import nvidia_smi

    told = (nvidia_smi("clocks.max.sm") or "").split()
    if told and told[0].isdigit():
        return float(told[0]) * 1e6
    from fusedsl.hardware import hardware_facts as known

    return known((facts.major, facts.minor)).clock


def tensors(workload: Workload, shape: tuple[int, int], dtype: str, seed: int = 1) -> dict[str, torch.Tensor]:
    """Random inputs on the GPU."""
    draw = torch.Generator(device="cuda").manual_seed(seed)
    made = {}
    for one in workload.inputs:
        size = one.shape(shape)
        if one.low is None:
            x = torch.randn(size, device="cuda", generator=draw)
        else:
            x = torch.rand(size, device="cuda", generator=draw) * (one.high - one.low) + one.low
        made[one.name] = x.to(getattr(torch, dtype))
    return made


def as_results(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def max_error(results: Sequence[torch.Tensor], references: Sequence[torch.Tensor]) -> float:
    """The largest absolute error over the largest reference, of the worse result; NaN where a result has one."""
    worst = 0.0
    for result, reference in zip(results, references, strict=True):
        error = (result.double() - reference).abs().max() / reference.abs().max()
        worst = max(worst, float(error)) if not torch.isnan(error) else float("nan")
        if worst != worst:
            break
    return worst
