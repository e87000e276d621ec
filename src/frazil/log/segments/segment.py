"""Segments: sealed, immutable Parquet objects, named by their first offset only.

The Parquet footer describes the segment (its end, its writer, its positions) under the key `frazil`. A segment holds
rows, or raw appends (`log.raw.segments`), which are decoded when it is read.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types

from frazil.errors import LogCorrupted, LogVersionUnsupported, ObjectNotFound, SegmentMissing
from frazil.log import layout
from frazil.log.epochs import Epochs
from frazil.log.raw import segments as raw_segments
from frazil.log.raw.segments import RawEncoding
from frazil.log.schema.schema import from_text, to_text
from frazil.log.wal.entries import Entry
from frazil.store import ObjectStore

VERSION, RAW_VERSION = 1, 2
"""The versions of segments that hold rows, and of those that hold raw appends."""
FOOTER_GUESS = 64 * 1024
"""So many bytes are fetched for a footer at first. A larger one costs a second request."""
PIECE_BYTES = 4 * 1024 * 1024
"""A reader that streams a segment reads about this much at a time."""
READ_BYTES = 1024 * 1024
"""A reader that streams a segment fetches this much of a column at a time."""
MOST_PIECE_ROWS = 65_536
DICTIONARY_BYTES, PLACE_BYTES = 1024 * 1024, 4
"""The greatest sizes of a whole dictionary, and of an index into it."""
SMALL_BATCH = 1000
"""Batches with fewer rows on average are joined first: Parquet is written column by column, batch by batch."""
_KEY = b"frazil"
_CRC = b'"footer_crc":"'


@dataclass(frozen=True)
class Encoding:
    """Says how columns are encoded in Parquet, by their paths."""

    dictionary: tuple[str, ...] | None = None
    """Columns whose values repeat. None tries all, which costs time where they do not."""
    ascending: tuple[str, ...] = ()
    """Integers and times that mostly grow. They are stored as differences."""
    statistics: tuple[str, ...] | None = None
    """Columns that get minimum and maximum statistics. None takes all."""


DEFAULT_ENCODING = Encoding()
_RAW_ENCODING = Encoding(dictionary=(), statistics=())


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
    oldest_ms: int
    """The time at which the first record was appended."""
    positions: dict[str, Any] = field(repr=False)
    """The positions as of `end` (`StoredPositions.to_json`), with the requests that the writer still knew."""
    raw_encoding: RawEncoding | None = field(default=None, repr=False)
    """This is how the payloads are decoded, if the segment is raw."""

    @property
    def key(self) -> str:
        return layout.segment_key(self.topic, self.partition, self.first)

    def _describe(self) -> bytes:
        described = {
            "version": RAW_VERSION if self.raw_encoding else VERSION,
            "topic": self.topic,
            "partition": self.partition,
            "first_offset": self.first,
            "end_offset": self.end,
            "writer": self.writer,
            "epochs": self.epochs.to_json(),
            "chain": self.chain,
            "schema_version": self.schema_version,
            "created_ms": self.created_ms,
            "oldest_ms": self.oldest_ms,
            "positions": self.positions,
            **(
                {"form": self.raw_encoding.form, "rows": to_text(self.raw_encoding.schema)}
                if self.raw_encoding
                else {}
            ),
            "footer_crc": "0" * 8,
        }
        return json.dumps(described, separators=(",", ":")).encode()


def encode(
    segment: Segment,
    batches: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    level: int,
    encoding: Encoding = DEFAULT_ENCODING,
) -> pa.Buffer:
    """Encode a segment of rows as Parquet. All batches have this schema."""
    table = pa.Table.from_batches(batches, schema)
    if table.num_rows < len(batches) * SMALL_BATCH:
        table = table.combine_chunks()
    return _encoded(segment, table, level, encoding)


def encode_raw(segment: Segment, entries: Sequence[Entry], level: int) -> pa.Buffer:
    """Encode a raw segment as Parquet."""
    return _encoded(segment, raw_segments.table_of(entries), level, _RAW_ENCODING)


def _encoded(segment: Segment, table: pa.Table, level: int, encoding: Encoding) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        compression_level=level,
        use_dictionary=True if encoding.dictionary is None else list(encoding.dictionary),
        column_encoding=dict.fromkeys(encoding.ascending, "DELTA_BINARY_PACKED") or None,
        write_statistics=True if encoding.statistics is None else list(encoding.statistics),
        write_page_index=True,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_KEY: segment._describe()})
    data = sink.getvalue()
    start, stop = _footer(data)
    footer = bytes(memoryview(data)[start:stop])
    at = start + _crc_at(footer)
    memoryview(data).cast("B")[at : at + 8] = _crc(footer)
    return data


def _footer(data: pa.Buffer) -> tuple[int, int]:
    """Return the range of the footer in data that ends as a Parquet file does."""
    stop = data.size - 8
    return stop - int.from_bytes(bytes(memoryview(data)[stop : stop + 4]), "little"), stop


def _crc_at(footer: bytes) -> int:
    # The last occurrence counts: statistics stand before it, and may contain any text of a record, also this one.
    return footer.rindex(_CRC) + len(_CRC)


def _crc(footer: bytes) -> bytes:
    """Compute the checksum of a footer, with its own digits taken as zeros. Pages have checksums of their own."""
    at = _crc_at(footer)
    return b"%08x" % zlib.crc32(footer[:at] + b"0" * 8 + footer[at + 8 :])


def _check_footer(data: pa.Buffer) -> None:
    start, stop = _footer(data)
    footer = bytes(memoryview(data)[max(start, 0) : stop])
    at = _crc_at(footer)
    if footer[at : at + 8] != _crc(footer):
        raise ValueError("its footer does not match its checksum")


def read_footer(store: ObjectStore, key: str) -> Segment:
    """Read the footer of a segment."""
    with _damage_told(store, key):
        data, size = store.get_tail(key, FOOTER_GUESS)
        needed = int.from_bytes(bytes(data)[-8:-4], "little") + 8
        if data.size < needed <= size:
            data, _ = store.get_tail(key, needed)
        _check_footer(data)
        segment = _parse(pq.read_metadata(pa.BufferReader(data)), key, store)
    if segment.key != key:
        raise _unreadable(store, key, f"it says that it is {segment.key}")
    return segment


def read_records(store: ObjectStore, segment: Segment, columns: Sequence[str] | None = None) -> pa.Table:
    """Read all records of a segment as one table."""
    return pa.concat_tables(read_parts(store, segment, columns))


def read_parts(
    store: ObjectStore, segment: Segment, columns: Sequence[str] | None = None, *, dictionaries: bool = False
) -> Iterator[pa.Table]:
    """Yield all records of a segment: at once, or some at a time if they have to be decoded.

    With `dictionaries`, texts that repeat stay dictionary-encoded, as they are in the file.
    """
    with _damage_told(store, segment.key):
        data = store.get(segment.key)
        _check_footer(data)
        metadata = pq.read_metadata(pa.BufferReader(data))
        file = pq.ParquetFile(
            pa.BufferReader(data),
            metadata=metadata,
            read_dictionary=_repeated_texts(metadata) if dictionaries and not segment.raw_encoding else None,
            page_checksum_verification=True,
        )
        table = file.read(columns=None if segment.raw_encoding else _present(file, columns))
    del data, file
    parts = iter([table])
    if segment.raw_encoding:
        parts = raw_segments.rows_of(table, segment.raw_encoding, columns, dictionaries=dictionaries)
    rows = 0
    for part in parts:
        rows += part.num_rows
        yield part
    if rows != segment.end - segment.first:
        raise _unreadable(store, segment.key, f"{rows} rows, not {segment.end - segment.first}")


def _repeated_texts(metadata: pq.FileMetaData) -> list[str]:
    """Return the paths of texts, also in lists and maps, that are stored as dictionaries throughout.

    Where a dictionary was full, Parquet goes on with plain texts, which shows in the size. With several row groups
    there are none: Arrow cannot join their nested dictionaries.
    """
    if metadata.num_row_groups != 1:
        return []
    group = metadata.row_group(0)
    repeated = {chunk.path_in_schema for chunk in map(group.column, range(group.num_columns)) if _is_repeated(chunk)}
    fields = metadata.schema.to_arrow_schema()
    return [path for field in fields for path in _texts(field.name, field.type) if path in repeated]


def _texts(path: str, kind: pa.DataType) -> list[str]:
    """Return the Parquet paths of texts that are not in a struct."""
    if types.is_map(kind):
        entry = f"{path}.key_value"
        return _texts(f"{entry}.key", kind.key_type) + _texts(f"{entry}.value", kind.item_type)
    if types.is_list(kind):
        return _texts(f"{path}.list.element", kind.value_type)
    return [path] if types.is_string(kind) else []


def _is_repeated(chunk: pq.ColumnChunkMetaData) -> bool:
    most = DICTIONARY_BYTES + PLACE_BYTES * chunk.num_values
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)


def stream_records(
    store: ObjectStore,
    segment: Segment,
    skip: int,
    count: int,
    columns: Sequence[str] | None = None,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield `count` records after the first `skip`, in batches of about `piece_bytes`. Little more is in memory."""
    end = skip + count
    at = 0
    with open_records(store, segment) as file:
        if segment.raw_encoding:
            yield from raw_segments.stream_rows(file, segment.raw_encoding, skip, count, columns, piece_bytes)
            return
        rows = piece_rows(file.metadata, piece_bytes)
        for batch in file.iter_batches(rows, columns=_present(file, columns)):
            if at >= end:
                break
            first, last = max(0, skip - at), min(len(batch), end - at)
            at += len(batch)
            if first < last:
                yield batch.slice(first, last - first)
        if at < end:
            raise ValueError(f"{at} rows could be read, not {end}")


