"""What a phase hands on to later ones, computed there again: wide values then take no registers between phases."""

from __future__ import annotations

from dataclasses import replace

from .kernel import Body, Kernel, Phase


def recomputed(kernel: Kernel) -> Kernel | None:
    """The kernel whose phases hand on loads alone; None where none hands on more, or a phase does more than fold."""
    plain = not any(phase.scans or phase.select or phase.ranks or phase.tile for phase in kernel.phases)
    made: dict[str, Body] = {}
    phases: list[Phase] = []
    for phase in kernel.phases:
        wanted = {value.name for value in phase.element.args} & set(made)
        body = phase.element
        for name in sorted(wanted):
            joined = _joined(made[name], body)
            if joined is None:
                return None
            body = joined
        given = {value.name for value in body.args}
        made |= {value.name: body for value in body.results if value.name not in given}
        phases.append(replace(phase, element=body))
    return replace(kernel, phases=tuple(phases)) if plain and tuple(phases) != kernel.phases else None


def _joined(first: Body, then: Body) -> Body | None:
    """The second body with the first one's lines before its own; None where a name would mean two things."""
    lines = {line.partition("=")[0].strip(): line for line in first.lines}
    for line in then.lines:
        name = line.partition("=")[0].strip()
        if lines.setdefault(name, line) != line:
            return None
    made = {value.name for value in first.results} - {value.name for value in first.args}
    args = {value.name: value for value in (*first.args, *then.args) if value.name not in made}
    return Body(tuple(args.values()), then.results, tuple(lines.values()))
