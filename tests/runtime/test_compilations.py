"""A new shape compiles nothing unless a kernel's binary depends on it."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

import fusedsl as fd
from fusedsl.hardware import hardware_facts
from fusedsl.ir.types import FLOAT32
from fusedsl.kernel_ir.batched_calls import BLOCK_WORDS
from fusedsl.kernel_ir.launch_config import LaunchConfig
from fusedsl.program import call_steps, call_target
from fusedsl.program.prepare_foreach import group_by_binary
from fusedsl.program.resolve_call import resolve
from fusedsl.report.explain import resolved_call
from fusedsl.runtime import specialize
from fusedsl.runtime.arrays import ArrayFacts
from fusedsl.runtime.batched_call import BatchedPayloads, BatchMember
from fusedsl.runtime.compile import cuda_key

MOST = 12
SIZES = 2  # binaries of sorts besides: one for each number of elements of a row that a block holds
TILES = 7  # binaries of aligned products of matrices besides: one for each shape of tiles, all of them useful


def binaries(text, dtypes, shapes):
    """What calls with these shapes compile, one after the other; `shapes` are those of all arrays."""
    made, found = fd.kernel(text), set()
    for given in shapes:
        specs = [fd.spec(shape, dtype) for shape, dtype in zip(given, dtypes)]
        case = resolved_call(made._program, specs, "cuda", 90, reserve=True)
        for plan, bound in case.kernels:
            kernel, schedule = case.scheduled(plan, bound)
            found.add(cuda_key(kernel, schedule, plan.digest, (9, 0)))
    return found


def shapes(rows, columns, count=1000):
    """As many between 2 and 4 as between 2,000 and 4,000, up to these numbers, unit axes included."""
    draw = random.Random(0)
    return [(int(rows ** draw.random()), int(columns ** draw.random())) for _ in range(count)]


def reason_of(made, shape, reserve=False):
    """The reason of the schedule that a call with a matrix of this shape, and a row of it, has."""
    specs = [fd.spec(shape if name == "x" else shape[-1:], "float32") for name in made.params]
    case = resolved_call(made._program, specs, "cuda", 90, reserve=reserve)
    return case.scheduled(*case.kernels[0])[1].reason


def deep(least=2, count=300):
    """Three extents, that are no less."""
    draw = random.Random(0)
    return [tuple(least - 1 + int(most ** draw.random()) for most in (200, 3000, 3000)) for _ in range(count)]


ROWS, MANY_ROWS = shapes(1e5, 30_000, 300), shapes(1e5, 30_000)
LENGTHS = (333, 601, 1201, 1801, 2501, 3501, 5501, 7001, 9001, 12_001)  # no two of which share a binary
LOSS = "logsumexp(x, -1) - take_along_axis(x, i[:, None], -1)[:, 0]"
SEVERAL = "h = x + r; return rms_norm(h, w), h, max(h, axis=-1), argmax(x, axis=-1)"
BACKWARD = """
    m = mean(x, -1, keepdims=True)
    s = rsqrt(var(x, -1, keepdims=True) + 1e-5)
    h = (x - m) * s
    g = d * w
    return (g - mean(g, -1, keepdims=True) - h * mean(g * h, -1, keepdims=True)) * s, sum(d * h, 0), sum(d, 0)
