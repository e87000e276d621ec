"""Tests ownership of a subscription with real stores: a new owner is never overruled by a former one."""

from __future__ import annotations

import json
import random

import pytest

from frazil.clock import World
from frazil.errors import LogCorrupted, RequestError, StorageUnavailable, SubscriptionFenced
from frazil.store import ObjectStore
from frazil.store.local import LocalStore
from frazil.topics.subscriptions.checkpoints import KEPT, Ownership, newest, saved_subscriptions
from frazil.topics.subscriptions.progress import Progress
from frazil.topics.subscriptions.subscription_name import SubscriptionName, subscriptions_of
from tests.faults.faulty_store import NO_FAULTS, Faults, FaultyStore

PLACE = SubscriptionName("billing", "shop", "orders")


def taken(store: ObjectStore, process: str = "a", start: int = 0) -> Ownership:
    owner = Ownership(store, PLACE, World(), process)
    assert owner.take(newest(store, PLACE), "shared", {0: Progress(start, "e")}, 1)
    return owner


def stored_mark(store: ObjectStore) -> int:
    found = newest(store, PLACE)
    assert found is not None
    return found.partitions[0].mark


def test_born_and_taken_over(any_store: ObjectStore) -> None:
    assert newest(any_store, PLACE) is None
    first = taken(any_store, start=7)
    assert stored_mark(any_store) == 7
    first.put({0: Progress(9, "e", 0, [(11, 13)])})

    second = taken(any_store, "b", start=1000)
    assert second.last_written.partitions == {0: Progress(9, "e", 0, [(11, 13)])}
    assert second.last_written.generation == first.last_written.generation
    assert second.last_written.kind == "shared"


def test_the_former_owner_is_fenced(any_store: ObjectStore) -> None:
    first = taken(any_store)
    second = taken(any_store, "process 2 on host b")
    with pytest.raises(
        SubscriptionFenced, match=r"'billing' of topic shop\.orders.*taken over by process 2 on host b"
    ):
        first.put({0: Progress(5, "e")})
    second.put({0: Progress(3, "e")})
    with pytest.raises(SubscriptionFenced):
        first.put({0: Progress(6, "e")})
    assert stored_mark(any_store) == 3


def test_one_that_slept_cannot_put_a_number_that_was_deleted(local_store: LocalStore) -> None:
    first = taken(local_store)
    second = taken(local_store, "b")
    for mark in range(1, 3 * KEPT):
        second.put({0: Progress(mark, "e")})
    assert PLACE.key(2) not in {info.key for info in local_store.list(PLACE.prefix)}
    with pytest.raises(SubscriptionFenced):
        first.put({0: Progress(500, "e")})
    assert stored_mark(local_store) == 3 * KEPT - 1
    second.put({0: Progress(50, "e")})
    assert len(list(local_store.list(PLACE.prefix))) == KEPT + 1


def test_two_that_take_it_at_the_same_moment(local_store: LocalStore) -> None:
    taken(local_store)
    seen = newest(local_store, PLACE)
    one, two = (Ownership(local_store, PLACE, World(), name) for name in "ab")
    assert one.take(seen, "shared", {}, 1)
    assert not two.take(seen, "shared", {}, 1)
    assert two.take(newest(local_store, PLACE), "shared", {}, 1)
    with pytest.raises(SubscriptionFenced):
        one.put({0: Progress(1)})


def test_a_deleted_one_is_not_revived_by_its_former_owner(local_store: LocalStore) -> None:
    former, deleting = taken(local_store, "a", 3), taken(local_store, "b")
    generation = deleting.last_written.generation
    deleting.delete()
    found = newest(local_store, PLACE)
    assert found is not None
    assert found.deleted
    for owner in (former, deleting):
        with pytest.raises(SubscriptionFenced, match="was deleted by b"):
            owner.put({0: Progress(5, "e")})
    anew = taken(local_store, "c", 42)
    assert anew.last_written.partitions[0].mark == 42
    assert anew.last_written.generation != generation


