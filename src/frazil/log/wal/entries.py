"""The entries of a WAL file, one in each frame.

A file begins with a header that carries all a reader needs, so that it can be read without any other file. Then come
records, new versions of the schema, and, after a clean stop, an entry that says that nothing is missing.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import pyarrow as pa
from isal.isal_zlib import crc32

from frazil.config.sections.log import Sync
from frazil.framefile import frames
from frazil.log.epochs import Epochs
from frazil.log.forms import RawEntry, make_rows, unpack_appends
from frazil.log.positions import StoredAppend, StoredPositions, decode_origins, encode_origins
from frazil.log.schema.schema import from_text, to_text

_RECORDS = struct.Struct("<QIIqQII")
_FORM = struct.Struct("16s")


class Kind(IntEnum):
    HEADER = 1
    RECORDS = 2
    SCHEMA = 3
    CLOSED = 4
    RAW = 5
    """Records that are stored as they came, and are not decoded yet."""


RECORDS = (Kind.RECORDS, Kind.RAW)


@dataclass(frozen=True)
class FileHeader:
    """The first frame of every WAL file."""

    writer: str
    former_writers: tuple[str, ...]
    """The ids under which this WAL was written before. Segments that carry them are ours as well."""
    epochs: Epochs
    first_offset: int
    chain: int
    sync: Sync
    boot: str
    created_ms: int
    schemas: dict[int, pa.Schema]
    positions: StoredPositions = field(repr=False)
    """The positions as of `first_offset`."""

    def encode(self) -> frames.Encoded:
        """Encode a line of JSON, then the requests as bytes: there are many of them, and appends wait for this."""
        text = _to_json(
            {
                "writer": self.writer,
                "former_writers": self.former_writers,
                "epochs": self.epochs.to_json(),
                "first_offset": self.first_offset,
                "chain": self.chain,
                "sync": self.sync,
                "boot": self.boot,
                "created_ms": self.created_ms,
                "schemas": {str(version): to_text(schema) for version, schema in self.schemas.items()},
                "positions": self.positions.feeders,
                "requests_bytes": len(self.positions.requests),
            }
        )
        return frames.encode(Kind.HEADER, [text, b"\n", self.positions.requests])

    @classmethod
    def decode(cls, body: memoryview) -> FileHeader:
        text, _, behind = bytes(body).partition(b"\n")
        data = json.loads(text)
        return cls(
            writer=data["writer"],
            former_writers=tuple(data["former_writers"]),
            epochs=Epochs.from_json(data["epochs"]),
            first_offset=data["first_offset"],
            chain=data["chain"],
            sync=data["sync"],
            boot=data["boot"],
            created_ms=data["created_ms"],
            schemas={int(version): from_text(text) for version, text in data["schemas"].items()},
            positions=_positions(data, behind),
        )


def _positions(header: dict[str, Any], behind: bytes) -> StoredPositions:
    """Read the positions. Older files have the requests within the JSON."""
    if "requests_bytes" not in header:
        return StoredPositions.from_json(header["positions"])
    return StoredPositions(header["positions"], behind[: header["requests_bytes"]])


class DecodedRows(NamedTuple):
    """A batch of rows that a raw entry was decoded into, perhaps together with others."""

    batch: pa.RecordBatch
    first: int
    """The index of the entry's first row in the batch."""


