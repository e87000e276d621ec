"""Messages of a partition on their way into the log."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Message

from frazil.config.model import Config
from frazil.doors.kafka.cluster import Cluster
from frazil.doors.kafka.feed import Feed
from frazil.doors.kafka.identity import Proof
from frazil.doors.kafka.opening import Opened
from frazil.doors.kafka.positions import Place
from frazil.doors.kafka.settings import writer_options
from frazil.errors import BackpressureEngaged
from frazil.formats import kafka
from frazil.log.log import Log

KIB = 1024


class AlwaysTheSame:
    """A cluster that is never asked: nothing is sealed here."""


def test_a_log_without_room_engages_backpressure(tmp_path: Path) -> None:
    config = Config.model_validate(
        {
            "data_dir": tmp_path,
            "log": {"max_tail_mb": 1, "max_append_mb": 1},
            "buffer": {"flush_interval_seconds": 3600},
        }
    )
    run = [Message("orders", 0, offset, b"", b"x" * 100 * KIB) for offset in range(30)]
    with closing(Log(config)) as log:
        writer = log.writer("orders", kafka.SCHEMA, partition=0, options=writer_options(config, "orders"))
        proof = Proof(cast(Cluster, AlwaysTheSame()), "orders", 0, "life")
        feed = Feed("orders", 0)
        feed.start(Opened(writer, Place("life", 0), proof))
        with pytest.raises(BackpressureEngaged, match="orders/0 is paused from offset") as raised:
            deque(feed.append(run, 256 * KIB), maxlen=0)
        assert raised.value.retryable
        assert feed.full
        assert 0 < feed.next < 30, "some were appended, and the others are read again"
