"""A Protobuf schema with everything in it, random messages of it, and their rows."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from frazil.formats.protobuf.compiling import compile_files
from frazil.formats.registry.schema import Reference, RegisteredSchema

SHARED = """
syntax = "proto3";
package shared;
import "google/protobuf/timestamp.proto";
message Point { sint32 x = 1; optional float y = 2; google.protobuf.Timestamp seen = 3; }
enum Colour { RED = 0; GREEN = 1; }
"""
TEXT = """
syntax = "proto3";
package sample;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "shared/point.proto";

message Other { int32 number = 1; }

message Everything {
  map<string, int32> counts = 20;
  message Inner { string text = 1; repeated Inner children = 2; }

  double double = 1; float float = 2;
  int32 int32 = 3; int64 int64 = 4; uint32 uint32 = 5; uint64 uint64 = 6; sint32 sint32 = 7; sint64 sint64 = 8;
  fixed32 fixed32 = 9; fixed64 fixed64 = 10; sfixed32 sfixed32 = 11; sfixed64 sfixed64 = 12;
  bool bool = 13; string string = 14; bytes bytes = 15; shared.Colour colour = 16;
  optional int32 maybe = 17; optional shared.Colour maybe_colour = 18;
  shared.Point point = 19; map<int64, shared.Point> points = 21; map<string, shared.Colour> colours = 22;
  repeated int64 numbers = 23; repeated string words = 24; repeated shared.Point path = 25;
  repeated shared.Colour palette = 26;
  oneof choice { int32 chosen_number = 27; string chosen_text = 28; shared.Point chosen_point = 29;
                 google.protobuf.Empty chosen_nothing = 30; }
  google.protobuf.Timestamp at = 31; repeated google.protobuf.Timestamp times = 32;
  map<string, google.protobuf.Timestamp> named_times = 33;
  google.protobuf.Duration took = 34;
  google.protobuf.Int64Value boxed = 35; google.protobuf.StringValue boxed_text = 36;
  google.protobuf.BytesValue boxed_bytes = 37; google.protobuf.UInt64Value boxed_unsigned = 38;
  google.protobuf.Any any = 39; google.protobuf.FieldMask mask = 40; google.protobuf.Empty empty = 41;
  google.protobuf.Struct document = 42; google.protobuf.Value value = 43;
  repeated google.protobuf.Value values = 44; map<string, google.protobuf.Value> named_values = 45;
  Inner tree = 46;
}
"""
SCHEMA = RegisteredSchema("PROTOBUF", TEXT, (Reference("shared/point.proto", RegisteredSchema("PROTOBUF", SHARED)),))
OTHER, EVERYTHING, INNER = (0,), (1,), (1, 0)

SECONDS = st.integers(-62_135_596_800, 253_402_300_799) | st.sampled_from([-62_135_596_800, -1, 253_402_300_799])
NANOS = st.integers(0, 999_999_999) | st.sampled_from([0, 999, 1000, 999_999_999])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
FLOATS, DOUBLES = st.floats(width=32, allow_nan=False), st.floats(allow_nan=False)
COLOURS = st.integers(-1, 3)
TIMES = st.fixed_dictionaries({"seconds": SECONDS, "nanos": NANOS})
POINTS = st.fixed_dictionaries({}, optional={"x": INT32, "y": FLOATS, "seen": TIMES})
TREES = st.recursive(
    st.fixed_dictionaries({"text": TEXTS}),
    lambda below: st.fixed_dictionaries({"text": TEXTS, "children": st.lists(below, max_size=2)}),
    max_leaves=3,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(-1e6, 1e6) | TEXTS,
    lambda below: st.lists(below, max_size=2) | st.dictionaries(TEXTS, below, max_size=2),
    max_leaves=3,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "double": DOUBLES,
    "float": FLOATS,
    "int32": INT32,
    "int64": INT64,
    "uint32": UINT32,
    "uint64": UINT64,
    "sint32": INT32,
    "sint64": INT64,
    "fixed32": UINT32,
    "fixed64": UINT64,
    "sfixed32": INT32,
    "sfixed64": INT64,
    "bool": st.booleans(),
    "string": TEXTS,
    "bytes": st.binary(max_size=4),
    "colour": COLOURS,
    "maybe": INT32,
    "maybe_colour": COLOURS,
    "point": POINTS,
    "counts": st.dictionaries(TEXTS, INT32, max_size=2),
    "numbers": st.lists(INT64, max_size=3),
    "words": st.lists(TEXTS, max_size=2),
    "path": st.lists(POINTS, max_size=2),
    "palette": st.lists(COLOURS, max_size=3),
    "chosen_number": INT32,
    "chosen_text": TEXTS,
    "chosen_point": POINTS,
    "at": TIMES,
    "times": st.lists(TIMES, max_size=2),
    "took": st.fixed_dictionaries({"seconds": st.integers(0, 9 * 10**9), "nanos": NANOS}),
    "boxed": INT64.map(lambda value: {"value": value}),
    "boxed_text": TEXTS.map(lambda value: {"value": value}),
    "boxed_bytes": st.binary(max_size=3).map(lambda value: {"value": value}),
    "boxed_unsigned": UINT64.map(lambda value: {"value": value}),
    "any": st.fixed_dictionaries({"type_url": TEXTS, "value": st.binary(max_size=3)}),
    "mask": st.lists(TEXTS, max_size=2).map(lambda paths: {"paths": paths}),
    "empty": st.just({}),
    "chosen_nothing": st.just({}),
    "tree": TREES,
    "points": st.dictionaries(INT64, POINTS, max_size=2),
    "colours": st.dictionaries(TEXTS, COLOURS, max_size=2),
    "named_times": st.dictionaries(TEXTS, TIMES, max_size=2),
    "document": st.dictionaries(TEXTS, JSON, max_size=2),
    "value": JSON,
    "values": st.lists(JSON, max_size=2),
    "named_values": st.dictionaries(TEXTS, JSON, max_size=2),
}
"""The fields that may be set in `Everything`."""
_FILLED = {"points", "named_times"}
_FROM_JSON = {"document", "value", "values", "named_values"}


def message_class(schema: RegisteredSchema, path: tuple[int, ...]) -> Callable[..., Message]:
    cls: Callable[..., Message] = GetMessageClass(compile_files(schema).message(path))
    return cls


@st.composite
def messages(draw: st.DrawFn) -> Message:
    chosen = draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=8, unique=True))
    result: Any = message_class(SCHEMA, EVERYTHING)()
    for name in chosen:
        value = draw(FIELDS[name])
        if name in _FILLED:
            for key, inner in value.items():
                _fill(getattr(result, name)[key], inner)
        elif name in _FROM_JSON:
            json_format.ParseDict({name: value}, result)
        elif isinstance(value, dict) and name not in ("counts", "colours"):
            _fill(getattr(result, name), value)
        else:
            result.MergeFrom(message_class(SCHEMA, EVERYTHING)(**{name: value}))
    return result


def _fill(message: Any, values: dict[str, Any]) -> None:
    message.SetInParent()
    message.MergeFrom(type(message)(**values))


def zigzags(numbers: Sequence[int]) -> bytes:
    result = bytearray()
    for number in numbers:
        rest = number << 1
        while rest > 0x7F:
            result.append(rest & 0x7F | 0x80)
            rest >>= 7
        result.append(rest)
    return bytes(result)


def wired(number: int, path: tuple[int, ...], message: Message | bytes) -> bytes:
    """Returns a payload in the registry's wire format."""
    indexes = b"\0" if path == (0,) else zigzags([len(path), *path])
    data = message if isinstance(message, bytes) else message.SerializeToString()
    return b"\0" + struct.pack(">I", number) + indexes + data


def row_of(message: Any) -> dict[str, Any]:
    """Returns the message as a row, by the objects of the Protobuf runtime."""
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        row[field.name] = _value_of(message, field)
        if field.name == "at":
            row["at_ns"] = message.at.nanos % 1000 if message.HasField("at") else None
    return row


def _value_of(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.label == field.LABEL_REPEATED:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            return {key: _single(value[key], inner) for key in value}
        return [_single(item, field) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(value, field)


def _single(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name == "google.protobuf.Duration":
        return Decimal(value.seconds) * 10**9 + value.nanos
    if name == "google.protobuf.Empty":
        return True
    if name.endswith(("Int64Value", "StringValue", "BytesValue")):
        return value.value
    if name in ("google.protobuf.Struct", "google.protobuf.Value"):
        return json.loads(json_format.MessageToJson(value))
    if name == "sample.Everything.Inner":
        children = [json_format.MessageToDict(child, preserving_proto_field_name=True) for child in value.children]
        return {"text": value.text, "children": children}
    return {inner.name: _value_of(value, inner) for inner in field.message_type.fields}
