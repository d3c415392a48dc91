"""One function in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any


def at_once(work: Callable[[Any], Any], given: Iterable[Any]) -> None:
    """Call `work` with each of these in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work, args=(one,)) for one in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
