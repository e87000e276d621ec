"""Texts that repeat are read as dictionaries on request, and are the same texts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.types as types
import pytest
from hypothesis import HealthCheck, given, settings

from frazil.log.schema.schema import plain, without_dictionaries
from frazil.store.local import LocalStore
from tests.examples import examples
from tests.lake.random_topics import batches
from tests.log.support import reader, writer

_TAGS = pa.map_(pa.string(), pa.string())


def _seal(store: LocalStore, folder: Path, *given: pa.RecordBatch) -> None:
    w = writer(store, folder, schema=given[0].schema)
    for batch in given:
        w.append(batch)
        w.seal()
    w.close()


def _shown(rows: pa.RecordBatch) -> list[list[str]]:
    """NaN equals nothing, and nanoseconds have no Python type."""
    return [list(map(str, column)) for column in rows.columns]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=batches())
def test_any_rows_are_the_same(tmp_path_factory: pytest.TempPathFactory, rows: pa.RecordBatch) -> None:
    folder = tmp_path_factory.mktemp("log")
    store = LocalStore(folder / "store")
    _seal(store, folder, rows, rows)
    usual = list(reader(store).read(0))
    found = list(reader(store).read(0, dictionaries=True))
    for one, other in zip(usual, found, strict=True):
        assert one.offset == other.offset
        same = without_dictionaries(other.batch)
        assert same.schema.equals(one.batch.schema)
        assert _shown(same) == _shown(one.batch)
        for column in plain(rows.schema):
            if types.is_string(column.type):
                assert types.is_dictionary(other.batch.schema.field(column.name).type)


def test_texts_that_are_all_different_are_read_as_they_are(local_store: LocalStore, tmp_path: Path) -> None:
    count = 50_000
    rows = pa.record_batch(
        {
            "level": pa.array(["info", "error"] * (count // 2)),
            "line": pa.array([f"{number:064d}" for number in range(count)]),
            "tags": pa.array([[("pod", f"pod-{number % 9}")] for number in range(count)], _TAGS),
        }
    )
    _seal(local_store, tmp_path, rows)
    first = next(reader(local_store).read(0, dictionaries=True)).batch.schema
    assert types.is_dictionary(first.field("level").type)
    assert types.is_string(first.field("line").type)
    assert types.is_dictionary(first.field("tags").type.key_type)
    assert types.is_dictionary(first.field("tags").type.item_type)


def test_older_records_get_the_columns_of_newer_ones(local_store: LocalStore, tmp_path: Path) -> None:
    inner = pa.struct([("name", pa.string()), ("size", pa.int32())])
    grown = pa.struct([("name", pa.string()), ("size", pa.int64()), ("kind", pa.string())])
    old = pa.record_batch({"part": pa.array([{"name": "a", "size": 1}, None], inner), "text": pa.array(["x", "y"])})
    new = pa.record_batch(
        {
            "part": pa.array([{"name": "b", "size": 2**40, "kind": "k"}], grown),
            "text": pa.array(["x"]),
            "more": pa.array(["z"]),
        }
    )
    _seal(local_store, tmp_path, old, new)
    found = [row for run in reader(local_store).read(0, dictionaries=True) for row in run.batch.to_pylist()]
    assert found == [
        {"part": {"name": "a", "size": 1, "kind": None}, "text": "x", "more": None},
        {"part": None, "text": "y", "more": None},
        {"part": {"name": "b", "size": 2**40, "kind": "k"}, "text": "x", "more": "z"},
    ]


def test_segments_of_several_row_groups_are_read_as_they_are(local_store: LocalStore, tmp_path: Path) -> None:
    """Parquet's writer begins another row group after a million rows."""
    count = 1_100_000
    offsets = pa.array(range(count + 1), pa.int32())
    tags = pa.ListArray.from_arrays(offsets, pa.array(["x", "y"] * (count // 2)))
    _seal(local_store, tmp_path, pa.record_batch({"tags": tags, "text": pa.array(["a"] * count)}))
    found = [run.batch for run in reader(local_store).read(0, dictionaries=True)]
    assert pa.Table.from_batches(found).column("tags").combine_chunks().equals(tags)
