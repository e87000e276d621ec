"""Request hashes by which a request that is sent again is recognised, for a limited time.

Thousands of requests may come in a second, and every WAL file and segment lists the known ones. So each is held in
memory in the bytes in which it is written.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import deque
from itertools import islice
from typing import NamedTuple

from frazil.config.sections.log import SourcesConfig

STORED_REQUESTS = 65_536
"""Segments and WAL files list this many of the newest requests. More are remembered only while the process runs."""

MAX_REQUEST = 64

_PLACE = struct.Struct("<QIq")
"""Offset, number of rows, and time of storing. The length of the hash and the hash stand before it."""


class AppendLocation(NamedTuple):
    """The location of an append in the log."""

    offset: int
    rows: int


class KnownRequests:
    def __init__(self, limits: SourcesConfig) -> None:
        self._limits = limits
        self._by_hash: dict[bytes, bytes] = {}
        self._in_order: deque[bytes] = deque()
        """The requests by rising offset. A hash that was sent again after its time is listed twice."""

    def __len__(self) -> int:
        return len(self._in_order)

    def find(self, digest: bytes, now_ms: int) -> AppendLocation | None:
        """Return where a request is stored, unless its time is over, which it may be before `forget` was called."""
        record = self._by_hash.get(digest)
        if record is None:
            return None
        offset, rows, seen_ms = _PLACE.unpack_from(record, 1 + len(digest))
        return AppendLocation(offset, rows) if seen_ms >= self._oldest(now_ms) else None

    def add(self, digest: bytes, offset: int, rows: int, now_ms: int) -> None:
        self._remember(digest, bytes([len(digest)]) + digest + _PLACE.pack(offset, rows, now_ms))

    def forget(self, now_ms: int) -> None:
        """Forget requests that are too old, or too many."""
        oldest, most = self._oldest(now_ms), self._limits.max_requests
        while self._in_order and (len(self._in_order) > most or _seen_ms(self._in_order[0]) < oldest):
            record = self._in_order.popleft()
            digest = record[1 : 1 + record[0]]
            if self._by_hash[digest] is record:
                del self._by_hash[digest]

    def encode(self, below: int | None = None) -> bytes:
        """Encode the newest requests: of all, or of those that are stored below an offset."""
        known = self._in_order
        above = 0 if below is None else len(known) - bisect_left(known, below, key=_offset)
        newest = list(islice(reversed(known), above, above + STORED_REQUESTS))
        newest.reverse()
        return b"".join(newest)

    def copy(self) -> KnownRequests:
        other = KnownRequests(self._limits)
        other._by_hash = self._by_hash.copy()
        other._in_order = self._in_order.copy()
        return other

    @classmethod
    def decode(cls, encoded: bytes, limits: SourcesConfig) -> KnownRequests:
        requests = cls(limits)
        at = 0
        while at < len(encoded):
            start = at + 1 + encoded[at]
            end = start + _PLACE.size
            requests._remember(encoded[at + 1 : start], encoded[at:end])
            at = end
        return requests

    def _remember(self, digest: bytes, record: bytes) -> None:
        self._by_hash[digest] = record
        self._in_order.append(record)

    def _oldest(self, now_ms: int) -> int:
        """Return the time from which on stored requests are still known."""
        return now_ms - int(self._limits.request_ttl_seconds * 1000)


def _offset(record: bytes) -> int:
    return int.from_bytes(record[-_PLACE.size : -_PLACE.size + 8], "little")


def _seen_ms(record: bytes) -> int:
    return int.from_bytes(record[-8:], "little", signed=True)
