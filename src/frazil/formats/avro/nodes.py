"""What every part of an Avro schema can do: read its values, pass over them, and make an Arrow array of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import pyarrow as pa

from frazil.formats.avro.reader import Reader, Slots

Build = Callable[[], pa.Array]
"""Makes the array of what was read: later, when it is known that there is nothing wrong with any record."""


class MalformedValue(Exception):
    """Raised by `step` where there is no value."""


class Node(ABC):
    """One place of a schema. `path` is its name for people."""

    kind: pa.DataType
    """The Arrow type of its values."""
    least: int
    """The fewest bytes that a value can take."""
    room: int
    """The most bytes that a value takes where all bytes are zero, or a part of it is read from such."""
    size: int | None = None
    """The bytes that each value takes, where that is always the same."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def read(self, reader: Reader, slots: Slots) -> Build:
        """Read a value at each slot and move behind it."""

    def skip(self, reader: Reader, slots: Slots) -> None:
        """As `read`, without the values."""
        self.read(reader, slots)

    @abstractmethod
    def step(self, data: memoryview, pos: int) -> int:
        """Where the one value that begins here ends, perhaps past the end; `Torn` or `IndexError` if there is none.

        It is only looked at as far as needed for that: who asked must read the value before believing it.
        """


def read_long(data: memoryview, pos: int) -> tuple[int, int]:
    """One number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
        if shift > 63:
            raise MalformedValue
