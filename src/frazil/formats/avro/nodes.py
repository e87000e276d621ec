"""Defines what each part of an Avro schema can do: read its values, skip them, and build an Arrow array of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import pyarrow as pa

from frazil.formats.avro.reader import Reader, Slots

Build = Callable[[], pa.Array]
"""Builds the array of the values that were read. It is called once it is known that no record is faulty."""


class MalformedValue(Exception):
    """Raised by `step` where the bytes are not a value."""


class Node(ABC):
    """A part of a schema. `path` is its name in error messages."""

    kind: pa.DataType
    """The Arrow type of its values."""
    least: int
    """The fewest bytes that a value can take."""
    room: int
    """The most bytes that are read for a value, or for a part of it, where all bytes are zero."""
    size: int | None = None
    """The number of bytes of every value, if it is always the same."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def read(self, reader: Reader, slots: Slots) -> Build:
        """Reads a value at each slot, and moves the slots behind it."""

    def skip(self, reader: Reader, slots: Slots) -> None:
        """Moves the slots behind a value without keeping it."""
        self.read(reader, slots)

    @abstractmethod
    def step(self, data: memoryview, pos: int) -> int:
        """Returns where the value that begins at `pos` ends, perhaps past the end of the data. Raises
        `MalformedValue` or `IndexError` if there is none.

        The value is checked only as far as that needs: the caller must read it before trusting it.
        """


def read_long(data: memoryview, pos: int) -> tuple[int, int]:
    """Returns one number, and where it ends."""
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
