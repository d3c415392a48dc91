"""A call that is like none before it: prepared and run; by way of another device, verified, or by the interpreter."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .. import logs
from ..errors import CompileError, FusedslError, outside
from ..kernel_ir.plan import Plan
from ..runtime.array_copies import all_to_host, assign, from_host
from ..runtime.arrays import CPU, ArrayFacts, Facts, describe_all
from ..runtime.free_memory import require
from ..runtime.host_device_copies import download, runs_on_other_device, upload
from ..runtime.outputs import empty, library_and_device
from ..runtime.prepared_call import PreparedCall
from .plans import Plans
from .prepare_call import EmptyRows, Prepared, prepare
from .resolve_call import outputs

if TYPE_CHECKING:
    from ..config import Options
    from ..runtime.bound_call import BoundCall
    from .index_bounds import CheckedCall

Shapes = Sequence[tuple[int, ...]]


def run_new(
    plans: Plans, facts: Facts, outs: Sequence[Any] | None, spent: float = 0.0
) -> tuple[list, PreparedCall | CheckedCall | None]:
    """The results of a call that is prepared now, and what repeats it, if anything does. `spent` are seconds of its
    preparation so far.
    """
    options = plans.options
    try:
        if options.verify:
            return _run_verified(plans, facts, outs), None
        if runs_on_other_device(options, facts):
            return _run_there(plans, facts, outs), None
        start = perf_counter()
        prepared = _prepared(plans, facts, outs)
        check = require_in_range(plans, facts)
        logs.first_call(plans.source.title, spent + perf_counter() - start)
        results = prepared.run()
    except CompileError as error:
        if not options.fallback:
            raise
        warnings.warn(f"computed by the slow interpreter: {error}", RuntimeWarning, stacklevel=outside())
        return _run_interpreted(plans, facts, outs), None
    except EmptyRows:
        return _run_interpreted(plans, facts, outs), None
    if not prepared.reusable or check is None:
        return results, prepared.call if prepared.reusable else None
    from .index_bounds import CheckedCall

    return results, CheckedCall(check.call, prepared.call) if check.reusable else None


def raises(options: Options, facts: Facts) -> bool:
    """Whether an index out of range is an error of a call with these arguments.

    On a CUDA device nobody waits for what a kernel finds: there `verify` alone raises.
    """
    return (
        options.bounds == "raise" and library_and_device(facts)[1] == CPU and not runs_on_other_device(options, facts)
    )


def require_in_range(plans: Plans, facts: Facts) -> Prepared | None:
    """Raise where a result depends on an index out of range, if that is an error; what asks later calls, if needed."""
    if not raises(plans.options, facts):
        return None
    from .index_bounds import require

    return require(plans, facts)


def bound(plans: Plans, run: Callable[..., list], values: Sequence[Any], outs: Sequence[Any] | None) -> BoundCall:
    """A function of nothing that repeats a call; where its launches alone cannot, `run` does. See `Program.bind`."""
    from ..runtime.bound_call import CapturableLaunch, bind_results, fix_arguments

    facts = describe_all(plans.names, values)
    plan, shapes = _checked(plans, facts, outs)
    results = _destinations(plan, shapes, facts, outs)
    device = library_and_device(facts)[1]
    index = None if device == CPU else device[1]
    if not (plans.options.verify or runs_on_other_device(plans.options, facts)):
        with contextlib.suppress(EmptyRows):
            prepared = _prepared(plans, facts, results)
            if prepared.reusable and not _asks(plans, facts):
                return fix_arguments(prepared.call, prepared.payloads, results, values, index)
    result = results[0] if len(results) == 1 else tuple(results)
    return bind_results(lambda: (run(values, results), result)[1], result, CapturableLaunch(index))


def _asks(plans: Plans, facts: Facts) -> bool:
    """Whether each call asks for its indices first."""
    if not raises(plans.options, facts):
        return False
    from .index_bounds import asks

    return asks(plans, facts)


def _prepared(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> Prepared:
    """The call, ready to run; CompileError where planning it or writing its kernels fails for a fault of ours."""
    with _faults():
        if plans.options.tunes:
            from .autotune import prepare_tuned

            return prepare_tuned(plans, facts, outs)
        return prepare(plans, facts, outs)


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Exceptions of other kinds than ours as CompileErrors."""
    try:
        yield
    except (FusedslError, EmptyRows, MemoryError):
        raise
    except Exception as fault:
        message = f"the program cannot be planned: {type(fault).__name__}: {fault}"
        raise CompileError(
            message, "compile.plan", help="please report it with the text, the shapes and the dtypes"
        ) from fault


def _run_there(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> list:
    """NumPy arrays to a CUDA device, and the results back."""
    device = int((plans.options.device or "").partition(":")[2] or 0)
    _checked(plans, facts, outs)
    there = {n: upload(a, device) if isinstance(a, ArrayFacts) and not a.by_value else a for n, a in facts.items()}
    results = _prepared(plans, there, None).run()
    return [download(r, into) for r, into in zip(results, outs or [None] * len(results))]


def _run_verified(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> list:
    """The results, written to `outs` only once they agree with the interpreter."""
    from .verify_results import compare, exact

    with _faults():
        plan, _ = _checked(plans, facts, outs)
    expected = exact(plans.graph(facts), all_to_host(facts), plans.options)
    away = runs_on_other_device(plans.options, facts)
    results = _run_there(plans, facts, None) if away else _prepared(plans, facts, None).run()
    compare(plan, expected, results)
    for k, out in enumerate(outs or ()):
        if out is not None:
            assign(out, results[k], library_and_device(facts)[0])
            results[k] = out
    return results


def _run_interpreted(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> list:
    """The results from the interpreter, in arrays of the caller's library."""
    plan, shapes = plans.outline(facts)
    outputs(plan, outs, shapes, library_and_device(facts), facts)
    if raises(plans.options, facts):
        from .index_bounds import require_interpreted

        require_interpreted(plans, facts)
    values = interpreted(plans, facts)
    results = _destinations(plan, shapes, facts, outs)
    for value, result in zip(values, results):
        from_host(value, result, library_and_device(facts)[0])
    return results


def interpreted(plans: Plans, facts: Facts) -> list:
    """What the reference interpreter says, as NumPy arrays."""
    from ..ir.interp import footprint, interpret

    values, graph = all_to_host(facts), plans.graph(facts)
    require(footprint(graph, values), "what the interpreter computes, step by step")
    return interpret(graph, values)


def _checked(plans: Plans, facts: Facts, outs: Sequence[Any] | None) -> tuple[Plan, Shapes]:
    """The plan and the shapes of the results, all checks of arguments and outputs passed."""
    plan, shapes = plans.settled(facts)
    outputs(plan, outs, shapes, library_and_device(facts), facts)
    return plan, shapes


def _destinations(plan: Plan, shapes: Shapes, facts: Facts, outs: Sequence[Any] | None) -> list:
    """The arrays that results are written to: those given, and new ones."""
    each = zip(outs or [None] * len(shapes), shapes, plan.results)
    return [empty(*library_and_device(facts), shape, t.dtype) if out is None else out for out, shape, t in each]
