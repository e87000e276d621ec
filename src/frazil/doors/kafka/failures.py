"""Translates errors of the Kafka client into errors of Frazil."""

from __future__ import annotations

import re

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException

from frazil.errors import (
    ConnectionFailed,
    ConsumerGroup,
    KafkaError,
    KafkaOffsetsGone,
    KafkaRefused,
    KafkaTimeout,
    KafkaTopicMissing,
    KafkaUnavailable,
)

_KINDS: dict[type[KafkaError], tuple[int, ...]] = {
    ConnectionFailed: (
        ClientError._TRANSPORT,
        ClientError._ALL_BROKERS_DOWN,
        ClientError._RESOLVE,
        ClientError._DESTROY,
        ClientError.BROKER_NOT_AVAILABLE,
        ClientError.NETWORK_EXCEPTION,
    ),
    KafkaTimeout: (
        ClientError._TIMED_OUT,
        ClientError._TIMED_OUT_QUEUE,
        ClientError._WAIT_COORD,
        ClientError.REQUEST_TIMED_OUT,
    ),
    KafkaRefused: (
        ClientError._AUTHENTICATION,
        ClientError._SSL,
        ClientError.SASL_AUTHENTICATION_FAILED,
        ClientError.UNSUPPORTED_SASL_MECHANISM,
        ClientError.ILLEGAL_SASL_STATE,
        ClientError.TOPIC_AUTHORIZATION_FAILED,
        ClientError.GROUP_AUTHORIZATION_FAILED,
        ClientError.CLUSTER_AUTHORIZATION_FAILED,
        ClientError.SECURITY_DISABLED,
    ),
    KafkaTopicMissing: (
        ClientError._UNKNOWN_TOPIC,
        ClientError._UNKNOWN_PARTITION,
        ClientError.UNKNOWN_TOPIC_OR_PART,
        ClientError.UNKNOWN_TOPIC_ID,
        ClientError.TOPIC_EXCEPTION,
    ),
    KafkaOffsetsGone: (
        ClientError._AUTO_OFFSET_RESET,
        ClientError._LOG_TRUNCATION,
        ClientError.OFFSET_OUT_OF_RANGE,
    ),
    ConsumerGroup: (
        ClientError._MAX_POLL_EXCEEDED,
        ClientError.FENCED_INSTANCE_ID,
        ClientError.UNKNOWN_MEMBER_ID,
        ClientError.ILLEGAL_GENERATION,
        ClientError.REBALANCE_IN_PROGRESS,
        ClientError.INCONSISTENT_GROUP_PROTOCOL,
        ClientError.GROUP_MAX_SIZE_REACHED,
    ),
}
_SIZE = re.compile(r"Invalid response size (-?\d{1,10})\b")
_TLS_ALERT = b"\x15\x03"
_KIND_OF = {code: kind for kind, codes in _KINDS.items() for code in codes}


def kind_of(error: ClientError) -> type[KafkaError]:
    return _KIND_OF.get(error.code(), KafkaUnavailable)


def translated(error: ClientError | KafkaException, doing: str) -> KafkaError:
    """Return an error whose text says what was being done, and what the client or the broker says about it."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return kind_of(cause)(f"{doing}: {_explained(cause)} ({cause.name()}).")


def _explained(cause: ClientError) -> str:
    said = cause.str().strip().rstrip(".")
    if size := _SIZE.search(said):
        # The client took the first bytes of another protocol for the length of an answer.
        begin = int(size[1]).to_bytes(4, "big", signed=True)
        server = said.partition("/")[0]
        if begin == b"HTTP":
            return f"{server} does not speak Kafka, but HTTP"
        if begin.startswith(_TLS_ALERT):
            return f"{server} speaks TLS; set `security.protocol` in `kafka.settings`"
    return said
