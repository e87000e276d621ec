"""Checksums of the headers of pages, which Parquet's own checksum of a page leaves out.

A header says how many values its page has, how they are encoded and whether there is a checksum at all: a wrong one
makes other values of the same bytes. A file's own writer lists all headers with their checksums behind the pages. A
reader holds what it fetches against that list, so that nothing more is fetched and no other column is looked at.
"""

from __future__ import annotations

from struct import Struct
from typing import IO, Any

import numpy as np
from isal.isal_zlib import crc32

from frazil.lake.checksums.magic_bytes import ChecksumMismatch, is_magic

_MARK = b"FRZLPAG1"
_END = Struct("<8sII")
"""The mark, how many pages there are, and the checksum of the list before it."""
_ENTRY = np.dtype([("header", "<u2"), ("page", "<u4"), ("crc", "<u4")])
"""Of one page: the bytes of its header, those that follow, and the header's checksum."""
_FIRST = 4
"""Where the first page begins, behind the magic bytes; all others follow without a gap."""
_LONGEST = 2**16 - 1
_NUMBER = 0x15
"""Thrift's mark of a field that is the next one and a 32-bit number."""


class PageHeaderRecorder:
    """Made while a file is written: the writer hands over each header, and then the page, in writes of their own."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int]] = []
        self._at = 0
        self._page_end = _FIRST

    def add(self, data: bytes) -> None:
        """Take what is written next."""
        if self._at == self._page_end and data:
            size = page_bytes(data)
            if size is not None and len(data) <= _LONGEST:
                self._entries.append((len(data), size, crc32(data)))
                self._page_end += len(data) + size
        self._at += len(data)

    def packed(self) -> bytes:
        """What goes into the file; nothing when what was written did not look like pages and their headers."""
        if self._at != self._page_end:
            return b""
        entries = np.array(self._entries, _ENTRY).tobytes()
        return entries + _END.pack(_MARK, len(self._entries), crc32(entries))


class PageHeaders:
    """Where the headers of a file are, and their checksums."""

    def __init__(self, entries: Any) -> None:
        ends = _FIRST + np.cumsum(entries["header"].astype(np.int64) + entries["page"])
        self._starts = ends - entries["page"] - entries["header"]
        self._ends = ends - entries["page"]
        self._crcs = entries["crc"]

    @classmethod
    def read(cls, stream: IO[bytes], end: int) -> PageHeaders | None:
        """The list that ends at a byte of a file; None when there is none."""
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
        """The bytes of each header."""
        return [range(start, end) for start, end in zip(self._starts.tolist(), self._ends.tolist(), strict=True)]

    def check(self, at: int, data: bytes, stream: IO[bytes]) -> None:
        """Verify the headers in these bytes of a file. One that is cut off by their end is read again as a whole."""
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
    """A file that is read by Arrow, which asks for it in large pieces and one at a time."""

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
    """How many bytes follow a page's header; None for what is no header.

    It begins with three numbers: the kind of the page, and its size before and after compression.
    """
    found = _three_numbers(header)
    return None if found is None else found[0][2]


def has_checksum(header: bytes) -> bool:
    """Whether a page's header has a checksum: the number that follows the first three."""
    found = _three_numbers(header)
    return found is not None and header[found[1] : found[1] + 1] == bytes([_NUMBER])


def _three_numbers(header: bytes) -> tuple[list[int], int] | None:
    """The numbers that a header begins with, and where the next field is."""
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
            # Thrift has the sign of a number in its lowest bit, and none of these is negative.
            numbers.append(value >> 1)
    except IndexError:
        return None
    return numbers, at
