"""Schedules are pure functions: axes merge, accesses are safe, divisions are exact, rows fit, reasons are given."""

import dataclasses
import random

import pytest
from written import instructions

from fusedsl.backends.cuda.rows.looped import _fuller, prefers_looped
from fusedsl.backends.cuda.schedule import choose
from fusedsl.hardware import blocks_for, hardware_facts, occupancy, registers_for
from fusedsl.ir.types import BFLOAT16, FLOAT32, FLOAT64, INT8
from fusedsl.kernel_ir.fast_division import divide, divisors, magic
from fusedsl.kernel_ir.kernel import KernelIR, Load, Operand
from fusedsl.kernel_ir.map_access import elementwise_access
from fusedsl.kernel_ir.memory_access import (
    merge_axes,
    merge_row_axes,
    row_access,
    stride_kinds,
    vector_width,
)
from fusedsl.kernel_ir.parameter_layout import kernel_params
from fusedsl.kernel_ir.phase import Body, Phase, Reduction, Store, Value

H200 = hardware_facts((9, 0))


def sum_rows(dtype=FLOAT32, strides="s1", access="vector", resident=True):
    x, s = Value("x_0", dtype.compute), Value("s_1", dtype.compute)
    a, b, c = (Value(name, dtype.compute) for name in ("a_2", "b_3", "c_4"))
    merge = Body((a, b), (c,), instructions("c_4 = a_2 + b_3"))
    fold = Reduction("s_1", (x,), (s,), (f"{dtype.compute.name}(0.0)",), merge)
    phase = Phase(Body((x,), (x,), ()), (), (fold,), None, (Store("s_1", 1),))
    operands = (Operand("x", dtype, strides, access), Operand("y", dtype, "s0"))
    return KernelIR("sum", ("y = sum(x, -1)",), 1, 1, 1, operands, (Load(x, 0),), (), (), (phase,), resident)


def test_neighbouring_axes_merge_where_every_operand_allows_it():
    merged = merge_axes((4, 5, 6), ((30, 6, 1), (30, 6, 1)), outputs=(1,))
    assert merged.extents == (120,)
    assert merged.strides == ((1,), (1,))
    bias = merge_axes((4, 5, 6), ((30, 6, 1), (0, 0, 1), (30, 6, 1)), outputs=(2,))
    assert bias.extents == (20, 6)
    assert [stride_kinds(bias.extents, line) for line in bias.strides] == ["s1", "01", "s1"]


def test_the_innermost_axis_is_the_outputs_contiguous_one():
    turned = merge_axes((8, 16), ((1, 8), (16, 1)), outputs=(1,))
    assert turned.strides[1] == (16, 1)
    both = merge_axes((8, 16), ((1, 8), (1, 8)), outputs=(1,))
    assert both.extents == (128,)


def test_unit_axes_vanish_but_one_axis_stays_and_kept_axes_stay_apart():
    assert merge_axes((1, 1), ((0, 0),)).extents == (1,)
    assert merge_axes((1, 7, 1), ((7, 1, 1),)).extents == (7,)
    kept = merge_axes((4, 6), ((6, 1),), keep=(1,))
    assert kept.extents == (4, 6)
    assert kept.axes == ((0,), (1,))


def test_rows_and_columns_merge_among_themselves():
    merged, rows = merge_row_axes((8, 4), (3, 5), ((60, 15, 5, 1), (4, 1, 0, 0)))
    assert (merged.extents, rows) == ((32, 15), 1)
    assert merged.strides == ((15, 1), (1, 0))
    full, rows = merge_row_axes((), (6, 7), ((7, 1),))
    assert (full.extents, rows) == ((1, 42), 1)


def test_offsets_beyond_31_bits_are_wide():
    assert merge_axes((1 << 31,), ((1,),)).index64
    assert merge_axes((2, 4), ((1 << 31, 1),)).index64
    assert not merge_axes((1 << 30,), ((1,),)).index64


def test_vectors_are_16_bytes_of_the_widest_whole_array():
    assert vector_width((FLOAT32, FLOAT32), ("1", "1")) == 4
    assert vector_width((BFLOAT16, FLOAT32), ("s1", "01")) == 8  # the weights come again and again
    assert vector_width((INT8, FLOAT64), ("1", "1")) == 2
    assert vector_width((FLOAT32,), ("s",)) == 1


