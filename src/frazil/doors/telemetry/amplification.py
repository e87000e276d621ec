"""Refuses bodies that would take far more memory decoded than their size.

A nested message may be two bytes on the wire and hundreds of bytes once it is decoded: 64 MiB of empty log records
would take 8 GB. So the messages in a large body are counted on the wire, where nothing has to be kept, before
anything decodes it.

Bodies of up to `UNCHECKED_BYTES` are not checked. The worst of them take 0.5 to 0.7 GB for a moment, for each that is
decoded at the same time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from frazil.config.sections.section import MIB
from frazil.errors import RequestError

UNCHECKED_BYTES = 4 * MIB
"""Bodies above this size are checked."""
MESSAGE_BYTES = 8
"""A body must have at least so many bytes for each message in it. A data point with two attributes has 11 or more."""
FIELD_BYTES = 4
"""A body must have at least so many bytes for each field. Nobody sends denser records; this bounds the time of
counting."""
VALUE_BYTES = 4
"""A JSON body must have at least so many bytes for each value. The smallest usual values are the counts of
histograms: `"0",`."""

_DEEPEST = 128
"""Deeper messages are not counted. Protobuf's runtime refuses more than 100 levels."""
_ROOM = 1 << 14
"""The number of messages collected before they are walked themselves: enough for arrays to pay off, few enough for
caches."""
_FEW = 128
"""With fewer messages than this, they are walked one by one."""
_VARINT, _FIXED64, _SIZED, _GROUP, _GROUP_END, _FIXED32 = range(6)
_LONGEST = 10
"""The most bytes of a varint."""
_BEYOND = 1 << 62
"""A position that no body reaches."""
_STEPS = np.array([0, 8, 0, _BEYOND, _BEYOND, 4, _BEYOND, _BEYOND])
"""The distance to the next field by wire type, unless the field has it."""
_NO_TYPE = -1
_CHUNK = 1 << 16
"""The most fields of one message, or bytes of JSON, that are handled at a time."""

_Ints = npt.NDArray[np.int64]


class MessageCounts(NamedTuple):
    messages: int
    fields: int
    """The number of fields, without those of messages that cannot contain messages."""


