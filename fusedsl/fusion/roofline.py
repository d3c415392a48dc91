"""Roofline time model: the time of one launch from bytes, instructions and latency.

program/kernel_work.py counts the `Work` of a scheduled kernel, program/call_time.py adds the launches of a call.

Calibrated on an H200 (benchmarks/results): event to event of single launches with a cold L2. A test holds that 90 % of
the suites are within 25 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..hardware import Hardware

LAUNCH = 2.7e-6  # seconds of an empty launch
LATENCY = 1.4e-6  # seconds of one round of loads: the least time of a kernel that reads memory
OVERLAP = 1.3  # overlap of the load latency with other work: 1 is none, infinity full
READ_SHARE, WRITE_SHARE = 0.96, 0.84  # of the data sheet's bandwidth, for reads and writes
ISSUE_SHARE = 0.85  # of the issue rate that code without memory accesses reaches
SPECIAL_SHARE = 0.92  # of the rate of special functions (MUFU)
TENSOR_SHARE = 0.92  # of the rate of tensor cores
FLOAT_PART = 0.7  # of instructions that FP32 units execute; the rest compares, selects, converts and moves
DEPENDENT = 9  # cycles between dependent instructions of one thread
SATURATING = 48 << 10  # bytes in flight per SM that saturate memory
L2_BYTES = 24  # bytes per cycle per SM from the L2
L2_SHARE = 0.6  # of the L2 that holds data until they are read again


@dataclass(frozen=True)
class Work:
    """Work of one launch."""

    read: float  # bytes of memory
    written: float  # bytes of memory
    instructions: float  # with loads and stores
    special: float = 0  # of the instructions, on the special function units
    double: float = 0  # of the instructions, in float64
    chain: float = 0  # instructions that one thread issues
    in_flight: float | None = None  # bytes of loads in flight on all SMs; None: enough
    reread: float = 0  # bytes that later passes read again, from the L2 if `reread_footprint` fits it
    reread_footprint: float = 0  # bytes that have to stay in the L2 for later passes
    products: float = 0  # multiply-adds of tensor cores, not overlapped with other instructions
    exposed_bytes: float = 0  # bytes not overlapped with computation


def seconds(work: Work, hardware: Hardware) -> float:
    """Time of one launch: the launch, most of the first load's latency, and the largest of memory, issue and unit
    time."""
    busy = max(_memory(work, hardware), _arithmetic(work, hardware))
    return LAUNCH + (LATENCY**OVERLAP + busy**OVERLAP) ** (1 / OVERLAP)


def limits(hardware: Hardware) -> tuple[Work, ...]:
    """Seconds that one byte or instruction of each kind adds to the time of memory, of issue and of each unit.

    The largest of these sums is the time of a launch that reads everything once.
    """
    memory, issue = hardware.bandwidth, hardware.issue_rate * ISSUE_SHARE
    single = FLOAT_PART / (hardware.rate(hardware.fp32) * ISSUE_SHARE)
    return (
        Work(1 / (READ_SHARE * memory), 1 / (WRITE_SHARE * memory), 0),
        Work(0, 0, 1 / issue),
        Work(0, 0, single, double=-single),
        Work(0, 0, 0, double=1 / (hardware.rate(hardware.fp64) * ISSUE_SHARE)),
        Work(0, 0, 0, special=1 / (hardware.rate(hardware.special) * SPECIAL_SHARE)),
    )


def _memory(work: Work, hardware: Hardware) -> float:
    read, reread = work.read, work.reread
    if work.reread_footprint > L2_SHARE * hardware.l2:
        read, reread = read + reread, 0
    streaming = read / READ_SHARE + work.written / WRITE_SHARE
    if work.in_flight:
        most = SATURATING * hardware.multiprocessors
        streaming = max(streaming, read / READ_SHARE * most / work.in_flight)
    from_l2 = (read + reread) / hardware.rate(L2_BYTES)
    return max(streaming / hardware.bandwidth, from_l2)


def _arithmetic(work: Work, hardware: Hardware) -> float:
    single = work.instructions - work.double
    products = work.products / (hardware.rate(hardware.tensor) * TENSOR_SHARE) + work.exposed_bytes / hardware.bandwidth
    return products + max(
        (single + work.double) / (hardware.issue_rate * ISSUE_SHARE),
        single * FLOAT_PART / (hardware.rate(hardware.fp32) * ISSUE_SHARE),
        work.double / (hardware.rate(hardware.fp64) * ISSUE_SHARE),
        work.special / (hardware.rate(hardware.special) * SPECIAL_SHARE),
        work.chain * DEPENDENT / hardware.clock,
    )
