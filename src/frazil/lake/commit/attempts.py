"""Attempts: one try at moving ranges of the log into a table.

An attempt has an id that no other has, and all data files it writes lie in a folder of that name. So the files of an
attempt that never got into the table can be found by listing one folder, and a snapshot can be recognised by the id
in its summary whoever asks.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyiceberg.manifest import DataFile

from frazil.errors import FrazilError
from frazil.lake.commit.ranges import Range

_TIME = "%Y%m%dT%H%M%S"


def new_attempt(now_ms: int, rng: random.Random) -> str:
    """An id that sorts by time, like `20261115T224611123-9f3a7c21`."""
    seconds, milliseconds = divmod(now_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):{_TIME}}{milliseconds:03d}-{rng.getrandbits(32):08x}"


def attempt_time_ms(attempt: str) -> int:
    """When the attempt was made, by the clock of the machine that made it."""
    stamp, dash, chance = attempt.partition("-")
    try:
        if not dash or not chance:
            raise ValueError(attempt)
        moment = datetime.strptime(stamp[:-3], _TIME).replace(tzinfo=UTC)
        return int(moment.timestamp()) * 1000 + int(stamp[-3:])
    except ValueError:
        raise FrazilError(f"{attempt!r} is not the id of an attempt, like 20261115T224611123-9f3a7c21") from None


def attempt_folder(location: str, attempt: str) -> str:
    """Where the data files of an attempt lie, below the location of its table."""
    return f"{location.rstrip('/')}/data/{attempt}"


@dataclass(frozen=True)
class Attempt:
    """All that a commit needs to know of what was written."""

    id: str
    ranges: tuple[Range, ...]
    """What the files hold the rows of; at most one range of each partition, none of them empty."""
    files: tuple[DataFile, ...]
    """None at all when every row was dropped or is in the dead-letter table: the offsets move all the same."""
    table_uuid: uuid.UUID
    schema_id: int
    spec_id: int
    """The table, schema and partition spec that the files were written for."""
    application: str = ""
    tasks: tuple[int, ...] = ()
    """The Spark application and its tasks that wrote the files."""
    log_starts: Mapping[int, int] = field(default_factory=dict)
    """Where the log of a partition begins that the table has never heard of; 0 where nothing is said."""
    summary: Mapping[str, str] = field(default_factory=dict)
    """More to say in the snapshot's summary."""

    def __post_init__(self) -> None:
        attempt_time_ms(self.id)
        partitions = [each.partition for each in self.ranges]
        if not partitions or len(set(partitions)) < len(partitions):
            raise FrazilError(f"attempt {self.id} needs one range of each of its partitions, it has {self.ranges}")
        if any(each.end <= each.start for each in self.ranges):
            raise FrazilError(f"attempt {self.id} has an empty range: {self.ranges}")
