"""Declares the Protobuf messages of remote read."""

from __future__ import annotations

from frazil.formats.declared_messages import message_classes
from frazil.formats.remote_write.messages import HISTOGRAM_FIELDS, SPAN_FIELDS

SAMPLES, STREAMED_XOR_CHUNKS = 0, 1
"""The types of answers."""

_MESSAGES = message_classes(
    "prometheus.read",
    {
        "Label": [(1, "name", "string"), (2, "value", "string")],
        "Sample": [(1, "value", "double"), (2, "timestamp", "int64")],
        "BucketSpan": SPAN_FIELDS,
        "Histogram": HISTOGRAM_FIELDS,
        "TimeSeries": [(1, "labels", "*Label"), (2, "samples", "*Sample"), (4, "histograms", "*Histogram")],
        "LabelMatcher": [(1, "type", "int32"), (2, "name", "string"), (3, "value", "string")],
        "ReadHints": [
            (1, "step_ms", "int64"),
            (2, "func", "string"),
            (3, "start_ms", "int64"),
            (4, "end_ms", "int64"),
        ],
        "Query": [
            (1, "start_timestamp_ms", "int64"),
            (2, "end_timestamp_ms", "int64"),
            (3, "matchers", "*LabelMatcher"),
            (4, "hints", "ReadHints"),
        ],
        "ReadRequest": [(1, "queries", "*Query"), (2, "accepted_response_types", "*int32")],
        "QueryResult": [(1, "timeseries", "*TimeSeries")],
        "ReadResponse": [(1, "results", "*QueryResult")],
        "Chunk": [
            (1, "min_time_ms", "int64"),
            (2, "max_time_ms", "int64"),
            (3, "type", "int32"),
            (4, "data", "bytes"),
        ],
        "ChunkedSeries": [(1, "labels", "*Label"), (2, "chunks", "*Chunk")],
        "ChunkedReadResponse": [(1, "chunked_series", "*ChunkedSeries"), (2, "query_index", "int64")],
    },
)

ReadRequest = _MESSAGES["ReadRequest"]
ReadResponse = _MESSAGES["ReadResponse"]
ChunkedReadResponse = _MESSAGES["ChunkedReadResponse"]
