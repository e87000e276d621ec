"""Reads Avro scalars: numbers, text, bytes, enumerations and fixed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.avro.nodes import Build, MalformedValue, Node, read_long
from frazil.formats.avro.reader import Ints, Reader, Slots
from frazil.formats.registry.wire import gather
from frazil.formats.utf8 import invalid_utf8
from frazil.formats.valid_text import valid_text


def array_of(kind: pa.DataType, values: npt.NDArray[np.generic]) -> pa.Array:
    """Returns numbers as an array of any type of the same width, without a copy."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


class Null(Node):
    kind = pa.null()
    least = room = 0
    size = 0

    def read(self, reader: Reader, slots: Slots) -> Build:
        count = len(slots)
        return lambda: pa.nulls(count)

    def step(self, data: memoryview, pos: int) -> int:
        return pos


class Boolean(Node):
    kind = pa.bool_()
    least = room = 1
    size = 1

    def read(self, reader: Reader, slots: Slots) -> Build:
        bytes_ = reader.data[reader.starts(slots, 1, self.path)]
        if len(bytes_) and bytes_.max() > 1:
            reader.fail(slots, bytes_ > 1, f"{self.path} is neither true nor false")
        return lambda: pa.array(bytes_.view(np.bool_))

    def step(self, data: memoryview, pos: int) -> int:
        return pos + 1


class Number(Node):
    """Reads an `int` or a `long`, also as a date, time or timestamp."""

    least = room = 1

    def __init__(self, path: str, kind: pa.DataType, least: int, most: int) -> None:
        """Values outside of `least` to `most` are faults."""
        super().__init__(path)
        self.kind = kind
        self._allowed = least, most
        self._dtype = np.int32 if kind.bit_width == 32 else np.int64

    def read(self, reader: Reader, slots: Slots) -> Build:
        values = reader.longs(slots, self.path)
        least, most = self._allowed
        if len(values) and (values.min() < least or values.max() > most):
            reader.fail(slots, (values < least) | (values > most), f"{self.path} is out of range")
        return lambda: array_of(self.kind, values.astype(self._dtype, copy=False))

    def step(self, data: memoryview, pos: int) -> int:
        while data[pos] >= 0x80:
            pos += 1
        return pos + 1


class Real(Node):
    """Reads a `float` or a `double`."""

    def __init__(self, path: str, kind: pa.DataType) -> None:
        super().__init__(path)
        self.kind = kind
        self.size = self.least = self.room = kind.bit_width // 8

    def read(self, reader: Reader, slots: Slots) -> Build:
        starts = reader.starts(slots, self.least, self.path)
        values = reader.view(f"<f{self.size}")[starts]
        return lambda: array_of(self.kind, values)

    def step(self, data: memoryview, pos: int) -> int:
        return pos + self.least


class Binary(Node):
    kind = pa.binary()
    least = room = 1

    def read(self, reader: Reader, slots: Slots) -> Build:
        content = _content(reader, slots, self.path)
        return lambda: content

    def skip(self, reader: Reader, slots: Slots) -> None:
        reader.extents(slots, self.path)

    def step(self, data: memoryview, pos: int) -> int:
        length, pos = read_long(data, pos)
        if length < 0:
            raise MalformedValue
        return pos + length


class Text(Binary):
    kind = pa.string()

    def read(self, reader: Reader, slots: Slots) -> Build:
        rows = slots.row
        content = _content(reader, slots, self.path)

        def build() -> pa.Array:
            try:
                return valid_text(content.view(pa.string()))
            except pa.ArrowInvalid:
                reader.fail_rows(rows[list(invalid_utf8(content))], f"{self.path} is not UTF-8")
                return pa.repeat("", len(content))

        return build


def _content(reader: Reader, slots: Slots, path: str) -> pa.Array:
    """Reads the next byte strings while they are still in the processor's caches.

    Returns nothing once a record is faulty: the strings are no longer in order then, and nobody will use them.
    """
    starts, ends = reader.extents(slots, path)
    return pa.array([], pa.binary()) if reader.reasons else gather(reader.data, starts, ends)


class Enumeration(Node):
    """Reads an enumeration as the text of its symbol."""

    kind = pa.string()
    least = room = 1

    def __init__(self, path: str, symbols: list[str]) -> None:
        super().__init__(path)
        self._symbols = pa.array(symbols, pa.string())

    def read(self, reader: Reader, slots: Slots) -> Build:
        values = reader.longs(slots, self.path)
        if len(values) and (values.min() < 0 or values.max() >= len(self._symbols)):
            wrong = (values < 0) | (values >= len(self._symbols))
            reader.fail(slots, wrong, f"{self.path} is none of its {len(self._symbols)} symbols")
        return lambda: self._symbols.take(pa.array(values))

    def step(self, data: memoryview, pos: int) -> int:
        return read_long(data, pos)[1]


class Fixed(Node):
    """Reads a fixed number of bytes; `build` converts them."""

    def __init__(
        self, path: str, size: int, kind: pa.DataType | None = None, build: FixedBuild | None = None
    ) -> None:
        super().__init__(path)
        self.size = self.least = self.room = size
        self.kind = kind or pa.binary(size)
        self._build = build or _plain

    def read(self, reader: Reader, slots: Slots) -> Build:
        starts = reader.starts(slots, self.least, self.path)
        return lambda: self._build(reader, starts, self.least)

    def step(self, data: memoryview, pos: int) -> int:
        return pos + self.least


FixedBuild = Callable[[Reader, Ints, int], pa.Array]


def fixed_bytes(reader: Reader, starts: Ints, size: int) -> npt.NDArray[np.uint8]:
    """Returns one row of `size` bytes for each start."""
    taken = gather(reader.data, starts, starts + size)
    content = taken.buffers()[2]
    found = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    return found[: len(starts) * size].reshape(len(starts), size)


def _plain(reader: Reader, starts: Ints, size: int) -> pa.Array:
    return array_of(pa.binary(size), fixed_bytes(reader, starts, size))
