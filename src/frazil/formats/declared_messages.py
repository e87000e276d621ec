"""Builds Protobuf message classes from a table of their fields, without compiling `.proto` files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

FieldTables = Mapping[str, Sequence[tuple[int, str, str]]]
"""The number, name and type of each field, by message. A `*` before the type marks a repeated field; the name after
`|` is the `oneof` that the field belongs to."""

_SCALARS = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "sint32": FieldDescriptorProto.TYPE_SINT32,
    "sint64": FieldDescriptorProto.TYPE_SINT64,
    "string": FieldDescriptorProto.TYPE_STRING,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
}


def message_classes(package: str, declared: FieldTables) -> dict[str, type[Message]]:
    """Returns the message classes by name. They live in a descriptor pool of their own, because other packages may
    register the same names."""
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in declared.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add(message, package, *field)
    pool = DescriptorPool()
    pool.Add(file)
    types = pool.FindFileByName(file.name).message_types_by_name
    return {name: GetMessageClass(types[name]) for name in declared}


def _add(message: DescriptorProto, package: str, number: int, name: str, declared: str) -> None:
    kind, _, choice = declared.lstrip("*").partition("|")
    label = FieldDescriptorProto.LABEL_REPEATED if declared[0] == "*" else FieldDescriptorProto.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{package}.{kind}"
    if choice:
        choices = [each.name for each in message.oneof_decl]
        if choice not in choices:
            message.oneof_decl.add(name=choice)
            choices.append(choice)
        field.oneof_index = choices.index(choice)
