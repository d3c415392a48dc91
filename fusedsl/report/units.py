"""Bytes, times and counts in text: three digits and a unit."""

from __future__ import annotations

_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def bytes_text(count: float) -> str:
    """
    >>> bytes_text(512), bytes_text(67_108_864), bytes_text(999_999)
    ('512 B', '67.1 MB', '1 MB')
    """
    return _scaled(count, _BYTES, "B")


def seconds_text(seconds: float) -> str:
    """
    >>> seconds_text(0.0000321), seconds_text(2.5)
    ('32.1 µs', '2.5 s')
    """
    return _scaled(seconds, _SECONDS, "µs") if seconds >= 1e-6 else f"{seconds * 1e9:.3g} ns"


def _scaled(value: float, units: tuple[tuple[float, str], ...], smallest: str) -> str:
    for unit, name in units:
        if value >= unit * 0.9995:
            digits = f"{value / unit:.3g}"
            return f"{float(digits):g} {name}"
    return f"{value:g} {smallest}"


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "kernel"), plural(7, "kernel")
    ('1 kernel', '7 kernels')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