def test_all_of_a_topic(any_store: ObjectStore) -> None:
    for number, name in enumerate(["one", "two", "three"]):
        for topic in ("orders", "orders-part-2", "orders2"):
            owner = Ownership(any_store, SubscriptionName(name, "shop", topic), World(), "a")
            assert owner.take(None, "shared", {0: Progress(number)}, 1)
            if name == "two":
                owner.delete()
    found = list(saved_subscriptions(any_store, "shop", "orders", 1))
    marks = {(each.full_name.subscription, each.partition): each.checkpoint.partitions[0].mark for each in found}
    assert marks == {("one", None): 0, ("one", 2): 0, ("three", None): 2, ("three", 2): 2}
    assert not list(saved_subscriptions(any_store, "shop", "orders", 2)), (
        "those of a topic that was deleted are gone with it"
    )


def test_that_of_a_topic_that_was_deleted_begins_anew(local_store: LocalStore) -> None:
    former = taken(local_store, start=7)
    anew = Ownership(local_store, PLACE, World(), "b")
    assert anew.take(newest(local_store, PLACE), "exclusive", {0: Progress(40)}, 2)
    assert (anew.last_written.kind, anew.last_written.partitions[0].mark) == ("exclusive", 40)
    assert anew.last_written.generation != former.last_written.generation
    with pytest.raises(SubscriptionFenced):
        former.put({0: Progress(8)})


@pytest.mark.parametrize("fault", ["before", "after", "delayed"])
def test_puts_of_unknown_outcome(local_store: LocalStore, fault: str) -> None:
    store = FaultyStore(local_store, random.Random(1))
    owner = taken(store)
    for mark in range(1, 10):
        store.faults = Faults(**{fault: 1.0})
        with pytest.raises(StorageUnavailable):
            owner.put({0: Progress(mark, "e")})
        store.faults = NO_FAULTS
        owner.put({0: Progress(mark + 100, "e")})
        store.release_delayed()
        assert stored_mark(store) == mark + 100
    taken(store, "b")
    with pytest.raises(SubscriptionFenced):
        owner.put({0: Progress(1000, "e")})


def test_random_owners_and_faults(local_store: LocalStore, seed: int) -> None:
    """Marks only grow, because each owner continues from what it took. A fenced one never lowers them."""
    rng = random.Random(seed)
    store = FaultyStore(local_store, rng)
    owners = [(taken(store), 0)]
    highest = 0
    for step in range(300):
        store.faults = Faults(before=0.1, after=0.1, delayed=0.1)
        try:
            if rng.random() < 0.2:
                owner = Ownership(store, PLACE, World(), f"p{step}")
                if owner.take(newest(store, PLACE), "shared", {}, 1):
                    owners.append((owner, owner.last_written.partitions[0].mark))
            else:
                index = rng.randrange(len(owners))
                owner, mark = owners[index]
                owners[index] = owner, mark + 1
                owner.put({0: Progress(mark + 1, "e")})
                assert owner is owners[-1][0]
        except StorageUnavailable:
            continue
        except SubscriptionFenced:
            # This may be the newest of the owners here, because another took over without ever being told so.
            continue
        finally:
            store.faults = NO_FAULTS
            if rng.random() < 0.3:
                store.release_delayed()
            now = stored_mark(store)
            assert now >= highest
            highest = now


def test_a_checkpoint_that_cannot_be_read_is_named(local_store: LocalStore) -> None:
    taken(local_store)
    local_store.put_new(PLACE.key(2), json.dumps({"owner": "x"}).encode())
    with pytest.raises(LogCorrupted, match=r"subscriptions/billing/shop/orders/0+2\.json.*Delete it"):
        newest(local_store, PLACE)


@pytest.mark.parametrize("name", ["plain", "with space", "ünï/cödé", "..", ".", "a\\b", "100%", "-"])
def test_any_name(any_store: ObjectStore, name: str) -> None:
    place = SubscriptionName(name, "ns", "topic")
    owner = Ownership(any_store, place, World(), "a")
    assert owner.take(None, "shared", {0: Progress(4)}, 1)
    found = newest(any_store, place)
    assert found is not None
    assert found.partitions[0].mark == 4
    assert list(subscriptions_of(any_store, "ns", "topic")) == [(place, None)]
    assert list(subscriptions_of(any_store, "ns", "topi")) == []


@pytest.mark.parametrize("name", ["", "x" * 201, "ü" * 70])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(RequestError, match="cannot be the name of a subscription"):
        _ = SubscriptionName(name, "ns", "topic").prefix
