"""A data folder that version 0.1 wrote is opened and goes on: nothing is missing, and nothing is there twice."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.config.model import Config
from frazil.formats.otlp.raw import LOGS
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier, dead_letter_identifier
from frazil.log.log import Log
from frazil.log.positions import Origin, Sequence
from frazil.log.segments.index import SegmentIndex
from frazil.log.wal.entries import Entry
from frazil.log.writer.writer import PartitionWriter
from frazil.pipeline.move.attempt_cleanup import AttemptCleanup
from frazil.pipeline.txlog.show import history
from frazil.topics import Kind, Message, from_batch, open_topics
from tests.pipeline.support import found_offsets, move_all, pipeline_context

HOME = Path("/tmp/frazil-fixture-0.1")
"""The tables in it name their files by this path."""
ARCHIVE = Path(__file__).parent / "fixtures" / "data-0.1" / "data.tar.gz"

ORDERS = [*range(10), *range(12, 40)]
"""The ids of all orders that are rows; 10 and 11 are dead letters."""
ABANDONED = "20231114T221320000-f4bea973"
"""The attempt that was given up when rows turned out to be dead letters; its file is still there."""
UNFINISHED = "20260528T202640000-00c0ffee"
"""The attempt that its process was killed in."""
YEARS = 1e9
"""Seconds for which producers and requests are remembered: the fixture grows older than any setting of today."""
SOON = 20.0


@pytest.fixture
def config() -> Iterator[Config]:
    """The settings of the unpacked folder, which one test at a time has for itself."""
    with HOME.with_name(f"{HOME.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(mode=0o700)
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(HOME, filter="data")
        try:
            yield Config.model_validate(
                {
                    "data_dir": HOME / "data",
                    "node": "fixture",
                    "log": {"sources": {"ttl_seconds": YEARS, "request_ttl_seconds": YEARS}},
                }
            )
        finally:
            shutil.rmtree(HOME)


def orders(start: int, count: int) -> pa.RecordBatch:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
    ids = range(start, start + count)
    return pa.RecordBatch.from_pylist([{"id": number, "text": f"row {number}"} for number in ids], schema=schema)


def ids(config: Config) -> list[int]:
    table = frazil.read("orders", config=config).table()
    assert table["text"].to_pylist() == [f"row {number}" for number in table["id"].to_pylist()]
    return sorted(table["id"].to_pylist())


def lines(config: Config) -> list[str]:
    return sorted(str(line) for line in frazil.read("logs", config=config).table()["body"].to_pylist())


def move(config: Config, *topics: str) -> None:
    with pipeline_context(config) as context:
        for topic in topics:
            move_all(context, topic)


def test_every_row_is_read_once(config: Config) -> None:
    assert ids(config) == ORDERS
    assert lines(config) == [f"line {request}.{record}" for request in range(3) for record in range(4)]
    with closing(Lake(config)) as lake:
        letters = lake.load(dead_letter_identifier(config, "orders")).scan().to_arrow()
    assert letters["_offset"].to_pylist() == [10, 11]


def test_what_was_sent_before_is_recognised(config: Config) -> None:
    with closing(Log(config)) as log:
        writer = log.writer("orders")
        assert (writer.partition, writer.next_offset) == (0, 40)
        for number, offset, count in [(1, 10, 2), (2, 12, 8), (3, 20, 10), (4, 30, 5), (5, 35, 5)]:
            ack = writer.append(orders(offset, count), Origin(sequence=Sequence("checkout", number)))
            assert (ack.offset, ack.rows, ack.duplicate) == (offset, count, True)
        for request, offset, count in [(b"hash of a request", 12, 8), (b"hash of another", 35, 5)]:
            ack = writer.append(orders(offset, count), Origin(request=request))
            assert (ack.offset, ack.rows, ack.duplicate) == (offset, count, True)
        otlp = log.writer("logs")
        rows = next(iter(log.reader("logs", 0).read(0, 4))).batch
        for number in range(3):
            ack = otlp.append(rows, Origin(request=b"request %d" % number))
            assert (ack.offset, ack.rows, ack.duplicate) == (4 * number, 4, True)
    assert ids(config) == ORDERS


def test_requests_are_still_as_they_came(config: Config) -> None:
    with closing(Log(config)) as log:
        raw_encoding = SegmentIndex(log.store, "logs", 0).footer(4).raw_encoding
        assert raw_encoding is not None
        assert raw_encoding.form == LOGS.name
        writer = log.writer("logs")
        assert [entry.form for entry in unsealed(writer)] == [LOGS.name]


def unsealed(writer: PartitionWriter) -> list[Entry]:
    view = writer.tail.view()
    assert view is not None
    return list(view.entries)


def test_more_is_appended_and_moved(config: Config) -> None:
    with closing(Log(config)) as log:
        writer = log.writer("orders")
        epoch = writer.append(orders(40, 5), Origin(sequence=Sequence("checkout", 6))).epoch
        assert epoch == next(iter(log.reader("orders", 0).read(20, 30))).epoch, "the log goes on, and does not begin"
        assert ids(config) == [*ORDERS, *range(40, 45)]
        for topic in ("orders", "logs"):
            log.writer(topic).seal_all()
        move(config, "orders", "logs")
        assert ids(config) == [*ORDERS, *range(40, 45)]
        assert len(lines(config)) == 12
        with closing(Lake(config)) as lake:
            moved = found_offsets(lake, base_identifier(config, "orders"))
            assert moved == dict.fromkeys([(0, offset) for offset in [*ORDERS, *range(40, 45)]], 1)
            assert set(found_offsets(lake, base_identifier(config, "logs"))) == {(0, offset) for offset in range(12)}


def test_the_transaction_log_is_taken_over(config: Config) -> None:
    before = history(config.data_dir)
    assert before.damage is None
    assert [told.entry.number for told in before.entries] == list(range(before.entries[-1].entry.number + 1))
    with pipeline_context(config) as context:
        assert {each.attempt for each in context.txlog.open_attempts()} == {ABANDONED, UNFINISHED}
        assert set(context.txlog.last_commits()) == {"frazil.orders", "frazil.orders__dead_letter", "frazil.logs"}
        assert context.txlog.last_offsets()["orders", 0].offset == 30
        assert list(HOME.rglob(f"orders/data/{ABANDONED}/*.parquet"))
        AttemptCleanup(context).clean()
        assert context.txlog.open_attempts() == []
    assert not list(HOME.rglob(f"orders/data/{ABANDONED}/*.parquet")), "nobody is going to commit its file"
    assert ids(config) == ORDERS


def test_a_subscription_goes_on_after_what_was_acknowledged(config: Config) -> None:
    async def received(more: list[Message], expected: int) -> list[int]:
        async with open_topics(config) as topics:
            if more:
                await topics.store("shop.orders", more, partition=0)
            consumer = (await topics.subscribe("shop.orders", "billing", Kind.EXCLUSIVE)).join("second")
            found: list[int] = []
            async with asyncio.timeout(SOON):
                while len(found) < expected:
                    runs = await consumer.receive(100)
                    found += [int(message.payload) for run in runs for message in from_batch(run.batch)]
                    await consumer.ack_all(runs)
            return found

    assert asyncio.run(received([Message(b"20")], 13)) == [7, *range(9, 21)]
    assert asyncio.run(received([Message(b"21")], 1)) == [21], "all others are acknowledged for good"
