"""Decodes records of one Avro schema."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from frazil.formats.avro.nodes import Node
from frazil.formats.avro.reader import Bytes, Ints, Reader

ROWS_AT_ONCE = 8_192
"""The number of records decoded at once: few enough for the processor's caches."""
BYTES_AT_ONCE = 64 * 1024 * 1024
"""The number of bytes decoded at once: fewer than Arrow's offsets can count."""


class DecodedRecords(NamedTuple):
    values: pa.Array
    """The values of the records that can be decoded, in order."""
    faults: dict[int, str]
    """The positions of the other records, each with the reason."""


def decode_records(node: Node, data: Bytes, starts: Ints, ends: Ints) -> DecodedRecords:
    """Decodes the records that lie in `data` from each start to its end. The ends ascend."""
    faults: dict[int, str] = {}
    arrays = []
    for first, last in _parts(starts, ends):
        found = _decode(node, data, starts[first:last], ends[first:last])
        faults.update({first + place: reason for place, reason in found.faults.items()})
        arrays.append(found.values)
    if len(arrays) == 1:
        return DecodedRecords(arrays[0], faults)
    return DecodedRecords(pa.concat_arrays(arrays) if arrays else pa.nulls(0, node.kind), faults)


def _parts(starts: Ints, ends: Ints) -> list[tuple[int, int]]:
    parts = []
    first = 0
    while first < len(starts):
        fits = int(np.searchsorted(ends, starts[first] + BYTES_AT_ONCE, side="right"))
        last = min(first + ROWS_AT_ONCE, max(fits, first + 1), len(starts))
        parts.append((first, last))
        first = last
    return parts


def _decode(node: Node, data: Bytes, starts: Ints, ends: Ints) -> DecodedRecords:
    """Decodes all records; if some are faulty, decodes the others once more without them."""
    faults: dict[int, str] = {}
    rows = np.arange(len(starts))
    while True:
        reader = Reader(data, starts[rows], ends[rows], node.room)
        slots = reader.slots()
        build = node.read(reader, slots)
        reader.finish(slots)
        if not reader.reasons:
            values = build()
        if not reader.reasons:
            return DecodedRecords(values, faults)
        faults.update({int(rows[place]): reason for place, reason in reader.reasons.items()})
        rows = np.delete(rows, list(reader.reasons))
