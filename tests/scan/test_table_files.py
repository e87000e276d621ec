from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.errors import StorageError
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.table_files import FileReader, plan_files
from tests.scan.support import Topic, offsets, span


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Topic]:
    with Topic(tmp_path) as log:
        log.create(0, 1)
        for partition in (0, 1):
            for end in (10, 20, 30):
                log.seal(10, partition)
                log.move(end, partition)
        yield log


@pytest.mark.parametrize(
    ("ranges", "files"),
    [
        (None, 6),
        ({}, 0),
        ({0: OffsetRange(5, 5)}, 0),
        ({0: OffsetRange(12, 14)}, 1),
        ({0: OffsetRange(0, 11), 1: OffsetRange(29, 30)}, 3),
        ({0: OffsetRange(30, 40)}, 0),
    ],
)
def test_files_without_such_offsets_are_not_read(
    log: Topic, ranges: dict[int, OffsetRange] | None, files: int
) -> None:
    table = log.lake.load(log.name)
    found = plan_files(table, ranges)
    assert len(found) == files
    rows = offsets(FileReader.of(table, ranges).read(found, table.schema()))
    wanted = {0: OffsetRange(0, 30), 1: OffsetRange(0, 30)} if ranges is None else ranges
    expected = [row for partition, each in wanted.items() for row in span(partition, each.start, min(each.end, 30))]
    assert sorted(rows) == expected


def test_a_file_that_is_gone_is_named(log: Topic) -> None:
    table = log.lake.load(log.name)
    (task,) = plan_files(table, {1: OffsetRange(3, 4)})
    table.io.delete(task.file.file_path)
    with pytest.raises(StorageError, match=r"Reading table frazil\.orders: .*parquet"):
        list(FileReader.of(table, None).read([task], table.schema()))
