"""Declares the messages of Danube's protocol as they are on the wire, and the names of its services."""

from __future__ import annotations

from frazil.formats.declared_messages import message_classes

# Enumerations are declared as their numbers, and maps as lists of entries. A suffix `|_name` marks a field whose
# presence is tracked.
_MESSAGES = message_classes(
    "danube",
    {
        "SchemaReference": [
            (1, "subject", "string"),
            (2, "use_latest", "bool|version_ref"),
            (3, "pinned_version", "uint32|version_ref"),
            (4, "min_version", "uint32|version_ref"),
        ],
        "ProducerRequest": [
            (1, "request_id", "uint64"),
            (2, "producer_name", "string"),
            (3, "topic_name", "string"),
            (4, "schema_ref", "SchemaReference"),
            (5, "producer_access_mode", "int32"),
            (6, "dispatch_strategy", "int32"),
        ],
        "ProducerResponse": [
            (1, "request_id", "uint64"),
            (2, "producer_id", "uint64"),
            (3, "producer_name", "string"),
        ],
        "MsgID": [
            (1, "producer_id", "uint64"),
            (2, "topic_name", "string"),
            (3, "broker_addr", "string"),
            (5, "topic_offset", "uint64"),
        ],
        "Attribute": [(1, "key", "string"), (2, "value", "string")],
        "StreamMessage": [
            (1, "request_id", "uint64"),
            (2, "msg_id", "MsgID"),
            (3, "payload", "bytes"),
            (4, "publish_time", "uint64"),
            (5, "producer_name", "string"),
            (6, "subscription_name", "string"),
            (7, "attributes", "*Attribute"),
            (8, "schema_id", "uint64|_schema_id"),
            (9, "schema_version", "uint32|_schema_version"),
            (10, "routing_key", "string|_routing_key"),
        ],
        "MessageResponse": [(1, "request_id", "uint64")],
        "ConsumerRequest": [
            (1, "request_id", "uint64"),
            (2, "topic_name", "string"),
            (3, "consumer_name", "string"),
            (4, "subscription", "string"),
            (5, "subscription_type", "int32"),
            (6, "key_filters", "*string"),
        ],
        "ConsumerResponse": [
            (1, "request_id", "uint64"),
            (2, "consumer_id", "uint64"),
            (3, "consumer_name", "string"),
        ],
        "ReceiveRequest": [(1, "request_id", "uint64"), (2, "consumer_id", "uint64")],
        "AckRequest": [(1, "request_id", "uint64"), (2, "msg_id", "MsgID"), (3, "subscription_name", "string")],
        "AckResponse": [(1, "request_id", "uint64")],
        "NackRequest": [
            (1, "request_id", "uint64"),
            (2, "msg_id", "MsgID"),
            (3, "subscription_name", "string"),
            (4, "delay_ms", "uint64|_delay_ms"),
            (5, "reason", "string|_reason"),
        ],
        "NackResponse": [(1, "request_id", "uint64")],
        "TopicLookupRequest": [(1, "request_id", "uint64"), (2, "topic", "string")],
        "TopicLookupResponse": [
            (3, "request_id", "uint64"),
            (4, "response_type", "int32"),
            (5, "connect_url", "string"),
            (6, "broker_url", "string"),
            (7, "proxy", "bool"),
        ],
        "TopicPartitionsResponse": [(1, "request_id", "uint64"), (2, "partitions", "*string")],
        "HealthCheckRequest": [(1, "request_id", "uint64"), (2, "client", "int32"), (3, "id", "uint64")],
        "HealthCheckResponse": [(1, "status", "int32")],
    },
)

ProducerRequest, ProducerResponse = _MESSAGES["ProducerRequest"], _MESSAGES["ProducerResponse"]
StreamMessage, MessageResponse = _MESSAGES["StreamMessage"], _MESSAGES["MessageResponse"]
ConsumerRequest, ConsumerResponse = _MESSAGES["ConsumerRequest"], _MESSAGES["ConsumerResponse"]
ReceiveRequest = _MESSAGES["ReceiveRequest"]
AckRequest, AckResponse = _MESSAGES["AckRequest"], _MESSAGES["AckResponse"]
NackRequest, NackResponse = _MESSAGES["NackRequest"], _MESSAGES["NackResponse"]
TopicLookupRequest, TopicLookupResponse = _MESSAGES["TopicLookupRequest"], _MESSAGES["TopicLookupResponse"]
TopicPartitionsResponse = _MESSAGES["TopicPartitionsResponse"]
HealthCheckRequest, HealthCheckResponse = _MESSAGES["HealthCheckRequest"], _MESSAGES["HealthCheckResponse"]

SHARED_ACCESS, EXCLUSIVE_ACCESS = 0, 1
NON_RELIABLE, RELIABLE = 0, 1
EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = 0, 1, 2, 3
REDIRECT, CONNECT, FAILED = 0, 1, 2
PRODUCER, CONSUMER = 0, 1
OK, CLOSE = 0, 1
