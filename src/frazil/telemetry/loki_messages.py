"""The messages of Loki's push, as they are on the wire.

Loki's clients do not look at the bytes that they send as text, and a file of logs may have any. So texts are bytes
here, which are the same on the wire, and no request is refused for a line that is no UTF-8.
"""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "logproto"
_SCALARS = {
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
}

# Number, name and type of each field; `*` stands for many. What Loki's own processes tell each other is left out.
_MESSAGES: dict[str, list[tuple[int, str, str]]] = {
    "Timestamp": [(1, "seconds", "int64"), (2, "nanos", "int32")],
    "LabelPair": [(1, "name", "bytes"), (2, "value", "bytes")],
    "Entry": [(1, "timestamp", "Timestamp"), (2, "line", "bytes"), (3, "structured_metadata", "*LabelPair")],
    "Stream": [(1, "labels", "bytes"), (2, "entries", "*Entry")],
    "PushRequest": [(1, "streams", "*Stream")],
}


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="push.proto", package=_PACKAGE, syntax="proto3")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for number, name, told in fields:
            kind = told.lstrip("*")
            label = FieldDescriptorProto.LABEL_REPEATED if told[0] == "*" else FieldDescriptorProto.LABEL_OPTIONAL
            field = message.field.add(name=name, number=number, label=label)
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    return file


_POOL = DescriptorPool()
"""Of its own: other packages may bring these messages too, under the same names."""
_FILE = _POOL.Add(_file()) or _POOL.FindFileByName("push.proto")

PushRequest = GetMessageClass(_FILE.message_types_by_name["PushRequest"])
