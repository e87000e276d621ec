"""Reads the data files of a table with their checksums verified, so that damage is an error that names the file.

Footers are verified when a file is opened, pages and their headers when they are read. A damaged page, or a damaged
file without checksums, can cause almost any error. Then the whole file is verified to find out whether it is damaged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pyiceberg.exceptions import ResolveError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata

from frazil.errors import FrazilError, IcebergError, TableDamaged
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.storage import family
from frazil.lake.checksums import patch_page_checksums as pages  # noqa: F401 - for what it puts right in PyIceberg
from frazil.lake.checksums.file_checksums import check_footer
from frazil.lake.checksums.magic_bytes import ChecksumMismatch
from frazil.lake.checksums.page_headers import HeaderCheckingFile, PageHeaders
from frazil.lake.checksums.verification import Verdict, first_line, verify_file
from frazil.lake.commit.offsets import name_of

_REMEMBERED = 50_000
_verified: OrderedDict[str, None] = OrderedDict()
"""Objects whose footers this process has verified. To fetch a footer costs a request, and objects never change."""
_lock = threading.Lock()
_THREADS = 4
"""This is how many files are verified at a time, a few megabytes of each. Fetching takes longer than the
checksums."""


class VerifyingFileIO(FileIO):
    """A file IO that verifies footers when files are opened. Its errors name the table and the file."""

    def __init__(self, io: FileIO, table: str, metadata: TableMetadata) -> None:
        super().__init__(io.properties)
        self._io = io
        self._table = table
        self._location = metadata.location

    @classmethod
    def of(cls, table: Table) -> VerifyingFileIO:
        return cls(table.io, name_of(table), table.metadata)

    def new_input(self, location: str) -> InputFile:
        return _VerifiedFile(self._io.new_input(location), self)

    def new_output(self, location: str) -> OutputFile:
        return self._io.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._io.delete(location)

    def checked(self, path: str, stream: Any) -> Any:
        """Verifies the footer of a file and returns a stream that verifies the page headers as they are read.

        Objects in a store are read without that: Arrow fetches many parts of one at a time, but not through Python.
        """
        remote = family(path) != "file"
        with _lock:
            if remote and path in _verified:
                return stream
        try:
            checksums = check_footer(stream)
            headers = None if remote or checksums is None else PageHeaders.read(stream, checksums.body_bytes)
        except ChecksumMismatch as mismatch:
            raise self.damaged(path, str(mismatch)) from mismatch
        if remote:
            _remember(path)
        stream.seek(0)
        return stream if headers is None else HeaderCheckingFile(stream, headers)

    @contextmanager
    def explaining_damage(self, task: FileScanTask) -> Iterator[None]:
        """Turns errors while the rows of a file are read into `TableDamaged` if the file is damaged.

        Other errors about the content of the file become an `IcebergError` that names the file.
        """
        try:
            yield
        except FrazilError:
            raise
        except Exception as error:
            if not _is_storage_failure(error):
                self._examine([task.file, *task.delete_files], error)
            if isinstance(error, ValueError | TypeError | KeyError | ResolveError):
                raise IcebergError(
                    f"{self._named(task.file.file_path)} cannot be read: {first_line(error)}."
                ) from error
            raise

    def damaged(self, path: str, problem: str) -> TableDamaged:
        return TableDamaged(
            f"{self._named(path)} is damaged: {problem}. Restore it from a backup or another copy of the warehouse. "
            f"`frazil maintain verify {self._table}` finds all damaged files, and with --drop-damaged the table goes "
            f"on without them."
        )

    def _named(self, path: str) -> str:
        return f"Data file {display_path(self._location, path)} of table {self._table}"

    def _examine(self, files: list[DataFile], error: Exception) -> None:
        for file in files:
            try:
                problem = verify_file(self._io, file).problem
            except OSError:
                # The file cannot be read now, or is gone. The original error says so.
                continue
            if problem is not None:
                raise self.damaged(file.file_path, problem) from error


class _VerifiedFile(InputFile):
    def __init__(self, file: InputFile, io: VerifyingFileIO) -> None:
        super().__init__(file.location)
        self._file = file
        self._io = io

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def open(self, seekable: bool = True) -> InputStream:
        stream = self._file.open(seekable)
        try:
            checked: InputStream = self._io.checked(self.location, stream)
        except BaseException:
            stream.close()
            raise
        return checked


def verify_files(table: Table, files: Sequence[DataFile], *, footer_only: bool = False) -> list[Verdict]:
    """Verifies files of a table, completely or only their footers."""

    def look(file: DataFile) -> Verdict:
        try:
            return verify_file(table.io, file, footer_only=footer_only)
        except FileNotFoundError:
            return Verdict("none", "it is not there")

    with calling(f"Verifying table {name_of(table)}"), ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(look, files))


def check_files(table: Table, files: Sequence[DataFile]) -> None:
    """Verifies files before new files are written from them, because damage could not be detected afterwards.

    Raises `TableDamaged` for the first damaged file.
    """
    for file, verdict in zip(files, verify_files(table, files), strict=True):
        if verdict.problem is not None:
            raise VerifyingFileIO.of(table).damaged(file.file_path, verdict.problem)


def display_path(location: str, path: str) -> str:
    """Shortens the path of a file for people: it begins with the folders of the namespace and the table."""
    location = location.rstrip("/")
    if not path.startswith(f"{location}/"):
        return path
    above = "/".join(location.split("/")[-2:])
    return above + path[len(location) :]


def _is_storage_failure(error: Exception) -> bool:
    """Returns whether the storage could not be read. Such an error says nothing about the content of the file."""
    return isinstance(error, OSError) and bool(error.errno)


def _remember(path: str) -> None:
    with _lock:
        _verified[path] = None
        while len(_verified) > _REMEMBERED:
            _verified.popitem(last=False)
