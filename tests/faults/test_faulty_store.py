from __future__ import annotations

import random
from pathlib import Path

import pytest

from frazil.errors import ObjectExists, StorageUnavailable
from frazil.store.local import LocalStore
from tests.faults.faulty_store import Faults, FaultyStore


def faulty(inner: LocalStore, **faults: float) -> FaultyStore:
    return FaultyStore(inner, random.Random(1), Faults(**faults))


def test_without_faults_it_is_the_store_inside(local_store: LocalStore) -> None:
    store = faulty(local_store)
    store.put_new("a/b", b"12")
    with pytest.raises(ObjectExists):
        store.put_new("a/b", b"34")
    assert store.get("a/b").to_pybytes() == b"12"
    assert [info.key for info in store.list("")] == ["a/b"]
    assert store.list_folders("") == ["a"]
    store.delete(["a/b"])
    assert list(store.list("")) == []


def test_failing_before_stores_nothing(local_store: LocalStore) -> None:
    with pytest.raises(StorageUnavailable):
        faulty(local_store, before=1).put_new("a", b"")
    assert list(local_store.list("")) == []


def test_failing_after_stores_and_deletes(local_store: LocalStore) -> None:
    store = faulty(local_store, after=1)
    with pytest.raises(StorageUnavailable):
        store.put_new("a", b"1")
    assert local_store.get("a").to_pybytes() == b"1"
    with pytest.raises(StorageUnavailable):
        store.delete(["a"])
    assert list(local_store.list("")) == []


def test_a_listing_breaks_off(local_store: LocalStore) -> None:
    for number in range(5):
        local_store.put_new(f"{number}", b"")
    listing = faulty(local_store, after=1).list("")
    with pytest.raises(StorageUnavailable):
        list(listing)


def test_a_delayed_put_lands_later_unless_it_is_too_late(local_store: LocalStore) -> None:
    store = faulty(local_store, delayed=1)
    for key in ("a", "b"):
        with pytest.raises(StorageUnavailable):
            store.put_new(key, b"late")
    assert list(local_store.list("")) == []
    local_store.put_new("b", b"first")
    assert store.release_delayed() == ["a"]
    assert local_store.get("a").to_pybytes() == b"late"
    assert local_store.get("b").to_pybytes() == b"first"
    assert store.release_delayed() == []


def test_down_is_down_until_it_is_up(local_store: LocalStore) -> None:
    store = faulty(local_store)
    store.down = True
    with pytest.raises(StorageUnavailable):
        store.list("")
    store.down = False
    assert list(store.list("")) == []


def test_a_slow_call_sleeps_and_succeeds(local_store: LocalStore) -> None:
    naps: list[float] = []
    store = FaultyStore(local_store, random.Random(1), Faults(slow=1, slow_seconds=7), naps.append)
    store.put_new("a", b"")
    (nap,) = naps
    assert 0 < nap < 7


def test_one_seed_gives_one_story(tmp_path: Path, seed: int) -> None:
    def story(name: str) -> list[str]:
        faults = Faults(before=0.2, after=0.2, delayed=0.2, slow=0.2)
        store = FaultyStore(LocalStore(tmp_path / name), random.Random(seed), faults)
        told = []
        for number in range(30):
            try:
                store.put_new(f"{number}", b"")
            except StorageUnavailable as error:
                told.append(str(error))
        return told + store.release_delayed()

    assert story("one") == story("two")
