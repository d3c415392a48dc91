"""The small form of a report page, for notebooks: in the notebook's own colours, light or dark, without a script."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..units import bytes_text, seconds_text
from .charts import bytes_picture
from .document import headline, times
from .svg import COLOURS, tag

if TYPE_CHECKING:
    from ..explain import Explanation


def explanation_html(explanation: Explanation) -> str:
    """Headline, program, bytes and kernels, and all of `str()` folded away."""
    explained = explanation.to_dict()
    rows = "".join(_row(k, kernel) for k, kernel in enumerate(explained["kernels"]))
    parts = [
        tag("b", escape(headline(explained))),
        tag("div", escape(times(explained)), class_="faint"),
        tag("pre", escape("\n".join(explained["program"]))),
        bytes_picture({"explanation": explained}),
        tag("div", f"<table>{rows}</table>", class_="scroll"),
        f"<details><summary>all of it</summary>{tag('pre', escape(str(explanation)))}</details>",
    ]
    return _framed("".join(parts))


def _row(k: int, kernel: Mapping[str, Any]) -> str:
    """A kernel: its name, bytes, registers and time."""
    registers = (kernel["figures"] or {}).get("registers", kernel["predicted_registers"])
    time = kernel["measured_seconds"] or kernel["seconds"]
    cells = [f"kernel {k}", tag("code", escape(kernel["name"])), bytes_text(kernel["bytes"])]
    cells.append("" if registers is None else f"{'' if kernel['figures'] else 'at most '}{registers} registers")
    cells.append("" if time is None else f"{'' if kernel['measured_seconds'] else 'about '}{seconds_text(time)}")
    return tag("tr", "".join(f"<td>{cell}</td>" for cell in cells), class_=f"k{k % COLOURS}")


def program_html(kind: str, name: str, text: str) -> str:
    """A kernel or a fused function: what it is, its name or parameters, and its text."""
    return _framed(f"{tag('b', escape(kind))} {tag('code', escape(name))}{tag('pre', escape(text))}")


def _framed(content: str) -> str:
    return f"<div class='fusedsl'><style>{_style()}</style>{content}</div>"


@cache
def _style() -> str:
    return (files(__package__) / "notebook.css").read_text(encoding="utf-8")
