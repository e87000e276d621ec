"""Checksums of page headers, which Parquet's own page checksums do not cover.

A header says how many values its page has, how they are encoded and whether there is a checksum at all. With a wrong
header, the same bytes decode to other values. Frazil's writer stores a list of all headers with their checksums
behind the pages. A reader compares the bytes that it fetches with that list, so it fetches nothing more and no other
column.
"""

from __future__ import annotations

from struct import Struct
from typing import IO, Any

import numpy as np
from isal.isal_zlib import crc32

from frazil.lake.checksums.magic_bytes import ChecksumMismatch, is_magic

_MARK = b"FRZLPAG1"
_END = Struct("<8sII")
"""The end of the list: the magic bytes, the number of pages, and the checksum of the list before it."""
_ENTRY = np.dtype([("header", "<u2"), ("page", "<u4"), ("crc", "<u4")])
"""The entry of one page: the size of its header, the size of the page, and the checksum of the header."""
_FIRST = 4
"""The first page begins behind Parquet's magic bytes, and the others follow without a gap."""
_LONGEST = 2**16 - 1
_NUMBER = 0x15
"""The byte by which Thrift marks a field with the next field id and the type 32-bit integer."""


class PageHeaderRecorder:
    """Collects the page headers while a file is written. The writer writes each header and each page separately."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int]] = []
        self._at = 0
        self._page_end = _FIRST

    def add(self, data: bytes) -> None:
        """Adds the bytes of the next write."""
        if self._at == self._page_end and data:
            size = page_bytes(data)
            if size is not None and len(data) <= _LONGEST:
                self._entries.append((len(data), size, crc32(data)))
                self._page_end += len(data) + size
        self._at += len(data)

    def packed(self) -> bytes:
        """Returns the list for the file. It is empty if the writes did not look like headers and pages."""
        if self._at != self._page_end:
            return b""
        entries = np.array(self._entries, _ENTRY).tobytes()
        return entries + _END.pack(_MARK, len(self._entries), crc32(entries))


class PageHeaders:
    """The positions of the page headers of a file, and their checksums."""

    def __init__(self, entries: Any) -> None:
        ends = _FIRST + np.cumsum(entries["header"].astype(np.int64) + entries["page"])
        self._starts = ends - entries["page"] - entries["header"]
        self._ends = ends - entries["page"]
        self._crcs = entries["crc"]

    @classmethod
    def read(cls, stream: IO[bytes], end: int) -> PageHeaders | None:
        """Reads the list that ends at this byte of the file. Returns None if there is no list."""
        if end < _END.size:
            return None
        stream.seek(end - _END.size)
        mark, count, crc = _END.unpack(stream.read(_END.size))
        if not is_magic(mark, _MARK):
            return None
        size = count * _ENTRY.itemsize
        stream.seek(max(0, end - _END.size - size))
        entries = bytes(stream.read(size))
        if crc32(entries) != crc or len(entries) != size:
            raise ChecksumMismatch("the list of its pages does not match its checksum")
        return cls(np.frombuffer(entries, _ENTRY))

    def header_ranges(self) -> list[range]:
        """Returns the positions of the bytes of each header."""
        return [range(start, end) for start, end in zip(self._starts.tolist(), self._ends.tolist(), strict=True)]

    def check(self, at: int, data: bytes, stream: IO[bytes]) -> None:
        """Verifies the headers in these bytes of the file. A header that is only partly in them is read again."""
        first = int(np.searchsorted(self._ends, at, "right"))
        last = int(np.searchsorted(self._starts, at + len(data), "left"))
        view = memoryview(data)
        wanted = slice(first, last)
        found = zip(*(each[wanted].tolist() for each in (self._starts, self._ends, self._crcs)), strict=True)
        for start, end, crc in found:
            if at <= start and end <= at + len(data):
                header: bytes | memoryview = view[start - at : end - at]
            else:
                stream.seek(start)
                header = stream.read(end - start)
            if crc32(header) != crc:
                raise ChecksumMismatch(f"the header of the page at byte {start:,} does not match its checksum")


class HeaderCheckingFile:
    """A file for Arrow that verifies the page headers in everything it reads.

    Arrow makes few large reads, in turn.
    """

    closed = False

    def __init__(self, stream: Any, headers: PageHeaders) -> None:
        self._stream = stream
        self._headers = headers
        self._size = stream.seek(0, 2)
        self._at = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return int(self._size)

    def read(self, size: int = -1) -> bytes:
        self._stream.seek(self._at)
        data = bytes(self._stream.read(size) if size >= 0 else self._stream.read())
        self._headers.check(self._at, data, self._stream)
        self._at += len(data)
        return data

    def close(self) -> None:
        self.closed = True
        self._stream.close()

    def __enter__(self) -> HeaderCheckingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def page_bytes(header: bytes) -> int | None:
    """Returns the size of the page that follows a header, or None if the bytes are no header.

    A header begins with three numbers: the kind of the page, and its size before and after compression.
    """
    found = _three_numbers(header)
    return None if found is None else found[0][2]


def has_checksum(header: bytes) -> bool:
    """Returns whether a page header has a checksum, which is the number after the first three."""
    found = _three_numbers(header)
    return found is not None and header[found[1] : found[1] + 1] == bytes([_NUMBER])


def _three_numbers(header: bytes) -> tuple[list[int], int] | None:
    """Returns the three numbers that a header begins with, and the position of the next field."""
    numbers, at = [], 0
    try:
        for _ in range(3):
            if header[at] != _NUMBER:
                return None
            at += 1
            value = shift = 0
            while header[at] & 0x80:
                value |= (header[at] & 0x7F) << shift
                shift += 7
                at += 1
            value |= header[at] << shift
            at += 1
            # Thrift stores the sign of a number in its lowest bit, and none of these is negative.
            numbers.append(value >> 1)
    except IndexError:
        return None
    return numbers, at
