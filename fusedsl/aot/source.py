"""The source of a saved kernel: a program or a function, with the graphs of its plans."""

from __future__ import annotations

from ..errors import ArgumentError, CompileError
from ..program import call_steps
from ..program.text_source import TextSource
from .saved import SavedFile


class SavedText(TextSource):
    """A saved program. It is parsed only for arguments other than the saved ones."""

    def __init__(self, saved: SavedFile):
        called = saved.called
        super().__init__(called["text"], saved.options, called["params"], called["constants"])
        self.names = saved.names
        self._saved = saved

    def build(self, parameters, extents, options):
        """The graph for these parameters, and its guards."""
        return saved_graph(self._saved, parameters, extents) or super().build(parameters, extents, options)

    def header(self) -> tuple[str, ...]:
        """The program re-printed, or without a parser as it was written."""
        try:
            return super().header()
        except CompileError:
            return tuple(self.text.strip().splitlines())


class SavedFunction:
    """A saved function: the graph of one signature is all that is left of it."""

    generic = False

    def __init__(self, saved: SavedFile):
        self.text: str = saved.called["text"]
        self.title: str = saved.called["function"]
        self._saved = saved

    def build(self, parameters, extents, options):
        """The graph for these parameters, and its guards; ArgumentError for others than it was saved for."""
        graph = saved_graph(self._saved, parameters, extents)
        if graph is None:
            raise ArgumentError("a saved function is for one signature", "argument.signature")
        return graph

    def cache_parts(self) -> None:
        """None: its plans are in the file alone."""

    def header(self) -> tuple[str, ...]:
        """The function's own lines, kept to what a comment may hold."""
        lines = [line.rstrip() for line in self.text.splitlines()]
        return tuple("".join(c if 32 <= ord(c) < 127 else "?" for c in line) for line in lines[:20])


def saved_graph(saved: SavedFile, parameters, extents):
    """(the graph for these parameters, its guards), if a file has it; else None."""
    for each in saved.plans:
        if each.plan.parameters == tuple(parameters) and call_steps.guards_hold(each.plan.guards, extents):
            return each.graph, dict(each.plan.guards)
    return None
