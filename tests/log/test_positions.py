from __future__ import annotations

import json

import pytest
from hypothesis import given

from frazil.config.sections.log import SourcesConfig
from frazil.errors import SequenceTooOld
from frazil.log.known_requests import AppendLocation
from frazil.log.positions import (
    Origin,
    Positions,
    Sequence,
    Source,
    StoredAppend,
    StoredPositions,
    decode_origins,
    encode_origins,
)
from tests.log.support import stored


@given(stored)
def test_origins_survive_a_frame(appends: list[StoredAppend]) -> None:
    assert decode_origins(encode_origins(appends)) == appends


@given(stored)
def test_positions_survive_a_segment_and_a_copy(appends: list[StoredAppend]) -> None:
    positions = Positions()
    positions.apply(appends, now_ms=5)
    again = Positions.from_stored(StoredPositions.from_json(json.loads(json.dumps(positions.to_stored().to_json()))))
    assert again == positions == positions.copy()


def sequence(number: int, producer: str = "p") -> Origin:
    return Origin(sequence=Sequence(producer, number))


def test_a_repeated_sequence_is_found_at_its_first_place() -> None:
    positions = Positions()
    for number in range(3):
        positions.apply([StoredAppend(number * 10, 10, sequence(number))], now_ms=0)
    assert positions.find(sequence(1), 0) == AppendLocation(10, 10)
    assert positions.find(sequence(3), 0) is None
    assert positions.find(sequence(1, "another"), 0) is None


def test_a_sequence_from_long_ago_is_an_error_not_a_guess() -> None:
    positions = Positions()
    for number in range(10):
        positions.apply([StoredAppend(number, 1, sequence(number))], now_ms=0)
    with pytest.raises(SequenceTooOld, match="sequence 2"):
        positions.find(sequence(2), 0)


def test_silent_producers_and_old_requests_are_forgotten() -> None:
    positions = Positions(SourcesConfig(ttl_seconds=100, request_ttl_seconds=10, max_producers=2, max_requests=2))
    positions.apply([StoredAppend(0, 1, sequence(1, "a")), StoredAppend(1, 1, Origin(request=b"r" * 16))], now_ms=0)
    positions.apply([StoredAppend(2, 1, sequence(1, "b"))], now_ms=11_000)
    assert positions.find(Origin(request=b"r" * 16), 11_000) is None
    assert positions.find(sequence(1, "a"), 11_000)
    positions.apply([StoredAppend(3, 1, sequence(1, "c"))], now_ms=12_000)
    assert positions.find(sequence(1, "a"), 12_000) is None, "the oldest makes room"
    positions.apply([StoredAppend(4, 1, Origin())], now_ms=200_000)
    assert positions.find(sequence(1, "c"), 200_000) is None, "too long ago"


def test_the_newest_requests_are_kept_and_more_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.log.known_requests.STORED_REQUESTS", 3)
    limits = SourcesConfig(max_requests=5)
    live = Positions(limits)
    requests = [Origin(request=bytes([number]) * 16) for number in range(8)]
    for number, request in enumerate(requests):
        live.apply([StoredAppend(number, 1, request)], now_ms=0)
    again = Positions.from_stored(live.to_stored(), limits)

    def known(positions: Positions) -> list[int]:
        return [number for number, request in enumerate(requests) if positions.find(request, 0)]

    assert known(live) == known(live.copy()) == [3, 4, 5, 6, 7]
    assert known(again) == [5, 6, 7]
    again.apply([StoredAppend(8, 1, Origin(request=b"new" * 5))], now_ms=0)
    assert known(again) == [5, 6, 7], "it remembers as many as before again"


def test_the_time_of_a_request_ends_though_nothing_else_is_stored() -> None:
    positions = Positions(SourcesConfig(ttl_seconds=5, request_ttl_seconds=10))
    request = Origin(request=b"r" * 16)
    positions.apply([StoredAppend(7, 2, request), StoredAppend(9, 1, sequence(1))], now_ms=1_000)
    assert positions.find(request, 11_000) == AppendLocation(7, 2)
    assert positions.find(request, 11_001) is None
    assert positions.find(sequence(1), 11_001) == AppendLocation(9, 1), "a producer goes on where it was"
    positions.apply([StoredAppend(10, 2, request)], now_ms=11_001)
    assert positions.find(request, 21_001) == AppendLocation(10, 2)


def test_sources_keep_their_newest_position() -> None:
    positions = Positions()
    positions.apply([StoredAppend(0, 1, Origin(source=Source("kafka:a:0", "id1", 5)))], 0)
    positions.apply([StoredAppend(1, 1, Origin(source=Source("kafka:a:0", "id1", 9)))], 0)
    assert positions.feeders.source("kafka:a:0") == Source("kafka:a:0", "id1", 9)
    assert positions.feeders.source("kafka:b:0") is None
