"""Kafka records as the log stores them: raw, with everything that Kafka knows of them."""

from __future__ import annotations

import pyarrow as pa

KEY = "_kafka_key"
VALUE = "_kafka_value"
HEADERS = "_kafka_headers"
TIMESTAMP = "_kafka_timestamp"
TIMESTAMP_TYPE = "_kafka_timestamp_type"
"""0 is the time of creation, 1 that of the append to Kafka's log, as in Kafka; null when there is no time."""
PARTITION = "_kafka_partition"
OFFSET = "_kafka_offset"

TOMBSTONE = "_kafka_tombstone"
"""In rows whose value is a record: whether there was no value at all."""

UNREADABLE = "frazil.unreadable-headers"
"""The only header, without a value, of a record whose own headers have names that are no UTF-8."""

PREFIX = "_kafka_"
"""What the names of all these columns begin with; fields of values cannot."""

SCHEMA = pa.schema(
    [
        (KEY, pa.binary()),
        (VALUE, pa.binary()),
        (HEADERS, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        (TIMESTAMP, pa.timestamp("ms", "UTC")),
        (TIMESTAMP_TYPE, pa.int8()),
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
    ]
)


def is_kafka(schema: pa.Schema) -> bool:
    """Whether a topic of this schema holds records from Kafka."""
    return VALUE in schema.names and OFFSET in schema.names
