"""A function of a saved file, for arguments of the one signature that it was saved for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .aot.function import as_saved, traced_from_json
from .aot.missing_kernel import no_plan
from .aot.plans import SavedPlans
from .aot.pytree import arguments_form, form_difference
from .aot.saved import SavedFile, matches, parsed
from .aot.source import SavedFunction
from .arguments import Arguments
from .decorator import Fused, Trace
from .errors import ArgumentError, ShapeError, Unsupported
from .program import Program


class LoadedFunction(Fused):
    """A function of a saved file, for arguments of the one signature that it was saved for."""

    def __init__(self, saved: SavedFile):
        stub = _stub(saved)
        super().__init__(stub, saved.options)
        self.__name__ = stub.__name__
        self._names = tuple(saved.called["names"])
        self._keywords = frozenset(self._names)
        source, called = SavedFunction(saved), saved.called
        plans = SavedPlans(saved, source, saved.options, saved.name)
        self._saved = saved
        traced = traced_from_json(called, saved.plans[0].graph)
        self._only = Trace(traced, Program(source, saved.names, saved.options, plans), 0.0)
        self._aliases = {int(k): int(earlier) for k, earlier in called["aliases"]}

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        args, keywords = as_saved(self._saved.called, args, keywords)
        return super().__call__(*args, **keywords)

    def _traced(self, call: Arguments) -> Trace:
        """The trace in the file; the error for a call of another signature."""
        saved, record = self._saved, self._saved.called
        if (form := arguments_form(call.placeholders)) != record["arguments"]:
            named, by_name = record["names"], record["given"][1]
            raise self._other(form_difference(record["arguments"], form, [*named[: record["given"][0]], *by_name]))
        if call.library != record["library"]:
            raise self._other(f"its arrays are {call.library}'s, and not {record['library']}'s")
        if call.aliases != self._aliases and (self._aliases or self._only.traced.writes):
            raise self._other("one array stands for several arguments, or did so then")
        if not any(matches(each, call.parameters) for each in saved.plans):
            raise no_plan(saved, call.parameters, call.facts, any(each.on_cpu for each in saved.plans))
        for k, value in self._only.traced.baked.items():
            if call.numbers.get(k) != value:
                raise self._other(f"{call.parameters[k].name} is {call.numbers.get(k)}, and not {value}")
        if not self._only.applies(call.extents, call.numbers):
            message = f"{saved.name} has no kernel for these extents, for which {self.__name__} takes another way"
            raise ShapeError(message, "file.shape", help="save another file for them")
        return self._only

    def _other(self, what: str) -> ArgumentError:
        return ArgumentError(f"{self._saved.name} has no kernel for this call of {self.__name__}: {what}",
                             "file.arguments", help="save another file for calls like this one")  # fmt: skip

    def save(self, path: Any, /, *args: Any, cc: Any = (90,), **keywords: Any) -> None:
        """Not there: Unsupported. The file has no more than its kernels."""
        message = f"{self.__name__} was loaded from a file, and is saved where its source is"
        raise Unsupported(message, "unsupported.save", help="copy the file")

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return (_restored, (self._saved.data, self._saved.name))

    def __repr__(self) -> str:
        return f"<fusedsl function {self.__name__} of {self._saved.name}>"


def _stub(saved: SavedFile) -> Callable:
    """A placeholder for the function, with its name and docstring."""

    def loaded(*args: Any, **keywords: Any) -> Any:
        raise Unsupported(f"{loaded.__name__} was loaded from a file, which holds no more than its kernels",
                          "unsupported.loaded", help="call it by itself, outside of other traces")  # fmt: skip

    name = saved.called["function"]
    loaded.__qualname__, loaded.__name__, loaded.__doc__ = name, name.rpartition(".")[2], saved.called["doc"]
    return loaded


def _restored(data: bytes, name: str) -> LoadedFunction:
    """The function of a file's bytes: so it is unpickled."""
    return LoadedFunction(parsed(data, name))
