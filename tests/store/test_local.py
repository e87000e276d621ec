"""A local store survives a killed process, a full disk, and a folder that is not ours."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from frazil.errors import DiskFull, FrazilError, StorageError
from frazil.store.local import STAGING, STALE_SECONDS, LocalStore, translated

SPAWN = multiprocessing.get_context("spawn")
NOBODY = 65534


def content(key: str) -> bytes:
    return random.Random(key).randbytes(200_000)


def put_forever(root: Path, first: int, acknowledged: Connection) -> None:
    store = LocalStore(root)
    number = first
    while True:
        key = f"part-{number % 3}/{number:06d}"
        store.put_new(key, content(key))
        acknowledged.send(key)
        number += 1


def received(pipe: Connection) -> Iterator[str]:
    with suppress(EOFError):
        while True:
            yield pipe.recv()


def test_a_killed_process_leaves_only_whole_objects(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    store = LocalStore(tmp_path)
    acknowledged: list[str] = []
    for run in range(4):
        ours, theirs = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(target=put_forever, args=(tmp_path, 100_000 * run, theirs))
        process.start()
        theirs.close()
        acknowledged.append(ours.recv())
        time.sleep(rng.uniform(0, 0.15))
        process.kill()
        acknowledged += received(ours)
        process.join()
        ours.close()
    stored = [info.key for info in store.list("")]
    assert set(acknowledged) <= set(stored)
    assert all(store.get(key).to_pybytes() == content(key) for key in stored)


def in_child(target: Callable[..., None], *args: object) -> list[str]:
    """Return what a function sends from a process of its own, in which limits and users can be changed."""
    ours, theirs = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=target, args=(*args, theirs))
    process.start()
    theirs.close()
    sent = list(received(ours))
    process.join()
    ours.close()
    assert process.exitcode == 0
    return sent


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except FrazilError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def put_without_room(root: Path, pipe: Connection) -> None:
    store = LocalStore(root)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, most))
    pipe.send(outcome(lambda: store.put_new("big", bytes(100_000))))
    pipe.send(outcome(lambda: store.put_new("small", bytes(1_000))))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    pipe.send(outcome(lambda: store.put_new("big", bytes(100_000))))


def test_no_room_stores_nothing_and_passes(tmp_path: Path) -> None:
    """The limit on file sizes fails a write in its middle, as a full disk does, and needs no special rights."""
    full, small, later = in_child(put_without_room, tmp_path)
    assert full.startswith("DiskFull: put 'big'")
    assert (small, later) == ("done", "done")
    store = LocalStore(tmp_path)
    assert [(info.key, info.size) for info in store.list("")] == [("big", 100_000), ("small", 1_000)]
    assert list((tmp_path / STAGING).iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_as_such(number: int) -> None:
    error = translated(OSError(number, "write"), "put", "key", "folder")
    assert isinstance(error, DiskFull)
    assert os.strerror(number) in str(error)


def put_as_nobody(root: Path, pipe: Connection) -> None:
    # From inside the folder, because those above it may be closed to others.
    os.chdir(root)
    store = LocalStore(Path("."))
    store.put_new("theirs", b"")
    (root / "theirs").chmod(0o644)
    for folder in (root, root / STAGING):
        folder.chmod(0o555)
    if os.getuid() == 0:
        os.setuid(NOBODY)
    pipe.send(outcome(lambda: store.put_new("ours", b"")))
    pipe.send(outcome(lambda: store.delete(["theirs"])))
    pipe.send(outcome(lambda: store.get("theirs")))


def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    put, delete, get = in_child(put_as_nobody, root)
    for folder in (root, root / STAGING):
        folder.chmod(0o755)
    assert put.startswith("StorageError: put 'ours'")
    assert "Check that this user may read and write the folder" in put
    assert delete.startswith("StorageError: delete 'theirs'")
    assert get == "done"


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(StorageError, match="Check the folder"):
        LocalStore(tmp_path / "store").put_new("a", b"1")


def test_an_object_is_no_folder(local_store: LocalStore) -> None:
    local_store.put_new("a", b"1")
    with pytest.raises(StorageError, match="put 'a/b'"):
        local_store.put_new("a/b", b"2")


def test_unfinished_puts_are_not_shown_and_old_ones_removed(tmp_path: Path) -> None:
    LocalStore(tmp_path).put_new("a", b"1")
    new, old = tmp_path / STAGING / "new", tmp_path / STAGING / "old"
    for path in (new, old):
        path.write_bytes(b"half")
    hours_ago = time.time() - 2 * STALE_SECONDS
    os.utime(old, (hours_ago, hours_ago))
    store = LocalStore(tmp_path)
    assert (new.exists(), old.exists()) == (True, False)
    assert [info.key for info in store.list("")] == ["a"]
    assert store.list_folders("") == []
    with pytest.raises(StorageError, match="kept for unfinished"):
        store.get(f"{STAGING}/new")


def test_a_folder_removed_by_hand_is_made_again(local_store: LocalStore, tmp_path: Path) -> None:
    local_store.put_new("a/b/1", b"")
    local_store.delete(["a/b/1"])
    (tmp_path / "store" / "a" / "b").rmdir()
    local_store.put_new("a/b/2", b"")
    assert [info.key for info in local_store.list("")] == ["a/b/2"]


def test_an_object_outlives_its_deletion_while_it_is_read(local_store: LocalStore) -> None:
    data = content("kept")
    local_store.put_new("kept", data)
    held = local_store.get("kept")
    local_store.delete(["kept"])
    assert held.to_pybytes() == data


def test_a_whole_listing_is_in_the_order_of_keys(local_store: LocalStore) -> None:
    expected = sorted(["a-b/x", "a.b", "a/x", "a/y/z", "a0/x", "b"])
    for key in reversed(expected):
        local_store.put_new(key, b"")
    for index, key in enumerate(expected):
        assert [info.key for info in local_store.list("", after=key)] == expected[index + 1 :]
