"""Verifies whole data files.

A file with Frazil's checksums is read once, without decoding it. In files of other writers every page is decoded, and
its checksum is verified if it has one. Damage in bytes that no checksum covers may go undetected.
"""

from __future__ import annotations

from typing import IO, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat

from frazil.lake.checksums.file_checksums import check_body, check_footer
from frazil.lake.checksums.magic_bytes import ChecksumMismatch
from frazil.lake.checksums.page_headers import has_checksum

Coverage = Literal["file", "pages", "none"]
"""This says what the checksums of a file cover: every byte, only its pages, or nothing."""

_BATCH_ROWS = 16_384
_READ_BYTES = 1024 * 1024
_HEADER_BYTES = 64
"""This many bytes of a page header are enough to see whether it has a checksum."""


class Verdict(NamedTuple):
    coverage: Coverage
    problem: str | None = None
    """This says what is wrong with the file. It is None if the checksums show no damage."""


def verify_file(io: FileIO, file: DataFile, *, footer_only: bool = False) -> Verdict:
    """Verifies a file, completely or only its footer. Errors of the storage are raised as they are."""
    if file.file_format != FileFormat.PARQUET:
        return Verdict("none")
    with io.new_input(file.file_path).open() as opened:
        stream: Any = _FailureRecordingStream(opened)
        coverage: Coverage = "none"
        try:
            _check_size(stream, file)
            checksums = check_footer(stream)
            if checksums is not None:
                coverage = "file"
                if not footer_only:
                    check_body(stream, checksums)
            else:
                coverage = _check_pages(stream, file, footer_only)
        # Flipped bits can cause almost any error.
        except Exception as error:
            if stream.failure is not None:
                raise stream.failure from error
            return Verdict(coverage, first_line(error))
    return Verdict(coverage)


def _check_size(stream: IO[bytes], file: DataFile) -> None:
    size = stream.seek(0, 2)
    if size != file.file_size_in_bytes:
        raise ChecksumMismatch(f"it has {size:,} bytes, and {file.file_size_in_bytes:,} were written")


def _check_pages(stream: IO[bytes], file: DataFile, footer_only: bool) -> Coverage:
    parquet = pq.ParquetFile(
        pa.PythonFile(stream, "r"), buffer_size=_READ_BYTES, pre_buffer=False, page_checksum_verification=True
    )
    rows = parquet.metadata.num_rows
    if rows == file.record_count and not footer_only:
        rows = sum(len(batch) for batch in parquet.iter_batches(_BATCH_ROWS))
    if rows != file.record_count:
        raise ChecksumMismatch(f"it has {rows:,} rows, and {file.record_count:,} were written")
    stream.seek(_first_page(parquet.metadata))
    return "pages" if has_checksum(stream.read(_HEADER_BYTES)) else "none"


def _first_page(metadata: pq.FileMetaData) -> int:
    if not metadata.num_row_groups:
        return 0
    column = metadata.row_group(0).column(0)
    first = column.dictionary_page_offset if column.has_dictionary_page else None
    return int(first or column.data_page_offset)


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


class _FailureRecordingStream:
    """A stream that remembers errors of the storage, because they do not mean that the file is damaged."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failure: Exception | None = None

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except Exception as error:
            self.failure = error
            raise
