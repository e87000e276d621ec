"""Whether a whole data file is as it was written.

A file with checksums of its own is read once and nothing of it is decoded. Of other writers' files every page is
decoded, with its checksum verified where it has one; what nothing covers cannot be told.
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
"""What the checksums of a file cover: every byte, its pages only, or nothing."""

_BATCH_ROWS = 16_384
_READ_BYTES = 1024 * 1024
_HEADER_BYTES = 64
"""At least those of a page's header that tell whether it has a checksum."""


class Verdict(NamedTuple):
    coverage: Coverage
    problem: str | None = None
    """What is wrong with the file; None when nothing is, as far as its checksums tell."""


def verify_file(io: FileIO, file: DataFile, *, footer_only: bool = False) -> Verdict:
    """Read a file, all of it or its footer only. Errors of the storage come out as they are."""
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
        # Flipped bits come out as almost any error.
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
    """A file that remembers when its storage failed, which is not what is wrong with the file."""

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