class Entry(NamedTuple):
    """The records of one frame: one or more appends that were committed together."""

    offset: int
    rows: int
    schema_version: int
    schema: pa.Schema
    time_ms: int
    appends: list[StoredAppend]
    """The appends that have an origin."""
    payload: pa.Buffer
    """An Arrow IPC record batch message, or raw appends."""
    chain: int
    """A running checksum of all frames up to and with this one. Two WALs with different histories differ in it."""
    form: str = ""
    """The form of raw appends; empty if the payload holds rows."""
    weight: int = 0
    """The estimated size of the decoded rows, if the entry has a form."""
    decoded: DecodedRows | None = None
    """The rows of a raw entry once it is decoded."""

    @property
    def end(self) -> int:
        return self.offset + self.rows

    @property
    def nbytes(self) -> int:
        """The size of the rows, estimated if the entry is raw."""
        return self.weight if self.form else int(self.payload.size)

    @property
    def is_raw(self) -> bool:
        """Returns whether the entry is still to be decoded."""
        return bool(self.form) and self.decoded is None

    def raw_entry(self) -> RawEntry:
        """Return the appends of an entry that has a form."""
        return RawEntry(unpack_appends(self.payload), self.rows, self.time_ms)

    def without_origins(self) -> Entry:
        """Return the entry with its records alone, not decoded."""
        return self._replace(appends=[], decoded=None)

    def batch(self) -> pa.RecordBatch:
        if self.decoded is not None:
            return self.decoded.batch.slice(self.decoded.first, self.rows)
        if self.form:
            return make_rows(self.form, [self.raw_entry()], self.schema)
        return pa.ipc.read_record_batch(self.payload, self.schema)


def extend_chain(chain: int, crc: int) -> int:
    return crc32(crc.to_bytes(4, "little"), chain)


def encode_records(entry: Entry, synced_to: int) -> frames.Encoded:
    """`synced_to` is how far the file is known to be on disk: damage before that byte is never a torn write."""
    origins = encode_origins(entry.appends)
    origins += b" " * (-len(origins) % 8)
    head = _RECORDS.pack(
        entry.offset, entry.rows, entry.schema_version, entry.time_ms, synced_to, len(origins), entry.weight
    )
    payload = memoryview(entry.payload)
    if entry.form:
        name = entry.form.encode()
        if len(name) > _FORM.size:
            raise ValueError(f"The name of the form {entry.form!r} has more than {_FORM.size} bytes.")
        return frames.encode(Kind.RAW, [head, origins, _FORM.pack(name), payload])
    return frames.encode(Kind.RECORDS, [head, origins, payload])


def payload_start(encoded: frames.Encoded, entry: Entry) -> int:
    """Return where the payload starts inside its frame. Only the padding and the checksum come after it."""
    return encoded.size - int(entry.payload.size) - len(encoded.parts[-1])


def decode_records(
    data: pa.Buffer, view: memoryview, frame: frames.Frame, schemas: dict[int, pa.Schema], chain: int
) -> tuple[Entry, int]:
    """Return the records of a frame, without copying them, and its `synced_to`."""
    start = frame.start + frames.BODY_START
    offset, rows, schema_version, time_ms, synced_to, origins_length, weight = _RECORDS.unpack_from(view, start)
    origins_start = start + _RECORDS.size
    payload_start = origins_start + origins_length
    origins = bytes(view[origins_start:payload_start]) if origins_length else b""
    form = ""
    if frame.kind == Kind.RAW:
        (name,) = _FORM.unpack_from(view, payload_start)
        form = name.rstrip(b"\0").decode()
        payload_start += _FORM.size
    entry = Entry(
        offset,
        rows,
        schema_version,
        schemas[schema_version],
        time_ms,
        decode_origins(origins),
        data.slice(payload_start, frame.end - 4 - payload_start),
        extend_chain(chain, frame.crc),
        form,
        weight,
    )
    return entry, synced_to


def encode_schema(version: int, schema: pa.Schema) -> frames.Encoded:
    return _encode_json(Kind.SCHEMA, {"version": version, "schema": to_text(schema)})


def decode_schema(body: memoryview) -> tuple[int, pa.Schema]:
    data = json.loads(bytes(body))
    return data["version"], from_text(data["schema"])


def encode_closed(end: int) -> frames.Encoded:
    return _encode_json(Kind.CLOSED, {"end_offset": end})


def _encode_json(kind: Kind, data: dict[str, Any]) -> frames.Encoded:
    return frames.encode(kind, [_to_json(data)], fill=b" ")


def _to_json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()
