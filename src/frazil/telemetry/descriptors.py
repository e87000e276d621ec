"""OpenTelemetry's messages as they are decoded into columns.

Columns cannot contain themselves, so values within values are decoded as the bytes that they are: lists and maps of
values. All other fields, and the bytes of all messages, are the same.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from ptars import PtarsConfig
from ptars._lib import ProtoRegistry

_RECURSIVE = {"array_value", "kvlist_value"}
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
            found[file.name] = _without_recursion(file)

    add(main)
    return list(found.values())


def _without_recursion(file: FileDescriptor) -> bytes:
    copy = FileDescriptorProto()
    file.CopyToProto(copy)
    for message in copy.message_type:
        for field in message.field:
            if message.name == "AnyValue" and field.name in _RECURSIVE:
                field.type = FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
    serialized: bytes = copy.SerializeToString()
    return serialized
