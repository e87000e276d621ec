"""Kafka messages as the log's columns. One small step of Python's C code per message and field, nothing more."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain, groupby

import numpy as np
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message
from confluent_kafka._types import HeadersType

from frazil.formats import kafka

logger = logging.getLogger(__name__)

Run = list[Message]
"""Messages of one partition, in order."""


def by_partition(messages: Sequence[Message]) -> dict[tuple[str, int], Run]:
    """The client hands them out in long runs of one partition, so few steps are made here."""
    runs: dict[tuple[str, int], Run] = {}
    for topic, of_topic in groupby(messages, Message.topic):
        for partition, run in groupby(of_topic, Message.partition):
            assert topic is not None
            assert partition is not None
            runs.setdefault((topic, partition), []).extend(run)
    return runs


def to_batch(run: Run) -> pa.RecordBatch:
    """The messages with the columns of `formats.kafka`."""
    columns = {
        kafka.KEY: pa.array(list(map(Message.key, run)), pa.binary()),
        kafka.VALUE: pa.array(list(map(Message.value, run)), pa.binary()),
        kafka.HEADERS: _headers(run),
        **_timestamps(run),
        kafka.PARTITION: pa.repeat(pa.scalar(run[0].partition(), pa.int32()), len(run)),
        kafka.OFFSET: pa.array(np.fromiter(map(Message.offset, run), np.int64, len(run))),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in kafka.SCHEMA.names], schema=kafka.SCHEMA)


def _headers(run: Run) -> pa.Array:
    """Null where there are none; their order, repeated names and null values are kept."""
    headers: list[HeadersType | None] = []
    messages = iter(run)
    while len(headers) < len(run):
        try:
            headers.extend(map(Message.headers, messages))
        except (SystemError, UnicodeDecodeError):
            # The client cannot tell names that are no UTF-8, and must not be asked for these headers again.
            _warn(run[len(headers)])
            headers.append([(kafka.UNREADABLE, None)])
    kind = kafka.SCHEMA.field(kafka.HEADERS).type
    return pa.array(headers, kind) if any(headers) else pa.nulls(len(run), kind)


def _warn(message: Message) -> None:
    where = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    logger.warning("a record has headers that cannot be read, and is stored without them", extra=where)


def _timestamps(run: Run) -> dict[str, pa.Array]:
    pairs = np.fromiter(chain.from_iterable(map(Message.timestamp, run)), np.int64, 2 * len(run))
    kinds, times = pairs[::2], pairs[1::2]
    absent = kinds == TIMESTAMP_NOT_AVAILABLE
    mask = absent if absent.any() else None
    milliseconds = pa.array(times, pa.int64(), mask=mask)
    return {
        kafka.TIMESTAMP: milliseconds.cast(kafka.SCHEMA.field(kafka.TIMESTAMP).type),
        # The client counts from "not available", Kafka from the time of creation.
        kafka.TIMESTAMP_TYPE: pa.array((kinds - 1).astype(np.int8), mask=mask),
    }
