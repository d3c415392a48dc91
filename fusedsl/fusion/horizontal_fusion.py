"""Horizontal fusion: independent kernels share one launch (combo kernels), grouped by register demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..ir.dims import Dim, product
from ..ir.graph import walk
from ..rewrite.scalar_builder import free_axes
from .contractions import matmul_factors
from .cost_model import count_of
from .fusion_group import Decision, FusionGroup
from .graph_products import exceeds_small
from .roofline import LAUNCH

SHORT_ROWS = 2048  # columns: such rows stay in registers of one block
MEMBERS, ARRAYS = 8, 48  # most per launch
UNLIKE = 2.0  # largest ratio of words per thread: the launch's occupancy is that of its largest member


def horizontal_candidates(groups: Sequence[FusionGroup], fits: Callable[[Dim, int], bool]) -> list[list[int]]:
    """Groups in launch order, with groups that may share a launch in one list.

    Groups of one level are independent: the level of a group is one more than the highest level that it waits for. Maps
    are packed with maps, short rows with short rows; large matrix products run alone.
    """
    levels: list[int] = []
    for group in groups:
        levels.append(1 + max((levels[k] for k in group.waits_for), default=-1))
    of_level: dict[int, list[int]] = {}
    for k, level in enumerate(levels):
        of_level.setdefault(level, []).append(k)
    order = []
    for _, indices in sorted(of_level.items()):
        maps = [k for k in indices if groups[k].is_elementwise and not groups[k].scatters]
        rows = [k for k in indices if _is_plain_row(groups[k])]
        if len(rows) > 1:
            rows = [k for k in rows if fits(product(a.extent for a in groups[k].columns), SHORT_ROWS)]
            rows = [k for k in rows if not _is_large_product(groups[k], fits)]
        together = [members for members in (maps, rows) if len(members) > 1]
        grouped = {k for members in together for k in members}
        order += sorted(together + [[k] for k in indices if k not in grouped], key=min)
    return order


def _is_plain_row(group: FusionGroup) -> bool:
    """Whether a kernel only folds the last axes of its inputs."""
    if not group.rows or not group.folds or group.scans or group.sorted or group.column_folds:
        return False
    columns = set(group.columns)
    read = [n.attr[1] for n in walk(group.folds) if n.op == "load"]
    return all(at[-1].axis in columns for at in read if not columns.isdisjoint(c.axis for c in at))


def _is_large_product(group: FusionGroup, fits: Callable[[Dim, int], bool]) -> bool:
    """Whether a kernel multiplies matrices that are not small."""
    free = free_axes(group.values)
    for f in group.folds:
        if (pair := matmul_factors(f, free, group.rows)) is not None:
            alone = [free[x] - free[y] for x, y in (pair, pair[::-1])]
            left, right = (count_of(a for a in group.rows if a in axes) for axes in alone)
            return exceeds_small(left, right, count_of(group.columns), fits)
    return False


def pack_launches(sizes: Sequence[tuple[float, int]], members: Sequence[int]) -> tuple[list[list[int]], list[Decision]]:
    """Launches of kernels that could share one: members have similar register demand.

    `sizes` gives each member's estimated words per thread, and its number of arrays.
    """
    launches: list[list[int]] = []
    decisions = []
    sizes_of = dict(zip(members, sizes))
    for k in sorted(members, key=lambda k: sizes_of[k][0]):
        reason = ""
        for launch in launches:
            smallest = sizes_of[launch[0]][0]
            if len(launch) == MEMBERS:
                reason = f"a launch has at most {MEMBERS} kernels"
            elif _arrays(sizes_of, [*launch, k]) > ARRAYS:
                reason = f"a launch has at most {ARRAYS} arrays"
            elif sizes_of[k][0] > UNLIKE * smallest:
                words = f"this kernel needs {sizes_of[k][0]:.0f} words a thread, that launch {smallest:.0f}"
                reason = f"sharing would lower occupancy: {words}"
            else:
                launch.append(k)
                break
        else:
            if launches:
                decisions.append(Decision(False, (f"kernel {k}",), reason, LAUNCH))
            launches.append([k])
    for launch in launches:
        launch.sort()
        if len(launch) > 1:
            names = tuple(f"kernel {k}" for k in launch)
            reason = "they share a launch: they are independent, and their threads hold about as many registers"
            decisions.append(Decision(True, names, reason, (len(launch) - 1) * LAUNCH))
    return sorted(launches), decisions


def _arrays(sizes_of: dict[int, tuple[float, int]], members: Iterable[int]) -> int:
    return sum(sizes_of[k][1] for k in members)
