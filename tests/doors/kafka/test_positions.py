"""Marks lead on from exactly the place and the end of the log that they were made for."""

from __future__ import annotations

from frazil.clock import World
from frazil.doors.kafka.positions import Marks, Place, Standing, beginnings
from frazil.store.local import LocalStore

OLD, NEW = Place("cluster/old", 100), Place("cluster/new", 0)


def marks(store: LocalStore, partition: int = 0) -> Marks:
    return Marks(store, "orders", partition, World())


def test_without_marks_the_log_decides(local_store: LocalStore) -> None:
    assert marks(local_store).follow(Standing(10, OLD)) == OLD
    assert marks(local_store).follow(Standing(0, None)) is None


def test_a_mark_is_out_of_force_once_anything_was_appended(local_store: LocalStore) -> None:
    assert marks(local_store).lead(Standing(10, OLD), OLD, NEW, 1) == NEW
    assert marks(local_store).follow(Standing(10, OLD)) == NEW
    assert marks(local_store).follow(Standing(11, OLD)) == OLD
    assert marks(local_store).follow(Standing(10, OLD._replace(position=99))) == OLD._replace(position=99)
    assert marks(local_store, partition=1).follow(Standing(10, OLD)) == OLD


def test_whoever_decides_first_decides(local_store: LocalStore) -> None:
    marks(local_store).lead(Standing(0, None), None, NEW, 1)
    assert marks(local_store).lead(Standing(0, None), None, OLD, 1) == NEW


def test_marks_are_followed_to_the_last_and_never_in_circles(local_store: LocalStore) -> None:
    standing = Standing(10, OLD)
    marks(local_store).lead(standing, OLD, NEW, 1)
    marks(local_store).lead(standing, NEW, Place("cluster/new", 500), 1)
    assert marks(local_store).follow(standing) == Place("cluster/new", 500)
    marks(local_store).lead(standing, Place("cluster/new", 500), OLD, 1)
    assert marks(local_store).follow(standing) == Place("cluster/new", 500)


def test_in_which_lives_partitions_began(local_store: LocalStore) -> None:
    assert not list(beginnings(local_store, "orders"))
    marks(local_store, 0).lead(Standing(0, None), None, OLD, 3)
    marks(local_store, 0).lead(Standing(10, OLD), OLD, NEW, 4)
    marks(local_store, 3).lead(Standing(0, None), None, NEW, 4)
    assert sorted(beginnings(local_store, "orders")) == [(NEW.identity, 4), (NEW.identity, 4), (OLD.identity, 3)]
