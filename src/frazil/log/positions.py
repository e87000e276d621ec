"""What fed a partition, and how far: carried inside the log, so that nothing else has to remember it.

Three kinds of feeders:
- a *source* that can be replayed (a Kafka partition) has an identity and the next position to read;
- a *producer* numbers its appends, so that one sent again is recognised;
- a *request* without numbers is recognised by its hash for a while.
"""

from __future__ import annotations

import base64
import json
import struct
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from frazil.config.log import SourcesConfig
from frazil.errors import SequenceTooOld

REMEMBERED_SEQUENCES = 5
"""Appends of one producer that can be repeated: as many as Kafka's idempotent producer may have in flight."""

KEPT_REQUESTS = 65_536
"""The newest, which segments and WAL files have with them; more are remembered only while the process runs."""

MAX_NAME = 1000
MAX_REQUEST = 64

_REQUEST = struct.Struct("<QIq")


class Source(NamedTuple):
    """A replayable feeder after an append: `identity` changes when it is deleted and made anew."""

    name: str
    identity: str
    next_position: int


class Sequence(NamedTuple):
    producer: str
    number: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one append came from."""

    source: Source | None = None
    sequence: Sequence | None = None
    request: bytes | None = None

    def __post_init__(self) -> None:
        names = [*(self.source or ())[:2], *(self.sequence or ())[:1]]
        if any(not 0 < len(str(name)) <= MAX_NAME for name in names):
            raise ValueError(f"Names of sources and producers have 1 to {MAX_NAME} characters.")
        if self.request is not None and not 0 < len(self.request) <= MAX_REQUEST:
            raise ValueError(f"A request's hash has 1 to {MAX_REQUEST} bytes.")

    def to_json(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in (
                ("source", self.source),
                ("sequence", self.sequence),
                ("request", self.request.hex() if self.request else None),
            )
            if value is not None
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Origin:
        return cls(
            Source(*data["source"]) if "source" in data else None,
            Sequence(*data["sequence"]) if "sequence" in data else None,
            bytes.fromhex(data["request"]) if "request" in data else None,
        )


class Stored(NamedTuple):
    """One append as it stands in the log."""

    offset: int
    rows: int
    origin: Origin


class Place(NamedTuple):
    """Where an append that was seen before is stored."""

    offset: int
    rows: int


@dataclass
class _Producer:
    seen_ms: int
    appends: list[tuple[int, int, int]] = field(default_factory=list)
    """The newest (number, offset, rows), oldest first."""


class Positions:
    """The live positions of everything that feeds one partition, as of one offset."""

    def __init__(self, limits: SourcesConfig | None = None) -> None:
        self._limits = limits or SourcesConfig()
        self._most_requests = self._limits.max_requests
        self._sources: dict[str, tuple[str, int]] = {}
        self._producers: OrderedDict[str, _Producer] = OrderedDict()
        self._requests: OrderedDict[bytes, bytes] = OrderedDict()
        """By their hashes, each as it is stored: all of them are, again and again."""

    def source(self, name: str) -> Source | None:
        found = self._sources.get(name)
        return Source(name, *found) if found else None

    @property
    def sources(self) -> list[Source]:
        return [Source(name, *value) for name, value in self._sources.items()]

    def find(self, origin: Origin, now_ms: int) -> Place | None:
        """Where this very append is stored already, if it is.

        The time of a request ends also where nothing is stored after it.
        """
        if origin.sequence and (producer := self._producers.get(origin.sequence.producer)):
            for number, offset, rows in reversed(producer.appends):
                if number == origin.sequence.number:
                    return Place(offset, rows)
            if origin.sequence.number < producer.appends[-1][0]:
                raise SequenceTooOld(
                    f"Producer {origin.sequence.producer!r} repeats sequence {origin.sequence.number}, but only its "
                    f"newest {REMEMBERED_SEQUENCES} are remembered (from {producer.appends[0][0]} on)."
                )
        if origin.request and (request := self._requests.get(origin.request)):
            offset, rows, seen_ms = _REQUEST.unpack_from(request, 1 + len(origin.request))
            return Place(offset, rows) if seen_ms >= self._oldest_request(now_ms) else None
        return None

    def _oldest_request(self, now_ms: int) -> int:
        """When it was stored, if it is still known."""
        return now_ms - int(self._limits.request_ttl_seconds * 1000)

    def apply(self, appends: Iterable[Stored], now_ms: int) -> None:
        for offset, rows, origin in appends:
            if origin.source:
                self._sources[origin.source.name] = (origin.source.identity, origin.source.next_position)
            if origin.sequence:
                producer = self._producers.pop(origin.sequence.producer, None) or _Producer(now_ms)
                producer.seen_ms = now_ms
                producer.appends.append((origin.sequence.number, offset, rows))
                del producer.appends[:-REMEMBERED_SEQUENCES]
                self._producers[origin.sequence.producer] = producer
            if origin.request:
                self._requests.pop(origin.request, None)
                self._requests[origin.request] = _packed(origin.request, offset, rows, now_ms)
        self._forget(now_ms)

    def _forget(self, now_ms: int) -> None:
        """Drop what is too old or too much; both maps are ordered by the time they were last touched.

        A plain `dict` would look for its first entry behind all that were there before it.
        """
        too_old = now_ms - int(self._limits.ttl_seconds * 1000)
        while self._producers and (
            len(self._producers) > self._limits.max_producers
            or next(iter(self._producers.values())).seen_ms < too_old
        ):
            self._producers.popitem(last=False)
        oldest = self._oldest_request(now_ms)
        while self._requests and (
            len(self._requests) > self._most_requests or _seen_ms(next(iter(self._requests.values()))) < oldest
        ):
            self._requests.popitem(last=False)

    def copy(self) -> Positions:
        other = Positions(self._limits)
        other._most_requests = self._most_requests
        other._sources = dict(self._sources)
        other._producers.update((k, _Producer(v.seen_ms, list(v.appends))) for k, v in self._producers.items())
        other._requests = self._requests.copy()
        return other

    def to_keep(self) -> Positions:
        """A copy that remembers no more than is kept."""
        other = self.copy()
        other._most_requests = min(self._most_requests, KEPT_REQUESTS)
        return other

    def to_json(self) -> dict[str, Any]:
        """What is kept."""
        newest = islice(self._requests.values(), max(0, len(self._requests) - KEPT_REQUESTS), None)
        return {
            "sources": self._sources,
            "producers": {name: [p.seen_ms, p.appends] for name, p in self._producers.items()},
            "requests": base64.b64encode(b"".join(newest)).decode(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], limits: SourcesConfig | None = None) -> Positions:
        positions = cls(limits)
        positions._sources = {name: (value[0], value[1]) for name, value in data["sources"].items()}
        for name, (seen, appends) in data["producers"].items():
            positions._producers[name] = _Producer(seen, [(a[0], a[1], a[2]) for a in appends])
        packed = base64.b64decode(data["requests"])
        at = 0
        while at < len(packed):
            start = at + 1 + packed[at]
            positions._requests[packed[at + 1 : start]] = packed[at : start + _REQUEST.size]
            at = start + _REQUEST.size
        return positions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        few = dict(islice(self._producers.items(), 3))
        return f"Positions(sources={self._sources}, producers={few}…, requests={len(self._requests)})"


def _packed(digest: bytes, offset: int, rows: int, seen_ms: int) -> bytes:
    return bytes([len(digest)]) + digest + _REQUEST.pack(offset, rows, seen_ms)


def _seen_ms(packed: bytes) -> int:
    return int.from_bytes(packed[-8:], "little", signed=True)


def encode_origins(appends: list[Stored]) -> bytes:
    """The changes one WAL frame carries."""
    if not appends:
        return b""
    return json.dumps([[a.offset, a.rows, a.origin.to_json()] for a in appends], separators=(",", ":")).encode()


def decode_origins(data: bytes) -> list[Stored]:
    if not data:
        return []
    return [Stored(offset, rows, Origin.from_json(origin)) for offset, rows, origin in json.loads(data)]
