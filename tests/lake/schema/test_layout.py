"""Tests partition specs, sort orders and properties that are made from the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.config.sections.lake import IcebergConfig, TableLayoutConfig
from frazil.errors import ConfigError
from frazil.lake.catalog.lake import Lake
from frazil.lake.schema.layout import layout_properties, partition_spec, sort_order
from frazil.lake.schema.table_schema import base_table_schema
from tests.lake.support import local_config, make_base_table

TOPIC_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("place", pa.struct([("country", pa.string())])),
        ("tags", pa.list_(pa.string())),
        ("odd name", pa.string()),
    ]
)
SCHEMA = base_table_schema(TOPIC_SCHEMA)


def properties_of(**layout: Any) -> dict[str, str]:
    return layout_properties(TableLayoutConfig(**layout), IcebergConfig())


@pytest.mark.parametrize(
    ("text", "column", "transform", "name"),
    [
        ("id", "id", "identity", "id"),
        ("year(time)", "time", "year", "time_year"),
        ("Day( time )", "time", "day", "time_day"),
        ("hour(time)", "time", "hour", "time_hour"),
        ("bucket(16, id)", "id", "bucket[16]", "id_bucket"),
        ("truncate(4,name)", "name", "truncate[4]", "name_trunc"),
        ("void(name)", "name", "void", "name_null"),
        ("place.country", "place.country", "identity", "place_country"),
        ("`odd name`", "odd name", "identity", "odd name"),
    ],
)
def test_a_partition_field(text: str, column: str, transform: str, name: str) -> None:
    (field,) = partition_spec(TableLayoutConfig(partition_by=[text]), SCHEMA).fields
    assert field.source_id == SCHEMA.find_field(column).field_id
    assert (str(field.transform), field.name, field.field_id) == (transform, name, 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time", "identity ASC NULLS FIRST"),
        ("time desc", "identity DESC NULLS LAST"),
        ("time DESC NULLS FIRST", "identity DESC NULLS FIRST"),
        ("bucket(4, id) asc nulls last", "bucket[4] ASC NULLS LAST"),
    ],
)
def test_a_sort_field(text: str, expected: str) -> None:
    (field,) = sort_order(TableLayoutConfig(sort_by=[text]), SCHEMA).fields
    assert f"{field.transform} {field.direction} {field.null_order}" == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("day(tim)", "'day(tim)', at position 5: there is no column 'tim', did you mean 'time'?"),
        ("zzz", "'zzz', at position 1: there is no column 'zzz'; there are _log_partition, _offset, id"),
        ("weekly(time)", "at position 1: 'weekly' is no function; known are year, month"),
        ("bucket(id)", "at position 8: bucket begins with a number above 0"),
        ("bucket(0, id)", "at position 8: bucket begins with a number above 0"),
        ("day(name)", "at position 5: day does not work on 'name', which is string"),
        ("tags", "at position 1: column 'tags' is list<string>"),
        ("tags.element", "there is no column 'tags.element'"),
        ("day(time", "at position 9: expected ')'"),
        ("id id", "at position 4: 'id' is not expected"),
        ("", "at position 1: expected a column or a function"),
        ("`", "at position 1: this cannot be read"),
    ],
)
def test_what_is_wrong_and_where(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        partition_spec(TableLayoutConfig(partition_by=[text]), SCHEMA)
    assert message in str(caught.value)


def test_wrong_orders_and_repeated_partitions() -> None:
    with pytest.raises(ConfigError, match="at position 12: expected first or last"):
        sort_order(TableLayoutConfig(sort_by=["time nulls maybe"]), SCHEMA)
    with pytest.raises(ConfigError, match=r"'bucket\(8, id\)' is there twice"):
        partition_spec(TableLayoutConfig(partition_by=["bucket(4, id)", "bucket(8, id)"]), SCHEMA)


def test_a_partition_never_has_the_name_of_a_column() -> None:
    schema = base_table_schema(pa.schema([("time", pa.timestamp("us")), ("time_day", pa.string())]))
    (field,) = partition_spec(TableLayoutConfig(partition_by=["day(time)"]), schema).fields
    assert field.name not in schema.column_names


def test_properties() -> None:
    found = properties_of(compression="gzip", compression_level=9, target_file_size_mb=64)
    assert found["write.parquet.compression-codec"] == "gzip"
    assert found["write.parquet.compression-level"] == "9"
    assert found["write.target-file-size-bytes"] == str(64 * 1024 * 1024)
    assert found["write.metadata.delete-after-commit.enabled"] == "true"
    assert properties_of()["write.parquet.compression-codec"] == "zstd"
    plain = properties_of(compression="none")
    assert plain["write.parquet.compression-codec"] == "uncompressed"
    assert "write.parquet.compression-level" not in plain
    free = properties_of(properties={"write.metadata.previous-versions-max": "5", "a": "b"})
    assert (free["write.metadata.previous-versions-max"], free["a"]) == ("5", "b")
    with pytest.raises(ConfigError, match=r"frazil\.offset\.0"):
        properties_of(properties={"frazil.offset.0": "7"})


def test_what_a_table_does_not_say_the_defaults_do(tmp_path: Path) -> None:
    config = local_config(tmp_path, iceberg={"compression": "snappy", "target_file_size_mb": 512})
    own = TableLayoutConfig(compression="zstd", target_file_size_mb=64)
    lake = Lake(config)
    for name, layout, codec, size_mb in (("a", TableLayoutConfig(), "snappy", 512), ("b", own, "zstd", 64)):
        properties = make_base_table(lake, name, TOPIC_SCHEMA, layout=layout).properties
        assert properties["write.parquet.compression-codec"] == codec
        assert ("write.parquet.compression-level" in properties) is (codec == "zstd")
        assert properties["write.target-file-size-bytes"] == str(size_mb * 1024 * 1024)


def test_a_table_is_laid_out_as_the_settings_say(tmp_path: Path) -> None:
    layout = TableLayoutConfig(
        partition_by=["day(time)", "bucket(4, id)"],
        sort_by=["place.country", "time desc"],
        properties={"owner": "me"},
    )
    table = make_base_table(Lake(local_config(tmp_path)), schema=TOPIC_SCHEMA, layout=layout)
    assert [field.name for field in table.spec().fields] == ["time_day", "id_bucket"]
    ids = [table.schema().find_field(name).field_id for name in ("place.country", "time")]
    assert [field.source_id for field in table.sort_order().fields] == ids
    assert table.properties["owner"] == "me"