def test_a_map_takes_vectors_only_where_they_are_aligned():
    line = merge_axes((1001,), ((1,), (1,)), outputs=(1,))
    assert elementwise_access(line, (FLOAT32,) * 2, (0, 0)) == ("vector", "vector")
    assert elementwise_access(line, (FLOAT32,) * 2, (4, 0)) == ("element", "vector")
    grid = merge_axes((8, 6), ((8, 1), (6, 1)), outputs=(1,))  # rows of 6 are no whole vectors
    assert elementwise_access(grid, (FLOAT32,) * 2, (0, 0)) == ("element", "flat")


def test_unaligned_rows_share_an_anchor_if_they_are_off_by_the_same_number():
    rows, axes = merge_row_axes((8,), (4097,), ((4097, 1), (0, 1), (4097, 1)), outputs=(2,))
    assert row_access(rows, axes, (FLOAT32,) * 3, (0, 0, 16)) == ("peeled", "element", "peeled")
    assert row_access(rows, axes, (FLOAT32,) * 3, (4, 0, 4)) == ("peeled", "element", "peeled")
    whole, axes = merge_row_axes((8,), (4096,), ((4096, 1), (0, 1), (4096, 1)), outputs=(2,))
    assert row_access(whole, axes, (FLOAT32,) * 3, (0, 4, 0)) == ("vector", "element", "vector")


def test_division_by_multiplication_is_exact():
    draw = random.Random(0)
    numbers = [1, 2, 3, 5, 7, 1000, 4097, (1 << 30) + 1, (1 << 31) - 1]
    for divisor in numbers + [draw.randrange(1, 1 << 31) for _ in range(300)]:
        packed = magic(divisor)
        edges = [0, 1, divisor - 1, divisor, 2 * divisor - 1, (1 << 31) - 1]
        for n in edges + [draw.randrange(1 << 31) for _ in range(20)]:
            if n < 1 << 31:
                assert divide(n, packed) == n // divisor
    assert divide((1 << 31) - 1, magic(1 << 40)) == 0
    assert divisors(2, 4, (5, 6, 9)) == (6, 3)
    assert divisors(1, 4, (5, 6, 9)) == (2, 9)


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, FLOAT64], ids=repr)
@pytest.mark.parametrize("access", ["vector", "peeled", "element"])
def test_a_resident_row_is_held_and_its_unchecked_vectors_are_there(dtype, access):
    kernel = sum_rows(dtype, access=access)
    for columns in [1, 7, 8, 31, 33, 127, 500, 1000, 1024, 1025, 4096, 4097, 8192, 10000, 16384, 40000, 1 << 20]:
        schedule = choose(kernel, (64, columns), H200)
        if access == "vector" and dtype is FLOAT32 and columns <= 16384:
            assert schedule.resident
        if schedule.resident:
            slack = schedule.width - 1 if access == "peeled" and not schedule.peeled_elements else 0
            assert schedule.vectors * schedule.vector_stride >= columns + slack
            apart = 2 * schedule.width - 2 if schedule.peeled_elements else 0  # what is in no whole vector, at most
            assert schedule.full_vectors * schedule.vector_stride <= columns - apart
            assert not apart or schedule.peeled_elements * schedule.threads >= apart
        assert schedule.block_threads <= 1024
        assert schedule.reason
        launch = schedule.launch(kernel, (64, columns))
        assert launch.blocks * schedule.rows >= 64
        assert launch.threads == schedule.block_threads
        assert launch.shared == 0


def test_rows_of_one_length_class_share_a_schedule():
    kernel = sum_rows()
    assert choose(kernel, (64, 3076), H200, False) == choose(kernel, (99, 4096), H200, False)


def test_rows_on_lines_share_a_binary_whatever_their_threads():
    some, more, longest = (choose(sum_rows(), (64, columns), H200) for columns in (516, 3076, 8188))
    assert some.compiled_form == more.compiled_form == longest.compiled_form
    assert [one.threads for one in (some, more, longest)] == [32, 128, 256]
    assert choose(sum_rows(), (64, 4096), H200) == choose(sum_rows(), (64, 4096), H200, False)


