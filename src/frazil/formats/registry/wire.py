"""Reads the wire format of schema registries: which schema a payload was written with, and where the payload begins.

A magic byte comes first: 0, then the schema's number in four bytes, or 1, then its GUID in sixteen. Newer producers
put the same into a header, and the value is nothing but the payload. Whole columns are read at once, and nothing is
copied.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.values import Payloads, Positions

SchemaId = int | str
"""An id is a number, or a GUID as text."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_NUMBER = 1 + 4
_GUID = 1 + 16
_WIDEST_INT32 = 2**31 - 1


@dataclass(frozen=True)
class Group:
    """Holds the payloads of one schema."""

    schema: SchemaId
    places: Positions
    data: Bytes
    """This buffer holds all these payloads, and others."""
    starts: Ints
    """Each payload begins here in `data`, after the schema's id. The numbers ascend."""
    ends: Ints
    rest: bytes | None = None
    """These bytes followed the id, if that was in a header. For Protobuf they are the message indexes."""


class Extents(NamedTuple):
    """Says where the values of a binary array are."""

    data: Bytes
    starts: Ints
    ends: Ints
    present: Bools | None
    """Says which values are not null; None if no value is null."""


def extents(values: pa.Array) -> Extents:
    """Return where the values of an array are. Arrays that are not `binary` or `large_binary` are copied."""
    if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
        values = values.cast(pa.large_binary())
    _, offsets, content = values.buffers()
    present = None if not values.null_count else values.is_valid().to_numpy(zero_copy_only=False)
    if offsets is None or not len(values):
        empty = np.zeros(0, np.int64)
        return Extents(np.zeros(0, np.uint8), empty, empty, present)
    kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    borders = np.frombuffer(offsets, kind)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    return Extents(data, borders[:-1], borders[1:], present)


def gather(data: Bytes, starts: Ints, ends: Ints) -> pa.Array:
    """Return slices of a buffer as a `binary` array. Each starts at or after the end of the one before."""
    count = len(starts)
    borders = np.empty(2 * count + 1, np.int64)
    borders[0 : 2 * count : 2] = starts
    borders[1 : 2 * count : 2] = ends
    borders[2 * count] = ends[-1] if count else 0
    # Every other value lies between two slices. `take` leaves these out, so they are not copied.
    small = borders[-1] <= _WIDEST_INT32
    places = borders.astype(np.int32) if small else borders
    both = pa.Array.from_buffers(
        pa.binary() if small else pa.large_binary(), 2 * count, [None, pa.py_buffer(places), pa.py_buffer(data)]
    )
    taken = both.take(pa.array(np.arange(0, 2 * count, 2)))
    return taken if small else taken.cast(pa.binary())


def cut(payloads: Payloads) -> tuple[list[Group], dict[int, str]]:
    """Return the payloads by schema, in the order in which schemas first appear, and why others have none."""
    whole = extents(payloads.values)
    faults: dict[int, str] = {}
    prefixed = np.arange(len(whole.starts)) if whole.present is None else np.flatnonzero(whole.present)
    groups: list[Group] = []
    if payloads.schema_ids is not None:
        in_header = payloads.schema_ids.is_valid().to_numpy(zero_copy_only=False)
        groups += _by_header(payloads.schema_ids, whole, prefixed[in_header[prefixed]], faults)
        prefixed = prefixed[~in_header[prefixed]]
    groups += _by_prefix(whole, prefixed, faults)
    return sorted(groups, key=lambda group: int(group.places[0])), faults


def _by_prefix(whole: Extents, places: Positions, faults: dict[int, str]) -> Iterator[Group]:
    starts, lengths = whole.starts[places], whole.ends[places] - whole.starts[places]
    magic = np.full(len(places), 255, np.uint8)
    filled = lengths > 0
    magic[filled] = whole.data[starts[filled]]
    numbered = (magic == 0) & (lengths >= _NUMBER)
    named = (magic == 1) & (lengths >= _GUID)
    if not numbered.all():
        for place in np.flatnonzero(~(numbered | named)):
            faults[int(places[place])] = _fault(int(magic[place]), int(lengths[place]))
        yield from _by_guid(whole, places[named])
        places, starts = places[numbered], starts[numbered]
    if not len(places):
        return
    ids = np.ndarray((len(whole.data) - 3,), ">u4", whole.data, strides=(1,))[starts + 1].astype(np.int64)
    for number, chosen in _positions_by_id(ids):
        yield _group(number, whole, places[chosen], _NUMBER)


def _by_guid(whole: Extents, places: Positions) -> Iterator[Group]:
    """Group payloads with a GUID one by one, for they are rare."""
    found: dict[str, list[int]] = {}
    for place in places:
        start = int(whole.starts[place]) + 1
        found.setdefault(str(uuid.UUID(bytes=whole.data[start : start + 16].tobytes())), []).append(int(place))
    for guid, chosen in found.items():
        yield _group(guid, whole, np.array(chosen), _GUID)


def _by_header(ids: pa.Array, whole: Extents, places: Positions, faults: dict[int, str]) -> Iterator[Group]:
    said = ids.take(pa.array(places)).dictionary_encode()
    for number, chosen in _positions_by_id(said.indices.to_numpy()):
        header = said.dictionary[number].as_py()
        match header[:1]:
            case b"\0" if len(header) >= _NUMBER:
                schema: SchemaId = int.from_bytes(header[1:_NUMBER], "big")
                yield _group(schema, whole, places[chosen], 0, header[_NUMBER:])
            case b"\1" if len(header) >= _GUID:
                schema = str(uuid.UUID(bytes=header[1:_GUID]))
                yield _group(schema, whole, places[chosen], 0, header[_GUID:])
            case _:
                reason = f"the header with the schema's id is not one: {header[:20].hex()}"
                faults.update(dict.fromkeys(places[chosen].tolist(), reason))


def _group(schema: SchemaId, whole: Extents, places: Positions, skipped: int, rest: bytes | None = None) -> Group:
    return Group(schema, places, whole.data, whole.starts[places] + skipped, whole.ends[places], rest)


def _positions_by_id(ids: npt.NDArray[np.integer]) -> Iterator[tuple[int, Positions | slice]]:
    """Yield each id with the positions that have it, which ascend."""
    if not len(ids):
        return
    if (ids == ids[0]).all():
        yield int(ids[0]), slice(None)
        return
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    borders = np.flatnonzero(np.diff(ordered)) + 1
    for chosen in np.split(order, borders):
        yield int(ids[chosen[0]]), chosen


def _fault(magic: int, length: int) -> str:
    if magic in (0, 1) or not length:
        return f"too short to say which schema it has: {length} bytes"
    return f"not in the wire format of a schema registry: it begins with the byte {magic:#04x}, not 0x00"
