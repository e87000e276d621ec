"""Messages are sorted out; what a broker's messages hold is tested with the door."""

from __future__ import annotations

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from frazil.doors.kafka.records import by_partition


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=30))
def test_messages_are_sorted_out_by_partition_in_their_order(order: list[tuple[str, int]]) -> None:
    messages = [Message(topic, partition, n, b"", b"") for n, (topic, partition) in enumerate(order)]
    runs = by_partition(messages)
    assert {message.offset() for run in runs.values() for message in run} == set(range(len(order)))
    for key, run in runs.items():
        offsets = [message.offset() or 0 for message in run]
        assert offsets == sorted(offsets)
        assert {(message.topic(), message.partition()) for message in run} == {key}
