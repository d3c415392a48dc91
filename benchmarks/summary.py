"""The printed end of a run: times, share of roofline, ratio to each peer, and whether the project's gates hold."""

from __future__ import annotations

from collections.abc import Sequence

from fusedsl.bench.ratios import FLOOR, OURS, by_case, ratio, share, shortfall
from fusedsl.bench.record import Row

WHOLE = ("language", "language_cpu")  # of all functions: the worst come first
UNALIGNED = ("16384x1000", "16384x4097")
ERRORS = {"float32": 1e-5, "bfloat16": 1e-2}  # the most of max_error; one rounding to bfloat16 is 2e-3


def misses(case: tuple, peers: dict[str, Row]) -> list[str]:
    """The gates that this case misses, each in a few words."""
    ours = peers.get(OURS)
    if ours is None or ours.median_us is None:
        return ["no result"]
    suite, workload, shape, dtype = case
    found = []
    allowed = ERRORS.get(dtype, 1e-5)
    if suite in WHOLE:  # beside another library, which rounds too
        allowed = 2e-2 if "bfloat16" in dtype + workload else 1e-3
    if suite == "expressions":  # some of whose results are bfloat16, or float8: three bits and a half
        allowed = 0.08 if "fp8" in workload else 1e-2
    if ours.error or (ours.max_error or 0) > allowed:
        found.append(f"error {ours.max_error}")
    part = share(ours)
    least = {"map": 0.95, "rows": 0.88 if shape in UNALIGNED else 0.95} | dict.fromkeys(WHOLE, 0.8)
    wanted = least.get(suite)
    if suite == "wide" and int(shape.split("x")[1]) >= 1024:
        wanted = 0.93
    if suite == "reductions" and workload.startswith(READS):
        wanted = 0.95
    if wanted and part is not None and part < wanted:
        found.append(f"{part:.2f} of floor < {wanted}")
    for peer, least in _ratios(case, peers).items():
        reached = ratio(peers, peer)
        if reached is not None and reached < least:
            found.append(f"{reached:.2f} of {peer} < {least:g}")
    longest = FIRST.get(workload.split()[0]) if suite == "first_call" else None
    if longest and ours.median_us > longest:
        found.append(f"{ours.median_us / 1e6:.2f} s > {longest / 1e6} s")
    most = MOST.get((suite, workload.split(", ")[0]))
    if most and ours.median_us > most:
        found.append(f"{ours.median_us:.1f} us > {most:g} us")
    return found


def _ratios(case: tuple, peers: dict[str, Row]) -> dict[str, float]:
    """The least ratio that is wanted to each peer."""
    suite, workload, shape, dtype = case
    if suite == "map":
        wanted = {peer: 0.98 for peer in peers if peer not in (OURS, FLOOR)}
        return wanted | ({"cupy": 7.0} if workload == "chain10" else {})
    if suite == "rows":
        wanted = {"torch.compile": 1.0, "triton": 0.98}
        return wanted | ({"cupy": 7.0} if (workload, dtype) == ("softmax", "float32") else {})
    others = [peer for peer in peers if peer not in (OURS, FLOOR)]
    if suite in WHOLE:
        return dict.fromkeys(others, 0.95)
    if suite == "wide":
        wanted = dict.fromkeys(others, 0.98)
        return wanted | ({"torch.compile": 1.5} if int(shape.split("x")[1]) >= 16_384 else {})
    if suite == "reductions":
        return dict.fromkeys(others, 0.98)
    if suite == "backward":
        return dict.fromkeys(others, 0.98) | {"torch.compile": 1.2}
    if suite == "expressions":
        return {"torch.compile": 0.97}
    if suite == "attention":
        if workload == "dropout":  # no gate is set: how random the numbers are differs
            return {}
        if workload == "decode":
            return {"cudnn": 0.93, "flash-attention-2": 1.0}
        return {"cudnn": 0.93, "jax cudnn": 0.93, "flash-attention-2": 1.5, "flex": 1.3, "cupy": 30.0}
    if suite == "cpu":
        return {"gelu": {"numpy": 4.0, "numexpr": 10.0}, "softmax": {"numpy": 1.0}}.get(workload, {})
    if suite == "launch" and not workload.endswith("numpy"):
        wanted = {"out=": 1 / 0.8, "bound": 1 / 0.6}.get(workload.split(",")[0], 1.0)
        return {peer: wanted for peer in peers if peer.startswith(("cupy", "torch.mul", "torch.addcmul"))}
    return {}


FIRST = {"chain10": 0.5e6, "softmax": 0.8e6, "attention": 1.5e6}  # us of a new text's first call
MOST = {("launch", "out= without the driver"): 2.2, ("launch", "bound without the driver"): 1.0,
        ("start", "cached start on cpu"): 1e4, ("start", "cached start on cuda"): 1e4}  # us  # fmt: skip
GATED = (
    "launch",
    "start",
    "map",
    "rows",
    "wide",
    "reductions",
    "backward",
    "expressions",
    "attention",
    "cpu",
    "first_call",
    *WHOLE,
)
READS = ("sum_", "max_", "argmax_", "argmin_", "var_", "mse")  # reductions that write next to nothing


def lines(rows: Sequence[Row], gated: bool = True) -> list[str]:
    """The table, a suite at a time; gates mean nothing where the shapes are not theirs."""
    cases = by_case(rows)
    found: list[str] = []
    for suite in dict.fromkeys(case[0] for case in cases):
        chosen = {case: peers for case, peers in cases.items() if case[0] == suite}
        if suite in WHOLE:
            chosen = dict(sorted(chosen.items(), key=lambda item: shortfall(item[1])))
        names = list(dict.fromkeys(p for peers in chosen.values() for p in peers if p not in (OURS, FLOOR)))
        head = ["workload", "shape", "dtype", "us", "floor", "of floor", *(f"x {n}" for n in names), "gates"]
        body = [_line(case, peers, names, gated and suite in GATED) for case, peers in chosen.items()]
        title = f"== {suite}: fusedsl's time, and how many times faster it is than each peer"
        found += [title, *_columns([head, *body])]
    return found


def _line(case: tuple, peers: dict[str, Row], names: Sequence[str], gated: bool) -> list[str]:
    _, workload, shape, dtype = case
    ours = peers.get(OURS)
    missed = misses(case, peers)
    told = "-" if not gated else "MISS " + "; ".join(missed) if missed else "PASS"
    if ours is None or ours.median_us is None:
        return [workload, shape, dtype, "failed", "", "", *("" for _ in names), told]
    part = share(ours)
    floor = f"{ours.floor_us:.1f}" if ours.floor_us else ""
    ratios = [f"{r:.2f}" if (r := ratio(peers, n)) else _missing(peers.get(n)) for n in names]
    return [workload, shape, dtype, f"{ours.median_us:.1f}", floor, f"{part:.3f}" if part else "", *ratios, told]


def _missing(row: Row | None) -> str:
    return "" if row is None else "absent" if row.absent else "failed"


def _columns(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in table]
