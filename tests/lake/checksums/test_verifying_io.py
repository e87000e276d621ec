"""Tests that a damaged data file is an error that names the file, and never a wrong answer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions.parser import parse
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from frazil.errors import FrazilError, IcebergError, StorageError, TableDamaged
from frazil.lake.catalog.lake import Lake
from frazil.lake.checksums.file_checksums import check_footer
from frazil.lake.checksums.page_headers import PageHeaders
from frazil.lake.checksums.verification import verify_file
from frazil.lake.checksums.verifying_io import VerifyingFileIO, check_files
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.files import normalized_path
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.table_files import FileReader
from frazil.topics.messages import MESSAGE, Message, to_batch
from frazil.topics.read.data_file import ColumnIds
from frazil.topics.read.data_file import DataFile as MessageFile
from tests.lake.checksums.damage import flip, flipped
from tests.lake.support import local_config, make_base_table
from tests.servers.shared import S3Server

ROWS = 600
HEADER_BYTES = 40
"""The largest size of a page header. In files of other writers all columns have one page in each row group."""
MARK = b"FRZLCRC1"
NAMED = "Data file frazil/orders/data/attempt/00000-00000.parquet of table frazil.orders is damaged"
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("body", pa.string()),
        ("level", pa.string()),
        ("number", pa.int64()),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("tags", pa.list_(pa.string())),
    ]
)


def records(rng: random.Random) -> pa.RecordBatch:
    words = [f"word{number}" for number in range(50)]
    columns: dict[str, Any] = {
        "time": [1_700_000_000_000_000 + 1000 * number for number in range(ROWS)],
        "body": [" ".join(rng.choices(words, k=6)) for _ in range(ROWS)],
        "level": rng.choices(["info", "warn", "error"], k=ROWS),
        "number": [None if rng.random() < 0.1 else rng.getrandbits(60) for _ in range(ROWS)],
        "attributes": [[(f"k{at}", rng.choice(words)) for at in range(number % 4)] for number in range(ROWS)],
        "tags": [None if number % 7 == 0 else rng.choices(words, k=number % 3) for number in range(ROWS)],
    }
    batch = pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
    batch = batch.append_column(PARTITION, pa.array(np.zeros(ROWS, np.int32)))
    return batch.append_column(OFFSET, pa.array(range(ROWS), pa.int64()))


class OneFile:
    """A table with one data file as tasks write them, with two row groups of a few pages in each column."""

    def __init__(self, folder: Path, seed: int, **settings: Any) -> None:
        self.table: Table = make_base_table(Lake(local_config(folder, **settings)), schema=SCHEMA)
        metadata = self.table.metadata
        metadata.properties["write.parquet.row-group-limit"] = str(ROWS // 2)
        metadata.properties["write.parquet.page-row-limit"] = str(ROWS // 6)
        writer = DataFileWriter(self.table.io, metadata, f"{metadata.location}/data/attempt", 0)
        writer.write(records(random.Random(seed)))
        (self.file,) = writer.close()
        self.path = Path(normalized_path(self.file.file_path))

    def read(self, spans: dict[int, OffsetRange] | None = None, where: str | None = None) -> pa.Table:
        reader = FileReader.of(self.table, spans, parse(where or "true"))
        batches = list(reader.read([FileScanTask(self.file)], self.table.schema()))
        return pa.Table.from_batches(batches) if batches else None

    def answers(self) -> list[pa.Table]:
        """Reads everything, rows of some offsets, and rows chosen by other columns."""
        some = {0: OffsetRange(ROWS // 3, ROWS // 3 + 50)}
        return [self.read(), self.read(some), self.read(where="level == 'error' and number > 1000")]

    def answers_or_error(self) -> list[pa.Table] | FrazilError:
        try:
            return self.answers()
        except FrazilError as error:
            return error


@pytest.fixture
def one(tmp_path: Path, seed: int) -> OneFile:
    return OneFile(tmp_path, seed)


def everywhere(path: Path, rng: random.Random, count: int) -> list[int]:
    """Returns random bits of a file: this many in its pages, and as many at its end, which is much smaller."""
    data = path.read_bytes()
    end = data.index(MARK) * 8
    return rng.sample(range(end), count) + rng.sample(range(end, len(data) * 8), count)


def headers_of(path: Path) -> PageHeaders:
    with path.open("rb") as stream:
        checksums = check_footer(stream)
        assert checksums is not None
        found = PageHeaders.read(stream, checksums.body_bytes)
    assert found is not None
    return found


def is_in_header(path: Path, bit: int) -> bool:
    """Returns whether a bit may be in the header of a data page, which nothing covers in files of other writers."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    starts = [group.column(at).data_page_offset for group in groups for at in range(group.num_columns)]
    return any(start <= bit // 8 < start + HEADER_BYTES for start in starts)


def test_a_read_is_right_or_names_the_file(one: OneFile, seed: int) -> None:
    expected = one.answers()
    told = 0
    for bit in everywhere(one.path, random.Random(seed), 100):
        with flipped(one.path, bit):
            found = one.answers_or_error()
            told += isinstance(found, TableDamaged)
            assert found == expected or NAMED in str(found), (bit, found)
    assert told > 150
    assert one.answers() == expected


def test_every_page_header_is_listed(one: OneFile) -> None:
    metadata = pq.read_metadata(one.path)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
    starts = {each.start for each in headers_of(one.path).header_ranges()}
    assert {chunk.data_page_offset for chunk in chunks} <= starts
    assert {chunk.dictionary_page_offset for chunk in chunks if chunk.has_dictionary_page} <= starts
    assert len(starts) > 3 * len(chunks)


def test_a_flipped_bit_of_a_page_header_is_damage(one: OneFile, seed: int) -> None:
    rng = random.Random(seed)
    for header in headers_of(one.path).header_ranges():
        bits = rng.sample(range(8 * header.start, 8 * header.stop), 2)
        with flipped(one.path, bits[0]):
            assert isinstance(one.answers_or_error(), TableDamaged), bits
            with flipped(one.path, bits[1]):
                assert isinstance(one.answers_or_error(), TableDamaged), bits


def test_a_flipped_bit_of_a_mark_is_damage(one: OneFile) -> None:
    """The file is not taken for one without checksums."""
    data = one.path.read_bytes()
    for mark in (MARK, b"FRZLPAG1"):
        start = 8 * data.index(mark)
        for bit in range(start, start + 8 * len(mark)):
            with flipped(one.path, bit):
                assert isinstance(one.answers_or_error(), TableDamaged), (mark, bit)
                assert verify_file(one.table.io, one.file).problem is not None


def test_headers_are_verified_however_a_file_is_cut_into_reads(one: OneFile, seed: int) -> None:
    rng = random.Random(seed)
    headers = headers_of(one.path)
    header = rng.choice(headers.header_ranges())
    size = one.path.stat().st_size
    with flipped(one.path, rng.randrange(8 * header.start, 8 * header.stop)), one.path.open("rb") as stream:
        for _ in range(200):
            start = rng.randrange(size)
            length = rng.randrange(1, 3 * HEADER_BYTES)
            stream.seek(start)
            data = stream.read(length)
            if start < header.stop and header.start < start + len(data):
                with pytest.raises(ValueError, match=f"page at byte {header.start:,}"):
                    headers.check(start, data, stream)
            else:
                headers.check(start, data, stream)


def test_messages_are_read_from_files_whose_headers_are_right(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table = make_base_table(Lake(local_config(tmp_path)), schema=MESSAGE)
    table.metadata.properties["write.parquet.page-row-limit"] = str(ROWS // 6)
    messages = [Message(rng.randbytes(rng.randrange(200)), routing_key=rng.choice([None, "a"])) for _ in range(ROWS)]
    batch = to_batch(messages, 1_700_000_000_000)
    batch = batch.append_column(PARTITION, pa.array(np.zeros(ROWS, np.int32)))
    batch = batch.append_column(OFFSET, pa.array(range(ROWS), pa.int64()))
    writer = DataFileWriter(table.io, table.metadata, f"{table.metadata.location}/data/attempt", 0)
    writer.write(batch)
    (file,) = writer.close()
    path = Path(normalized_path(file.file_path))

    def read() -> list[pa.RecordBatch]:
        opened = MessageFile(VerifyingFileIO.of(table), FileScanTask(file), ColumnIds.of(table), 0)
        try:
            return [rows.batch for rows in opened.ordered(0)]
        finally:
            opened.close()

    assert sum(map(len, read())) == ROWS
    for header in headers_of(path).header_ranges():
        with flipped(path, rng.randrange(8 * header.start, 8 * header.stop)), pytest.raises(TableDamaged):
            read()


def test_verification_finds_every_flipped_bit(one: OneFile, seed: int) -> None:
    assert verify_file(one.table.io, one.file) == ("file", None)
    for bit in everywhere(one.path, random.Random(seed), 400):
        with flipped(one.path, bit):
            assert verify_file(one.table.io, one.file).problem is not None, bit


def test_a_file_that_was_cut_short_or_replaced_is_damaged(one: OneFile) -> None:
    whole = one.path.read_bytes()
    one.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableDamaged, match=r"bytes, and .* were written"):
        one.read()
    one.path.write_bytes(b"")
    with pytest.raises(TableDamaged):
        one.read()
    other = pa.table({"id": [1, 2, 3]})
    pq.write_table(other, one.path)
    assert verify_file(one.table.io, one.file).problem is not None


def test_a_file_with_a_column_of_another_type_is_named(one: OneFile) -> None:
    """The wrong footer of another writer's file may have such a type, and no checksum covers it."""
    rows = pq.read_table(one.path)
    at = rows.schema.get_field_index("level")
    field = pa.field("level", pa.int32(), metadata=rows.schema.field(at).metadata)
    pq.write_table(rows.set_column(at, field, pa.array(range(ROWS), pa.int32())), one.path)
    one.file = _of_size(one.file, one.path.stat().st_size)
    with pytest.raises(
        IcebergError, match=r"data/attempt/00000-00000\.parquet of table frazil\.orders cannot be read"
    ):
        one.read()


def test_a_file_that_is_gone_is_not_damaged(one: OneFile) -> None:
    one.path.unlink()
    with pytest.raises(StorageError) as caught:
        one.read()
    assert not isinstance(caught.value, TableDamaged)


def test_other_readers_of_parquet_read_files_with_checksums(one: OneFile) -> None:
    expected = pq.read_table(one.path, page_checksum_verification=True)
    assert len(expected) == ROWS
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT body, number FROM '{one.path}' ORDER BY {OFFSET}").fetchall()
    assert found == list(zip(*(expected[name].to_pylist() for name in ("body", "number")), strict=True))
    assert pl.read_parquet(one.path)["body"].to_list() == expected["body"].to_pylist()


@pytest.mark.parametrize("checksums", [True, False])
def test_files_of_other_writers_are_verified_as_far_as_they_can_be(one: OneFile, seed: int, checksums: bool) -> None:
    rows = pq.read_table(one.path)
    pq.write_table(rows, one.path, write_page_checksum=checksums)
    one.file = _of_size(one.file, one.path.stat().st_size)
    assert verify_file(one.table.io, one.file) == ("pages" if checksums else "none", None)
    expected = one.answers()
    metadata = pq.read_metadata(one.path)
    last = metadata.row_group(0).column(metadata.num_columns - 1)
    pages = range(8 * 4, 8 * last.data_page_offset)
    wrong = 0
    bits = random.Random(seed).sample(pages, 100)
    for bit in (each for each in bits if not is_in_header(one.path, each)):
        with flipped(one.path, bit):
            found = one.answers_or_error()
            wrong += not isinstance(found, TableDamaged) and found != expected
            assert not isinstance(found, TableDamaged) or NAMED in str(found)
    assert not (wrong and checksums)


def _of_size(file: DataFile, size: int) -> DataFile:
    names = ("content", "file_path", "file_format", "partition", "record_count")
    same = {name: getattr(file, name) for name in names}
    resized = DataFile.from_args(**same, file_size_in_bytes=size)
    resized.spec_id = file.spec_id
    return resized


def test_damage_in_one_of_several_files_names_that_one(tmp_path: Path) -> None:
    one = OneFile(tmp_path, 1)
    second = DataFileWriter(one.table.io, one.table.metadata, f"{one.table.metadata.location}/data/later", 0)
    second.write(records(random.Random(2)))
    (other,) = second.close()
    flip(Path(normalized_path(other.file_path)), 8 * 5000)
    with pytest.raises(TableDamaged, match=r"data/later/00000-00000\.parquet"):
        check_files(one.table, [one.file, other])


def test_objects_of_a_store_are_verified_as_files_are(
    tmp_path: Path, s3_server: S3Server, s3_prefix: str, seed: int
) -> None:
    one = OneFile(tmp_path, seed, store=s3_server.config(s3_prefix))
    assert one.file.file_path.startswith("s3://")
    assert verify_file(one.table.io, one.file) == ("file", None)
    with one.table.io.new_input(one.file.file_path).open() as stream:
        data = bytes(stream.read())

    def put(bit: int | None) -> None:
        damaged = bytearray(data)
        if bit is not None:
            damaged[bit // 8] ^= 1 << bit % 8
        with one.table.io.new_output(one.file.file_path).create(overwrite=True) as sink:
            sink.write(bytes(damaged))

    footer = 8 * (data.index(MARK) + 20)
    for bit in (footer, 8 * len(data) // 3):
        put(bit)
        with pytest.raises(TableDamaged, match="frazil/orders/data/attempt"):
            one.read()
        assert verify_file(one.table.io, one.file).problem is not None
    put(None)
    assert len(one.read()) == ROWS
