"""Columns that no table can have, and more than a topic may have, are refused before anything is appended."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.config.model import Config
from frazil.errors import SchemaMismatch
from frazil.load.inputs import find_input
from frazil.load.loader import Loader
from frazil.log.log import Log


def load(
    folder: Path, *files: Path, schema: pa.Schema | None = None, most: int = 2000, skip_bad: bool = False
) -> int:
    """Returns the rows that were appended."""
    with Log(Config.model_validate({"data_dir": folder / "data", "log": {"max_columns": most}})) as log:
        inputs = [find_input(str(file), None) for file in files]
        return Loader(log, "t", inputs, schema=schema, skip_bad=skip_bad).run().rows


def topics(folder: Path) -> list[str]:
    with Log(Config(data_dir=folder / "data")) as log:
        return list(log.topics())


def lines(folder: Path, *objects: object) -> Path:
    path = folder / "file.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return path


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"": 1}, "column '' has no name"),
        ({"a": {"b\0": 1}}, "has a NUL in its name"),
        ({"a\nb": 1}, "has a control character in its name"),
        ({"x" * 256: 1}, "a name of 256 characters"),
        ({"_offset": 1}, "'_offset' has the name of a column that Frazil adds"),
        ({"_File": 1}, "'_File' has a name that Iceberg keeps for itself"),
        ({"ID": 1}, "'id' and 'ID' differ in case only"),
        ({"a": [{"b": 1, "B": 2}]}, r"'a\.element\.b' and 'a\.element\.B' differ in case only"),
        ({"a": {"b": 1}, "a.b": 2}, r"there are two columns 'a\.b'"),
        ({f"c{i}": i for i in range(20_000)}, r"they are 20,001, .* 2,000 are the most \(`log.max_columns`\)"),
    ],
)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_line_is_named(tmp_path: Path, found: dict[str, object], message: str, skip_bad: bool) -> None:
    path = lines(tmp_path, *({"id": i} for i in range(1000)), found, *({"id": i} for i in range(1000)))
    with pytest.raises(SchemaMismatch, match=rf"file\.jsonl, line 1001: .*{message}"):
        load(tmp_path, path, skip_bad=skip_bad)
    assert topics(tmp_path) == []


def test_names_that_are_data_end_where_they_are_too_many(tmp_path: Path) -> None:
    """A block of four megabytes has so many names that a table of all its rows and columns would take gigabytes."""
    path = lines(tmp_path, *({f"name_{i}": i} for i in range(100_000)))
    with pytest.raises(SchemaMismatch, match=r"file\.jsonl, line 501: .* they are 501"):
        load(tmp_path, path, most=500)
    assert topics(tmp_path) == []


def test_files_of_columns(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "_pos": [2]})
    pq.write_table(table, tmp_path / "file.parquet")
    with pytest.raises(SchemaMismatch, match=r"file\.parquet: .*'_pos' has a name that Iceberg keeps"):
        load(tmp_path, tmp_path / "file.parquet")
    wide = pa.table({f"c{i}": [i] for i in range(11)})
    with pa.OSFile(str(tmp_path / "file.arrow"), "wb") as file, pa.ipc.new_file(file, wide.schema) as writer:
        writer.write_table(wide)
    with pytest.raises(SchemaMismatch, match=r"file\.arrow: .*they are 11"):
        load(tmp_path, tmp_path / "file.arrow", most=10)
    assert topics(tmp_path) == []
    assert load(tmp_path, tmp_path / "file.arrow", most=11) == 1


def test_a_given_schema(tmp_path: Path) -> None:
    path = lines(tmp_path, {"id": 1})
    with pytest.raises(SchemaMismatch, match=r"--schema: .*'_offset'"):
        load(tmp_path, path, schema=pa.schema([("id", pa.int64()), ("_offset", pa.int64())]))
    assert topics(tmp_path) == []


def test_rows_that_look_like_records_of_kafka(tmp_path: Path) -> None:
    path = lines(tmp_path, {"_kafka_value": 1, "_kafka_offset": 2})
    with pytest.raises(SchemaMismatch, match=r"file\.jsonl: .* mark topics that come from Kafka"):
        load(tmp_path, path)
    assert topics(tmp_path) == []


def test_a_column_that_comes_later_is_compared_with_the_topic(tmp_path: Path) -> None:
    assert load(tmp_path, lines(tmp_path, {"id": 1})) == 1
    with pytest.raises(SchemaMismatch, match=r"line 2: .*'id' and 'Id' differ in case only"):
        load(tmp_path, lines(tmp_path, {"id": 2}, {"Id": 3}))
    assert load(tmp_path, lines(tmp_path, {"id": 2})) == 1
