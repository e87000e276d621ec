from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidMessage
from frazil.log.schema.schema import plain
from frazil.topics.messages import MESSAGE, Message, conform_messages, from_batch, to_batch, with_producer

text = st.text(st.characters(codec="utf-8"), max_size=20)
number = st.none() | st.integers(0, 2**63 - 1)
message = st.builds(
    Message,
    payload=st.binary(max_size=50),
    publish_time_ms=st.integers(0, 2**50),
    producer_name=text,
    attributes=st.dictionaries(text, text, max_size=3),
    routing_key=st.none() | text,
    schema_id=number,
    schema_version=number,
)


@given(st.lists(message, max_size=8))
def test_messages_become_rows_and_messages_again(messages: list[Message]) -> None:
    batch = to_batch(messages, 7)
    batch.validate(full=True)
    assert batch.schema.equals(MESSAGE)
    assert from_batch(batch) == messages


@given(message)
def test_one_alone_is_as_it_is_among_others(one: Message) -> None:
    assert to_batch([one], 7).equals(to_batch([one, one], 7).slice(0, 1))


def test_a_log_stores_them_as_they_are() -> None:
    assert plain(MESSAGE).equals(MESSAGE)


def test_a_message_without_a_time_gets_that_of_its_arrival() -> None:
    assert [each.publish_time_ms for each in from_batch(to_batch([Message(b""), Message(b"", 3)], 7))] == [7, 3]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Message(b"", schema_id=2**63), "Message 2 of 2: schema_id is 9223372036854775808"),
        (Message(b"", publish_time_ms=2**70), "Message 2 of 2: publish_time_ms"),
        (Message(None), "1 of 2 messages have no payload"),  # type: ignore[arg-type]
        (Message(b"", attributes={1: "x"}), "cannot be stored: Expected bytes"),  # type: ignore[dict-item]
    ],
)
def test_what_cannot_be_stored_is_named(bad: Message, words: str) -> None:
    with pytest.raises(InvalidMessage, match=words):
        to_batch([Message(b"fine"), bad], 7)
    with pytest.raises(InvalidMessage):
        to_batch([bad], 7)


def test_rows_of_somebody_need_only_a_payload() -> None:
    given_rows = pa.record_batch({"payload": [b"a", b"b"], "routing_key": ["k", None]})
    batch = conform_messages(given_rows, 7)
    assert batch.schema.equals(MESSAGE)
    assert from_batch(batch) == [Message(b"a", 7, routing_key="k"), Message(b"b", 7)]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"routing_key": ["k"]}, "need a column 'payload'"),
        ({"payload": [b""], "colour": ["red"]}, "no column 'colour'"),
        ({"payload": [b""], "sequence": ["x"]}, "are no messages"),
    ],
)
def test_rows_that_are_no_messages(columns: dict[str, list[object]], words: str) -> None:
    with pytest.raises(InvalidMessage, match=words):
        conform_messages(pa.record_batch(columns), 7)


def test_rows_of_an_idempotent_producer_say_so() -> None:
    batch = with_producer(to_batch([Message(b"a"), Message(b"b")], 7), "p", 9)
    assert batch.column("producer_id").to_pylist() == ["p", "p"]
    assert batch.column("sequence").to_pylist() == [9, 9]
    assert from_batch(batch) == [Message(b"a", 7), Message(b"b", 7)]
