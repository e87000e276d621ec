"""The epochs of a partition.

Offsets are never reused within an epoch. A new one begins where records that readers may have seen can be
missing: a WAL lost with its disk, or a reboot before everything was synced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from frazil.errors import EpochChanged

REMEMBERED = 32
"""The history has this many epochs. A reader that missed more of them is told to start over."""


@dataclass(frozen=True)
class Epochs:
    """The history holds the id and the first offset of each epoch, oldest first. The last one is current."""

    history: tuple[tuple[str, int], ...]

    @property
    def current(self) -> str:
        return self.history[-1][0]

    @property
    def current_start(self) -> int:
        return self.history[-1][1]

    def begin(self, epoch: str, start: int) -> Epochs:
        return Epochs((*self.history, (epoch, start))[-REMEMBERED:])

    def at(self, offset: int) -> str:
        """Return the epoch that the record at `offset` belongs to."""
        return next((epoch for epoch, start in reversed(self.history) if start <= offset), self.history[0][0])

    def check(self, epoch: str, offset: int, where: str) -> None:
        """Raise unless a reader that holds (epoch, offset) can go on as if nothing had happened."""
        known = [name for name, _ in self.history]
        if epoch not in known:
            raise EpochChanged(
                f"{where}: epoch {epoch} is unknown; the log is in epoch {self.current} since offset "
                f"{self.current_start}. Start again from an offset you trust.",
            )
        after = known.index(epoch) + 1
        if after < len(known) and self.history[after][1] < offset:
            new, border = self.history[after]
            raise EpochChanged(
                f"{where}: epoch {epoch} ended at offset {border}, and epoch {new} goes on from there; what was read "
                f"from {border} to {offset} did not last. Go on at ({self.current}, {border})."
            )

    def to_json(self) -> Sequence[Any]:
        return self.history

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Epochs:
        return cls(tuple((epoch, start) for epoch, start in data))
