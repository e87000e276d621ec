"""The header of a WAL file comes back as it was written."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
from hypothesis import given

from frazil.framefile import frames
from frazil.log.epochs import Epochs
from frazil.log.positions import Positions, StoredAppend
from frazil.log.wal.entries import FileHeader, Kind
from tests.log.support import stored


def header_of(appends: list[StoredAppend]) -> FileHeader:
    positions = Positions()
    positions.apply(appends, now_ms=10)
    return FileHeader(
        writer="w\n",
        former_writers=("a", "b"),
        epochs=Epochs((("e", 0),)),
        first_offset=7,
        chain=5,
        sync="always",
        boot="boot",
        created_ms=1,
        schemas={1: pa.schema([("a\n", pa.int64())])},
        positions=positions.to_stored(),
    )


def read_back(encoded: frames.Encoded) -> FileHeader:
    data = memoryview(b"".join(encoded.parts))
    frame = frames.read_frame(data, 0)
    assert isinstance(frame, frames.Frame)
    return FileHeader.decode(frame.body(data))


@given(stored)
def test_all_of_it_comes_back(appends: list[StoredAppend]) -> None:
    header = header_of(appends)
    again = read_back(header.encode())
    assert Positions.from_stored(again.positions) == Positions.from_stored(header.positions)
    assert again.positions.requests == header.positions.requests
    assert replace(again, positions=header.positions) == header


@given(stored)
def test_requests_within_the_json(appends: list[StoredAppend]) -> None:
    """Older files have the requests within the JSON."""
    header = header_of(appends)
    told = json.loads(bytes(header.encode().parts[1]))
    del told["requests_bytes"]
    told["positions"] = header.positions.to_json()
    again = read_back(frames.encode(Kind.HEADER, [json.dumps(told).encode()], fill=b" "))
    assert Positions.from_stored(again.positions) == Positions.from_stored(header.positions)
