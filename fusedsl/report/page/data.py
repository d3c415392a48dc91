"""What a report page says, as plain data: every number that the page draws or prints is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import CompileError
from ...fusion.roofline import Work
from ...fusion.unfused_cost import unfused_kernels
from ...hardware import Hardware
from ...ir.graph import Graph, Node, search
from ...program import Program
from ...program.resolve_call import ResolvedCall
from ...runtime.compile import source_of
from ..cpu_limits import cpu_limits, cpu_seconds
from ..explain import Explanation, explain, plain, resolved_call
from ..ir_after_passes import pass_outputs
from ..listing import ListedLine, Listing, list_kernel
from ..program_spans import program_pieces
from ..provenance import Owners, owners
from ..resource_cards import ARCHITECTURES, resource_cards
from ..target import check_flag, parse_cc, this_machine
from ..tile_map import tile_maps

LONGEST_LISTING = 400_000  # letters of all PTX of a page, and of all SASS
LONGEST_PASS = 60_000  # letters of one pass
NO_COMPILER = "compile=False: nothing was compiled"
FOR_GPUS = "the call runs on the CPU; cc=90, or another compute capability, shows it for a GPU"


def page_data(
    program: Program,
    values: Sequence[Any],
    device: Any = None,
    cc: Any = None,
    compile: Any = True,
    measure: bool = False,
) -> dict[str, Any]:
    """The data of a report page, for a call with these arguments or specs.

    `compile` is whether kernels are compiled, or the compute capabilities of the resource cards.
    """
    if not isinstance(compile, (list, tuple)):
        check_flag("compile", compile, ", or a list of compute capabilities, as in compile=(80, 90)")
    compiles = compile is not False
    explanation = explain(program, values, device, cc, compiles, measure)
    call = resolved_call(program, values, device, cc, this_machine() if measure else None)
    owned = owners(call)
    limits = call.target.hardware or cpu_limits(measure)
    absent: dict[str, str] = {}
    asked = ARCHITECTURES if compile is True else () if not compiles else tuple(map(parse_cc, compile))
    return {
        "version": 1,
        "explanation": explanation.to_dict(),
        "hardware": _limits(limits),
        "program": plain(program_pieces(call, owned)),
        **_graph(call, owned),
        "roofline": _roofline(call, explanation, owned, limits),
        "listings": _listings(call, explanation, compiles, absent),
        "passes": [_pass(x) for x in plain(pass_outputs(call))],
        "cards": plain(_cards(call, asked, absent)),
        "tiles": plain(tile_maps(call)),
        "absent": absent,
    }


def _limits(card: Hardware) -> dict[str, Any]:
    """The limits of the roofline."""
    rates = {"bytes_per_second": card.bandwidth, "instructions_per_second": card.issue_rate}
    return {
        "card": card.card,
        "is_cpu": not card.cc[0],
        **rates,
        "tensor_multiply_adds_per_second": card.rate(card.tensor),
    }


def _pass(output: dict[str, Any]) -> dict[str, Any]:
    text = output["text"]
    more = f"\n… {len(text) - LONGEST_PASS:,} letters more" if len(text) > LONGEST_PASS else ""
    return output | {"text": text[:LONGEST_PASS] + more}


# -- the graph, an operation a node


def _graph(call: ResolvedCall, owned: Owners) -> dict[str, Any]:
    """The operations that NumPy or CuPy would launch, with the kernels that compute them now, and what each reads."""
    steps = [step.node for step in unfused_kernels(call.graph, call.extents)]
    operations = [{"kernels": list(owned.get(n, ()))} for n in steps]
    return {"operations": operations, "reads": _reads(call.graph, steps), "results": _results(call.graph, steps)}


def _reads(graph: Graph, steps: Sequence[Node]) -> list[list[str | int]]:
    """What each operation reads: operations by number, parameters by name."""
    number = {n: k for k, n in enumerate(steps)}
    return [list(dict.fromkeys(x for a in n.args for x in _below(a, number, graph))) for n in steps]


def _results(graph: Graph, steps: Sequence[Node]) -> list[str | int]:
    """The operation or parameter that each result is."""
    number = {n: k for k, n in enumerate(steps)}
    return [next(iter(_below(r, number, graph)), "") for r in graph.results]


def _below(root: Node, number: Mapping[Node, int], graph: Graph) -> list[str | int]:
    """The operations and parameters that a value comes from, through views and what operations include."""
    sources: dict[str | int, None] = {}
    for n in search([root], lambda n: () if n in number else n.args[::-1]):
        if n in number:
            sources[number[n]] = None
        elif n.op == "param":
            sources[graph.parameters[n.attr].name] = None
    return list(sources)


# -- the roofline


def _roofline(call: ResolvedCall, explanation: Explanation, owned: Owners, limits: Hardware) -> dict[str, Any]:
    """Instructions a byte and a second, of kernels and of unfused operations; by measurement where there is one."""
    products = _products(call, owned)
    counts = [(k.bytes, products.get(n, k.instructions)) for n, k in enumerate(explanation.kernels)]
    times = [k.measured_seconds or k.seconds for k in explanation.kernels]
    steps = explanation.before.steps
    has_products = any(step.operation == "matmul" for step in steps)
    kernels = [_point(*count, time, limits) for count, time in zip(counts, times)]
    operations = [_point(s.bytes, s.instructions, s.seconds, limits) for s in steps]
    return {"kernels": kernels, "operations": operations, "has_products": has_products}


def _products(call: ResolvedCall, owned: Owners) -> dict[int, int]:
    """For kernels with matrix products, the instructions of the operations that they compute: a multiply-add is one,
    whatever computes it."""
    counts: dict[int, int] = {}
    multiplying: set[int] = set()
    for step in unfused_kernels(call.graph, call.extents):
        for k in owned.get(step.node, ()):
            counts[k] = counts.get(k, 0) + step.instructions
        multiplying.update(owned.get(step.node, ()) if step.operation == "matmul" else ())
    return {k: counts[k] for k in multiplying}


def _point(bytes: int, instructions: int, time: float | None, limits: Hardware) -> dict[str, float] | None:
    """A point of the roofline, on the CPU by its limits if there is no time; None for a kernel that does nothing."""
    if not limits.cc[0] and time is None:
        time = cpu_seconds(Work(bytes, 0, instructions), limits)
    if not bytes or not instructions or not time:
        return None
    return {
        "instructions_per_byte": instructions / bytes,
        "instructions_per_second": instructions / time,
        "seconds": time,
    }


# -- what compilers make


def _listings(call: ResolvedCall, explanation: Explanation, compiles: bool, absent: dict[str, str]) -> list[dict]:
    """The generated files, with PTX and SASS for a GPU."""
    listings = []
    for members, report in zip(call.launches, explanation.kernels):
        if call.is_by_library(members):
            continue
        kernel, schedule = call.scheduled_launch(members) if call.target.is_cuda else call.scheduled(*members[0])
        listing = Listing(report.name, source_of(kernel, schedule))
        if not call.target.is_cuda:
            absent["listings"] = FOR_GPUS
        elif not compiles or any(bound.empty for _, bound in members):
            absent["listings"] = NO_COMPILER if not compiles else "a kernel of empty arrays is not compiled"
        else:
            try:
                listing = list_kernel(call, report.name, call.built(members))
            except CompileError as fault:
                absent["listings"] = fault.message
        listings.append(listing)
    if notes := [listing.note for listing in listings if listing.note]:
        absent["listings"] = notes[0]
    return [_listing(listing, LONGEST_LISTING // len(listings)) for listing in listings]


def _listing(listing: Listing, most: int) -> dict[str, Any]:
    parts = {"name": listing.name, "source": listing.source}
    return parts | {"ptx": _lines(listing.ptx, most), "sass": _lines(listing.sass, most)}


def _lines(lines: Sequence[ListedLine], most: int) -> dict[str, Any]:
    """Lines as one text, and for each the number of its places in a table."""
    table: dict[tuple[int, ...], int] = {}
    text: list[str] = []
    size = 0
    for line in lines:
        size += len(line.text) + 4
        if size > most:
            text.append(f"… {len(lines) - len(text):,} lines more")
            break
        text.append(line.text)
    numbers = [table.setdefault(line.lines, len(table)) for line in lines[: len(text)]]
    return {"text": "\n".join(text), "lines": numbers, "table": [list(key) for key in table]}


def _cards(call: ResolvedCall, asked: Sequence[tuple[int, int]], absent: dict[str, str]) -> Sequence[Any]:
    if not call.target.is_cuda:
        absent["cards"] = FOR_GPUS
    elif not asked:
        absent["cards"] = NO_COMPILER
    else:
        return resource_cards(call, asked)
    return ()
