"""What tests beside this share."""

from __future__ import annotations

import struct
from pathlib import Path

from frazil.errors import LogCorrupted
from frazil.framefile import frames
from frazil.framefile.scan import ScannedFile

KIND = 7


_BODY = struct.Struct("<QI")


class ScannedNumbers(ScannedFile):
    """Each frame has a number and the `synced_to` of its writer."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.boot = "first boot"
        self.numbers: list[int] = []
        self._scan(memoryview(path.read_bytes()))

    def _read_frame(self, view: memoryview, frame: frames.Frame) -> int:
        synced_to, number = _BODY.unpack_from(frame.body(view))
        self.numbers.append(number)
        return int(synced_to)

    def _read_frame_after_flaw(self, view: memoryview, frame: frames.Frame) -> int | None:
        synced_to, number = _BODY.unpack_from(frame.body(view))
        return int(synced_to) if number >= len(self.numbers) else None

    def _describe_flaw(self, rest: memoryview) -> str | None:
        return f"{len(rest)} bytes are no frame" if any(rest) else None

    def damaged(self, byte: int, why: str) -> LogCorrupted:
        return LogCorrupted(f"{self.path.name}, byte {byte}: {why}")


def number_frame(number: int, synced_to: int = 0) -> frames.Encoded:
    return frames.encode(KIND, [_BODY.pack(synced_to, number)])


def content(*numbers: int, synced_to: int = 0) -> bytes:
    return b"".join(bytes(part) for number in numbers for part in number_frame(number, synced_to).parts)


SIZE = len(content(0))


def flipped(data: bytes, byte: int) -> bytes:
    return data[:byte] + bytes([data[byte] ^ 0xFF]) + data[byte + 1 :]
