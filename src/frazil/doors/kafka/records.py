"""Turns Kafka messages into columns of the log. Each message and field takes one step in C code, and nothing more."""

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
"""A run has messages of one partition, in order."""


def by_partition(messages: Sequence[Message]) -> dict[tuple[str, int], Run]:
    """Sort messages by partition. The client hands them out in long runs, so this takes few steps."""
    runs: dict[tuple[str, int], Run] = {}
    for topic, of_topic in groupby(messages, Message.topic):
        for partition, run in groupby(of_topic, Message.partition):
            assert topic is not None
            assert partition is not None
            runs.setdefault((topic, partition), []).extend(run)
    return runs


def to_batch(run: Run) -> pa.RecordBatch:
    """Return the messages with the columns of `formats.kafka`."""
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
    """Return the headers, or null for a message without any. Their order, repeated names and null values are kept."""
    headers: list[HeadersType | None] = []
    messages = iter(run)
    while len(headers) < len(run):
        try:
            headers.extend(map(Message.headers, messages))
        except (SystemError, UnicodeDecodeError):
            # The client cannot decode names that are not UTF-8, and must not be asked for these headers again.
            _warn_of_headers(run[len(headers)])
            headers.append([(kafka.UNREADABLE, None)])
    kind = kafka.SCHEMA.field(kafka.HEADERS).type
    return pa.array(headers, kind) if any(headers) else pa.nulls(len(run), kind)


def _warn_of_headers(message: Message) -> None:
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
        # The client numbers the types from "not available" on, and Kafka from "create time" on.
        kafka.TIMESTAMP_TYPE: pa.array((kinds - 1).astype(np.int8), mask=mask),
    }