@contextmanager
def open_records(store: ObjectStore, segment: Segment) -> Iterator[pq.ParquetFile]:
    """Open a segment to read parts of it. Pages are verified; damage in the body is raised as `LogCorrupted`."""
    with _damage_told(store, segment.key):
        file = pq.ParquetFile(
            pa.PythonFile(ObjectFile(store, segment.key), "r"),
            buffer_size=READ_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        if segment.raw_encoding is None and file.metadata.num_rows != segment.end - segment.first:
            raise ValueError(f"{file.metadata.num_rows} rows, not {segment.end - segment.first}")
        yield file


def piece_rows(metadata: pq.FileMetaData, piece_bytes: int) -> int:
    """Return how many rows of a Parquet file have about so many bytes."""
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    each = max(1, size // max(1, metadata.num_rows))
    return max(1, min(MOST_PIECE_ROWS, piece_bytes // int(each)))


class ObjectFile(io.RawIOBase):
    """An object as a file: only the ranges that are read are fetched."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        _, self._size = store.get_tail(key, 8)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        length = self._size - self._at if size < 0 else min(size, self._size - self._at)
        if length <= 0:
            return b""
        data = bytes(self._store.get_range(self._key, self._at, length))
        self._at += len(data)
        return data


@contextmanager
def _damage_told(store: ObjectStore, key: str) -> Iterator[None]:
    """Raise errors of the body as `LogCorrupted`: flipped bits in a Parquet file cause almost any error."""
    try:
        yield
    except ObjectNotFound as error:
        raise SegmentMissing(f"Segment {key} is not in {store.url}.") from error
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(store, key, error) from error


def _present(file: pq.ParquetFile, columns: Sequence[str] | None) -> list[str] | None:
    """Return the wanted columns that are in the segment: younger ones are not."""
    if columns is None:
        return None
    names = set(file.schema_arrow.names)
    return [name for name in columns if name in names]


def _parse(metadata: pq.FileMetaData, key: str, store: ObjectStore) -> Segment:
    described = (metadata.metadata or {}).get(_KEY)
    if described is None:
        raise _unreadable(store, key, "it was not written by Frazil")
    data = json.loads(described)
    if data["version"] > RAW_VERSION:
        raise LogVersionUnsupported(f"Segment {key} in {store.url} was written by a newer version of Frazil.")
    raw_encoding = RawEncoding(data["form"], from_text(data["rows"])) if "form" in data else None
    if raw_encoding is None and metadata.num_rows != data["end_offset"] - data["first_offset"]:
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
        oldest_ms=data.get("oldest_ms", data["created_ms"]),
        positions=data["positions"],
        raw_encoding=raw_encoding,
    )


def _unreadable(store: ObjectStore, key: str, why: object) -> LogCorrupted:
    return LogCorrupted(
        f"Segment {key} in {store.url} cannot be read: {str(why).rstrip('.')}. Restore the object from a copy; its "
        f"records are in the topic's table if they were committed."
    )
