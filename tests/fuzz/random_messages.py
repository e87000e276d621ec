"""Builds valid Protobuf messages with random values that their types allow."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

_TEXTS = ("", "a", "service.name", "level", "trace_id", "\0", "é", '{a="b"}', "x" * 200)
_INTS = (0, 1, 127, 128, 2**31 - 1, 2**31, 2**63 - 1, 1_700_000_000_000_000_000)
_DOUBLES = (0.0, -0.0, 1.5, 1e308, float("inf"), float("nan"))
_DEEPEST = 9


def build(chance: random.Random, kind: type[Message]) -> Message:
    message = kind()
    _fill(chance, message, _DEEPEST)
    return message


def _fill(chance: random.Random, message: Any, left: int) -> None:
    """Fill fields at random. A field of a `oneof` may replace another one of it."""
    descriptor: Descriptor = message.DESCRIPTOR
    for field in descriptor.fields:
        if chance.random() < (0.3 if left > 5 or field.message_type is None else 0.75):
            continue
        if field.label == field.LABEL_REPEATED:
            for _ in range(chance.choice((1, 1, 2, 3))):
                _add(chance, message, field, left)
        elif field.message_type is None:
            setattr(message, field.name, _value(chance, field))
        elif left:
            found = getattr(message, field.name)
            found.SetInParent()
            _fill(chance, found, left - 1)


def _add(chance: random.Random, message: Any, field: FieldDescriptor, left: int) -> None:
    many = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        if value.message_type is None:
            many[_value(chance, key)] = _value(chance, value)
        elif left:
            _fill(chance, many[_value(chance, key)], left - 1)
    elif field.message_type is None:
        many.append(_value(chance, field))
    elif left:
        _fill(chance, many.add(), left - 1)


def _value(chance: random.Random, field: FieldDescriptor) -> Any:
    if field.cpp_type == field.CPPTYPE_STRING:
        if field.type == field.TYPE_STRING:
            return chance.choice(_TEXTS)
        return chance.choice((b"", bytes(8), chance.randbytes(8), chance.randbytes(16), b'{app="shop"}'))
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return chance.choice(_DOUBLES)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if field.cpp_type == field.CPPTYPE_ENUM:
        return chance.choice(field.enum_type.values).number
    narrow = field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32)
    return chance.choice(_INTS[:5] if narrow else _INTS)
