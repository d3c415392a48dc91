"""The first call of a kind: prepared and run; also on another device, verified, or by the interpreter."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .. import logs, metric_counts, progress
from ..errors import CompileError, FusedslError, caller_stacklevel
from ..kernel_ir.plan import Plan
from ..runtime.array_copies import all_to_host, assign, from_host
from ..runtime.arrays import CPU, ArrayFacts, Facts, describe_all
from ..runtime.free_memory import require
from ..runtime.host_device_copies import download, runs_on_other_device, upload
from ..runtime.outputs import empty, library_and_device
from ..runtime.prepared_call import PreparedCall
from .call_outputs import check_outputs, named_outputs
from .plans import Plans
from .prepare_call import EmptyRows, Prepared, prepare

if TYPE_CHECKING:
    from ..runtime.bound_call import BoundCall
    from .index_bounds import CheckedCall

Shapes = Sequence[tuple[int, ...]]


def run_first_call(
    plans: Plans, facts: Facts, outs: Sequence[Any] | None, spent: float = 0.0
) -> tuple[list, PreparedCall | CheckedCall | None]:
    """The results of a call that is prepared now, and what repeats it, if anything does.

    `spent` are seconds of preparation so far.
    """
    options = plans.options
    try:
        if options.verify:
            return _run_verified(plans, facts, outs), None
        if runs_on_other_device(options, facts):
            return _run_on_other_device(plans, facts, outs), None
        start = perf_counter()
        prepared = _prepare(plans, facts, outs)
        check = require_in_range(plans, facts)
        spent += perf_counter() - start
        record_first_call(plans.source.title, spent)
        results = prepared.run()
    except CompileError as error:
        if not options.fallback:
            raise
        metric_counts.count("fusedsl_interpreted_calls")
        warnings.warn(f"computed by the slow interpreter: {error}", RuntimeWarning, stacklevel=caller_stacklevel())
        return _run_interpreted(plans, facts, outs), None
    except EmptyRows:
        return _run_interpreted(plans, facts, outs), None
    if not prepared.reusable or check is None:
        return results, prepared.call if prepared.reusable else None
    from .index_bounds import CheckedCall

    return results, CheckedCall(check.call, prepared.call) if check.reusable else None


def require_in_range(plans: Plans, facts: Facts) -> Prepared | None:
    """Raise if a result depends on an index out of range and that is an error; the check for later calls, if any."""
    if plans.options.bounds != "raise":
        return None
    from .index_bounds import require_valid_indices

    return require_valid_indices(plans, facts)


def bind_call(plans: Plans, run: Callable[..., list], values: Sequence[Any], outs: Sequence[Any] | None) -> BoundCall:
    """A function without arguments that repeats a call, by `run` if launches alone cannot. See `Program.bind`."""
    from ..runtime.bound_call import CapturableLaunch, bind_results, fix_arguments

    facts = describe_all(plans.names, values)
    plan, shapes = _plan_and_shapes(plans, facts, outs)
    results = _result_arrays(plan, shapes, facts, outs)
    device = library_and_device(facts)[1]
    index = None if device == CPU else device[1]
    if not (plans.options.verify or runs_on_other_device(plans.options, facts)):
        with contextlib.suppress(EmptyRows):
            start = perf_counter()
            prepared = _prepare(plans, facts, results)
            record_first_call(plans.source.title, perf_counter() - start)
            if prepared.reusable and not _checks_indices(plans, facts):
                return fix_arguments(prepared.call, prepared.payloads, results, values, index)
    result = results[0] if len(results) == 1 else tuple(results)
    return bind_results(lambda: (run(values, results), result)[1], result, CapturableLaunch(index))


def record_first_call(title: str, seconds: float) -> None:
    """Log and count the preparation of a call, by whatever asked for it."""
    logs.first_call(title, seconds)
    metric_counts.count("fusedsl_first_calls")
    metric_counts.count("fusedsl_first_call_seconds", seconds)


def _checks_indices(plans: Plans, facts: Facts) -> bool:
    """Whether each call checks its indices first."""
    if plans.options.bounds != "raise":
        return False
    from .index_bounds import may_be_out_of_range

    return may_be_out_of_range(plans, facts)


def _prepare(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> Prepared:
    """The prepared call; CompileError if planning or generating its kernels fails through a fault of ours."""
    with _as_compile_errors(), progress.watched(plans.source.title):
        if plans.options.tunes:
            from .autotune import prepare_tuned

            return prepare_tuned(plans, facts, outs)
        return prepare(plans, facts, outs)


@contextlib.contextmanager
def _as_compile_errors() -> Iterator[None]:
    """Turns exceptions that are not ours into CompileErrors."""
    try:
        yield
    except (FusedslError, EmptyRows, MemoryError):
        raise
    except Exception as fault:
        message = f"the program cannot be planned: {type(fault).__name__}: {fault}"
        raise CompileError(
            message, "compile.plan", help="please report it with the expression, the shapes and the dtypes"
        ) from fault


def _run_on_other_device(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> list:
    """Copy NumPy arrays to a CUDA device, run, and copy the results back."""
    device = int((plans.options.device or "").partition(":")[2] or 0)
    _plan_and_shapes(plans, facts, outs)
    there = {n: upload(a, device) if isinstance(a, ArrayFacts) and not a.by_value else a for n, a in facts.items()}
    results = _prepare(plans, there, None).run()
    return [download(r, into) for r, into in zip(results, outs or [None] * len(results))]


def _run_verified(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> list:
    """The results, written to `outs` only once they agree with the interpreter."""
    from .verify_results import compare, exact

    with _as_compile_errors():
        plan, _ = _plan_and_shapes(plans, facts, outs)
    expected = exact(plans.graph(facts), all_to_host(facts), plans.options)
    away = runs_on_other_device(plans.options, facts)
    results = _run_on_other_device(plans, facts, None) if away else _prepare(plans, facts, None).run()
    compare(plan, expected, results)
    for k, out in enumerate(outs or ()):
        if out is not None:
            assign(out, results[k], library_and_device(facts)[0])
            results[k] = out
    return results


def _run_interpreted(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> list:
    """The results of the interpreter, in arrays of the caller's library."""
    plan, shapes = plans.outline(facts)
    check_outputs(plan, shapes, named_outputs(outs), facts)
    if plans.options.bounds == "raise":
        from .index_bounds import raises_on_index, require_interpreted

        if raises_on_index(plans.options, facts):
            require_interpreted(plans, facts)
    values = run_interpreter(plans, facts)
    results = _result_arrays(plan, shapes, facts, outs)
    for value, result in zip(values, results):
        from_host(value, result, library_and_device(facts)[0])
    return results


def run_interpreter(plans: Plans, facts: Facts) -> list:
    """The results of the reference interpreter, as NumPy arrays."""
    from ..ir.interp import interpret
    from ..ir.interp_memory import footprint

    values, graph = all_to_host(facts), plans.graph(facts)
    require(footprint(graph, values), "what the interpreter computes, step by step")
    return interpret(graph, values)


def _plan_and_shapes(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> tuple[Plan, Shapes]:
    """The plan and the result shapes, after all checks of arguments and outputs."""
    plan, shapes = plans.checked_plan(facts)
    check_outputs(plan, shapes, named_outputs(outs), facts)
    return plan, shapes


def _result_arrays(plan: Plan, shapes: Shapes, facts: Facts, outs: Sequence[Any] | None) -> list:
    """The arrays that results are written to: those given, and new ones."""
    each = zip(outs or [None] * len(shapes), shapes, plan.results)
    return [empty(*library_and_device(facts), shape, t.dtype) if out is None else out for out, shape, t in each]
