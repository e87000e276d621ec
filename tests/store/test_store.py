"""The same tests run on a local folder and on a real S3 server: every object store must pass them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.sections.log import StoreConfig
from frazil.errors import ConfigError, FrazilError, ObjectExists, ObjectNotFound, StorageError
from frazil.store import ObjectStore, open_store

RACERS = 16
# Few, because SeaweedFS lets those who lose wait a second for its lock.
RACES = 3


def keys(store: ObjectStore, prefix: str, after: str | None = None) -> list[str]:
    return [info.key for info in store.list(prefix, after)]


@pytest.mark.parametrize("wrap", [bytes, memoryview, pa.py_buffer])
def test_what_is_put_can_be_got(
    any_store: ObjectStore, wrap: Callable[[bytes], bytes | memoryview | pa.Buffer]
) -> None:
    data = bytes(range(256)) * 1000
    any_store.put_new("queue/logs/0.parquet", wrap(data))
    assert any_store.get("queue/logs/0.parquet").to_pybytes() == data


def test_an_empty_object(any_store: ObjectStore) -> None:
    any_store.put_new("empty", b"")
    assert any_store.get("empty").size == 0
    tail, size = any_store.get_tail("empty", 8)
    assert (tail.to_pybytes(), size) == (b"", 0)


def test_a_second_put_changes_nothing(any_store: ObjectStore) -> None:
    any_store.put_new("once", b"first")
    with pytest.raises(ObjectExists, match="put 'once'"):
        any_store.put_new("once", b"second")
    assert any_store.get("once").to_pybytes() == b"first"


def test_one_of_many_puts_wins(any_store: ObjectStore) -> None:
    def put(key: str, racer: int, start: threading.Barrier) -> int | None:
        start.wait()
        try:
            any_store.put_new(key, bytes([racer]) * 1000)
        except ObjectExists:
            return None
        return racer

    with ThreadPoolExecutor(RACERS) as pool:
        for key in (f"race/{round_}" for round_ in range(RACES)):
            start = threading.Barrier(RACERS)
            racers = [pool.submit(put, key, racer, start) for racer in range(RACERS)]
            winners = [racer for racer in (future.result() for future in racers) if racer is not None]
            assert len(winners) == 1
            assert any_store.get(key).to_pybytes() == bytes(winners) * 1000


def test_ranges_and_tails(any_store: ObjectStore) -> None:
    any_store.put_new("digits", b"0123456789")
    assert any_store.get_range("digits", 2, 3).to_pybytes() == b"234"
    assert any_store.get_range("digits", 8, 5).to_pybytes() == b"89"
    assert any_store.get_range("digits", 20, 5).to_pybytes() == b""
    for length, expected in ((4, b"6789"), (10, b"0123456789"), (50, b"0123456789")):
        tail, size = any_store.get_tail("digits", length)
        assert (tail.to_pybytes(), size) == (expected, 10)


def test_a_missing_object_is_told(any_store: ObjectStore) -> None:
    any_store.put_new("folder/object", b"")
    calls: list[Callable[[], object]] = [
        lambda: any_store.get("folder/nothing"),
        lambda: any_store.get("folder"),
        lambda: any_store.get("folder/object/below"),
        lambda: any_store.get_range("folder/nothing", 0, 1),
        lambda: any_store.get_tail("folder/nothing", 1),
    ]
    for call in calls:
        with pytest.raises(ObjectNotFound, match="get 'folder"):
            call()


def test_a_listing_tells_size_and_time(any_store: ObjectStore) -> None:
    any_store.put_new("a/b", b"12345")
    (info,) = any_store.list("a")
    assert (info.key, info.size) == ("a/b", 5)
    assert info.modified.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - info.modified) < timedelta(minutes=1)


def test_a_listing_is_sorted_and_knows_folders(any_store: ObjectStore) -> None:
    for key in ("q/b/2", "q/b/10", "q/a/1", "q/a-b/1", "q/a/low/7", "q/z", "r/1"):
        any_store.put_new(key, b"")
    assert keys(any_store, "q/b") == ["q/b/10", "q/b/2"]
    assert keys(any_store, "q/a/") == ["q/a/1", "q/a/low/7"]
    assert keys(any_store, "q/a/", after="q/a/1") == ["q/a/low/7"]
    assert sorted(keys(any_store, "")) == sorted(["q/b/2", "q/b/10", "q/a/1", "q/a-b/1", "q/a/low/7", "q/z", "r/1"])
    assert any_store.list_folders("") == ["q", "r"]
    assert any_store.list_folders("q/") == ["q/a", "q/a-b", "q/b"]
    assert keys(any_store, "nothing") == []
    assert keys(any_store, "q/z") == []
    assert any_store.list_folders("nothing") == []


def test_a_long_listing_comes_whole(any_store: ObjectStore) -> None:
    expected = [f"long/{number:06d}" for number in range(1_100)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda key: any_store.put_new(key, b"x"), expected):
            pass
    assert keys(any_store, "long") == expected
    assert keys(any_store, "long", after=expected[40]) == expected[41:]
    assert keys(any_store, "long", after="long/000040x") == expected[41:]
    assert keys(any_store, "long", after=expected[-1]) == []
    any_store.delete(expected)
    assert keys(any_store, "long") == []


def test_deleting_what_is_not_there_is_fine(any_store: ObjectStore) -> None:
    for key in ("d/a", "d/b", "d/c"):
        any_store.put_new(key, b"")
    any_store.delete(["d/nothing", "d/a", "d/c", "e/nothing"])
    any_store.delete([])
    assert keys(any_store, "d") == ["d/b"]
    any_store.put_new("d/a", b"again")


@pytest.mark.parametrize("key", ["", "/etc/x", "../x", "a/../../x", "a//b", "a/", "./a", "a\\b", "a\0b", "a\nb"])
def test_a_key_that_could_be_elsewhere_is_refused(any_store: ObjectStore, key: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: any_store.put_new(key, b""),
        lambda: any_store.get(key),
        lambda: any_store.delete([key]),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="cannot be the key"):
            call()


def test_the_default_is_a_folder_in_the_data_folder(tmp_path: Path) -> None:
    store = open_store(StoreConfig(), tmp_path)
    store.put_new("a/b", b"1")
    assert (tmp_path / "store" / "a" / "b").read_bytes() == b"1"
    assert store.url == str(tmp_path / "store")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_can_be_given(tmp_path: Path, scheme: str) -> None:
    folder = tmp_path / "some where"
    store = open_store(StoreConfig(url=f"{scheme}{folder}"), tmp_path)
    store.put_new("a", b"1")
    assert (folder / "a").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"url": "ftp://x"}, "ftp:// is not known"),
        ({"url": "file://elsewhere/x"}, "no folder on this machine"),
        ({"url": "s3://"}, "write s3://bucket"),
        ({"url": "s3://me:secret@bucket"}, "write s3://bucket"),
        ({"url": "s3://bucket", "options": {"endpoit": "x"}}, r"store\.options\.endpoit"),
        ({"url": "gs://bucket", "options": {"endpoit": "x"}}, r"store\.options\.endpoit"),
        ({"url": "az://bucket", "access_key_id": "a", "options": {"endpoit": "x"}}, r"store\.options\.endpoit"),
        ({"url": "s3://bucket", "options": {"skip_signature": "perhaps"}}, "perhaps"),
        ({"url": "gs://bucket", "access_key_id": "x"}, r"store\.access_key_id"),
        ({"url": "az://container"}, "Account must be specified"),
        ({"options": {"region": "x"}}, r"store\.options\.region: a folder has no options"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, settings: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        open_store(StoreConfig.model_validate(settings), tmp_path)
    assert "secret" not in str(caught.value)


def test_errors_are_ours_alone(any_store: ObjectStore) -> None:
    """Whatever a store raises can be caught as `FrazilError` and tells where it happened."""
    with pytest.raises(FrazilError) as caught:
        any_store.get("nothing")
    assert any_store.url in str(caught.value)
