"""A row has what the Protobuf runtime reads of its message, and broken bytes are faults of their own."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import SchemaUnsupported
from frazil.formats.protobuf import LARGE_BYTES, message_of
from frazil.formats.registry.schema import Reference, RegisteredSchema
from frazil.lake.schema.table_schema import base_table_schema
from tests.formats.protobuf.samples import EVERYTHING, SCHEMA, message_class, messages, row_of


def decode(
    payloads: list[bytes], schema: RegisteredSchema = SCHEMA, path: tuple[int, ...] = EVERYTHING
) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    column, good, faults = message_of(schema, path).decode(pa.array(payloads, pa.binary()))
    assert sorted([*good.tolist(), *faults]) == list(range(len(payloads)))
    if column is None:
        return {}, faults
    column.validate(full=True)
    assert column.type == message_of(schema, path).kind
    return dict(zip(good.tolist(), map(plain, column.to_pylist()), strict=True)), faults


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Normalises rows: maps are dictionaries, durations are nanoseconds, and JSON is parsed."""
    row = dict(row)
    for name in ("counts", "points", "colours", "named_times", "named_values"):
        if name in row:
            row[name] = dict(row[name])
    if row.get("took") is not None:
        row["took"] = Decimal(row["took"].value)
    for name in ("document", "value"):
        if row.get(name) is not None:
            row[name] = json.loads(row[name])
    if "values" in row:
        row["values"] = [json.loads(text) for text in row["values"]]
        row["named_values"] = {key: json.loads(text) for key, text in row["named_values"].items()}
    if row.get("tree") is not None:
        row["tree"] = row["tree"] | {"children": [json.loads(text) for text in row["tree"]["children"]]}
    return row


@given(st.lists(messages(), max_size=4))
def test_rows_are_what_the_runtime_reads(written: list[Message]) -> None:
    rows, faults = decode([message.SerializeToString() for message in written])
    assert not faults
    assert rows == {place: row_of(message) for place, message in enumerate(written)}


def test_a_table_can_have_every_column() -> None:
    kind = message_of(SCHEMA, EVERYTHING).kind
    names = {field.name for field in base_table_schema(pa.schema(list(kind.fields))).fields}
    assert set(pa.schema(list(kind.fields)).names) < names
    assert {"at", "at_ns"} < names


def test_broken_bytes_are_faults_of_their_own(seed: int) -> None:
    rng = random.Random(seed)
    filled: Any = message_class(SCHEMA, EVERYTHING)(
        int32=-1,
        string="é",
        numbers=[1, 2],
        counts={"a": 1},
        point={"x": 1},
        path=[{"y": 1.5}],
        mask={"paths": ["a"]},
    )
    filled.document["x"] = [1, {"y": None}]
    filled.named_times["x"].seconds = 5
    filled.tree.children.add(text="z")
    data = filled.SerializeToString()
    payloads = [data if n % 50 == 0 else _mutated(data, rng) for n in range(1500)]
    rows, faults = decode(payloads)
    assert len(faults) > 500
    for place in range(0, 1500, 50):
        assert rows[place] == row_of(filled)


def _mutated(data: bytes, rng: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(result) + 1)
        match rng.randrange(4):
            case 0:
                result[at : at + 1] = rng.randbytes(1)
            case 1:
                del result[at:]
            case 2:
                result[at:at] = rng.randbytes(rng.randint(1, 4))
            case _:
                del result[at : at + rng.randint(1, 4)]
    return bytes(result)


START, END = b"\xab\x32", b"\xac\x32"
"""The tags that start and end a group that the schema does not have."""


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x18", "EOF"),
        (b"\x72\x05ab", "EOF"),
        (b"\x72\x01\xff", "UTF-8"),
        (b"\x00\x01", "field number 0"),
        (b"\x0f", "wire type"),
        (END, "end-group"),
        (START * 1_000_000, "failed to decode"),
        (START * 500_000 + END * 500_000, "failed to decode"),
        (b"\xfa\x01\x08\x08\x80\x80\x80\x80\x80\x80\x01", "field at: 4398046511104 seconds .* out of range"),
        (b"\xfa\x01\x06\x10\x80\x80\x80\x80\x04", "field at: 0 seconds and 1073741824 nanoseconds .* out of range"),
        (b"\x82\x02\x00\x82\x02\x08\x08\x80\x80\x80\x80\x80\x80\x01", "field times: .* out of range"),
        (b"\xda\x02\x09\x11\x00\x00\x00\x00\x00\x00\xf8\x7f", "value: no JSON"),
    ],
)
def test_poison(data: bytes, why: str) -> None:
    good = message_class(SCHEMA, EVERYTHING)(int32=1).SerializeToString()
    rows, faults = decode([good, good, data, good])
    assert sorted(rows) == [0, 1, 3]
    assert re.search(why, faults[2])


