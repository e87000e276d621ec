"""Names the columns in which the log stores raw Kafka records and their metadata."""

from __future__ import annotations

import pyarrow as pa

KEY = "_kafka_key"
VALUE = "_kafka_value"
HEADERS = "_kafka_headers"
TIMESTAMP = "_kafka_timestamp"
TIMESTAMP_TYPE = "_kafka_timestamp_type"
"""It is 0 for the time of creation and 1 for the time of the append, as in Kafka; null if there is no timestamp."""
PARTITION = "_kafka_partition"
OFFSET = "_kafka_offset"

TOMBSTONE = "_kafka_tombstone"
"""The column that says whether the record had no value at all. Rows have it if values are records."""

UNREADABLE = "frazil.unreadable-headers"
"""The name of the single header, without a value, that replaces the headers of a record if their names are not
UTF-8."""

PREFIX = "_kafka_"
"""All these column names begin with this prefix; fields of values cannot."""

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
    """Returns whether a topic with this schema holds records from Kafka."""
    return VALUE in schema.names and OFFSET in schema.names
