"""Checksums of data files, so that a damaged file is noticed instead of read.

Each page has Parquet's own checksum, which readers verify page by page. It covers neither the headers of pages nor
the footer, which says where columns are, what they mean and which values they have. So a file has more of them just
before its footer, where no reader of Parquet looks for anything: of each page's header (`pageheaders`), of all that
stands before them, and of the footer behind them.
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
"""Bytes behind the footer: its length, and the magic bytes."""
_FOOTER_GUESS = 64 * 1024
"""Bytes that are fetched for a footer at first; a larger one costs a second request."""
_AT_A_TIME = 4 * 1024 * 1024


class Checksums(NamedTuple):
    body: int
    """Of all bytes before the checksums: pages with their headers, the page index, and the list of headers."""
    body_bytes: int
    footer: int


class ChecksummedFile:
    """Where a Parquet writer writes to. The checksums come in when the writer is done."""

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
        """What has been written goes to the storage when the file is closed."""

    def hold(self) -> None:
        """Keep back what comes from now on: the end of the file, in which the checksums get their place."""
        self._held = bytearray()

    def close(self) -> None:
        """Write the end of the file, if it is complete, and close the storage."""
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
    """The checksums of a file, after its footer was found right by them; None of a file that has none.

    `ChecksumMismatch` when the footer is damaged.
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
    """Read all that stands before the checksums. `ChecksumMismatch` when it is damaged."""
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
