"""Positions: how far each source and producer of a partition has come.

The log carries them itself, so that nothing else has to remember them. There are three kinds:
- a *source* that can be replayed (a Kafka partition) has an identity and the next position to read;
- a *producer* numbers its appends, so that one sent again is recognised;
- a *request* without numbers is recognised by its hash for a while.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from frazil.config.sections.log import SourcesConfig
from frazil.errors import SequenceTooOld
from frazil.log.known_requests import MAX_REQUEST, AppendLocation, KnownRequests

REMEMBERED_SEQUENCES = 5
"""So many appends of one producer can be repeated: as many as Kafka's idempotent producer may have in flight."""

MAX_NAME = 1000


class Source(NamedTuple):
    """The position of a replayable source after an append. `identity` changes when the source is created anew."""

    name: str
    identity: str
    next_position: int


class Sequence(NamedTuple):
    producer: str
    number: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of one append."""

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


class StoredAppend(NamedTuple):
    """One append of the log that has an origin."""

    offset: int
    rows: int
    origin: Origin


@dataclass
class _Producer:
    seen_ms: int
    appends: list[tuple[int, int, int]] = field(default_factory=list)
    """The newest appends as (number, offset, rows), oldest first."""


Producers = dict[str, tuple[int, list[tuple[int, int, int]]]]
"""This says of each producer when it appended last, and lists its newest appends as (number, offset, rows)."""


class StoredPositions(NamedTuple):
    """Positions in the form in which WAL files and segments store them."""

    feeders: dict[str, Any]
    """The result of `Feeders.to_json`."""
    requests: bytes
    """The result of `KnownRequests.encode`."""

    def to_json(self) -> dict[str, Any]:
        return {**self.feeders, "requests": base64.b64encode(self.requests).decode()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> StoredPositions:
        feeders = {name: value for name, value in data.items() if name != "requests"}
        return cls(feeders, base64.b64decode(data["requests"]))


class Feeders:
    """The positions of sources and producers as of one offset."""

    def __init__(self, limits: SourcesConfig | None = None) -> None:
        self._limits = limits or SourcesConfig()
        self._sources: dict[str, tuple[str, int]] = {}
        self._producers: OrderedDict[str, _Producer] = OrderedDict()
        """The producers, ordered by the time of their last append."""

    def source(self, name: str) -> Source | None:
        found = self._sources.get(name)
        return Source(name, *found) if found else None

    @property
    def sources(self) -> list[Source]:
        return [Source(name, *value) for name, value in self._sources.items()]

    @property
    def producers(self) -> Producers:
        return {name: (producer.seen_ms, producer.appends) for name, producer in self._producers.items()}

    def find(self, sequence: Sequence) -> AppendLocation | None:
        """Return where this append of a producer is stored already, if it is."""
        producer = self._producers.get(sequence.producer)
        if producer is None:
            return None
        for number, offset, rows in reversed(producer.appends):
            if number == sequence.number:
                return AppendLocation(offset, rows)
        if sequence.number < producer.appends[-1][0]:
            raise SequenceTooOld(
                f"Producer {sequence.producer!r} repeats sequence {sequence.number}, but only its newest "
                f"{REMEMBERED_SEQUENCES} are remembered (from {producer.appends[0][0]} on)."
            )
        return None

    def apply(self, appends: Iterable[StoredAppend], now_ms: int) -> None:
        for offset, rows, origin in appends:
            if origin.source:
                self._sources[origin.source.name] = (origin.source.identity, origin.source.next_position)
            if origin.sequence:
                producer = self._producers.pop(origin.sequence.producer, None) or _Producer(now_ms)
                producer.seen_ms = now_ms
                producer.appends.append((origin.sequence.number, offset, rows))
                del producer.appends[:-REMEMBERED_SEQUENCES]
                self._producers[origin.sequence.producer] = producer
        self._forget(now_ms)

    def _forget(self, now_ms: int) -> None:
        """Forget producers that are too old or too many.

        They are in an `OrderedDict`, because a plain `dict` gets slower at finding its first entry with every
        entry that was deleted before it.
        """
        too_old = now_ms - int(self._limits.ttl_seconds * 1000)
        while self._producers and (
            len(self._producers) > self._limits.max_producers
            or next(iter(self._producers.values())).seen_ms < too_old
        ):
            self._producers.popitem(last=False)

    def copy(self) -> Feeders:
        other = Feeders(self._limits)
        other._sources = dict(self._sources)
        other._producers.update((k, _Producer(v.seen_ms, list(v.appends))) for k, v in self._producers.items())
        return other

    def to_json(self) -> dict[str, Any]:
        return {"sources": self._sources, "producers": self.producers}

    @classmethod
    def from_json(cls, data: dict[str, Any], limits: SourcesConfig | None = None) -> Feeders:
        feeders = cls(limits)
        feeders._sources = {name: (value[0], value[1]) for name, value in data["sources"].items()}
        for name, (seen, appends) in data["producers"].items():
            feeders._producers[name] = _Producer(seen, [(a[0], a[1], a[2]) for a in appends])
        return feeders


class Positions:
    """All positions of one partition as of one offset: sources, producers and request hashes."""

    def __init__(self, limits: SourcesConfig | None = None) -> None:
        self._limits = limits or SourcesConfig()
        self.feeders = Feeders(self._limits)
        self.requests = KnownRequests(self._limits)

    def find(self, origin: Origin, now_ms: int) -> AppendLocation | None:
        """Return where this append is stored already, if it is."""
        place = self.feeders.find(origin.sequence) if origin.sequence else None
        if place is None and origin.request:
            place = self.requests.find(origin.request, now_ms)
        return place

    def apply(self, appends: list[StoredAppend], now_ms: int) -> None:
        self.feeders.apply(appends, now_ms)
        for offset, rows, origin in appends:
            if origin.request:
                self.requests.add(origin.request, offset, rows, now_ms)
        self.requests.forget(now_ms)

    def copy(self) -> Positions:
        other = Positions(self._limits)
        other.feeders = self.feeders.copy()
        other.requests = self.requests.copy()
        return other

    def to_stored(self) -> StoredPositions:
        return StoredPositions(self.feeders.to_json(), self.requests.encode())

    @classmethod
    def from_stored(cls, stored: StoredPositions, limits: SourcesConfig | None = None) -> Positions:
        positions = cls(limits)
        positions.feeders = Feeders.from_json(stored.feeders, positions._limits)
        positions.requests = KnownRequests.decode(stored.requests, positions._limits)
        return positions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and self.to_stored() == other.to_stored()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        few = dict(islice(self.feeders.producers.items(), 3))
        return f"Positions(sources={self.feeders.sources}, producers={few}…, requests={len(self.requests)})"


def encode_origins(appends: list[StoredAppend]) -> bytes:
    """Encode the origins that one WAL frame carries."""
    if not appends:
        return b""
    return json.dumps([[a.offset, a.rows, a.origin.to_json()] for a in appends], separators=(",", ":")).encode()


def decode_origins(data: bytes) -> list[StoredAppend]:
    if not data:
        return []
    return [StoredAppend(offset, rows, Origin.from_json(origin)) for offset, rows, origin in json.loads(data)]
