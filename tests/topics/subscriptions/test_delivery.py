"""Tests single steps of the delivery, at times that the test decides."""

from __future__ import annotations

from collections import Counter

import pytest

from frazil.errors import NotDelivered
from frazil.topics.messages import Message, to_batch
from frazil.topics.subscriptions.delivery import TIMED_OUT, Delivered, Delivery
from frazil.topics.subscriptions.key_routing import HashRing, key_runs, one_of
from frazil.topics.subscriptions.options import Kind, Options
from frazil.topics.subscriptions.progress import Progress
from tests.topics.subscriptions.support import key_of, records


def opened(kind: Kind, *consumers: str, rows: int = 10, **options: object) -> Delivery:
    delivery = Delivery(Options(kind, **options), {0: Progress()})  # type: ignore[arg-type]
    for name in consumers:
        number, _ = delivery.join(name, 0.0)
        delivery.request(number, 1_000_000)
    delivery.feed(records(0, 0, rows), 0.0)
    return delivery


def ranges(runs: list[Delivered]) -> list[tuple[int, int]]:
    return [(run.first, run.end) for run in runs]


def by_seat(runs: list[Delivered]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for run in runs:
        found.setdefault(run.consumer, []).extend(range(run.first, run.end))
    return found


def test_one_range_where_nothing_differs() -> None:
    delivery = opened(Kind.EXCLUSIVE, "a", rows=1000)
    assert ranges(delivery.hand_out(0.0)) == [(0, 1000)]
    delivery.ack(0, 0, 999, 0.0)
    assert len(delivery.backlogs[0].entries) == 1


def test_delays_double_up_to_the_longest() -> None:
    delivery = opened(Kind.SHARED, "a", rows=1, base_delay_seconds=1.0, max_delay_seconds=5.0, max_redeliveries=100)
    now = 10.0
    for delay in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert ranges(delivery.hand_out(now)) == [(0, 1)]
        delivery.nack(0, 0, 1, now)
        assert delivery.next_tick() == now + delay
        assert delivery.hand_out(now + delay - 0.001) == []
        now += delay


@pytest.mark.parametrize(("asked", "delay"), [(0.0, 1.0), (0.5, 1.0), (3.0, 3.0), (99.0, 5.0)])
def test_a_consumer_may_ask_for_more_delay_but_not_for_less(asked: float, delay: float) -> None:
    delivery = opened(Kind.EXCLUSIVE, "a", rows=1, base_delay_seconds=1.0, max_delay_seconds=5.0)
    delivery.hand_out(0.0)
    delivery.nack(0, 0, 1, 7.0, delay=asked)
    assert delivery.next_tick() == 7.0 + delay


def test_what_times_out_waits_and_comes_again() -> None:
    delivery = opened(Kind.EXCLUSIVE, "a", rows=3, ack_timeout_seconds=30.0, max_redeliveries=0, poison="dead_letter")
    delivery.hand_out(0.0)
    assert delivery.next_tick() == 30.0
    assert delivery.hand_out(29.9) == []
    assert ranges(delivery.hand_out(30.0)) == [(1, 2)], "those behind it are not to blame"
    (letter,) = delivery.take_dead_letters()
    assert (letter.first, letter.end, letter.reason, letter.deliveries) == (0, 1, TIMED_OUT, 1)
    assert delivery.backlogs[0].progress.mark == 0, "not acknowledged before it is stored"
    delivery.dead_letter_stored(letter, 30.0)
    assert delivery.backlogs[0].progress.mark == 1


@pytest.mark.parametrize("kind", list(Kind))
def test_a_consumer_that_is_slow_is_given_time(kind: Kind) -> None:
    """The consumer has a hundred messages and finishes one every ten seconds. None of them is delivered again."""
    delivery = opened(kind, "a", rows=100, ack_timeout_seconds=30.0)
    queue = [offset for run in delivery.hand_out(0.0) for offset in range(run.first, run.end)]
    assert len(queue) == 100
    for number, offset in enumerate(queue[:29]):
        now = 10.0 * number
        assert delivery.hand_out(now) == []
        delivery.ack(0, offset, offset + 1, now)
    assert delivery.counters.redelivered == 0


def test_what_a_consumer_forgot_comes_again() -> None:
    delivery = opened(Kind.SHARED, "a", rows=100, ack_timeout_seconds=30.0)
    delivery.hand_out(0.0)
    seen: list[tuple[float, int, int, int]] = []
    for number in range(1, 60):
        now = 5.0 * number
        seen += [(now, run.first, run.end, run.deliveries) for run in delivery.hand_out(now)]
        delivery.ack(0, number, number + 1, now)
    assert seen == [(70.0, 0, 1, 2)], "30 to 60 seconds after the one behind it was acknowledged, and a second"


def test_only_the_first_is_to_blame_when_a_consumer_is_stuck() -> None:
    delivery = opened(Kind.SHARED, "a", rows=100, ack_timeout_seconds=30.0, max_redeliveries=0, poison="dead_letter")
    delivery.hand_out(0.0)
    assert ranges(delivery.hand_out(30.0)) == [(1, 2)], "and no more at a time until it answers"
    assert [(letter.first, letter.end) for letter in delivery.take_dead_letters()] == [(0, 1)]
    assert delivery.hand_out(31.0) == []
    delivery.ack(0, 1, 2, 32.0)
    assert ranges(delivery.hand_out(32.0)) == [(2, 100)]


def test_a_refused_message_takes_those_behind_it_along() -> None:
    delivery = opened(Kind.EXCLUSIVE, "a", base_delay_seconds=1.0)
    delivery.hand_out(0.0)
    delivery.nack(0, 4, 5, 0.0)
    delivery.ack(0, 6, 8, 0.5)
    delivery.feed(records(0, 10, 12), 0.5)
    assert delivery.hand_out(0.5) == [], "nothing overtakes it"
    assert ranges(delivery.hand_out(1.0)) == [(4, 5), (5, 6), (8, 10), (10, 12)]
    assert delivery.consumers[0].in_flight == 10


def test_in_turn_by_room() -> None:
    delivery = opened(Kind.SHARED, "a", "b", "c", rows=90, window=20)
    shares = by_seat(delivery.hand_out(0.0))
    assert {consumer: len(offsets) for consumer, offsets in shares.items()} == {1: 20, 2: 20, 3: 20}
    delivery.ack(0, shares[2][0], shares[2][0] + 5, 0.0)
    assert {consumer: len(offsets) for consumer, offsets in by_seat(delivery.hand_out(0.0)).items()} == {2: 5}


def test_one_message_at_a_time_goes_round() -> None:
    delivery = opened(Kind.SHARED, "a", "b", "c", rows=1)
    order = [run.consumer for run in delivery.hand_out(0.0)]
    for offset in range(1, 9):
        delivery.feed(records(0, offset, offset + 1), 0.0)
        order += [run.consumer for run in delivery.hand_out(0.0)]
    assert order == [1, 2, 3] * 3


def test_a_key_moves_when_nothing_of_it_is_in_flight() -> None:
    delivery = opened(Kind.KEY_SHARED, "a", rows=50)
    assert {consumer: len(offsets) for consumer, offsets in by_seat(delivery.hand_out(0.0)).items()} == {1: 50}
    joined, _ = delivery.join("b", 0.0)
    delivery.request(joined, 1000)
    delivery.feed(records(0, 50, 100), 0.0)
    assert joined not in by_seat(delivery.hand_out(0.0)), "everything of its keys is with the first"
    moving = {key_of(offset) for offset in range(5) if HashRing(["a", "b"]).owner(key_of(offset)) == "b"}
    assert 0 < len(moving) < 5
    delivery.feed(records(0, 100, 150), 0.0)
    assert joined not in by_seat(delivery.hand_out(0.0))
    for offset in range(150):
        delivery.ack(0, offset, offset + 1, 0.0)
    delivery.feed(records(0, 150, 200), 0.0)
    got = by_seat(delivery.hand_out(0.0))
    assert {key_of(offset) for offset in got[joined]} == moving
    assert len(got[1]) + len(got[joined]) == 50


def test_one_key_that_waits_does_not_stop_others() -> None:
    delivery = opened(Kind.KEY_SHARED, "a", base_delay_seconds=1.0)
    delivery.hand_out(0.0)
    delivery.nack(0, 0, 1, 0.0)
    delivery.feed(records(0, 10, 20), 0.0)
    got = by_seat(delivery.hand_out(0.0))[1]
    assert got
    assert key_of(0) not in {key_of(offset) for offset in got}
    later = by_seat(delivery.hand_out(1.0))[1]
    assert later == [offset for offset in range(20) if key_of(offset) == key_of(0)]


def test_without_a_key_the_producer_is_it() -> None:
    batch = to_batch(
        [
            Message(b"", producer_name="p"),
            Message(b"", producer_name="p", routing_key="k"),
            Message(b"", producer_name="q", routing_key="k"),
            Message(b"", producer_name="k"),
            Message(b""),
        ],
        0,
    )
    assert list(key_runs(batch)) == [("p", 0, 1), ("k", 1, 4), ("", 4, 5)]
    assert list(key_runs(batch.slice(2, 2))) == [("k", 0, 2)]
    assert list(key_runs(batch.slice(0, 0))) == []


def test_one_more_consumer_takes_only_keys_that_become_its_own() -> None:
    keys = [f"key {number}" for number in range(3000)]
    before, after = HashRing(["a", "b", "c"]), HashRing(["c", "d", "b", "a"])
    moved = Counter((before.owner(key), after.owner(key)) for key in keys if before.owner(key) != after.owner(key))
    assert {new for _, new in moved} == {"d"}
    shares = Counter(after.owner(key) for key in keys)
    assert all(450 < shares[name] < 1100 for name in "abcd")
    assert HashRing([]).owner("x") is None


def test_keys_that_nobody_wants_are_passed_over() -> None:
    delivery = Delivery(Options(Kind.KEY_SHARED), {0: Progress()})
    for name, patterns in (("a", ["k0", "k1"]), ("b", ["k?"])):
        number, _ = delivery.join(name, 0.0, one_of(patterns))
        delivery.request(number, 1000)
    delivery.feed(records(0, 0, 10), 0.0)
    runs = delivery.hand_out(0.0)
    assert sum(len(run.batch) for run in runs) == 10, "what one does not want goes to the other"
    assert {key_of(offset) for offset in by_seat(runs).get(1, [])} <= {"k0", "k1"}

    alone = Delivery(Options(Kind.KEY_SHARED), {0: Progress()})
    number, _ = alone.join("a", 0.0, one_of(["k0"]))
    alone.request(number, 1000)
    alone.feed(records(0, 0, 10), 0.0)
    wanted = [offset for offset in range(10) if key_of(offset) == "k0"]
    assert by_seat(alone.hand_out(0.0)) == {number: wanted}
    assert not alone.take_unwanted(), "others may be about to come"
    assert by_seat(alone.hand_out(29.0)) == {}
    for offset in wanted:
        alone.ack(0, offset, offset + 1, 29.0)
    assert alone.hand_out(30.0) == []
    assert sum(end - start for _, start, end in alone.take_unwanted()) == 10 - len(wanted)
    assert alone.counters.unwanted == 10 - len(wanted)
    assert alone.backlogs[0].progress.mark == 10
    assert not alone.backlogs[0].entries


@pytest.mark.parametrize("left", [True, False])
def test_keys_of_somebody_who_may_come_wait(left: bool) -> None:
    delivery = Delivery(Options(Kind.KEY_SHARED), {0: Progress()})

    def join(name: str, now: float, *patterns: str) -> int:
        number, _ = delivery.join(name, now, one_of(patterns))
        delivery.request(number, 1000)
        return number

    first = join("a", 50.0 if left else 100.0, "k0")
    if left:
        delivery.leave(join("b", 50.0, "k1"), 100.0)
    delivery.feed(records(0, 0, 10), 100.0)
    wanted = {key: [offset for offset in range(10) if key_of(offset) == key] for key in ("k0", "k1")}
    assert by_seat(delivery.hand_out(100.0)) == {first: wanted["k0"]}
    assert not delivery.take_unwanted()
    assert delivery.next_tick() == 130.0
    second = join("b", 120.0, "k1")
    assert by_seat(delivery.hand_out(120.0)) == {second: wanted["k1"]}
    assert not delivery.hand_out(130.0)
    assert sum(end - start for _, start, end in delivery.take_unwanted()) == 6


@pytest.mark.parametrize(
    ("patterns", "keys", "others"),
    [
        (["eu-*"], ["eu-", "eu-west\n1"], ["us-1", "eu", "x-eu-1"]),
        (["a?", "b"], ["ab", "a?", "b"], ["a", "abc", "bb"]),
        (["a.[b]*"], ["a.[b]", "a.[b]c"], ["axb", "a.b"]),
    ],
)
def test_patterns_of_keys(patterns: list[str], keys: list[str], others: list[str]) -> None:
    accepts = one_of(patterns)
    assert [key for key in (*keys, *others) if accepts(key)] == keys


def test_runs_that_were_read_twice_count_once() -> None:
    delivery = opened(Kind.EXCLUSIVE, "a")
    delivery.feed(records(0, 5, 15), 0.0)
    assert ranges(delivery.hand_out(0.0)) == [(0, 10), (10, 15)]
    with pytest.raises(ValueError, match="offset 15 was to be read next, not 16"):
        delivery.feed(records(0, 16, 17), 0.0)


def test_settled_messages_are_not_kept_by_timers() -> None:
    delivery = opened(Kind.KEY_SHARED, "a", rows=0, window=100_000, prefetch_size=100_000)
    for start in range(0, 20_000, 100):
        delivery.feed(records(0, start, start + 100), 0.0)
        delivery.hand_out(0.0)
        delivery.ack(0, start, start + 100, 0.0)
    assert len(delivery._timers) <= 2000
    assert all(entry.held.batch.num_rows == 0 for _, _, entry, _ in delivery._timers)
    assert delivery.next_tick() is None


def test_a_new_epoch_before_anything_was_delivered() -> None:
    delivery = opened(Kind.EXCLUSIVE, "a")
    assert delivery.feed(records(0, 4, 6, "e2"), 0.0)
    assert delivery.backlogs[0].position == 6
    assert [(run.first, run.end, run.epoch) for run in delivery.hand_out(0.0)] == [(0, 4, "e1"), (4, 6, "e2")]


def test_a_former_process_delivered_nothing_of_a_new_epoch() -> None:
    delivery = Delivery(Options(), {0: Progress(0, "e1")}, restored=True)
    delivery.join("a", 0.0)
    delivery.feed(records(0, 0, 5), 0.0)
    delivery.ack(0, 3, 4, 0.0)
    delivery.feed(records(0, 5, 9, "e2"), 0.0)
    with pytest.raises(NotDelivered):
        delivery.ack(0, 6, 7, 0.0)


@pytest.mark.parametrize("kind", list(Kind))
def test_nothing_is_held_for_nobody(kind: Kind) -> None:
    delivery = opened(kind, "a", rows=0)
    delivery.request(1, 4)
    delivery.feed(records(0, 0, 1000), 0.0)
    delivered = sorted(offset for run in delivery.hand_out(0.0) for offset in range(run.first, run.end))
    delivery.leave(1, 0.0)
    backlog = delivery.backlogs[0]
    assert backlog.position == delivered[-1] + 1
    assert backlog.undelivered == backlog.position - 4
    joined, _ = delivery.join("b", 0.0)
    delivery.request(joined, 1_000_000)
    delivery.feed(records(0, backlog.position, 1000), 0.0)
    got = sorted(offset for run in delivery.hand_out(0.0) for offset in range(run.first, run.end))
    assert got == list(range(1000)), "none left out"


@pytest.mark.parametrize("kind", [Kind.FAILOVER, Kind.KEY_SHARED])
def test_everything_in_order_has_its_share_of_the_room(kind: Kind) -> None:
    delivery = Delivery(Options(kind, window=100), {0: Progress(), 1: Progress()})
    delivery.join("a", 0.0)
    delivery.request(1, 1_000_000)
    for partition in range(2):
        delivery.feed(records(partition, 0, 500), 0.0)
    runs = delivery.hand_out(0.0)
    if kind is Kind.FAILOVER:
        shares = Counter({run.partition: run.batch.num_rows for run in runs})
        assert shares == {0: 50, 1: 50}
    else:
        keys = Counter(key_of(offset) for run in runs for offset in range(run.first, run.end))
        assert keys == {f"k{number}": 20 for number in range(5)}
