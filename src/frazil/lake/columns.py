"""The columns that Frazil adds to rows, and the names that no column may have."""

from __future__ import annotations

PARTITION = "_log_partition"
"""Partition of the log that a row came from. Not `_partition`: Spark refuses to read tables with such a column."""

OFFSET = "_offset"
"""Offset of a row in that partition."""

NANOSECONDS = "_ns"
"""What the name of a timestamp's companion ends with: a table's timestamps have microseconds, it has the rest."""

RESERVED = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""Names by which Iceberg's own metadata is asked for; Spark refuses to read tables with such columns."""
