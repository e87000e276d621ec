"""What the client says over and over again is told once."""

from __future__ import annotations

import logging

from frazil.doors.kafka.said import QUIET_SECONDS, RepeatFilter


def test_the_same_is_said_once_until_it_was_quiet_for_a_while() -> None:
    now = 0.0
    seldom = RepeatFilter(lambda: now)

    def passes(text: str) -> bool:
        return seldom.filter(logging.makeLogRecord({"msg": text}))

    assert passes("FAIL broker:9092: connection refused (after 1ms, 0 suppressed)")
    for _ in range(100):
        now += QUIET_SECONDS / 2
        assert not passes("FAIL broker:9092: connection refused (after 2ms, 30 suppressed)")
    assert passes("FAIL broker:9092: authentication failed")
    now += QUIET_SECONDS
    assert passes("FAIL broker:9092: connection refused (after 1ms, 0 suppressed)")


def test_settings_that_a_client_has_no_use_for_are_not_worth_a_word() -> None:
    record = logging.makeLogRecord({"msg": "CONFWARN Configuration property group.id is a consumer property"})
    assert not RepeatFilter().filter(record)
