"""Attempts: an attempt is one try to move ranges of the log into a table.

An attempt has a unique id, and all data files that it writes are in a folder of that name. So the files of an attempt
that was never committed are found by listing one folder, and any process can recognise the snapshot of an attempt by
the id in its summary.
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
    """Returns a new attempt id, which sorts by time, like `20261115T224611123-9f3a7c21`."""
    seconds, milliseconds = divmod(now_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):{_TIME}}{milliseconds:03d}-{rng.getrandbits(32):08x}"


def attempt_time_ms(attempt: str) -> int:
    """Returns when the attempt began, by the clock of the machine that made it."""
    stamp, dash, chance = attempt.partition("-")
    try:
        if not dash or not chance:
            raise ValueError(attempt)
        moment = datetime.strptime(stamp[:-3], _TIME).replace(tzinfo=UTC)
        return int(moment.timestamp()) * 1000 + int(stamp[-3:])
    except ValueError:
        raise FrazilError(f"{attempt!r} is not the id of an attempt, like 20261115T224611123-9f3a7c21") from None


def attempt_folder(location: str, attempt: str) -> str:
    """Returns the folder of an attempt's data files, below the location of its table."""
    return f"{location.rstrip('/')}/data/{attempt}"


@dataclass(frozen=True)
class Attempt:
    """Everything that a commit needs to know about an attempt and the files it wrote."""

    id: str
    ranges: tuple[Range, ...]
    """The ranges whose rows are in the files. There is at most one range of each partition, and none is empty."""
    files: tuple[DataFile, ...]
    """The files. There are none if every row was dropped or is in the dead-letter table: the offsets still move."""
    table_uuid: uuid.UUID
    schema_id: int
    spec_id: int
    """The table, schema and partition spec (above) are those that the files were written for."""
    application: str = ""
    tasks: tuple[int, ...] = ()
    """The Spark application, and the tasks of it that wrote the files."""
    log_starts: Mapping[int, int] = field(default_factory=dict)
    """The first offsets in the log of partitions that the table does not know yet. Missing ones begin at 0."""
    summary: Mapping[str, str] = field(default_factory=dict)
    """Additional entries of the snapshot's summary."""

    def __post_init__(self) -> None:
        attempt_time_ms(self.id)
        partitions = [each.partition for each in self.ranges]
        if not partitions or len(set(partitions)) < len(partitions):
            raise FrazilError(f"attempt {self.id} needs one range of each of its partitions, it has {self.ranges}")
        if any(each.end <= each.start for each in self.ranges):
            raise FrazilError(f"attempt {self.id} has an empty range: {self.ranges}")
