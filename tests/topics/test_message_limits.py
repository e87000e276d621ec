from __future__ import annotations

import re

import pytest

from frazil.errors import InvalidMessage
from frazil.topics.message_limits import FIRST_MS, LAST_MS, MOST_BYTES, check_bounds
from frazil.topics.messages import Message, to_batch

LARGE = b"x" * (MOST_BYTES // 2)


@pytest.mark.parametrize(
    "messages",
    [
        [Message(b"x" * MOST_BYTES)],
        [Message(LARGE), Message(LARGE), Message(LARGE, attributes={"a": "b"})],
        [Message(b"", publish_time_ms=FIRST_MS), Message(b"", publish_time_ms=LAST_MS)],
    ],
)
def test_what_may_be(messages: list[Message]) -> None:
    check_bounds(to_batch(messages, 0))


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([Message(b"y"), Message(b"x" * (MOST_BYTES + 1))], f"Message 2 of 2 has {MOST_BYTES + 1:,} bytes"),
        ([Message(LARGE, attributes={"a": "b" * len(LARGE)})], "Message 1 of 1 has"),
        (
            [Message(LARGE, attributes={"b": ""}), Message(LARGE, routing_key="b" * (len(LARGE) + 1))],
            "Message 2 of 2",
        ),
        ([Message(b"", publish_time_ms=LAST_MS + 1)], f"{LAST_MS + 1} milliseconds after 1970 is no publish time"),
        ([Message(b"", publish_time_ms=FIRST_MS - 1)], "is no publish time"),
    ],
)
def test_what_may_not(messages: list[Message], problem: str) -> None:
    with pytest.raises(InvalidMessage, match=re.escape(problem)):
        check_bounds(to_batch(messages, 0))


def test_rows_of_a_larger_batch() -> None:
    batch = to_batch(
        [Message(LARGE, attributes={"a": "1"}), Message(LARGE, attributes={"b": "2"}), Message(LARGE)], 0
    )
    check_bounds(batch.slice(1))
