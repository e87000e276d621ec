"""Prepares message descriptors for decoding into columns, in which some fields are bytes.

These messages are decoded as the bytes that they are: OpenTelemetry's lists and maps of values, because columns
cannot contain themselves; resources, scopes and metadata, because the same ones come again and again; and what most
records do not have, because each of its fields would cost time in every request. All other fields stay as they are,
and so do the bytes on the wire.

Protobuf allows the bytes of a single message to come in several pieces, one after the other. So such a column is a
list of pieces, empty where there is no message.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from ptars import PtarsConfig
from ptars._lib import ProtoRegistry

Name = tuple[str, str]
"""The name of a message, and the name of one of its fields."""

_SIGNALS = ("Logs", "Spans", "Metrics")
_VALUES = {("AnyValue", "array_value"), ("AnyValue", "kvlist_value")}
_LISTS = frozenset(
    {
        *((f"Resource{signal}", "resource") for signal in _SIGNALS),
        *((f"Scope{signal}", "scope") for signal in _SIGNALS),
        ("Metric", "metadata"),
        *(("Metric", kind) for kind in ("histogram", "exponential_histogram", "summary")),
        *((f"{kind}DataPoint", "exemplars") for kind in ("Number", "Histogram", "ExponentialHistogram")),
        ("Span", "events"),
        ("Span", "links"),
        ("TimeSeries", "histograms"),
    }
)
_CONFIG = PtarsConfig(list_value_nullable=True)


@cache
def handler_of(message: Descriptor, lists: frozenset[Name] = _LISTS, only: frozenset[Name] | None = None) -> Any:
    """Returns a handler that decodes serialized messages of this type into columns. With `only`, the messages named
    there have no fields but those named there."""
    return ProtoRegistry(_files(message.file, lists, only)).create_for_message(message.full_name, _CONFIG)


def _files(main: FileDescriptor, lists: frozenset[Name], only: frozenset[Name] | None) -> list[bytes]:
    """Returns the file and the files that it imports, each after its own imports."""
    found: dict[str, bytes] = {}

    def add(file: FileDescriptor) -> None:
        if file.name not in found:
            for imported in file.dependencies:
                add(imported)
            found[file.name] = _with_bytes(file, lists, only)

    add(main)
    return list(found.values())


def _with_bytes(file: FileDescriptor, lists: frozenset[Name], only: frozenset[Name] | None) -> bytes:
    copy = FileDescriptorProto()
    file.CopyToProto(copy)
    for message in copy.message_type:
        if only and message.name in {name for name, _ in only}:
            kept = [field for field in message.field if (message.name, field.name) in only]
            for field in kept:
                field.ClearField("oneof_index")
            del message.field[:], message.oneof_decl[:]
            message.field.extend(kept)
        for field in message.field:
            if (message.name, field.name) in _VALUES | lists:
                field.type = FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
            if (message.name, field.name) in lists:
                field.label = FieldDescriptorProto.LABEL_REPEATED
                field.ClearField("oneof_index")
    serialized: bytes = copy.SerializeToString()
    return serialized
