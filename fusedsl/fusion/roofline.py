"""The time model: how long one launch takes, from what it moves, computes and keeps on its way.

Calibrated on an H200 (benchmarks/results): event to event of single launches with a cold L2; 90 % of the suites are
within 25 % of it, by a test.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..hardware import Hardware

LAUNCH = 2.7e-6  # seconds of an empty launch
LATENCY = 1.4e-6  # … of one round of loads: so much less does nothing that reads memory take
APART = 1.3  # how far a round of loads adds to the rest: 1 wholly, infinity not at all
READ_SHARE, WRITE_SHARE = 0.96, 0.84  # of the data sheet's bandwidth, reading and writing
ISSUE_SHARE = 0.85  # of the issue rate that code without memory accesses reaches
SPECIAL_SHARE = 0.92  # … of the rate of special functions
TENSOR_SHARE = 0.92  # … of the rate of tensor cores
FLOAT_PART = 0.7  # of float32 instructions that its units execute; others compare, select, convert and move
DEPENDENT = 9  # clocks between instructions of a thread that has nobody beside it
SATURATING = 48 << 10  # bytes of loads that each SM has under way where memory is the limit
L2_BYTES = 24  # bytes a clock that an SM gets from the L2
L2_SHARE = 0.6  # of the L2 that data stays in until it is read again


@dataclass(frozen=True)
class Work:
    """What a launch does. Bytes are those of memory; `again` those that later passes read of what they read before.

    `instructions` include loads and stores; `special` of them are functions of the special units, `double` float64.
    `chain` are instructions that one thread issues. `under_way` are bytes of loads that all SMs have under way at once
    (None: enough), `kept` the bytes that must stay in the L2 for the later passes. `products` are multiply-adds of
    tensor cores, beside which nothing else is computed, and `apart` bytes beside which nothing is computed at all.
    """

    read: float
    written: float
    instructions: float
    special: float = 0
    double: float = 0
    chain: float = 0
    under_way: float | None = None
    again: float = 0
    kept: float = 0
    products: float = 0
    apart: float = 0


def seconds(work: Work, hardware: Hardware) -> float:
    """One launch: whatever takes longest of memory, issue, and the units, on top of its fixed part and of most of the
    first round of loads."""
    busy = max(_memory(work, hardware), _arithmetic(work, hardware))
    return LAUNCH + (LATENCY**APART + busy**APART) ** (1 / APART)


def limits(hardware: Hardware) -> tuple[Work, ...]:
    """Seconds that one byte or instruction of each kind adds to memory's time, to that of issue, and to those of the
    units: the largest of these sums is how long a launch is busy that reads everything once."""
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
    read, again = work.read, work.again
    if work.kept > L2_SHARE * hardware.l2:
        read, again = read + again, 0
    streaming = read / READ_SHARE + work.written / WRITE_SHARE
    if work.under_way:
        most = SATURATING * hardware.multiprocessors
        streaming = max(streaming, read / READ_SHARE * most / work.under_way)
    from_l2 = (read + again) / hardware.rate(L2_BYTES)
    return max(streaming / hardware.bandwidth, from_l2)


def _arithmetic(work: Work, hardware: Hardware) -> float:
    single = work.instructions - work.double
    products = work.products / (hardware.rate(hardware.tensor) * TENSOR_SHARE) + work.apart / hardware.bandwidth
    return products + max(
        (single + work.double) / (hardware.issue_rate * ISSUE_SHARE),
        single * FLOAT_PART / (hardware.rate(hardware.fp32) * ISSUE_SHARE),
        work.double / (hardware.rate(hardware.fp64) * ISSUE_SHARE),
        work.special / (hardware.rate(hardware.special) * SPECIAL_SHARE),
        work.chain * DEPENDENT / hardware.clock,
    )
