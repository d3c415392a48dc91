"""Shared objects made of object code: the system loads them, and they compute what the object code does."""

from __future__ import annotations

import ctypes
import struct
import sys
from itertools import pairwise

import llvmlite.binding as llvm
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cpu import processor, schedule, target_machine
from fusedsl.backends.cpu.elf import link
from fusedsl.report.explain import resolved_call
from fusedsl.runtime import compile as kernels
from fusedsl.runtime import launch_records, object_loader

linux = pytest.mark.skipif(sys.platform != "linux", reason="shared objects are for Linux")
KINDS = (processor.X86_64_V3, processor.ARMV8)

EVERYTHING = """
@counter = internal global i64 40
@table = internal constant [2 x ptr] [ptr @one, ptr @two]
@numbers = internal constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
@shown = global i64 1000
declare double @cbrt(double)
declare ptr @malloc(i64)
declare void @free(ptr)
define internal i64 @one(i64 %x) noinline { %y = add i64 %x, 1  ret i64 %y }
define internal i64 @two(i64 %x) noinline { %y = add i64 %x, 2  ret i64 %y }
define i64 @sum(i64 %at) {
  %old = load i64, ptr @counter
  %new = add i64 %old, 2
  store i64 %new, ptr @counter
  %place = getelementptr [2 x ptr], ptr @table, i64 0, i64 %at
  %f = load ptr, ptr %place
  %called = call i64 %f(i64 %new)
  %number = getelementptr [4 x i64], ptr @numbers, i64 0, i64 %at
  %n = load i64, ptr %number
  %s = load i64, ptr @shown
  %a = add i64 %called, %n
  %b = add i64 %a, %s
  ret i64 %b
}
define double @root(double %x) {
  %memory = call ptr @malloc(i64 8)
  store volatile double %x, ptr %memory
  %y = load volatile double, ptr %memory
  call void @free(ptr %memory)
  %r = call double @cbrt(double %y)
  %z = fadd double %r, 1.0
  ret double %z
}
define i64 @seven() { ret i64 7 }
"""


def objects(text: str, kind: processor.Processor = processor.X86_64_V3) -> bytes:
    """Object code of LLVM's text."""
    target = target_machine.machine(kind)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    return target.emit_object(module)


def host() -> processor.Processor:
    return processor.BASELINES[processor.host().architecture]


@linux
def test_an_object_with_everything_that_kernels_may_have(tmp_path):
    (tmp_path / "all.so").write_bytes(link(objects(EVERYTHING, host()), ["sum", "root"]))
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    library.sum.restype = ctypes.c_int64
    library.root.restype, library.root.argtypes = ctypes.c_double, [ctypes.c_double]
    assert library.sum(0) == 42 + 1 + 3 + 1000
    assert library.sum(1) == 44 + 2 + 5 + 1000
    assert library.root(27.0) == 4.0
    assert not hasattr(library, "seven")  # only what is asked for is found


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_nothing_is_written_and_executed(kind):
    code = link(objects(EVERYTHING, kind), ["sum"])
    (headers,), (count,) = struct.unpack_from("<Q", code, 32), struct.unpack_from("<H", code, 56)
    programs = [struct.unpack_from("<IIQQQQQQ", code, headers + 56 * k) for k in range(count)]
    assert {flags for kind, flags, *_ in programs if kind == 1} == {4, 5, 6}
    assert next(flags for kind, flags, *_ in programs if kind == 0x6474E551) == 6  # the stack
    loaded = [(place // 4096, (place + size - 1) // 4096) for kind, _, _, place, _, size, *_ in programs if kind == 1]
    assert all(before[1] < after[0] for before, after in pairwise(loaded))  # no page has two permissions


@linux
def test_object_code_and_shared_object_compute_the_same():
    functions = {"kernel": ("softmax(sin(x) @ w) * cbrt(x)", (130, 130)), "few": ("softmax(x)", (2, 300_000)),
                 "both": ("return sum(x, 0), sum(x, 1)", (900, 1100)), "sorted": ("sort(x)", (3, 700))}  # fmt: skip
    for text, shape in functions.values():
        kernel = fd.kernel(text)
        values = {name: np.random.default_rng(0).standard_normal(shape) for name in kernel.params}
        expected = kernel(**values)
        case = resolved_call(kernel._program, list(values.values()), "cpu", None, alone=True)
        codes = [case.built([one]) for one in case.kernels]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                object_loader, "_load", lambda code, symbols: object_loader._open(link(code, symbols), symbols)
            )
            patch.setattr(object_loader, "_loaded", {})
            found = fd.kernel(f"y = 0; {text}")(**values)
            assert len(object_loader._loaded) == len(codes)
        for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (expected, found))):
            np.testing.assert_array_equal(one, other)


