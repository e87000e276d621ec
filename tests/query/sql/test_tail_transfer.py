"""Tests that tails go to another process as they are."""

from __future__ import annotations

import os
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

from frazil.log.wal.entries import Entry
from frazil.query.sql.tail_transfer import Views, receive_views, send_views
from tests.query.support import World, rows


@pytest.fixture
def views(tmp_path: Path) -> Views:
    topics = {name: {"ack": "object", "linger_ms": 3_600_000} for name in ("a", "b")}
    with World(tmp_path, topics=topics) as world:
        for topic, partition, count in (("a", 0, 3), ("a", 1, 50_000), ("a", 0, 4), ("b", 0, 1)):
            world.append(topic, rows(0, count), partition)
        return {
            topic: {writer.partition: writer.tail.view() for writer in world.log.writers if writer.topic == topic}
            for topic in topics
        }


def entries(views: Views) -> list[Entry]:
    return [entry for tails in views.values() for view in tails.values() for entry in view.entries]


def test_what_arrives_is_what_was_sent(views: Views) -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        sending = threading.Thread(target=send_views, args=(ours, views))
        sending.start()
        arrived = receive_views(theirs)
        sending.join()
    assert {topic: set(tails) for topic, tails in arrived.items()} == {"a": {0, 1}, "b": {0}}
    for sent, got in zip(entries(views), entries(arrived), strict=True):
        assert got._replace(payload=sent.payload) == sent
        assert got.batch().equals(sent.batch())


def test_records_are_not_pickled(views: Views) -> None:
    """Pickling would copy the records, and would block all other Python code meanwhile."""
    pickled: list[int] = []

    class Counting(Connection):
        def send(self, obj: object) -> None:
            pickled.append(len(ForkingPickler.dumps(obj)))
            super().send(obj)

    ours, theirs = Pipe()
    with Counting(os.dup(ours.fileno())) as counting, ours, theirs:
        receiving = threading.Thread(target=receive_views, args=(theirs,))
        receiving.start()
        send_views(counting, views)
        receiving.join()
    assert sum(pickled) < max(entry.nbytes for entry in entries(views)) / 10
