"""Describes the messages of Tempo's API, in the package `tempopb`.

Each line is a message: its name, then its fields as `number name type`. A type in capitals is another message, a star
stands for a list, and `map` for a map from text to the type after it.
"""

from __future__ import annotations

import re
from functools import cache

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

_MESSAGES = """
Trace: 1 resourceSpans *ResourceSpans
TraceByIDMetrics: 1 inspectedBytes u64
TraceByIDResponse: 1 trace Trace, 2 metrics TraceByIDMetrics, 3 status PartialStatus, 4 message s
SearchRequest: 1 Tags map s, 2 MinDurationMs u32, 3 MaxDurationMs u32, 4 Limit u32, 5 start u32, 6 end u32, 8 Query s, 9 SpansPerSpanSet u32, 11 skipASTTransformations *s
SearchResponse: 1 traces *TraceSearchMetadata, 2 metrics SearchMetrics
TraceSearchMetadata: 1 traceID s, 2 rootServiceName s, 3 rootTraceName s, 4 startTimeUnixNano u64, 5 durationMs u32, 6 spanSet SpanSet, 7 spanSets *SpanSet, 8 serviceStats map ServiceStats
ServiceStats: 1 spanCount u32, 2 errorCount u32
SpanSet: 1 spans *Span, 2 matched u32, 3 attributes *KeyValue
Span: 1 spanID s, 2 name s, 3 startTimeUnixNano u64, 4 durationNanos u64, 5 attributes *KeyValue
SearchMetrics: 1 inspectedTraces u32, 2 inspectedBytes u64, 3 totalBlocks u32, 4 completedJobs u32, 5 totalJobs u32, 6 totalBlockBytes u64, 7 inspectedSpans u64
SearchTagsRequest: 1 scope s, 2 query s, 3 start u32, 4 end u32, 5 maxTagsPerScope u32, 6 staleValuesThreshold u32
SearchTagsResponse: 1 tagNames *s, 2 metrics MetadataMetrics
SearchTagsV2Scope: 1 name s, 2 tags *s
SearchTagsV2Response: 1 scopes *SearchTagsV2Scope, 2 metrics MetadataMetrics
SearchTagValuesRequest: 1 tagName s, 2 query s, 4 start u32, 5 end u32, 6 maxTagValues u32, 7 staleValueThreshold u32
SearchTagValuesResponse: 1 tagValues *s, 2 metrics MetadataMetrics
TagValue: 1 type s, 2 value s
SearchTagValuesV2Response: 1 tagValues *TagValue, 2 metrics MetadataMetrics
MetadataMetrics: 1 inspectedBytes u64, 2 totalJobs u32, 3 completedJobs u32, 4 totalBlocks u32, 5 totalBlockBytes u64
QueryRangeRequest: 1 query s, 2 start u64, 3 end u64, 4 step u64, 7 queryMode s, 16 exemplars u32, 17 maxSeries u32, 18 instant b
QueryRangeResponse: 1 series *TimeSeries, 2 metrics SearchMetrics, 3 status PartialStatus, 4 message s
TimeSeries: 1 labels *KeyValue, 2 samples *Sample, 4 exemplars *Exemplar
Sample: 1 value f64, 2 timestampMs i64
Exemplar: 1 labels *KeyValue, 2 value f64, 3 timestampMs i64
QueryInstantRequest: 1 query s, 2 start u64, 3 end u64
QueryInstantResponse: 1 series *InstantSeries, 2 metrics SearchMetrics, 3 status PartialStatus, 4 message s
InstantSeries: 1 labels *KeyValue, 2 value f64
"""  # noqa: E501

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "s": _Field.TYPE_STRING,
    "b": _Field.TYPE_BOOL,
    "u32": _Field.TYPE_UINT32,
    "u64": _Field.TYPE_UINT64,
    "i64": _Field.TYPE_INT64,
    "f64": _Field.TYPE_DOUBLE,
}
_ELSEWHERE = {
    "ResourceSpans": ".opentelemetry.proto.trace.v1.ResourceSpans",
    "KeyValue": ".opentelemetry.proto.common.v1.KeyValue",
}
_LINE = re.compile(r"(\w+): (.+)")
_FIELD = re.compile(r"(\d+) (\w+) (\*|map )?(\w+)")


def message_class(name: str) -> type[Message]:
    """Returns the class of a message of Tempo."""
    return _classes()[name]


@cache
def _classes() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="frazil/tempopb.proto", package="tempopb", syntax="proto3")
    file.dependency.extend([common_pb2.DESCRIPTOR.name, trace_pb2.DESCRIPTOR.name])
    status = file.enum_type.add(name="PartialStatus")
    status.value.add(name="COMPLETE", number=0)
    status.value.add(name="PARTIAL", number=1)
    for name, fields in _LINE.findall(_MESSAGES):
        message = file.message_type.add(name=name)
        for number, field, repeated, kind in _FIELD.findall(fields):
            _add(message, name, int(number), field, repeated, kind)
    pool = descriptor_pool.DescriptorPool()
    for given in (common_pb2.DESCRIPTOR, *trace_pb2.DESCRIPTOR.dependencies, trace_pb2.DESCRIPTOR):
        copy = descriptor_pb2.FileDescriptorProto()
        given.CopyToProto(copy)
        pool.Add(copy)
    pool.Add(file)
    found = pool.FindFileByName(file.name).message_types_by_name
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


def _add(
    message: descriptor_pb2.DescriptorProto, owner: str, number: int, name: str, repeated: str, kind: str
) -> None:
    field = message.field.add(name=name, number=number, json_name=name)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if repeated.startswith("map"):
        entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
        entry.options.map_entry = True
        _add(entry, owner, 1, "key", "", "s")
        _add(entry, owner, 2, "value", "", kind)
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".tempopb.{owner}.{entry.name}"
    elif kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif kind == "PartialStatus":
        field.type, field.type_name = _Field.TYPE_ENUM, ".tempopb.PartialStatus"
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, _ELSEWHERE.get(kind, f".tempopb.{kind}")