def test_what_the_schema_does_not_know_is_left_out() -> None:
    small = RegisteredSchema("PROTOBUF", 'syntax = "proto3"; message Small { int32 int32 = 3; string other = 4; }')
    data = message_class(SCHEMA, EVERYTHING)(int32=7, int64=3, string="x" * 20_000).SerializeToString()
    assert len(data) > LARGE_BYTES
    rows, faults = decode([data, START * 50 + END * 50], small, (0,))
    assert not faults
    assert rows == {0: {"int32": 7, "other": ""}, 1: {"int32": 0, "other": ""}}


def test_the_second_version_of_the_language() -> None:
    text = """
    syntax = "proto2";
    enum Size { SMALL = 1; LARGE = 2; }
    message Old {
      required int32 id = 1;
      optional int32 none = 2;
      optional int32 five = 3 [default = 5];
      optional string name = 4 [default = "\\303\\251"];
      optional Size size = 5 [default = LARGE];
      optional bytes raw = 6 [default = "\\000x"];
      repeated int32 packed = 7 [packed = true];
      optional Part part = 8;
      repeated Part parts = 9;
      extensions 100 to 200;
    }
    message Part { optional int32 number = 1 [default = 7]; }
    """
    schema = RegisteredSchema("PROTOBUF", text)
    message: Any = message_class(schema, (0,))(id=1, five=0, name="", packed=[1, 2])
    message.part.SetInParent()
    message.parts.add(number=1)
    rows, faults = decode([message.SerializeToString(), b""], schema, (0,))
    assert not faults
    absent = {"id": None, "none": None, "five": 5, "name": "é", "size": "LARGE", "raw": b"\0x"}
    assert rows[1] == absent | {"packed": [], "part": None, "parts": []}
    assert rows[0] == absent | {
        "id": 1,
        "five": 0,
        "name": "",
        "packed": [1, 2],
        "part": {"number": 7},
        "parts": [{"number": 1}],
    }


def test_a_name_that_the_nanoseconds_would_take() -> None:
    text = """
    syntax = "proto3";
    import "google/protobuf/timestamp.proto";
    message Times { google.protobuf.Timestamp at = 1; string At_NS = 2; }
    """
    kind = message_of(RegisteredSchema("PROTOBUF", text), (0,)).kind
    assert [field.name for field in kind.fields] == ["at", "At_NS"]


def test_messages_that_contain_each_other() -> None:
    text = """
    syntax = "proto3";
    message First { string name = 1; Second second = 2; }
    message Second { repeated First firsts = 1; Empty empty = 3; }
    message Empty {}
    """
    schema = RegisteredSchema("PROTOBUF", text)
    message: Any = message_class(schema, (0,))(name="a")
    message.second.firsts.add(name="b").second.firsts.add(name="c")
    column, _, faults = message_of(schema, (0,)).decode(pa.array([message.SerializeToString(), b""], pa.binary()))
    assert not faults
    text = json.dumps({"name": "b", "second": {"firsts": [{"name": "c"}]}})
    assert column.to_pylist() == [
        {"name": "a", "second": {"firsts": [text], "empty": None}},
        {"name": "", "second": None},
    ]
    assert decode([b""], schema, (2,)) == ({0: {}}, {})


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (RegisteredSchema("AVRO", '"string"'), "it is AVRO, not Protobuf"),
        (RegisteredSchema("PROTOBUF", 'syntax = "proto3"; message M { int32'), "cannot be compiled: .*end of file"),
        (RegisteredSchema("PROTOBUF", 'import "x.proto"; message M {}'), "import 'x.proto' not found"),
        (
            RegisteredSchema("PROTOBUF", "message M {}", (Reference("../../x", RegisteredSchema("PROTOBUF", "")),)),
            "'../../x', which is no name for a file",
        ),
        (
            RegisteredSchema("PROTOBUF", "message M { optional group G = 1 { optional int32 n = 1; } }"),
            "M.g is a group",
        ),
        (RegisteredSchema("PROTOBUF", 'syntax = "proto3";'), r"no message at the indexes \[0\]"),
    ],
)
def test_schemas_that_cannot_be_used(schema: RegisteredSchema, why: str) -> None:
    with pytest.raises(SchemaUnsupported, match=why):
        message_of(schema, (0,))
