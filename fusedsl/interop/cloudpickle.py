"""cloudpickle (joblib, Dask, Ray, Spark): whether it is pickling an object now, and whether it would do so by name.

cloudpickle pickles functions by value if no other process can import them. Other objects are pickled by their
`__reduce_ex__`, which does not get the pickler: its stack frame shows it.
"""

from __future__ import annotations

import sys
from typing import Any


def cloud_pickles() -> bool:
    """True if the caller's caller is cloudpickle's pickler."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in ("pickle", "copyreg"):  # picklers in Python
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and "cloudpickle" in frame.f_globals.get("__name__", "")


def found_by_name(value: Any, module: str, qualname: str) -> bool:
    """True if another process can import a value, and its module is not registered for pickling by value."""
    member: Any = sys.modules.get(module)
    if module == "__main__" or member is None or _is_by_value(module):
        return False
    for part in qualname.split("."):
        member = getattr(member, part, None)
    return member is value


def _is_by_value(module: str) -> bool:
    """True if the module, or a parent package, is registered with cloudpickle for pickling by value."""
    copies = [sys.modules[name] for name in ("cloudpickle", "joblib.externals.cloudpickle") if name in sys.modules]
    registered = {name for cloudpickle in copies for name in cloudpickle.list_registry_pickle_by_value()}
    return any(module == name or module.startswith(f"{name}.") for name in registered)
