"""Writes and verifies the checksums of whole data files, so that damage is detected.

Each page has Parquet's own checksum, which readers verify page by page. It covers neither the page headers nor the
footer, which says where columns are, what they mean and which values they have. So Frazil stores more checksums just
before the footer, where readers of Parquet ignore them: of each page header (`page_headers`), of everything before
the checksums, and of the footer behind them.
"""

from __future__ import annotations

from struct import Struct
from typing import IO, Any, NamedTuple

from isal.isal_zlib import crc32

from frazil.lake.checksums.magic_bytes import ChecksumMismatch, is_magic
from frazil.lake.checksums.page_headers import PageHeaderRecorder

_MARK = b"FRZLCRC1"
_SUMS = Struct("<8sII")
_MAGIC = b"PAR1"
_END = 8
"""The number of bytes behind the footer: its length, and Parquet's magic bytes."""
_FOOTER_GUESS = 64 * 1024
"""This is how many bytes are fetched for a footer at first. A larger footer costs a second request."""
_AT_A_TIME = 4 * 1024 * 1024


class Checksums(NamedTuple):
    body: int
    """The checksum of all bytes before the checksums: pages, page headers, page index and the list of headers."""
    body_bytes: int
    footer: int


class ChecksummedFile:
    """The output file of a Parquet writer. It adds the checksums when the writer is done."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._at = 0
        self._crc = 0
        self._held: bytearray | None = None
        self._headers = PageHeaderRecorder()

    def write(self, data: bytes) -> int:
        self._at += len(data)
        if self._held is None:
            self._crc = crc32(data, self._crc)
            self._headers.add(data)
            self._sink.write(data)
        else:
            self._held += data
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Does nothing: the bytes are stored when the file is closed."""

    def hold(self) -> None:
        """Buffers what is written from now on. It is the end of the file, into which the checksums are inserted."""
        self._held = bytearray()

    def close(self) -> None:
        """Writes the end of the file, if it was held back, and closes the storage."""
        if self.closed:
            return
        self.closed = True
        try:
            if self._held:
                self._write_end(bytes(self._held))
        finally:
            self._sink.close()

    def _write_end(self, end: bytes) -> None:
        at = len(end) - _END - _footer_length(end)
        headers = self._headers.packed()
        body, footer = end[:at] + headers, end[at:]
        self._crc = crc32(body, self._crc)
        self._sink.write(body + _SUMS.pack(_MARK, self._crc, crc32(footer)) + footer)
        self._at += len(headers) + _SUMS.size


def check_footer(stream: IO[bytes]) -> Checksums | None:
    """Verifies the footer of a file and returns the file's checksums, or None if it has none.

    Raises `ChecksumMismatch` if the footer is damaged.
    """
    size = stream.seek(0, 2)
    tail = _last(stream, size, _FOOTER_GUESS)
    needed = _SUMS.size + _footer_length(tail) + _END if tail.endswith(_MAGIC) else size + 1
    if len(tail) < needed <= size:
        tail = _last(stream, size, needed)
    stream.seek(0)
    if needed > size:
        return None
    mark, body, footer = _SUMS.unpack_from(tail, len(tail) - needed)
    if not is_magic(mark, _MARK):
        return None
    if crc32(tail[_SUMS.size - needed :]) != footer:
        raise ChecksumMismatch("its footer does not match its checksum")
    return Checksums(body, size - needed, footer)


def check_body(stream: IO[bytes], checksums: Checksums) -> None:
    """Reads everything before the checksums, and raises `ChecksumMismatch` if it is damaged."""
    stream.seek(0)
    left, crc = checksums.body_bytes, 0
    while left and (data := stream.read(min(left, _AT_A_TIME))):
        crc = crc32(data, crc)
        left -= len(data)
    if left or crc != checksums.body:
        raise ChecksumMismatch("its pages do not match the checksum of the file")


def _footer_length(end: bytes) -> int:
    return int.from_bytes(end[-_END:-4], "little")


def _last(stream: IO[bytes], size: int, count: int) -> bytes:
    stream.seek(max(0, size - count))
    return bytes(stream.read(min(size, count)))
