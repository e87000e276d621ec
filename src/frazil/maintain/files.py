"""Lists, deletes, reads and writes files in the folder of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from frazil.errors import FrazilError
from frazil.lake.commit.attempts import attempt_time_ms

THREADS = 16
"""This is how many requests run at a time, because object stores take tens of milliseconds for each."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)", re.DOTALL)


class ListedFile(NamedTuple):
    path: str
    size: int
    modified_ms: int


def normalized_path(path: str) -> str:
    """Makes paths of one file equal, such as `file:/a` and `file:///a`, or `s3://b/k` and `s3a://b/k`."""
    match = _SCHEME.fullmatch(path)
    return f"{match[2] or ''}{match[3]}" if match else path


class TableFiles:
    """The files of one table. PyArrow is used even if PyIceberg uses another library, which may be unable to list."""

    def __init__(self, table: Table) -> None:
        self.location = table.metadata.location.rstrip("/")
        self._io = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)

    def below(self, folder: str) -> list[ListedFile]:
        scheme, netloc, path = self._io.parse_location(folder, self._io.properties)
        listed = self._io.fs_by_scheme(scheme, netloc).get_file_info(
            FileSelector(path, allow_not_found=True, recursive=True)
        )
        return [
            ListedFile(folder + info.path[len(path) :], info.size or 0, (info.mtime_ns or 0) // 1_000_000)
            for info in listed
            if info.type == FileType.File
        ]

    def delete(self, paths: Iterable[str]) -> int:
        """Deletes files and returns how many of them existed."""
        chosen = list(paths)
        with ThreadPoolExecutor(THREADS) as pool:
            deleted = sum(pool.map(self._delete, chosen))
        self._tidy(chosen)
        return deleted

    def write(self, path: str, content: bytes) -> None:
        with self._io.new_output(path).create() as stream:
            stream.write(content)

    def read(self, path: str) -> bytes:
        with self._io.new_input(path).open() as stream:
            return bytes(stream.read())

    def _delete(self, path: str) -> bool:
        try:
            self._io.delete(path)
        except FileNotFoundError:
            return False
        return True

    def _tidy(self, paths: Iterable[str]) -> None:
        """Removes empty local folders of attempts, which are never written to again."""
        if not normalized_path(self.location).startswith("/"):
            return
        for folder in {Path(normalized_path(path)).parent for path in paths}:
            with suppress(FrazilError, OSError):
                attempt_time_ms(folder.name)
                folder.rmdir()
