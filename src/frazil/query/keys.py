"""Rows by their key: the bytes that a key has in Kafka, or a text, as a condition on the column that rows have."""

from __future__ import annotations

from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_list, is_map, is_struct

from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.formats import kafka
from frazil.formats.decoding import Decoder
from frazil.lake.rows.look import Look


def key_filter(config: Config, topic: str, look: Look, key: bytes) -> pc.Expression | None:
    """Rows with this key; None when no row can have it."""
    schema = look.shape(None).arrow
    decoder = look.rules.decoder
    if decoder is not None:
        value = _decoded(decoder, look.rules.known(), key)
        return None if value is None else _equal((kafka.KEY,), schema.field(kafka.KEY).type, value)
    column = config.topic(topic).key_column
    if column is None:
        raise ConfigError(f"topics.{topic}.key_column: rows can be found by key when it names the column.")
    if column not in schema.names:
        raise ConfigError(f"topics.{topic}.key_column: there is no column {column!r}.")
    return _equal((column,), schema.field(column).type, pa.scalar(key, pa.binary()))


def _decoded(decoder: Decoder, known: pa.Schema, key: bytes) -> pa.Scalar | None:
    """The key as the topic's rows have it; None if it cannot be read."""
    record = dict.fromkeys(kafka.SCHEMA.names) | {kafka.KEY: key, kafka.PARTITION: 0, kafka.OFFSET: 0}
    batch = pa.RecordBatch.from_pylist([record], schema=kafka.SCHEMA)
    pieces, _ = decoder.decode(batch, known)
    return pieces[0].rows.column(kafka.KEY)[0] if pieces else None


def _equal(path: tuple[str, ...], kind: pa.DataType, value: pa.Scalar) -> pc.Expression | None:
    column = pc.field(*path)
    if not value.is_valid:
        return column.is_null()
    if is_struct(kind) and is_struct(value.type):
        given = {field.name for field in value.type.fields}
        fields = [
            _equal((*path, field.name), field.type, value[field.name])
            if field.name in given
            else pc.field(*path, field.name).is_null()
            for field in kind.fields
        ]
        return None if any(each is None for each in fields) else reduce(and_, fields)
    if is_list(kind) or is_map(kind) or is_struct(kind):
        raise ConfigError(f"Rows cannot be found by a key of type {kind}.")
    try:
        return column == _as(value, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None


def _as(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    if value.type == pa.binary() and kind != pa.binary():
        value = pa.scalar(value.as_py().decode(), pa.string())
    return value.cast(kind)
