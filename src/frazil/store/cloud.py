"""Objects in S3, Google Cloud Storage or Azure, through `obstore`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from obstore.exceptions import BaseError, NotSupportedError
from obstore.store import AzureStore, GCSStore, S3Store

from frazil.errors import ObjectNotFound
from frazil.store.cloud_errors import status_of, translated
from frazil.store.interface import ObjectInfo, check_key, check_prefix, check_range

# S3 returns at most this many keys for one request of a listing.
_PAGE = 1000

_RANGE_NOT_SATISFIABLE = 416


class CloudStore:
    """An `ObjectStore` in a bucket or container."""

    def __init__(self, store: S3Store | GCSStore | AzureStore, url: str) -> None:
        self._store = store
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    def put_new(self, key: str, data: bytes | memoryview | pa.Buffer) -> None:
        with self._errors("put", key):
            self._store.put(check_key(key), memoryview(data).cast("B"), mode="create")

    def get(self, key: str) -> pa.Buffer:
        with self._errors("get", key):
            return pa.py_buffer(self._store.get(check_key(key)).bytes())

    def get_range(self, key: str, start: int, length: int) -> pa.Buffer:
        check_range(start, length)
        with self._errors("get", key):
            try:
                return pa.py_buffer(self._store.get_range(check_key(key), start=start, length=length))
            except BaseError as error:
                if status_of(error) == _RANGE_NOT_SATISFIABLE:
                    return pa.py_buffer(b"")
                raise

    def get_tail(self, key: str, length: int) -> tuple[pa.Buffer, int]:
        check_range(0, length)
        with self._errors("get", key):
            try:
                result = self._store.get(check_key(key), options={"range": {"suffix": length}})
                return pa.py_buffer(result.bytes()), result.meta["size"]
            except NotSupportedError:
                # Azure has no ranges that count from the end.
                size = self._store.head(key)["size"]
                return self.get_range(key, max(0, size - length), length), size
            except BaseError as error:
                if status_of(error) == _RANGE_NOT_SATISFIABLE:
                    return pa.py_buffer(b""), 0
                raise

    def list(self, prefix: str, after: str | None = None) -> Iterator[ObjectInfo]:
        folder = check_prefix(prefix)
        with self._errors("list", folder):
            for page in self._store.list(folder or None, offset=after, chunk_size=_PAGE):
                for meta in page:
                    yield ObjectInfo(meta["path"], meta["size"], meta["last_modified"])

    def list_folders(self, prefix: str) -> Sequence[str]:
        folder = check_prefix(prefix)
        with self._errors("list", folder):
            return sorted(self._store.list_with_delimiter(folder or None)["common_prefixes"])

    def delete(self, keys: Iterable[str]) -> None:
        every = [check_key(key) for key in keys]
        if not every:
            return
        try:
            self._delete(every, f"{every[0]} and {len(every) - 1} more" if len(every) > 1 else every[0])
        except ObjectNotFound:
            # Google and Azure stop at a key that does not exist.
            self._delete_one_by_one(every)

    def _delete_one_by_one(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._delete([key], key)
            except ObjectNotFound:
                continue

    def _delete(self, keys: Sequence[str], described: str) -> None:
        with self._errors("delete", described):
            self._store.delete(keys)

    @contextmanager
    def _errors(self, operation: str, key: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise translated(error, operation, key, self.url) from error
