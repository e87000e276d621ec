"""Says where a reader of a topic begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from frazil.errors import RequestError


@dataclass(frozen=True, slots=True)
class Start:
    kind: Literal["earliest", "latest", "offset", "time"]
    offset: int | Mapping[int, int] = 0
    """It is one offset for all partitions, or one for each. Partitions that are not named begin with the earliest."""
    time_ms: int = 0

    @classmethod
    def at(cls, offset: int | Mapping[int, int]) -> Start:
        given = [offset] if isinstance(offset, int) else offset.values()
        if any(each < 0 for each in given):
            raise RequestError(f"{min(given)} is no offset: offsets begin with 0.")
        return cls("offset", offset)

    @classmethod
    def since(cls, time_ms: int) -> Start:
        """Begins with the first message that was published at this time or later."""
        return cls("time", time_ms=time_ms)

    def of(self, partition: int) -> Start:
        """Returns the start of one partition."""
        if self.kind != "offset" or isinstance(self.offset, int):
            return self
        return Start("offset", self.offset[partition]) if partition in self.offset else EARLIEST


EARLIEST = Start("earliest")
LATEST = Start("latest")
