"""Tests that tails go to another process as they are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.engine.messages import MessageReader, unpacked
from frazil.engine.tail_transfer import Views, ask_for_views, pack_views, send_views
from frazil.log.wal.entries import Entry
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


def transferred(views: Views, ask: Callable[[socket.socket], Views]) -> tuple[tuple[str, ...], Views]:
    """Returns the topics that were asked for, and what arrived."""

    async def exchange() -> tuple[tuple[str, ...], Views]:
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            arriving = asyncio.create_task(asyncio.to_thread(ask, theirs))
            _, topics = await MessageReader(reader).receive()
            await send_views(writer, pack_views(views))
            arrived = await arriving
            writer.close()
            await writer.wait_closed()
            return unpacked(topics), arrived

    return asyncio.run(asyncio.wait_for(exchange(), 60))


def test_what_arrives_is_what_was_sent(views: Views) -> None:
    topics, arrived = transferred(views, lambda connection: ask_for_views(connection, ["b", "a", "b"]))
    assert topics == ("a", "b")
    assert {topic: set(tails) for topic, tails in arrived.items()} == {"a": {0, 1}, "b": {0}}
    for sent, got in zip(entries(views), entries(arrived), strict=True):
        assert got._replace(payload=sent.payload) == sent
        assert got.batch().equals(sent.batch())


def test_records_are_not_pickled(views: Views) -> None:
    """Pickling would copy the records, and would block all other Python code meanwhile."""
    assert len(pack_views(views).head) < max(entry.nbytes for entry in entries(views)) / 10
