"""Fields whose paths clash are removed from types."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.schema import index_by_name

from frazil.formats.type_pruning import without_repeated_paths
from frazil.lake.schema.table_schema import base_table_schema
from frazil.log.schema.paths import named_paths

INSIDE = pa.struct([("x.y", pa.int64()), ("z", pa.list_(pa.string()))])
COLUMNS = pa.schema(
    [
        ("a", pa.int64()),
        ("s", INSIDE),
        ("l", pa.list_(INSIDE)),
        ("large", pa.large_list(INSIDE)),
        ("m", pa.map_(pa.string(), pa.list_(INSIDE))),
        ("d", pa.dictionary(pa.int32(), pa.string())),
    ]
)


def test_paths_are_those_of_iceberg() -> None:
    found = list(named_paths(pa.struct(COLUMNS)))
    short = {"l.x.y", "l.z", "large.x.y", "large.z", "m.x.y", "m.z", "m.value.x.y", "m.value.z", "m.element.x.y"}
    assert {part.path for part in found} <= set(index_by_name(base_table_schema(COLUMNS)))
    assert not {part.path for part in found} & short
    assert {part.path for part in found if part.name == "x.y"} == {
        "s.x.y",
        "l.element.x.y",
        "large.element.x.y",
        "m.value.element.x.y",
    }


def test_of_two_with_one_path_the_first_stays() -> None:
    assert without_repeated_paths(pa.struct(COLUMNS)) == pa.struct(COLUMNS)
    clashing = pa.struct(
        [
            ("m", pa.map_(pa.string(), pa.struct([("x", pa.int64()), ("X", pa.int64())]))),
            ("M.value.x", pa.int64()),
            ("l.element.x", pa.int64()),
            ("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())]))),
            ("n.element", pa.int64()),
            ("n", pa.list_(pa.int64())),
            ("m.key", pa.int64()),
        ]
    )
    assert without_repeated_paths(clashing) == pa.struct(
        [
            ("m", pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
            ("l.element.x", pa.int64()),
            ("l", pa.list_(pa.struct([("y", pa.int64())]))),
            ("n.element", pa.int64()),
        ]
    )