def check_messages(kind: type[Message], body: bytes) -> None:
    """Raises `RequestError` for a large body with far more messages in it than records could need.

    Of a malformed body, as much is counted as can be read; others refuse it.
    """
    if len(body) <= UNCHECKED_BYTES:
        return
    most = MessageCounts(len(body) // MESSAGE_BYTES, len(body) // FIELD_BYTES)
    if max_messages(kind, body) <= most.messages:
        return
    found = count_messages(kind, body, most)
    for what, number, limit in zip(MessageCounts._fields, found, most, strict=True):
        if number > limit:
            raise _too_many(body, f"{what} in its {kind.DESCRIPTOR.name}", limit)


def max_messages(kind: type[Message], body: bytes) -> int:
    """Returns how many bytes could begin a nested message. That is mostly far more than there are messages, but quick
    to find."""
    return len(body) - len(body.translate(None, _first_bytes(kind.DESCRIPTOR)))


def check_json(body: bytes) -> None:
    """Raises `RequestError` for a large JSON body with too many objects and lists, or too many values, which commas
    separate."""
    if len(body) <= UNCHECKED_BYTES:
        return
    for what, signs, least in (("objects and lists", b"{[", MESSAGE_BYTES), ("values", b",", VALUE_BYTES)):
        most = len(body) // least
        # Mostly the count is small enough even with the signs inside strings.
        if sum(map(body.count, signs)) > most and _count_outside_texts(body, signs) > most:
            raise _too_many(body, what, most)


def _count_outside_texts(body: bytes, signs: bytes) -> int:
    """Counts these signs in JSON outside of strings.

    In malformed JSON the count is right up to the error.
    """
    if not json.detect_encoding(body).startswith("utf-8"):
        # A byte that is a quote in UTF-8 may be half of any character.
        return sum(map(body.count, signs))
    # Pairs of backslashes go first: a backslash that is left then escapes.
    data = np.frombuffer(body.replace(b"\\\\", b"  ").replace(b'\\"', b"  "), np.uint8)
    total, inside = 0, False
    for start in range(0, len(data), _CHUNK):
        run = data[start : start + _CHUNK]
        quotes = run == ord('"')
        within = np.logical_xor.accumulate(quotes) ^ inside
        for sign in signs:
            total += int(np.count_nonzero((run == sign) & ~within))
        inside = bool(within[-1])
    return total


def _too_many(body: bytes, what: str, most: int) -> RequestError:
    return RequestError(
        f"The body of {len(body):,} bytes has more than {most:,} {what}, and would need far more memory than its "
        f"size. Send smaller batches, of up to {UNCHECKED_BYTES:,} bytes."
    )


def count_messages(kind: type[Message], body: bytes, most: MessageCounts | None = None) -> MessageCounts:
    """Counts the nested messages of a message at any depth. Stops once there are more than `most`."""
    walk = _Counter(_message_types(kind.DESCRIPTOR), body, most or MessageCounts(len(body), len(body)))
    while walk.todo and not walk.over():
        walk.go_on()
    return MessageCounts(walk.messages, walk.fields)


# --- kinds of messages -----------------------------------------------------------------------------------------


class _MessageType(NamedTuple):
    """A message type, and the message types of its fields."""

    inner: Mapping[int, int]
    """The index of the message type of each field that is a message, by its tag."""
    table: npt.NDArray[np.int16]
    """The same as an array by tag; the last element stands for all larger tags."""


@cache
def _message_types(root: Descriptor) -> tuple[_MessageType, ...]:
    """Returns the message types that can be nested in the root; the root is the first."""
    found = [root]
    names = [root.full_name]
    kinds = []
    for message in found:
        inner = {}
        for field in message.fields:
            if field.message_type is not None:
                if field.message_type.full_name not in names:
                    found.append(field.message_type)
                    names.append(field.message_type.full_name)
                inner[field.number << 3 | _SIZED] = names.index(field.message_type.full_name)
        table = np.full(max(inner, default=0) + 2, _NO_TYPE, np.int16)
        table[list(inner)] = list(inner.values())
        kinds.append(_MessageType(inner, table))
    return tuple(kinds)


@cache
def _first_bytes(root: Descriptor) -> bytes:
    """Returns the bytes with which nested message fields can begin, including tags that are longer than necessary."""
    tags = {tag & 0x7F for kind in _message_types(root) for tag in kind.inner}
    return bytes(sorted(tags | {tag | 0x80 for tag in tags}))


# --- the walk --------------------------------------------------------------------------------------------------


class _Messages(NamedTuple):
    """Messages of one type that are still to be walked, or the rest of them."""

    kind: int
    depth: int
    starts: _Ints
    """The start of the next field of each."""
    ends: _Ints


class _Counter:
    """Walks all messages of one type at once, field by field, and the last few one by one."""

    def __init__(self, kinds: Sequence[_MessageType], body: bytes, most: MessageCounts) -> None:
        self.messages = 0
        self.fields = 0
        self.todo = [_Messages(0, 0, np.zeros(1, np.int64), np.full(1, len(body)))] if body else []
        self._kinds = kinds
        self._body = body
        self._data = np.frombuffer(body, np.uint8)
        self._found: defaultdict[int, list[tuple[_Ints, _Ints]]] = defaultdict(list)
        self._room = _ROOM
        self._most = most

    def over(self) -> bool:
        return self.messages > self._most.messages or self.fields > self._most.fields

    def go_on(self) -> None:
        """Walks some messages, until enough nested ones are found."""
        kind, depth, starts, ends = self.todo.pop()
        self._room = _ROOM
        while len(starts) and self._room > 0 and not self.over():
            step = self._abreast if len(starts) >= _FEW else self._singly
            starts, ends = step(self._kinds[kind], starts, ends)
        if len(starts):
            self.todo.append(_Messages(kind, depth, starts, ends))
        for inner, ranges in self._found.items():
            if depth < _DEEPEST:
                first, last = (np.concatenate(each) for each in zip(*ranges, strict=True))
                self.todo.append(_Messages(inner, depth + 1, first, last))
        self._found.clear()

    def _abreast(self, kind: _MessageType, starts: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
        """Walks one field of each message. Returns where the next fields are."""
        tags, at = _varints(self._data, starts)
        wire = tags & 7
        grouped = wire == _GROUP
        if grouped.any():
            done = self._singly(kind, starts[grouped], ends[grouped])
            rest = self._abreast(kind, starts[~grouped], ends[~grouped])
            return np.concatenate([done[0], rest[0]]), np.concatenate([done[1], rest[1]])
        self.fields += len(starts)
        with_varint = np.flatnonzero((wire == _SIZED) | (wire == _VARINT))
        if len(with_varint) == len(at):
            values, at = _varints(self._data, at)
            following = at + np.where(wire == _SIZED, values, 0)
        else:
            following = at + _STEPS[wire]
            values, after = _varints(self._data, at[with_varint])
            at[with_varint] = after
            following[with_varint] = after + np.where(wire[with_varint] == _SIZED, values, 0)
        kinds = kind.table.take(tags, mode="clip")
        whole = (following >= at) & (following <= ends)
        inner = np.flatnonzero((kinds != _NO_TYPE) & whole)
        self.messages += len(inner)
        if len(inner):
            self._keep(kinds[inner], at[inner], following[inner])
        left = whole & (following < ends)
        return following[left], ends[left]

    def _keep(self, kinds: npt.NDArray[np.int16], starts: _Ints, ends: _Ints) -> None:
        """Collects nested messages, to be walked if they can contain messages."""
        for number in np.unique(kinds).tolist():
            if self._kinds[number].inner:
                chosen = (kinds == number) & (starts < ends)
                self._found[number].append((starts[chosen], ends[chosen]))
                self._room -= int(chosen.sum())

    def _singly(self, kind: _MessageType, starts: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
        """Walks many fields of each message. Returns where to go on."""
        found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        left: list[tuple[int, int]] = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            at = self._one(kind, start, end, found)
            if at < end:
                left.append((at, end))
        for number, places in found.items():
            if self._kinds[number].inner:
                self._found[number].append(_columns(places))
                self._room -= len(places)
        return _columns(left)

    def _one(self, kind: _MessageType, at: int, end: int, found: Mapping[int, list[tuple[int, int]]]) -> int:
        """Walks the next fields of one message. Returns where to go on, which is the end of the message if it is
        malformed."""
        body, inner = self._body, kind.inner
        fields = messages = groups = 0
        most = _CHUNK
        try:
            while at < end and fields < most:
                fields += 1
                tag = body[at]
                at += 1
                if tag >= 0x80:
                    tag, at = _varint(body, at - 1)
                wire = tag & 7
                if wire == _SIZED:
                    size = body[at]
                    at += 1
                    if size >= 0x80:
                        size, at = _varint(body, at - 1)
                    start = at
                    at += size
                    if tag in inner and at <= end and not groups:
                        messages += 1
                        if size:
                            found[inner[tag]].append((start, at))
                elif wire == _VARINT:
                    _, at = _varint(body, at)
                elif wire in (_FIXED64, _FIXED32):
                    at += 8 if wire == _FIXED64 else 4
                elif wire == _GROUP or (wire == _GROUP_END and groups):
                    # Fields inside a group do not count, but the walk does not pause within it.
                    groups += 1 if wire == _GROUP else -1
                    most = self._most.fields + 1 if groups else fields
                else:
                    at = end
        except IndexError:
            at = end
        self.fields += fields
        self.messages += messages
        return at


# --- numbers on the wire ---------------------------------------------------------------------------------------


def _columns(places: list[tuple[int, int]]) -> tuple[_Ints, _Ints]:
    pairs = np.array(places, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Returns the number, and where it ends. Raises `IndexError` if it does not end."""
    value = body[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for count in range(1, _LONGEST):
        byte = body[at + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, at + count + 1
    raise IndexError


def _varints(data: npt.NDArray[np.uint8], starts: _Ints) -> tuple[_Ints, _Ints]:
    """Reads many varints. One that does not end has an end beyond all positions, and one that is too large is
    negative."""
    values = data.take(starts, mode="clip").astype(np.int64)
    ends = starts + 1
    longer = np.flatnonzero(values >= 0x80)
    values[longer] &= 0x7F
    for count in range(1, _LONGEST):
        if not len(longer):
            break
        bytes_ = data.take(ends[longer], mode="clip").astype(np.int64)
        ends[longer] += 1
        values[longer] |= (bytes_ & 0x7F) << 7 * count
        longer = longer[bytes_ >= 0x80]
    ends[longer] = _BEYOND
    return values, ends
