"""Makes a sealed log beside the one that a pipeline follows, and shows it to the pipeline all at once.

Sealing takes as long as moving does, and on the same cores. So segments are made first and linked into the pipeline's
store when they are wanted, which takes less than a millisecond.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from bench import samples
from bench.log import NEVER, rng
from frazil.config.model import Config
from frazil.config.sections.log import LogConfig
from frazil.log import layout
from frazil.log.log import Log

SEGMENT_ROWS = 250_000
APPEND_ROWS = 25_000
STRETCH = 4000
"""The sample's 37 seconds are stretched to about two days, so that a table by day has more than one partition."""


def sample_rows(rows: int = SEGMENT_ROWS) -> list[pa.RecordBatch]:
    """Returns the rows of one segment, in appends of a usual size. All segments have the same rows."""
    source = rng()
    batches = [samples.logs(APPEND_ROWS, source) for _ in range(rows // APPEND_ROWS)]
    return [_stretched(batch, number) for number, batch in enumerate(batches)]


def _stretched(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    start = samples.START_US
    microseconds = pc.subtract(batch["time"].cast(pa.int64()), start)
    whole = int(microseconds[-1].as_py()) * number
    later = pc.add(pc.multiply(pc.add(microseconds, whole), STRETCH), start)
    return batch.set_column(0, "time", later.cast(pa.timestamp("us")))


class Backlog:
    """The backlog of one partition of one topic."""

    def __init__(self, staging: Path, live: Path, topic: str, rows: Sequence[pa.RecordBatch]) -> None:
        self.topic = topic
        self._staging = staging / "store"
        self._live = live / "store"
        self._rows = rows
        log = LogConfig(sync="none", max_tail_mb=1_000_000, seal=NEVER)
        self._log = Log(Config(data_dir=staging, log=log))
        self._writer = self._log.writer(topic, rows[0].schema)
        self._shown = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.close(seal=False)

    def seal(self, segments: int) -> None:
        for _ in range(segments):
            for batch in self._rows:
                self._writer.append(batch)
            self._writer.seal()

    @property
    def end(self) -> int:
        return self._writer.next_offset

    def show(self) -> list[Path]:
        """Show the pipeline the segments that it has not seen yet, in order, as a log grows, and return them."""
        keys = [layout.schema_prefix(self.topic), layout.partition_prefix(self.topic, self._writer.partition)]
        fresh = []
        for folder in keys:
            for path in sorted((self._staging / folder).glob("*.*")):
                link = self._live / folder / path.name
                if not link.exists():
                    link.parent.mkdir(parents=True, exist_ok=True)
                    os.link(path, link)
                    fresh.append(link)
        return [path for path in fresh if path.suffix == ".parquet"]
