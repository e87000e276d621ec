"""Makes a filter that finds rows by key. The key is given as the bytes that Kafka has, or as text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow.types import is_binary, is_fixed_size_binary, is_list, is_map, is_struct, is_time, is_timestamp

from frazil.config.model import Config
from frazil.errors import CallError, ConfigError
from frazil.formats import kafka
from frazil.formats.decoding import Decoder
from frazil.log.schema.columns import NANOSECONDS
from frazil.scan.predicates.tree import And, Column, Comparison, IsNull, Predicate
from frazil.scan.topic_snapshot import TopicSnapshot


def key_filter(config: Config, topic: str, snapshot: TopicSnapshot, key: bytes) -> Predicate | None:
    """Returns a filter for rows with this key, or None when no row can have it."""
    schema = snapshot.projection(None).arrow
    decoder = snapshot.rules.decoder
    if decoder is not None:
        value = _decoded(decoder, snapshot.rules.known(), key)
        # A row with a null key may have had no key, or one that decodes to null.
        if value is None or not value.is_valid or kafka.KEY not in schema.names:
            return None
        return _equal((kafka.KEY,), schema.field(kafka.KEY).type, value)
    column = config.topic(topic).key_column
    if column is None:
        raise CallError(f"topics.{topic}.key_column: rows can be found by key when it names the column.")
    if column not in schema.names:
        raise ConfigError(f"topics.{topic}.key_column: there is no column {column!r}.")
    kind = schema.field(column).type
    written = snapshot.records.field(column).type if snapshot.records and column in snapshot.records.names else kind
    try:
        if is_timestamp(written) and written.unit == "ns" and column + NANOSECONDS in schema.names:
            return _nanoseconds(column, pa.scalar(key.decode()).cast(written))
        value = _time(key.decode(), written) if is_time(written) else pa.scalar(key, pa.binary())
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    return _equal((column,), kind, value)


def _decoded(decoder: Decoder, known: pa.Schema, key: bytes) -> pa.Scalar | None:
    """Returns the key as the topic's rows have it, or None if it cannot be decoded."""
    record = dict.fromkeys(kafka.SCHEMA.names) | {kafka.KEY: key, kafka.PARTITION: 0, kafka.OFFSET: 0}
    batch = pa.RecordBatch.from_pylist([record], schema=kafka.SCHEMA)
    pieces, _ = decoder.decode(batch, known)
    return pieces[0].rows.column(kafka.KEY)[0] if pieces else None


def _equal(path: tuple[str, ...], kind: pa.DataType, value: pa.Scalar) -> Predicate | None:
    column = Column(".".join(path))
    if not value.is_valid:
        return IsNull(column)
    if is_struct(kind) and is_struct(value.type):
        given = {field.name for field in value.type.fields}
        fields = [
            _equal((*path, field.name), field.type, value[field.name])
            if field.name in given
            else IsNull(Column(".".join((*path, field.name))))
            for field in kind.fields
        ]
        found = [each for each in fields if each is not None]
        return And(tuple(found)) if len(found) == len(fields) else None
    if is_list(kind) or is_map(kind) or is_struct(kind):
        raise CallError(f"Rows cannot be found by a key of type {kind}.")
    try:
        return Comparison(column, "==", _plain(_as(value, kind)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None


def _nanoseconds(column: str, time: pa.TimestampScalar) -> Predicate:
    """Compares a time that is split into two columns, microseconds and nanoseconds."""
    microseconds, rest = divmod(time.value, 1000)
    return And((Comparison(Column(column), "==", microseconds), Comparison(Column(column + NANOSECONDS), "==", rest)))


def _time(text: str, kind: pa.DataType) -> pa.Scalar:
    """Returns a time of day as the number that tables have. Arrow parses it only together with a date."""
    time = pa.scalar(f"1970-01-01 {text}").cast(pa.timestamp(kind.unit)).cast(kind)
    return pa.scalar(time.value, pa.int64())


def _as(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    if is_binary(value.type) and not is_binary(kind) and not is_fixed_size_binary(kind):
        value = pa.scalar(value.as_py().decode(), pa.string())
    return value.cast(kind)


def _plain(value: pa.Scalar) -> Any:
    """Returns a value as predicates have it. Times are numbers there, because Python's own end with microseconds."""
    return value.value if is_timestamp(value.type) else value.as_py()