"""
KERNELS = {
    "gelu": ("gelu(x)", ["bfloat16"], [(s,) for s in shapes(1e6, 262_144, 300)]),
    "broadcast": ("where(x > b, x, b)", ["int8", "int8"], [(s, s[-1:]) for s in shapes(1e6, 262_144, 300)]),
    "transpose": ("x.T + 1", ["bfloat16"], [(s,) for s in ROWS]),
    "full sum": ("sum(x)", ["float32"], [(s,) for s in ROWS]),
    "sum": ("sum(x, -1)", ["bfloat16"], [(s,) for s in ROWS]),
    "variance of columns": ("var(x, 0)", ["float32"], [(s,) for s in ROWS]),
    "softmax": ("softmax(x)", ["float32"], [(s,) for s in MANY_ROWS]),
    "softmax of 16 bits": ("softmax(x)", ["bfloat16"], [(s,) for s in ROWS]),
    "layer norm": ("layer_norm(x, w, b)", ["bfloat16"] * 3, [(s, s[-1:], s[-1:]) for s in MANY_ROWS]),
    "several": (SEVERAL, ["float32"] * 3, [(s, s, s[-1:]) for s in ROWS]),
    "cross-entropy": (LOSS, ["bfloat16", "int64"], [(s, s[:1]) for s in ROWS]),
    "layer norm backward": (BACKWARD, ["bfloat16"] * 3, [(s, s, s[-1:]) for s in ROWS]),
    "scan": ("cumsum(x, -1)", ["float32"], [(s,) for s in ROWS]),
    "best": ("topk(x, 8)", ["float32"], [(s,) for s in ROWS if s[1] >= 8]),
    "order": ("argsort(x)", ["float16"], [(s,) for s in ROWS]),
    "middle sum": ("sum(x, 1)", ["bfloat16"], [(s,) for s in deep()]),
    "middle sum, units too": ("sum(x, 1)", ["bfloat16"], [(s,) for s in deep(1)]),
    "middle softmax": ("softmax(x, 1)", ["float32"], [(s,) for s in deep()]),
    "middle softmax, units too": ("softmax(x, 1)", ["float32"], [(s,) for s in deep(1)]),
    "middle variance, units too": ("var(x, 1), mean(x, 1)", ["float16"], [(s,) for s in deep(1)]),
    "product": ("relu(a @ b)", ["bfloat16"] * 2, [((n, d), (d, m)) for d, n, m in deep()]),
    "product, units too": ("relu(a @ b)", ["bfloat16"] * 2, [((n, d), (d, m)) for d, n, m in deep(1)]),
    "products": ("relu(a @ b)", ["float32"] * 2, [((7, n, d), (7, d, m)) for d, n, m in deep(1)]),
    "attention": (
        "softmax(q @ k.mT * 0.1) @ v", ["bfloat16"] * 3, [((2, n, 64), (2, m, 64), (2, m, 64)) for _, n, m in deep()]
    ),
    "attention, units too": (
        "softmax(q @ k.mT * 0.1) @ v", ["bfloat16"] * 3, [((b, n, 64), (b, m, 64), (b, m, 64)) for b, n, m in deep(1)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_many_random_shapes_share_a_dozen_binaries(name):
    assert len(binaries(*KERNELS[name])) <= MOST + (TILES if "product" in name else SIZES if name == "order" else 0)


LISTS = {
    "map": ("x * 2 + 1", ["float32"], [(s,) for s in shapes(1e6, 262_144, 300)]),
    "softmax": ("softmax(x)", ["float32"], [(s,) for s in ROWS]),
    "layer norm": ("layer_norm(x, w, b)", ["bfloat16"] * 3, [(s, s[-1:], s[-1:]) for s in ROWS]),
    "sum": ("sum(x, -1)", ["bfloat16"], [(s,) for s in ROWS]),
    "norm": ("sqrt(sum(x * x))", ["float32"], [(s,) for s in ROWS]),
    "columns": ("var(x, 0)", ["float32"], [(s,) for s in ROWS]),
    "scan": ("cumsum(x, -1)", ["float32"], [(s,) for s in ROWS]),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_many_random_shapes_share_a_dozen_binaries(name):
    """Sixty lists of five calls, and one of all."""
    text, dtypes, given = LISTS[name]
    kernel, found = fd.kernel(text), set()
    for first in (*range(0, len(given), 5), None):
        calls = given if first is None else given[first : first + 5]
        for plan, scheduled in listed(kernel, [[fd.spec(s, d) for s, d in zip(call, dtypes)] for call in calls]):
            found.add(cuda_key(*scheduled, plan.digest, (9, 0)))
    assert len(found) <= MOST


def listed(kernel, calls):
    """(plan, (kernel, schedule)) of the launches of calls over lists of these arguments."""
    for step in range(2):
        members = []
        for k, specs in enumerate(calls):
            case = resolved_call(kernel._program, specs, "cuda", 90, reserve=True, listed=True)
            if step < len(case.kernels):
                plan, bound = case.kernels[step]
                places = tuple(range(k * len(specs), (k + 1) * len(specs)))
                members.append(
                    BatchMember(plan, bound, LaunchConfig(0, 0), BatchedPayloads(0, 0, argument_indices=places))
                )
        for made, schedule, found in group_by_binary(members, frozenset(), hardware_facts((9, 0)), BLOCK_WORDS[-1]):
            yield found[0].plan, (made, schedule)


def test_lengths_of_many_models_have_binaries_of_their_own_whatever_came_before():
    made = fd.kernel("softmax(x)")
    seen = [reason_of(made, (64, columns), reserve=True) for columns in (*LENGTHS, 4096, 4097, 10_000)]
    general = ["shape-generic" in reason for reason in seen]
    assert general == [n >= call_steps.SPECIALIZED_BINARIES for n in range(len(LENGTHS))] + [False] * 3


def test_calls_of_arrays_on_a_card_take_places_in_the_quota(monkeypatch):
    monkeypatch.setattr(call_target, "card", lambda index: call_target.architecture(hardware_facts((9, 0))))
    plans, seen = fd.kernel("softmax(x)")._program.plans, []
    for n in LENGTHS:
        facts = {"x": ArrayFacts("torch", FLOAT32, (64, n), (n, 1), 0, ("cuda", 0), False, None)}
        call = resolve(plans, facts, call_target.array_target(plans, facts))
        seen.append("shape-generic" in call.scheduled(*call.kernels[0])[1].reason)
    assert seen == [n >= call_steps.SPECIALIZED_BINARIES for n in range(len(LENGTHS))]


def test_the_first_lengths_keep_their_binaries_and_looking_at_others_changes_nothing():
    made = fd.kernel("rms_norm(x, w)")
    first, (other, *_) = LENGTHS[: call_steps.SPECIALIZED_BINARIES], LENGTHS[call_steps.SPECIALIZED_BINARIES :]
    assert not any("shape-generic" in reason_of(made, (64, n)) for n in LENGTHS)
    assert not any("shape-generic" in reason_of(made, (64, n), reserve=True) for n in first)
    assert "shape-generic" in reason_of(made, (64, other)) == reason_of(made, (64, other), reserve=True)
    assert not any("shape-generic" in reason_of(made, (64, n)) for n in first)


def test_a_saved_kernel_finds_its_binaries_whatever_was_called_before(tmp_path):
    """In the process that saves it, and in one that loads it."""
    pytest.importorskip("numba_cuda")
    made = fd.kernel("softmax(x)")
    for n in LENGTHS:
        reason_of(made, (64, n), reserve=True)
    made.save(tmp_path / "rows.fused", fd.spec((64, LENGTHS[-1])))
    loaded = fd.load(tmp_path / "rows.fused")
    assert "shape-generic" not in reason_of(loaded, (64, LENGTHS[-1]), reserve=True)
    others = [
        reason_of(loaded, (64, n), reserve=True) for n in LENGTHS[: call_steps.SPECIALIZED_BINARIES + 1]
    ]  # its calls alone count
    assert ["shape-generic" in reason for reason in others] == [False] * call_steps.SPECIALIZED_BINARIES + [True]


def test_kernels_that_share_a_launch_are_few():
    made, found = fd.kernel("max(x, axis=-1), sum(y * y, axis=-1)"), set()
    for (n, a), (m, b) in pairwise(ROWS):
        case = resolved_call(
            made._program, [fd.spec((n + 1, a + 1)), fd.spec((m + 1, b + 1))], "cuda", 90, reserve=True
        )
        for members in case.launches:
            several = len(members) > 1
            kernel, schedule = case.combo(members) if several else case.scheduled(*members[0])
            found.add(cuda_key(kernel, schedule, specialize.digests(members), (9, 0)))
    shared = [key for key in found if " " in key[2]]
    assert 0 < len(shared) <= call_steps.SPECIALIZED_BINARIES and len(found) - len(shared) <= 2 * MOST


def test_dynamic_says_which_lengths_have_binaries_of_their_own():
    always, never = fd.kernel("softmax(x)", dynamic=False), fd.kernel("softmax(x)", dynamic=True)
    assert not any("shape-generic" in reason_of(always, (64, n), reserve=True) for n in LENGTHS)
    assert "shape-generic" in reason_of(never, (64, 700), reserve=True)
    never = fd.kernel("sum(x, 0)", dynamic=True)  # of which there are few kinds
    few = [reason_of(never, shape, reserve=True) for shape in [(3, 200_001), (2, 70), (1, 77), (9, 4099)]]
    assert all("shape-generic" in reason for reason in few)


def test_results_of_tuning_are_near_the_untuned_ones():
    """The stored run of the suite `tune`: no schedule was more than 10 % slower than the best of its neighbours."""
    import json
    from pathlib import Path

    results = Path(__file__).parents[2] / "benchmarks" / "results" / "h200_tune.json"
    rows = json.loads(results.read_text())["rows"]
    times = {(r["workload"], r["shape"], r["dtype"], r["peer"]): r["median_us"] for r in rows}
    cases = {case[:3] for case in times}
    assert len(cases) >= 70
    assert all(times[(*case, "fusedsl")] <= 1.1 * times[(*case, "fusedsl tuned")] for case in cases)
