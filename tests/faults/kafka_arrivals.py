"""Compares the records that came from Kafka into log and table with the records that Kafka itself returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa

from frazil.config.model import Config
from frazil.errors import TableNotFound
from frazil.formats.kafka import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, VALUE
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from tests.faults.group_members import Group
from tests.servers.kafka import Record, RecordPosition


def wait_until_arrived(group: Group, truth: Mapping[RecordPosition, Record]) -> None:
    """Waits until the group has committed past the last record of each partition."""
    ends = {place.partition: place.offset + 1 for place in sorted(truth)}
    group.wait_for(lambda: all(group.offsets().get(each, 0) >= end for each, end in ends.items()), f"at {ends}")


def check_log(config: Config, topic: str, truth: Mapping[RecordPosition, Record]) -> None:
    """Checks that each record is in the log of its partition, once, in Kafka's order."""
    assert log_places(config, topic) == sorted(truth)
    with Log(config) as log:
        batches = [run.batch for each in log.partitions(topic) for run in log.reader(topic, each).read(0)]
    _compare(pa.Table.from_batches(batches), VALUE, truth)


def log_places(config: Config, topic: str) -> list[RecordPosition]:
    """Returns where the sealed records came from, partition by partition in the log's order."""
    places: list[RecordPosition] = []
    with Log(config) as log:
        for partition in log.partitions(topic):
            for run in log.reader(topic, partition).read(0):
                found = run.batch.to_pydict()
                assert set(found[PARTITION]) <= {partition}
                places += map(RecordPosition, found[PARTITION], found[OFFSET])
    return places


def check_table(config: Config, topic: str, truth: Mapping[RecordPosition, Record]) -> None:
    """Checks that each record is in the table once, as PyIceberg alone reads it."""
    with closing(Lake(config)) as lake:
        _compare(lake.load(base_identifier(config, topic)).scan().to_arrow(), "value", truth)


def moved(config: Config, topic: str) -> bool:
    """Returns whether the table has everything that is in the log."""
    with Log(config) as log, closing(Lake(config)) as lake:
        ends = {partition: log.reader(topic, partition).bounds().sealed_end for partition in log.partitions(topic)}
        try:
            return TableState.of(lake.load(base_identifier(config, topic))).offsets == ends
        except TableNotFound:
            return False


def _compare(rows: pa.Table, value: str, truth: Mapping[RecordPosition, Record]) -> None:
    places = list(map(RecordPosition, rows[PARTITION].to_pylist(), rows[OFFSET].to_pylist()))
    twice = len(places) - len(set(places))
    lost, strange = truth.keys() - set(places), set(places) - truth.keys()
    assert not any((twice, lost, strange)), f"{twice} twice, lost {few(lost)}, should not be there {few(strange)}"
    times = rows[TIMESTAMP].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    columns = (rows[value].to_pylist(), rows[KEY].to_pylist(), map(_headers, rows[HEADERS].to_pylist()), times)
    for place, of_value, key, headers, time in zip(places, *columns, strict=True):
        assert Record(of_value, key, place.partition, headers, time) == truth[place]


def _headers(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    return [(header["key"], header["value"]) for header in headers or ()]


def few(places: Iterable[RecordPosition]) -> str:
    found = sorted(places)
    return f"{len(found)} ({', '.join(f'{each.partition}/{each.offset}' for each in found[:5])})" if found else "none"
