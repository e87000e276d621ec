"""Tests that rewritten files have the same rows, in the table's order, without deleted ones."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from frazil.errors import ParquetWrite, TableDamaged
from frazil.lake.commit.attempts import attempt_folder
from frazil.lake.write.data_files import DataFileWriter
from frazil.lake.write.sorting import Sorter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.rewrite import merge as merging
from frazil.maintain.rewrite import rewriting, sorted_runs
from frazil.maintain.rewrite.rewriting import FileGroup, RewriteJob, rewrite
from frazil.maintain.rewrite.row_checksum import RowChecksum
from frazil.scan.table.data_files import TableFile
from tests.examples import examples
from tests.lake.commit.commits import make_lake
from tests.maintain.support import make_daily

ATTEMPT = "20270115T080000000-00000001"
ORDERS = [[], ["id"], ["id desc nulls first", "ts"], ["ts desc nulls last"], ["bucket(4, id)", "ts"]]


def table_in(folder: Path, sort_by: list[str]) -> Table:
    return make_daily(make_lake(folder, synced=False), partition_by=[], sort_by=sort_by)


def rows_of(rng: random.Random, start: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "ts": pa.array(
                [None if rng.random() < 0.1 else rng.randrange(50) for _ in range(count)], pa.timestamp("us", "UTC")
            ),
            "id": pa.array([None if rng.random() < 0.1 else rng.randrange(-9, 9) for _ in range(count)], pa.int64()),
            PARTITION: pa.array([0] * count, pa.int32()),
            OFFSET: pa.array(range(start, start + count), pa.int64()),
        }
    )


def written(table: Table, number: int, rows: pa.RecordBatch) -> DataFile:
    folder = attempt_folder(table.metadata.location, f"20270101T000000000-{number:08x}")
    with DataFileWriter(table.io, table.metadata, folder, 0) as writer:
        writer.write(rows)
        (file,) = writer.close()
    return file


def deleting(table: Table, file: DataFile, places: list[int]) -> DataFile:
    """Writes a file that says which rows of another were deleted."""
    path = f"{file.file_path}-deletes.parquet"
    rows = pa.table(
        {"file_path": [file.file_path] * len(places), "pos": pa.array(places, pa.int64())},
        schema=pa.schema(
            [
                pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
                pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
            ]
        ),
    )
    with table.io.new_output(path).create() as stream:
        pq.write_table(rows, stream)
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(places),
        file_size_in_bytes=len(table.io.new_input(path)),
    )


def read(file: DataFile) -> pa.Table:
    return pq.read_table(file.file_path.removeprefix("file://"))


@settings(max_examples=examples(25))
@given(
    st.integers(0, 2**32),
    st.sampled_from(ORDERS),
    st.lists(st.integers(1, 60), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_rows_stay_and_are_in_order(
    seed: int, sort_by: list[str], counts: list[int], with_deletes: bool, lying: bool
) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewriting, "_FEWEST_ROWS", 4)
        patch.setattr(rewriting, "_MERGE_BYTES", 64)
        patch.setattr(sorted_runs, "RUN_BYTES", 300)
        table = table_in(Path(folder), sort_by)
        unsorted = table_in(Path(folder) / "other", [])
        files, expected, start = [], [], 0
        for number, count in enumerate(counts):
            rows = rows_of(rng, start, count)
            in_order = rng.random() < 0.5
            file = written(table if in_order else unsorted, number, rows)
            if lying and not in_order:
                file[len(file) - 1] = table.metadata.default_sort_order_id
            gone = sorted(rng.sample(range(count), rng.randrange(count))) if with_deletes else []
            deletes = (deleting(table, file, gone),) if gone else ()
            files.append(TableFile(file, deletes, ()))
            expected.append(read(file).take([at for at in range(count) if at not in gone]))
            start += count
        done = rewrite(RewriteJob.of(table, ATTEMPT), FileGroup(tuple(files)), "00007").files
        whole = pa.concat_tables(expected)
        found = [read(file) for file in done]
        assert sum(len(each) for each in found) == len(whole)
        if not done:
            return
        sorter = Sorter(table.metadata.sort_order(), table.schema())
        for file, rows_found in zip(done, found, strict=True):
            assert sorter.in_order(rows_found)
            assert file.record_count == len(rows_found)
            assert file.sort_order_id == table.metadata.default_sort_order_id
        both = pa.concat_tables(found)
        key = [(OFFSET, "ascending")]
        assert both.sort_by(key).equals(whole.select(both.column_names).sort_by(key))


def test_a_damaged_file_is_not_read(tmp_path: Path) -> None:
    table = table_in(tmp_path, ["id"])
    files = [written(table, number, rows_of(random.Random(number), number * 50, 50)) for number in range(2)]
    path = Path(files[1].file_path.removeprefix("file://"))
    data = bytearray(path.read_bytes())
    data[100] ^= 4
    path.write_bytes(data)
    group = FileGroup(tuple(TableFile(file, (), ()) for file in files))
    with pytest.raises(TableDamaged, match="00000001"):
        rewrite(RewriteJob.of(table, ATTEMPT), group, "00000")


def test_other_rows_are_never_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If rows were lost on the way, the new files are removed and the error says so."""
    table = table_in(tmp_path, ["id"])
    files = [written(table, number, rows_of(random.Random(number), number * 50, 50)) for number in range(2)]
    group = FileGroup(tuple(TableFile(file, (), ()) for file in files))
    plain = merging.merge
    monkeypatch.setattr(rewriting, "merge", lambda *given: (rows.slice(1) for rows in plain(*given)))
    with pytest.raises(ParquetWrite, match=r"would have changed its rows \(100 rows .* 9\d with"):
        rewrite(RewriteJob.of(table, ATTEMPT), group, "00000")
    assert not list(Path(table.metadata.location.removeprefix("file://")).rglob(f"{ATTEMPT}/*"))


def test_checksums_of_equal_rows_are_equal(tmp_path: Path) -> None:
    rows = rows_of(random.Random(1), 0, 9)
    one, other = RowChecksum(), RowChecksum()
    one.add(rows)
    other.add(rows.take(pa.array(range(8, -1, -1))))
    assert one == other
