"""Reads message indexes: the numbers before a payload that say which message of its file it is.

The number of indexes comes first, then the indexes: of the message in the file, of the message inside that one, and
so on. All are zigzag varints. A single 0 stands for the first message of a file, which most payloads are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from frazil.formats.registry.wire import Bools, Bytes, Group, Ints

MAX_LEVELS = 32
_MAX_BYTES = 5

FIRST = (0,)


class MessagePayloads(NamedTuple):
    """The payloads of one message type of a file."""

    path: tuple[int, ...]
    chosen: Ints
    """The indexes of the payloads within the group."""
    starts: Ints
    """This says where each payload begins, after the message indexes."""


def by_message(group: Group, faults: dict[int, str]) -> Iterator[MessagePayloads]:
    """Yields the payloads of a group by message type. Payloads without valid indexes are added to the faults."""
    if group.rest is not None:
        yield from _from_header(group, group.rest, faults)
        return
    everything = np.arange(len(group.starts))
    filled = group.starts < group.ends
    if filled.all() and not group.data[group.starts].any():
        yield MessagePayloads(FIRST, everything, group.starts + 1)
        return
    count, at, fine = _varints(group.data, group.starts, group.ends)
    fine &= (count >= 0) & (count <= MAX_LEVELS)
    levels = int(count[fine].max(initial=0))
    paths = np.full((len(everything), max(levels, 1)), -1, np.int64)
    for level in range(levels):
        more = fine & (count > level)
        number, after, read = _varints(group.data, at[more], group.ends[more])
        paths[more, level] = number
        at[more] = after
        fine[more] = read & (number >= 0)
    paths[fine & (count == 0), 0] = 0
    for place in group.places[~fine].tolist():
        faults[place] = "it does not say which message of its schema it is"
    found, which = np.unique(paths[fine], axis=0, return_inverse=True)
    chosen = everything[fine]
    for which_path, path in enumerate(found.tolist()):
        same = chosen[which.ravel() == which_path]
        yield MessagePayloads(tuple(index for index in path if index >= 0), same, at[same])


def _from_header(group: Group, header: bytes, faults: dict[int, str]) -> Iterator[MessagePayloads]:
    """Reads the indexes from a header, which also has the schema's id; they hold for all payloads of the group."""
    data = np.frombuffer(header, np.uint8)
    places = np.array([0])
    alone = Group(group.schema, places, data, np.array([0]), np.array([len(header)]))
    wrong: dict[int, str] = {}
    for indexed in by_message(alone, wrong):
        yield MessagePayloads(indexed.path, np.arange(len(group.starts)), group.starts)
    for reason in wrong.values():
        faults.update(dict.fromkeys(group.places.tolist(), reason))


def _varints(data: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Bools]:
    """Returns the zigzag varints that begin at `starts`, where each ends, and whether each is valid."""
    at = starts.copy()
    value = np.zeros(len(starts), np.int64)
    going = np.ones(len(starts), np.bool_)
    fine = np.zeros(len(starts), np.bool_)
    for turn in range(_MAX_BYTES):
        going &= at < ends
        byte = data[at[going]].astype(np.int64)
        value[going] |= (byte & 0x7F) << (7 * turn)
        at[going] += 1
        last = byte < 0x80
        fine[np.flatnonzero(going)[last]] = True
        going[np.flatnonzero(going)[last]] = False
    return (value >> 1) ^ -(value & 1), at, fine
