"""Requests are known for their time; a segment lists those below its end."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from frazil.config.sections.log import SourcesConfig
from frazil.log.known_requests import AppendLocation, KnownRequests

TTL_MS = 10_000
LIMITS = SourcesConfig(request_ttl_seconds=TTL_MS / 1000, max_requests=20)

# Few hashes, of several lengths, so that some come again after their time.
digests = st.sampled_from([bytes([number]) * length for number in range(6) for length in (1, 16, 64)])
steps = st.lists(st.tuples(digests, st.integers(1, 1000), st.integers(0, TTL_MS)), max_size=60)


def added(steps: list[tuple[bytes, int, int]]) -> tuple[KnownRequests, list[tuple[bytes, AppendLocation, int]], int]:
    """Add requests, each some time after the last and only if it is not known. Return what was stored when."""
    requests = KnownRequests(LIMITS)
    stored: list[tuple[bytes, AppendLocation, int]] = []
    end = now = 0
    for digest, rows, later in steps:
        now += later
        if requests.find(digest, now) is None:
            requests.add(digest, end, rows, now)
            stored.append((digest, AppendLocation(end, rows), now))
            end += rows
            requests.forget(now)
    return requests, stored, now


def expected(stored: list[tuple[bytes, AppendLocation, int]], now: int, most: int) -> dict[bytes, AppendLocation]:
    return {digest: place for digest, place, when in stored[-most:] if when >= now - TTL_MS}


def known(
    requests: KnownRequests, stored: list[tuple[bytes, AppendLocation, int]], now: int
) -> dict[bytes, AppendLocation]:
    found = {digest: requests.find(digest, now) for digest, _, _ in stored}
    return {digest: place for digest, place in found.items() if place}


@given(steps)
def test_the_newest_within_their_time_are_known(steps: list[tuple[bytes, int, int]]) -> None:
    requests, stored, now = added(steps)
    assert known(requests, stored, now) == expected(stored, now, LIMITS.max_requests)
    assert known(requests.copy(), stored, now) == known(requests, stored, now)
    assert known(requests, stored, now + 2 * TTL_MS) == {}


@given(steps, st.integers(0, 60), st.integers(1, 30))
def test_what_is_kept_below_an_offset(steps: list[tuple[bytes, int, int]], upto: int, most: int) -> None:
    requests, stored, now = added(steps)
    sealed = stored[:upto]
    end = sum(sealed[-1][1]) if sealed else 0
    with patch("frazil.log.known_requests.STORED_REQUESTS", most):
        again = KnownRequests.decode(requests.encode(end), LIMITS)
        # Those that this process has forgotten are not encoded either.
        left = [each for each in stored[-LIMITS.max_requests :] if each in sealed]
        assert known(again, stored, now) == expected(left, now, most)
        for digest, place, when in stored[upto:]:
            again.add(digest, *place, when)
            again.forget(when)
        assert known(again, stored, now).items() <= known(requests, stored, now).items()
        assert expected(stored[upto:], now, LIMITS.max_requests).items() <= known(again, stored, now).items()
        assert requests.encode(end + sum(place.rows for _, place, _ in stored)) == requests.encode()
