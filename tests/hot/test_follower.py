from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.formats import kafka
from frazil.hot.buffer import Buffer
from frazil.hot.follower import Follower
from frazil.log.log import Log
from frazil.log.segments.segment import Segment, read_records
from frazil.store import ObjectStore
from tests.hot.support import TOPIC, config_of, records


class Fed:
    """Feeds the partition, so that nobody follows it."""

    def lost(self) -> bool:
        return False


def test_a_partition_that_begins_elsewhere_while_it_is_filled_is_filled_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path)
    with Log(config) as log:
        writer = log.writer(TOPIC, kafka.SCHEMA, partition=0)
        for offset in range(3):
            writer.submit(records([offset]))
            writer.seal()
        buffer = Buffer(config)
        follower = Follower(log, buffer)
        buffered = buffer.get_or_create(TOPIC, 0)
        source = Fed()
        buffer.set_source(buffered, source)
        buffer.restart(buffered, 2, by=source)

        def read_while_it_begins_anew(store: ObjectStore, segment: Segment) -> pa.Table:
            if buffered.contents.end == 2:
                buffer.restart(buffered, 3, by=source)
                follower.fill(buffered)
            return read_records(store, segment)

        monkeypatch.setattr("frazil.hot.follower.read_records", read_while_it_begins_anew)
        follower.fill(buffered)
        while follower.filling:
            follower.step()
        assert (buffered.contents.start, buffered.contents.rows) == (0, 3)
