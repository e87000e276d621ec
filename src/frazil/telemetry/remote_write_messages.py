"""The messages of Prometheus's remote write 1.0, as they are on the wire."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "prometheus"
_SCALARS = {
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "sint32": FieldDescriptorProto.TYPE_SINT32,
    "sint64": FieldDescriptorProto.TYPE_SINT64,
    "string": FieldDescriptorProto.TYPE_STRING,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
}

# Number, name and type of each field. `*` stands for many; what follows `|` is the choice that a field is one of.
# Enumerations are the numbers that they are on the wire.
_MESSAGES: dict[str, list[tuple[int, str, str]]] = {
    "Label": [(1, "name", "string"), (2, "value", "string")],
    "Sample": [(1, "value", "double"), (2, "timestamp", "int64")],
    "Exemplar": [(1, "labels", "*Label"), (2, "value", "double"), (3, "timestamp", "int64")],
    "BucketSpan": [(1, "offset", "sint32"), (2, "length", "uint32")],
    "Histogram": [
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
    ],
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
}


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="remote_write.proto", package=_PACKAGE, syntax="proto3")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for number, name, told in fields:
            kind, _, choice = told.lstrip("*").partition("|")
            label = FieldDescriptorProto.LABEL_REPEATED if told[0] == "*" else FieldDescriptorProto.LABEL_OPTIONAL
            field = message.field.add(name=name, number=number, label=label)
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            if choice:
                choices = [each.name for each in message.oneof_decl]
                if choice not in choices:
                    message.oneof_decl.add(name=choice)
                    choices.append(choice)
                field.oneof_index = choices.index(choice)
    return file


_POOL = DescriptorPool()
"""Of its own: other packages may bring these messages too, under the same names."""
_FILE = _POOL.Add(_file()) or _POOL.FindFileByName("remote_write.proto")

WriteRequest = GetMessageClass(_FILE.message_types_by_name["WriteRequest"])
Histogram = GetMessageClass(_FILE.message_types_by_name["Histogram"])
