"""The shape of a traced tensor: torch.Size with extents that may be tracers."""

from __future__ import annotations

from typing import Any


class TorchSize(tuple):
    """A tensor's shape, whose extents may be tracers."""

    def numel(self) -> Any:
        total: Any = 1
        for extent in self:
            total = total * extent
        return total

    def __getitem__(self, key: Any) -> Any:
        part = tuple.__getitem__(self, key)
        return TorchSize(part) if isinstance(key, slice) else part

    @staticmethod
    def of_extents(extents: Any) -> Any:
        """A torch.Size of concrete extents."""
        import torch

        return torch.Size(extents)

    def __add__(self, other: Any) -> TorchSize:
        return TorchSize(tuple(self) + tuple(other))
