from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.formats import kafka
from frazil.hot import following
from frazil.hot.buffer import Buffer
from frazil.hot.following import Follower
from frazil.log.log import Log
from frazil.log.segments.segment import Segment, read_records
from frazil.store import ObjectStore
from tests.hot.support import TOPIC, config_of, records


class Fed:
    """What feeds the partition: nobody follows it."""

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
        kept = buffer.keep(TOPIC, 0)
        source = Fed()
        buffer.feed(kept, source)
        buffer.restart(kept, 2, by=source)

        def read_while_it_begins_anew(store: ObjectStore, segment: Segment) -> pa.Table:
            if kept.held.end == 2:
                buffer.restart(kept, 3, by=source)
                follower.fill(kept)
            return read_records(store, segment)

        monkeypatch.setattr(following, "read_records", read_while_it_begins_anew)
        follower.fill(kept)
        while follower.filling:
            follower.step()
        assert (kept.held.start, kept.held.rows) == (0, 3)
