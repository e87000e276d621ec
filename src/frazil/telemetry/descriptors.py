"""Messages as they are decoded into columns.

Some messages within others are decoded as the bytes that they are: OpenTelemetry's lists and maps of values, because
columns cannot contain themselves; resources and scopes, because the same ones come again and again; Prometheus's
native histograms, because they are rare and have many fields. All else is as it was, and so are the bytes of all.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from ptars import PtarsConfig
from ptars._lib import ProtoRegistry

_AS_BYTES = {
    ("AnyValue", "array_value"),
    ("AnyValue", "kvlist_value"),
    ("TimeSeries", "histograms"),
    *((f"Resource{signal}", "resource") for signal in ("Logs", "Spans", "Metrics")),
    *((f"Scope{signal}", "scope") for signal in ("Logs", "Spans", "Metrics")),
}
_CONFIG = PtarsConfig(list_value_nullable=True)


@cache
def handler_of(message: Descriptor) -> Any:
    """What decodes serialized messages of this type into columns."""
    return ProtoRegistry(_files(message.file)).create_for_message(message.full_name, _CONFIG)


def _files(main: FileDescriptor) -> list[bytes]:
    """The file and those that it imports, each after what it imports."""
    found: dict[str, bytes] = {}

    def add(file: FileDescriptor) -> None:
        if file.name not in found:
            for imported in file.dependencies:
                add(imported)
            found[file.name] = _with_bytes(file)

    add(main)
    return list(found.values())


def _with_bytes(file: FileDescriptor) -> bytes:
    copy = FileDescriptorProto()
    file.CopyToProto(copy)
    for message in copy.message_type:
        for field in message.field:
            if (message.name, field.name) in _AS_BYTES:
                field.type = FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
                if field.label == FieldDescriptorProto.LABEL_OPTIONAL and not field.HasField("oneof_index"):
                    _tell_absent(message, field)
    serialized: bytes = copy.SerializeToString()
    return serialized


def _tell_absent(message: DescriptorProto, field: FieldDescriptorProto) -> None:
    """Bytes that are not there would be taken for empty ones, which a message that is not there is not."""
    field.proto3_optional = True
    field.oneof_index = len(message.oneof_decl)
    message.oneof_decl.add(name=f"_{field.name}")