def test_scattered_columns_put_neighbouring_rows_on_neighbouring_threads():
    schedule = choose(sum_rows(strides="ss", access="element"), (4096, 512), H200)
    assert not schedule.resident
    assert schedule.rows_across_lanes


def test_occupancy_names_what_runs_out():
    assert occupancy(H200, 32, 256, 0).blocks == 8
    assert occupancy(H200, 64, 256, 0).limiter == "registers"
    assert occupancy(H200, 32, 128, 100 * 1024).limiter == "shared memory"
    assert occupancy(H200, 16, 32, 0).limiter == "blocks"
    assert blocks_for(H200, 48, 128) == 10
    assert blocks_for(H200, 80, 32) == 24  # warps come in fours: one for each quarter of an SM
    assert registers_for(H200, 25, 32) == 72
    assert hardware_facts((9, 9)).cc == (9, 0)
    with pytest.raises(ValueError, match="older"):
        hardware_facts((6, 1))


def test_slots_are_counted_in_one_order():
    kinds = [slot.kind for slot in kernel_params(sum_rows())]
    assert kinds == ["pointer"] * 2 + ["extent"] * 2 + ["stride"] * 2 + ["magic"]


def test_wide_rows_share_the_shared_memory_of_clusters():
    kernel = sum_rows(resident=False)
    second = dataclasses.replace(kernel.phases[0], row_stores=(), stores=(Store("x_0", 1),), folds=())
    kernel = dataclasses.replace(kernel, phases=(*kernel.phases, second))
    chosen = [choose(kernel, (4096, columns), H200) for columns in (20000, 65536, 262144, 10_000_000)]
    assert [schedule.cluster for schedule in chosen] == [1, 4, 16, 1]
    assert [schedule.smem for schedule in chosen] == [True, True, True, False]
    assert chosen[1].launch(kernel, (4096, 65536)).cluster == 4


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "threads"),
    [
        (16384, 16384, BFLOAT16, 32),
        (8192, 32768, FLOAT32, 128),
        (4096, 65536, BFLOAT16, 128),
        (1024, 262144, FLOAT32, 256),
    ],
)
def test_rows_that_are_read_once_are_streamed_by_small_teams_that_turn_often(rows, columns, dtype, threads):
    plain = sum_rows(dtype, resident=False)
    (phase,) = plain.phases
    grown = Value("e_5", FLOAT32)
    phase = dataclasses.replace(
        phase,
        element=Body((Value("x_0", FLOAT32),), (grown,), instructions("e_5 = exp(x_0)")),
        folds=(dataclasses.replace(phase.folds[0], inputs=(grown,)),),
    )
    kernel = dataclasses.replace(plain, phases=(phase,))
    assert prefers_looped(kernel, (rows, columns), H200)
    assert not prefers_looped(plain, (rows, columns), H200)
    assert not prefers_looped(kernel, (rows, 8192), H200)
    assert not prefers_looped(kernel, (64, columns), H200)
    schedule = choose(kernel, (rows, columns), H200)
    assert schedule.threads == threads
    assert columns >= 8 * schedule.tile_elements


def test_rows_that_are_read_once_leave_a_block_out_where_the_last_wave_is_fuller():
    assert [_fuller(rows, 5, 128, H200) for rows in (1024, 2048, 660, 1 << 20)] == [4, 4, 5, 5]
    assert _fuller(8192, 9, 64, H200) == 8  # as many registers as leave room for ten
    assert _fuller(132, 2, 128, H200) == 2


def test_short_rows_are_read_in_lines_of_memory():
    assert [choose(sum_rows(BFLOAT16), (1 << 18, n), H200).threads for n in (8, 64, 160, 488)] == [1, 2, 4, 8]


def test_blocks_of_short_rows_move_more_than_is_moved_until_the_next_begins():
    for columns in (64, 256, 1024):
        schedule = choose(sum_rows(BFLOAT16), (1 << 18, columns), H200)
        assert schedule.rows * columns * 2 >= 4096 or schedule.block_threads == 128
