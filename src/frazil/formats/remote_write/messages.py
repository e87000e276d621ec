"""Declares the Protobuf messages of Prometheus's remote write, 1.0 and 2.0."""

from __future__ import annotations

from frazil.formats.declared_messages import message_classes

# Enumerations are declared as the integers that they are on the wire.
SPAN_FIELDS = [(1, "offset", "sint32"), (2, "length", "uint32")]
HISTOGRAM_FIELDS = [
    (1, "count_int", "uint64|count"),
    (2, "count_float", "double|count"),
    (3, "sum", "double"),
    (4, "schema", "sint32"),
    (5, "zero_threshold", "double"),
    (6, "zero_count_int", "uint64|zero_count"),
    (7, "zero_count_float", "double|zero_count"),
    (8, "negative_spans", "*BucketSpan"),
    (9, "negative_deltas", "*sint64"),
    (10, "negative_counts", "*double"),
    (11, "positive_spans", "*BucketSpan"),
    (12, "positive_deltas", "*sint64"),
    (13, "positive_counts", "*double"),
    (14, "reset_hint", "int32"),
    (15, "timestamp", "int64"),
    (16, "custom_values", "*double"),
]

_MESSAGES = message_classes(
    "prometheus",
    {
        "Label": [(1, "name", "string"), (2, "value", "string")],
        "Sample": [(1, "value", "double"), (2, "timestamp", "int64")],
        "Exemplar": [(1, "labels", "*Label"), (2, "value", "double"), (3, "timestamp", "int64")],
        "BucketSpan": SPAN_FIELDS,
        "Histogram": HISTOGRAM_FIELDS,
        "TimeSeries": [
            (1, "labels", "*Label"),
            (2, "samples", "*Sample"),
            (3, "exemplars", "*Exemplar"),
            (4, "histograms", "*Histogram"),
        ],
        "MetricMetadata": [
            (1, "type", "int32"),
            (2, "metric_family_name", "string"),
            (4, "help", "string"),
            (5, "unit", "string"),
        ],
        "WriteRequest": [(1, "timeseries", "*TimeSeries"), (3, "metadata", "*MetricMetadata")],
    },
)

_MESSAGES_V2 = message_classes(
    "io.prometheus.write.v2",
    {
        "Sample": [(1, "value", "double"), (2, "timestamp", "int64"), (3, "start_timestamp", "int64")],
        "Exemplar": [(1, "labels_refs", "*uint32"), (2, "value", "double"), (3, "timestamp", "int64")],
        "Metadata": [(1, "type", "int32"), (3, "help_ref", "uint32"), (4, "unit_ref", "uint32")],
        "BucketSpan": SPAN_FIELDS,
        "Histogram": [*HISTOGRAM_FIELDS, (17, "start_timestamp", "int64")],
        "TimeSeries": [
            (1, "labels_refs", "*uint32"),
            (2, "samples", "*Sample"),
            (3, "histograms", "*Histogram"),
            (4, "exemplars", "*Exemplar"),
            (5, "metadata", "Metadata"),
        ],
        "Request": [(4, "symbols", "*string"), (5, "timeseries", "*TimeSeries")],
    },
)

WriteRequest = _MESSAGES["WriteRequest"]
Histogram = _MESSAGES["Histogram"]
RequestV2 = _MESSAGES_V2["Request"]
HistogramV2 = _MESSAGES_V2["Histogram"]
