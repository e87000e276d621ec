"""Chooses the Parquet encoding of telemetry columns in segments.

Most values repeat, and a dictionary makes them small and quick to write. For columns whose values do not repeat, a
dictionary costs time and gains nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.log.segments.segment import Encoding

_ASCENDING = {"timestamp", "start_timestamp", "end_timestamp", "observed_timestamp"}
"""Times mostly ascend, so they are stored as differences."""
_UNIQUE = {"trace_id", "span_id", "parent_span_id", "body", "duration_nanos", "value_double", "sum"}


def encoding_of(schema: pa.Schema) -> Encoding:
    paths = _paths(schema)
    return Encoding(
        dictionary=tuple(path for path in paths if path.partition(".")[0] not in _ASCENDING | _UNIQUE),
        ascending=tuple(name for name in schema.names if name in _ASCENDING),
        # Minimum and maximum are useless for texts in maps, and for columns with unique values.
        statistics=tuple(path for path in paths if "." not in path and path not in _UNIQUE),
    )


def _paths(schema: pa.Schema) -> list[str]:
    """Returns the paths of all columns, nested ones too, as Parquet names them."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    found = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [found.column(number).path for number in range(len(found))]
