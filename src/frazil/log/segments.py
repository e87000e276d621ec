"""Segments: sealed, immutable Parquet objects, named by their first offset only.

What a segment says of itself (its end, who wrote it, what fed it) stands in the Parquet footer under the key
`frazil`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import LogCorrupted, LogVersionUnsupported, ObjectNotFound, SegmentMissing
from frazil.log import layout
from frazil.log.epochs import Epochs
from frazil.log.store import ObjectStore

VERSION = 1
FOOTER_GUESS = 64 * 1024
"""Bytes fetched for a footer at first; a larger one costs a second request."""
_KEY = b"frazil"


@dataclass(frozen=True)
class Segment:
    topic: str
    partition: int
    first: int
    end: int
    writer: str
    epochs: Epochs
    chain: int
    schema_version: int
    created_ms: int
    positions: dict[str, Any] = field(repr=False)
    """The full positions as of `end`."""

    @property
    def key(self) -> str:
        return layout.segment_key(self.topic, self.partition, self.first)

    def _describe(self) -> bytes:
        described = {
            "version": VERSION,
            "topic": self.topic,
            "partition": self.partition,
            "first_offset": self.first,
            "end_offset": self.end,
            "writer": self.writer,
            "epochs": self.epochs.to_json(),
            "chain": self.chain,
            "schema_version": self.schema_version,
            "created_ms": self.created_ms,
            "positions": self.positions,
        }
        return json.dumps(described, separators=(",", ":")).encode()


def encode(segment: Segment, batches: Sequence[pa.RecordBatch], schema: pa.Schema, level: int) -> pa.Buffer:
    """The segment as Parquet bytes; all batches have this schema."""
    table = pa.Table.from_batches(batches, schema)
    if len(batches) > 1:
        table = table.combine_chunks()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="zstd", compression_level=level, write_page_index=True) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_KEY: segment._describe()})
    return sink.getvalue()


def read_footer(store: ObjectStore, key: str) -> Segment:
    """What a segment says of itself."""
    try:
        data, size = store.get_tail(key, FOOTER_GUESS)
        needed = int.from_bytes(bytes(data)[-8:-4], "little") + 8
        if data.size < needed <= size:
            data, _ = store.get_tail(key, needed)
        return _parse(pq.read_metadata(pa.BufferReader(data)), key, store)
    except ObjectNotFound as error:
        raise SegmentMissing(f"Segment {key} is not in {store.url}.") from error
    except pa.ArrowInvalid as error:
        raise _unreadable(store, key, error) from error


def read_records(store: ObjectStore, segment: Segment, columns: Sequence[str] | None = None) -> pa.Table:
    try:
        data = store.get(segment.key)
        table = pq.read_table(pa.BufferReader(data), columns=_present(data, columns), use_threads=True)
    except ObjectNotFound as error:
        raise SegmentMissing(f"Segment {segment.key} is not in {store.url}.") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(store, segment.key, error) from error
    if table.num_rows != segment.end - segment.first:
        raise _unreadable(store, segment.key, f"{table.num_rows} rows, not {segment.end - segment.first}")
    return table


def _present(data: pa.Buffer, columns: Sequence[str] | None) -> list[str] | None:
    """Columns younger than the segment are not in it."""
    if columns is None:
        return None
    names = set(pq.read_schema(pa.BufferReader(data)).names)
    return [name for name in columns if name in names]


def _parse(metadata: pq.FileMetaData, key: str, store: ObjectStore) -> Segment:
    described = (metadata.metadata or {}).get(_KEY)
    if described is None:
        raise _unreadable(store, key, "it was not written by Frazil")
    data = json.loads(described)
    if data["version"] > VERSION:
        raise LogVersionUnsupported(f"Segment {key} in {store.url} was written by a newer version of Frazil.")
    if metadata.num_rows != data["end_offset"] - data["first_offset"]:
        raise _unreadable(store, key, f"{metadata.num_rows} rows, but it claims {data['end_offset']} as its end")
    return Segment(
        topic=data["topic"],
        partition=data["partition"],
        first=data["first_offset"],
        end=data["end_offset"],
        writer=data["writer"],
        epochs=Epochs.from_json(data["epochs"]),
        chain=data["chain"],
        schema_version=data["schema_version"],
        created_ms=data["created_ms"],
        positions=data["positions"],
    )


def _unreadable(store: ObjectStore, key: str, why: object) -> LogCorrupted:
    return LogCorrupted(f"Segment {key} in {store.url} cannot be read: {why}.")
