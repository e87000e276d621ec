"""Types are parsed from their names, also in files that give a schema."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.errors import ConfigError
from frazil.formats.type_names import parse_field
from frazil.load.schema_file import read_schema

TYPES = [
    pa.int8(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("ns", "Europe/Berlin"),
    pa.time64("us"),
    pa.duration("ms"),
    pa.decimal128(10, 2),
    pa.list_(pa.string()),
    pa.list_(pa.list_(pa.int32())),
    pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64()))]),
    pa.map_(pa.string(), pa.int64()),
]


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in (pa.date32(), pa.time64("us"))])
def test_types_are_read_as_arrow_prints_them(kind: pa.DataType) -> None:
    assert parse_field("x", str(kind)) == pa.field("x", kind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int64 not null", pa.field("x", pa.int64(), nullable=False)),
        ("list<int64 not null>", pa.field("x", pa.list_(pa.field("item", pa.int64(), nullable=False)))),
        ("timestamp[us, UTC]", pa.field("x", pa.timestamp("us", "UTC"))),
        ("decimal(5, 1)", pa.field("x", pa.decimal128(5, 1))),
        ("date32", pa.field("x", pa.date32())),
    ],
)
def test_other_spellings(text: str, expected: pa.Field) -> None:
    assert parse_field("x", text) == expected


@pytest.mark.parametrize(
    "text", ["", "strin", "list<", "list<int64", "list<int64, int32>", "struct<int64>", "int64 x"]
)
def test_what_is_no_type_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"id": "int64", "other": text}))
    with pytest.raises(ConfigError, match="column 'other'"):
        read_schema(tmp_path / "s.json")


def test_a_schema_from_files(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    (tmp_path / "s.yaml").write_text("id: int64\ntags: list<string>\n")
    pq.write_table(schema.empty_table(), tmp_path / "s.parquet")
    with pa.ipc.new_file(tmp_path / "s.arrow", schema) as file:
        file.write_table(schema.empty_table())
    for name in ("s.yaml", "s.parquet", "s.arrow"):
        found = read_schema(tmp_path / name)
        assert [(f.name, f.nullable) for f in found] == [("id", True), ("tags", True)]
        assert found.field("tags").type.value_type == pa.string()
    for wrong in ("", "- a", "id: [1"):
        (tmp_path / "wrong.yaml").write_text(wrong)
        with pytest.raises(ConfigError, match=r"wrong\.yaml"):
            read_schema(tmp_path / "wrong.yaml")
    with pytest.raises(ConfigError, match="no such file"):
        read_schema(tmp_path / "absent.yaml")
