"""What the client says, in words for people."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError as ClientError

from frazil.doors.kafka.failures import translated
from frazil.errors import (
    ConnectionFailed,
    ConsumerGroup,
    KafkaError,
    KafkaRefused,
    KafkaTimeout,
    KafkaUnavailable,
)


@pytest.mark.parametrize(
    ("begin", "told"),
    [
        (b"HTTP", "Asking: a:1 does not speak Kafka, but HTTP (_BAD_MSG)."),
        (b"\x15\x03\x03\x00", "Asking: a:1 speaks TLS; set `security.protocol` in `kafka.settings` (_BAD_MSG)."),
        (b"\x7f\x00\x00\x00", "increase receive.message.max.bytes"),
        (b"\xff\x00\x00\x00", "increase receive.message.max.bytes"),
    ],
)
def test_a_server_that_speaks_something_else(begin: bytes, told: str) -> None:
    size = int.from_bytes(begin, "big", signed=True)
    said = f"a:1/bootstrap: Receive failed: Invalid response size {size} (0..100): increase receive.message.max.bytes"
    assert told in str(translated(ClientError(ClientError._BAD_MSG, said), "Asking"))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ClientError._ALL_BROKERS_DOWN, ConnectionFailed),
        (ClientError._TIMED_OUT, KafkaTimeout),
        (ClientError.FENCED_INSTANCE_ID, ConsumerGroup),
        (ClientError._MAX_POLL_EXCEEDED, ConsumerGroup),
        (ClientError.GROUP_AUTHORIZATION_FAILED, KafkaRefused),
        (ClientError.UNKNOWN, KafkaUnavailable),
    ],
)
def test_kinds_of_failure_are_told_apart(code: int, kind: type[KafkaError]) -> None:
    assert type(translated(ClientError(code, "what happened"), "Asking")) is kind
