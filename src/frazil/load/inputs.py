"""Opens the inputs of a load: files or stdin, with their format and compression."""

from __future__ import annotations

import hashlib
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from frazil.errors import ConfigError, FrazilIoError

Format = Literal["jsonl", "parquet", "arrow"]

FORMATS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}

STDIN_LINGER_SECONDS = 0.2
"""This is how long lines from a slow pipe are gathered before they are appended."""
READ_BYTES = 1 << 20


class InputBatch(NamedTuple):
    """A batch of records from a part of an input."""

    batch: pa.RecordBatch
    position: int
    """The lines (JSON) or rows (others) of the input up to the end of this batch, so that a load can go on from
    here."""
    read: int
    """The bytes of the input up to here, for the progress bar."""


class ByteSource(NamedTuple):
    """An open input. `read` returns what is there, at least one byte before the end; `tell` counts stored bytes."""

    read: Callable[[], bytes]
    tell: Callable[[], int]


@dataclass(frozen=True)
class Input:
    path: Path | None
    """The file; None stands for stdin."""
    format: Format
    compression: str | None = None

    @property
    def name(self) -> str:
        return str(self.path) if self.path else "stdin"

    @property
    def size(self) -> int | None:
        return self.path.stat().st_size if self.path else None

    def digest(self) -> str:
        """Returns a hash of the content, whatever the file is called."""
        if self.path is None:
            raise ConfigError("--once needs files: what stdin held cannot be recognised when it comes again.")
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @contextmanager
    def open(self) -> Iterator[ByteSource]:
        if self.path is None:
            yield _stdin()
            return
        with pa.OSFile(str(self.path)) as raw:
            if self.compression is None:
                yield ByteSource(lambda: raw.read(READ_BYTES), raw.tell)
            else:
                with pa.CompressedInputStream(raw, self.compression) as stream:
                    yield ByteSource(lambda: stream.read(READ_BYTES), raw.tell)


def find_input(name: str, given: Format | None) -> Input:
    """Returns the input that a command line names. The file's ending decides the format unless it is given."""
    if name == "-":
        if given not in (None, "jsonl"):
            raise ConfigError(f"stdin is read as JSON lines; --format {given} needs a file.")
        return Input(None, "jsonl")
    path = Path(name)
    if not path.is_file():
        raise FrazilIoError(f"{name}: {'is a folder' if path.is_dir() else 'there is no such file'}.")
    compression = COMPRESSIONS.get(path.suffix.lower())
    ending = Path(path.stem).suffix if compression else path.suffix
    found = given or FORMATS.get(ending.lower())
    if found is None:
        known = ", ".join([*FORMATS, *(f".jsonl{ending}" for ending in COMPRESSIONS)])
        raise ConfigError(f"{name}: the format is not clear from the name (known: {known}); say it with --format.")
    if compression and found != "jsonl":
        raise ConfigError(f"{name}: only JSON lines may be compressed as a whole; decompress it first.")
    return Input(path, found, compression)


def _stdin() -> ByteSource:
    """Returns stdin as a source. It waits for the first byte, then gathers while more arrives at once."""
    fd = sys.stdin.fileno()
    total = 0

    def read() -> bytes:
        nonlocal total
        gathered = [os.read(fd, READ_BYTES)]
        size = len(gathered[0])
        while gathered[-1] and size < READ_BYTES and select.select([fd], [], [], STDIN_LINGER_SECONDS)[0]:
            gathered.append(os.read(fd, READ_BYTES))
            size += len(gathered[-1])
        total += size
        return b"".join(gathered)

    return ByteSource(read, lambda: total)
