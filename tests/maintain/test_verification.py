"""Tests that verification finds damaged files and files without checksums, and that no damaged file is rewritten."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from frazil.config.sections.maintenance import CompactionConfig
from frazil.errors import TableDamaged
from frazil.lake.catalog.lake import Lake
from frazil.lake.catalog.spark import spark_catalog_name
from frazil.lake.checksums.verification import verify_file
from frazil.lake.commit.attempts import attempt_folder
from frazil.lake.commit.complete_offsets import complete_from
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.compaction.spark_rewrite import rewrite_with_spark
from frazil.maintain.operations import run_operation
from frazil.maintain.rewrite.tasks import rewrite_here
from frazil.maintain.verification import verify_table
from tests.lake.checksums.damage import bit_of_column, data_paths, flip
from tests.lake.commit.commits import NAME, live_files, make_lake, make_table, read_rows, span
from tests.maintain.support import DAILY, DAYS, SparkFor, append_days, maintenance_context, make_daily, move


def daily(folder: Path, files: int) -> tuple[Lake, Table]:
    """Makes a table of this many files as tasks write them, all of one day."""
    lake = make_lake(folder, synced=False)
    make_daily(lake)
    for _ in range(files):
        append_days(lake, [3], rows=50)
    return lake, lake.load(DAILY)


def test_files_are_told_apart_by_their_checksums(tmp_path: Path) -> None:
    lake, table = daily(tmp_path, 3)
    context = maintenance_context(lake)
    found = verify_table(context, table)
    assert (found.files, found.damaged, found.only_pages, found.without) == (3, {}, [], [])

    make_table(lake, {0: 0})
    other = move(lake, 2)
    found = verify_table(context, other)
    assert len(found.without) == 2
    assert all(name.startswith("frazil/events/data/") for name in found.without)


@pytest.mark.parametrize("quick", [False, True])
def test_damaged_files_are_found_by_name(tmp_path: Path, quick: bool) -> None:
    lake, table = daily(tmp_path, 3)
    page, footer, gone = data_paths(table)
    flip(page, bit_of_column(page, "id"))
    flip(footer, 8 * (footer.stat().st_size - 40))
    gone.unlink()
    damaged = verify_table(maintenance_context(lake), table, quick=quick).damaged
    expected = (
        {footer: "footer", gone: "not there"} if quick else {page: "pages", footer: "footer", gone: "not there"}
    )
    assert damaged.keys() == {f"frazil/daily/data/{each.parent.name}/{each.name}" for each in expected}
    for path, problem in expected.items():
        assert problem in damaged[f"frazil/daily/data/{path.parent.name}/{path.name}"]


def test_a_table_goes_on_without_its_damaged_files(tmp_path: Path) -> None:
    lake, table = daily(tmp_path, 4)
    second = sorted(data_paths(table), key=lambda path: pq.read_table(path)[OFFSET][0].as_py())[1]
    flip(second, bit_of_column(second, "id"))
    context = maintenance_context(lake)
    assert verify_table(context, table).dropped is False
    assert len(live_files(lake.load(DAILY))) == 4, "nothing is dropped that nobody asked to drop"
    assert verify_table(context, table, drop_damaged=True).dropped is True
    after = lake.load(DAILY)
    assert verify_table(context, after).damaged == {}
    assert sorted(after.scan().to_arrow()[OFFSET].to_pylist()) == [*range(50), *range(100, 200)]
    assert complete_from(after) == {0: 100}, "who follows the table by offsets must learn that rows are gone"
    assert second.exists(), "it may still be restored, and the snapshots before are as they were"


def test_compaction_refuses_damaged_files_and_changes_nothing(tmp_path: Path) -> None:
    lake, table = daily(tmp_path, 6)
    for number, path in enumerate(data_paths(table)[2:4]):
        flip(path, bit_of_column(path, "id") + number)
    report = run_operation(maintenance_context(lake), Compaction(CompactionConfig(), rewrite_here), DAYS)
    assert report.outcome == "failed"
    assert isinstance(report.error, TableDamaged)
    assert data_paths(table)[2].name in report.work.note
    assert lake.load(DAILY).metadata_location == table.metadata_location


def test_what_spark_writes_has_checksums_of_pages(tmp_path: Path, spark_for: SparkFor) -> None:
    lake = make_lake(tmp_path)
    make_table(lake, {0: 0})
    move(lake, 6)
    spark = spark_for(lake.config)
    context = maintenance_context(lake, spark=spark)
    assert rewrite_with_spark(context, lake.load(NAME), CompactionConfig()).outcome == "done"
    table = lake.load(NAME)
    found = verify_table(context, table)
    assert (len(found.only_pages), found.without, found.damaged) == (1, [], {})
    assert read_rows(lake) == span(0, 0, 60)
    (path,) = data_paths(table)
    flip(path, bit_of_column(path, "text"))
    assert len(verify_table(context, table).damaged) == 1


def test_spark_verifies_pages_of_local_files(tmp_path: Path, spark_for: SparkFor) -> None:
    """Spark reads the original files once more after they were verified."""
    lake, table = daily(tmp_path, 1)
    spark = spark_for(lake.config)
    (path,) = data_paths(table)
    name = f"{spark_catalog_name(lake.config)}.frazil.daily"
    assert spark.table(name).count() == 50
    flip(path, bit_of_column(path, "id"))
    with pytest.raises(Exception, match="CRC checksum"):
        spark.table(name).collect()


def test_a_large_footer_is_verified_whole(tmp_path: Path) -> None:
    """The footer is longer than what is fetched of a file's end at first."""
    _, table = daily(tmp_path, 0)
    metadata = table.metadata
    metadata.properties["write.parquet.row-group-limit"] = "1"
    writer = DataFileWriter(table.io, metadata, attempt_folder(metadata.location, "attempt"), 0)
    columns = {"ts": [0] * 300, "id": range(300), PARTITION: [0] * 300, OFFSET: range(300)}
    kinds = {field.name: field.type for field in writer.schema}
    writer.write(pa.RecordBatch.from_pydict({key: pa.array(columns[key], kinds[key]) for key in columns}))
    (file,) = writer.close()
    path = Path(file.file_path.removeprefix("file://"))
    footer = int.from_bytes(path.read_bytes()[-8:-4], "little")
    assert footer > 64 * 1024
    assert verify_file(table.io, file) == ("file", None)
    flip(path, 8 * (path.stat().st_size - footer))
    assert "footer" in (verify_file(table.io, file, footer_only=True).problem or "")