def test_what_cannot_be_linked_is_refused():
    declared = "declare double @nobody(double)\ndefine double @f(double %x) {{ {} }}"
    called = declared.format("%y = call double @nobody(double %x) ret double %y")
    for text, names, why in (
        (called, ["f"], "no C library has nobody"),
        (EVERYTHING, ["sum", "product"], "does not define product"),
        ("@t = thread_local global i64 3\ndefine ptr @f() { ret ptr @t }", ["f"], "relocation|C library|section"),
    ):
        with pytest.raises(fd.CompileError, match=why):
            link(objects(text), names)
    for data in (b"", b"\x7fELF\x02\x01", link(objects(EVERYTHING), ["sum"])):
        with pytest.raises(fd.CompileError, match="not a relocatable ELF64 object"):
            link(data, ["sum"])


@linux
def test_a_damaged_shared_object_is_an_error_of_the_device():
    with pytest.raises(fd.DeviceError, match="does not load"):
        object_loader.load(link(objects(EVERYTHING, host()), ["sum"])[:300], ("sum",))


# -- AArch64, on an emulator

TEXTS = ("softmax(x)", "x @ x.T", "sin(x) + cos(x)", "layer_norm(x)", "argsort(x)", "cumsum(x, -1)", "sum(x, 0)",
         "round(x * 3)", "where(iota(x, -1) > 5, x, exp(x))")  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("text", TEXTS)
def test_code_for_arm_computes_what_this_machine_does(text, dtype):
    pytest.importorskip("unicorn")
    from aarch64 import Machine

    x = np.random.default_rng(0).standard_normal((70, 130)).astype(dtype)
    kernel = fd.kernel(text)
    expected = kernel(x)
    case = resolved_call(kernel._program, [x], "cpu", None, alone=True)
    ((plan, bound),) = case.kernels
    scheduled, loops = kernels.scheduled_cpu(bound)
    built = kernels.build_loops(scheduled, loops, plan.digest, processor.ARMV8)
    machine = Machine(link(built.code, built.symbols))
    where = launch_records.PayloadLayout(1, 1, extents=case.extents)
    divided = scheduled.magic_divisors(1, bound.extents)
    block = bytearray(launch_records.block_template(scheduled, bound, divided))
    arrays = [machine.put(x), machine.put(np.zeros_like(expected))]
    for slot in launch_records.pointer_slots(plan, bound, scheduled, where):
        struct.pack_into("<Q", block, slot.offset, arrays[slot.argument] + slot.shift)
    for slot in launch_records.scalar_slots(plan, bound, scheduled, where):
        struct.pack_into(f"<{slot.format}", block, slot.offset, where.numbers[slot.argument - where.number(0)])
    work = schedule.launch(scheduled, loops, bound.extents)
    assert len(work.stages) == 1 and not work.workspace
    machine.call(work.stages[0].symbol, machine.put(np.frombuffer(block, np.uint8)), 0, work.stages[0].count)
    found = machine.get(arrays[1], expected)
    ulps = x.shape[1] if "@" in text else 20  # this machine's BLAS adds products in another order
    np.testing.assert_allclose(found, expected, rtol=20 * np.finfo(dtype).eps, atol=ulps * np.finfo(dtype).eps)
