"""Compares random lives of a subscription with a simple model of who has what.

Every message is delivered until it is acknowledged or dead, never to two consumers at once, in the order its type
promises, not before its delay is over, and never again once it is acknowledged.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from frazil.config.sections.subscriptions import Poison
from frazil.errors import ConsumerGone, ConsumerRefused, CumulativeRefused, NotDelivered
from frazil.topics.messages import from_batch
from frazil.topics.subscriptions.delivery import Delivered, Delivery, FailedMessages
from frazil.topics.subscriptions.options import Kind, Options
from frazil.topics.subscriptions.progress import Progress
from tests.examples import examples
from tests.topics.subscriptions.support import key_of, payload_of, records

PARTITIONS = 2
NAMES = ["ada", "ben", "cleo"]
Place = tuple[int, int]
"""These are a partition and an offset."""
PICK = st.integers(0, 1000)
HELD = [600, 1_000_000]
"""The limit in bytes allows about ten messages, or all."""
T = TypeVar("T")


def chosen(among: Sequence[T], pick: int) -> T:
    return among[pick % len(among)]


@dataclass
class Flight:
    consumer: int
    at: float
    number: int


@dataclass
class Answers:
    """Remembers when a consumer last answered, and the newest message that it answered, now and at two earlier
    times."""

    at: float = 0.0
    newest: int = 0
    before: int = 0
    passed: int = 0
    turned_at: float = 0.0


class SubscriptionLife(RuleBasedStateMachine):
    @initialize(
        kind=st.sampled_from(list(Kind)),
        poison=st.sampled_from(["block", "drop", "dead_letter"]),
        timeout=st.sampled_from([None, 10.0]),
        max_gaps=st.sampled_from([2, 5, 100]),
        redeliveries=st.integers(0, 2),
        held=st.sampled_from(HELD),
    )
    def begin(
        self, kind: Kind, poison: Poison, timeout: float | None, max_gaps: int, redeliveries: int, held: int
    ) -> None:
        self.options = Options(
            kind,
            window=7,
            prefetch_size=12,
            max_gaps=max_gaps,
            max_held_bytes=held,
            ack_timeout_seconds=timeout,
            base_delay_seconds=1.0,
            max_delay_seconds=5.0,
            max_redeliveries=redeliveries,
            poison=poison,
        )
        self.now = 100.0
        self.acked: set[Place] = set()
        self.letters: list[FailedMessages] = []
        self.dead_letter_stored: set[Place] = set()
        self.open({partition: Progress() for partition in range(PARTITIONS)}, restored=False)
        self.join("ada")
        self.turn(12, 5)

    def open(self, backlogs: dict[int, Progress], *, restored: bool) -> None:
        self.delivery = Delivery(self.options, backlogs, restored=restored)
        self.line: list[tuple[str, int]] = []
        """These are names and numbers of consumers, in the order they joined."""
        self.credit: dict[int, int] = {}
        self.in_flight: dict[Place, Flight] = {}
        self.flights = 0
        self.answers: dict[int, Answers] = {}
        self.delivered: set[Place] = set()
        self.failures: dict[Place, int] = {}
        self.due: dict[Place, float] = {}
        self.dead: set[Place] = set()
        self.letters = []

    # --- what happens ------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES))
    def join(self, name: str) -> None:
        former = next((number for other, number in self.line if other == name), None)
        if self.options.kind is Kind.EXCLUSIVE and self.line and former is None:
            with pytest.raises(ConsumerRefused, match=repr(self.line[0][0])):
                self.delivery.join(name, self.now)
            return
        number, replaced = self.delivery.join(name, self.now)
        assert replaced == former
        if former is None:
            self.line.append((name, number))
        else:
            self.line[self.line.index((name, former))] = (name, number)
            self.forget(former)
        self.credit[number] = 0

    @rule(pick=PICK)
    def leave(self, pick: int) -> None:
        if not self.line:
            return
        gone = chosen(self.line, pick)
        self.line.remove(gone)
        self.delivery.leave(gone[1], self.now)
        self.forget(gone[1])
        with pytest.raises(ConsumerGone):
            self.delivery.request(gone[1], 1)

    def forget(self, number: int) -> None:
        del self.credit[number]
        self.in_flight = {place: flight for place, flight in self.in_flight.items() if flight.consumer != number}

    @rule(pick=PICK, rows=st.integers(0, 9))
    def request(self, pick: int, rows: int) -> None:
        if not self.line:
            return
        _, number = chosen(self.line, pick)
        self.delivery.request(number, rows)
        self.credit[number] = rows

    @rule(partition=st.integers(0, PARTITIONS - 1), most=st.integers(1, 12))
    def feed(self, partition: int, most: int) -> None:
        rows = min(most, self.delivery.wants(partition))
        if rows:
            position = self.delivery.backlogs[partition].position
            assert not self.delivery.feed(records(partition, position, position + rows), self.now)

    @rule()
    def hand_out(self) -> None:
        self.time_out()
        for run in self.delivery.hand_out(self.now):
            self.check_run(run)
        self.check_dropped()

    @rule(read=st.integers(0, 12), rows=st.integers(1, 9))
    def turn(self, read: int, rows: int) -> None:
        """Does all that leads to deliveries at once, because chance alone seldom does it in the right order."""
        for _, number in self.line:
            self.delivery.request(number, rows)
            self.credit[number] = rows
        for partition in range(PARTITIONS):
            self.feed(partition, read)
        self.hand_out()

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.5, 10.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.hand_out()

    @rule(pick=PICK, rows=st.integers(1, 5))
    def ack(self, pick: int, rows: int) -> None:
        if not self.in_flight:
            return
        partition, start = chosen(sorted(self.in_flight), pick)
        end = start
        while end < start + rows and ((partition, end) in self.delivered or (partition, end) in self.acked):
            end += 1
        self.delivery.ack(partition, start, end, self.now)
        self.settle(partition, start, end)

    @rule(pick=PICK)
    def ack_late(self, pick: int) -> None:
        """Also acknowledges messages that are with another consumer by now, wait, are dead or were acknowledged
        before."""
        if not self.delivered:
            return
        partition, offset = chosen(sorted(self.delivered), pick)
        self.delivery.ack(partition, offset, offset + 1, self.now)
        self.settle(partition, offset, offset + 1)

    @rule(pick=PICK)
    def ack_until(self, pick: int) -> None:
        if not self.delivered:
            return
        partition, offset = chosen(sorted(self.delivered), pick)
        if not self.options.ordered:
            with pytest.raises(CumulativeRefused):
                self.delivery.ack_until(partition, offset, self.now)
            return
        self.delivery.ack_until(partition, offset + 1, self.now)
        self.settle(partition, 0, offset + 1)

    @rule(partition=st.integers(0, PARTITIONS - 1), ahead=st.integers(0, 3), refuse=st.booleans())
    def answer_what_was_never_delivered(self, partition: int, ahead: int, refuse: bool) -> None:
        backlog = self.delivery.backlogs[partition]
        offset = max(backlog.position, backlog.progress.end) + ahead
        with pytest.raises(NotDelivered, match=f"Offset {offset} of partition {partition}"):
            (self.delivery.nack if refuse else self.delivery.ack)(partition, offset, offset + 1, self.now)

    @rule(pick=PICK, rows=st.integers(1, 3), delay=st.sampled_from([0.0, 3.0, 100.0]))
    def nack(self, pick: int, rows: int, delay: float) -> None:
        if not self.in_flight:
            return
        partition, start = chosen(sorted(self.in_flight), pick)
        end = start
        while end < start + rows and (partition, end) in self.delivered:
            end += 1
        self.delivery.nack(partition, start, end, self.now, delay=delay, reason="no")
        refused = sorted(p for p in self.in_flight if p[0] == partition and start <= p[1] < end)
        for place in refused:
            self.answered(self.in_flight[place])
        self.fail(refused, delay)
        self.check_dropped()

    @rule(pick=PICK)
    def nack_by_another(self, pick: int) -> None:
        """A consumer that does not have the message, or not any more, changes nothing."""
        if not self.in_flight:
            return
        partition, offset = chosen(sorted(self.in_flight), pick)
        other = self.in_flight[partition, offset].consumer + 1
        self.delivery.nack(partition, offset, offset + 1, self.now, consumer=other)

    @rule()
    def take_dead_letters(self) -> None:
        for letter in self.delivery.take_dead_letters():
            places = {(letter.partition, offset) for offset in range(letter.first, letter.end)}
            assert places <= self.dead
            assert not places & self.acked
            assert [m.payload for m in from_batch(letter.batch)] == [payload_of(*place) for place in sorted(places)]
            self.letters.append(letter)

    @rule(pick=PICK, stored=st.booleans())
    def bury(self, pick: int, stored: bool) -> None:
        if not self.letters:
            return
        letter = self.letters.pop(pick % len(self.letters))
        if stored:
            self.delivery.dead_letter_stored(letter, self.now)
            self.dead_letter_stored |= {(letter.partition, offset) for offset in range(letter.first, letter.end)}
            self.settle(letter.partition, letter.first, letter.end)
        else:
            self.delivery.dead_letter_failed(letter, self.now)

    @rule()
    def crash(self) -> None:
        stored = {p: json.dumps(backlog.progress.to_json()) for p, backlog in self.delivery.backlogs.items()}
        self.open({p: Progress.from_json(json.loads(each)) for p, each in stored.items()}, restored=True)

    # --- what must be so ---------------------------------------------------------------------------------

    def group(self, place: Place) -> object:
        """Returns what keeps its order together with this message."""
        if self.options.kind is Kind.SHARED:
            return place
        return (place[0], key_of(place[1])) if self.options.kind is Kind.KEY_SHARED else place[0]

    def is_late(self, flight: Flight) -> bool:
        """Returns whether the consumer is silent, or forgot this message."""
        timeout = self.options.ack_timeout_seconds
        if timeout is None or self.now - flight.at < timeout:
            return False
        answers = self.answers.get(flight.consumer, Answers())
        return self.now - answers.at >= timeout or flight.number < answers.passed

    def time_out(self) -> None:
        late: dict[int, list[Place]] = {}
        for place, flight in sorted(self.in_flight.items()):
            if self.is_late(flight):
                late.setdefault(flight.consumer, []).append(place)
        for places in late.values():
            stuck_at = min(places, key=lambda place: self.in_flight[place].number)
            self.fail([stuck_at], 0.0, along=places)

    def fail(self, blamed: list[Place], delay: float, along: Sequence[Place] = ()) -> None:
        first: dict[object, Place] = {}
        for place in sorted([*blamed, *along]):
            first.setdefault(self.group(place), place)
        for place in sorted(self.in_flight):
            if self.group(place) in first and place >= first[self.group(place)]:
                del self.in_flight[place]
        for place in blamed:
            count = self.failures[place] = self.failures.get(place, 0) + 1
            wait = max(delay, 2.0 ** (count - 1))
            if count > self.options.max_redeliveries:
                wait = 5.0
                if self.options.poison != "block":
                    self.dead.add(place)
            self.due[place] = self.now + min(5.0, wait)

    def check_dropped(self) -> None:
        dropped = {(p, offset) for p, start, end in self.delivery.take_dropped() for offset in range(start, end)}
        if self.options.poison == "drop":
            assert dropped == self.dead - self.acked
            self.acked |= dropped
        else:
            assert not dropped

    def check_run(self, run: Delivered) -> None:
        places = [(run.partition, offset) for offset in range(run.first, run.end)]
        assert [m.payload for m in from_batch(run.batch)] == [payload_of(*place) for place in places]
        assert run.epoch == "e1"
        assert (run.deliveries > 1) == (places[0] in self.delivered)
        for place in places:
            assert place not in self.acked, "acknowledged, and delivered again"
            assert place not in self.in_flight, "with two at once"
            assert place not in self.dead
            assert self.due.get(place, 0.0) <= self.now, "delivered before its delay is over"
            self.check_order(place, run.consumer)
            self.flights += 1
            self.in_flight[place] = Flight(run.consumer, self.now, self.flights)
            self.delivered.add(place)
        self.credit[run.consumer] -= len(places)
        assert self.credit[run.consumer] >= 0
        assert sum(flight.consumer == run.consumer for flight in self.in_flight.values()) <= self.options.window

    def check_order(self, place: Place, consumer: int) -> None:
        if self.options.ordered:
            assert consumer == self.line[0][1], "not the first in line"
        if self.options.kind is Kind.SHARED:
            return
        if self.options.kind is Kind.KEY_SHARED:
            holders = {
                flight.consumer for other, flight in self.in_flight.items() if key_of(other[1]) == key_of(place[1])
            }
            assert holders <= {consumer}, "a key is with two at once"
        mine = [other for other in self.in_flight if self.group(other) == self.group(place)]
        assert all(other < place for other in mine), "behind one that flies"
        before = {(place[0], offset) for offset in range(place[1])} - self.acked - self.dead
        assert {other for other in before if self.group(other) == self.group(place)} == set(mine), "left one out"

    def settle(self, partition: int, start: int, end: int) -> None:
        for offset in range(start, end):
            self.acked.add((partition, offset))
            if (flight := self.in_flight.pop((partition, offset), None)) is not None:
                self.answered(flight)

    def answered(self, flight: Flight) -> None:
        answers = self.answers.setdefault(flight.consumer, Answers())
        if self.now - answers.turned_at >= (self.options.ack_timeout_seconds or 1e9):
            answers.passed, answers.before, answers.turned_at = answers.before, answers.newest, self.now
        answers.at, answers.newest = self.now, max(answers.newest, flight.number)

    @invariant()
    def accounts_agree(self) -> None:
        for partition, backlog in self.delivery.backlogs.items():
            known = {
                (partition, offset) for offset in range(backlog.progress.end + 20) if backlog.progress.has(offset)
            }
            assert known == {place for place in self.acked if place[0] == partition}
            assert backlog.progress.gap_count <= self.options.max_gaps
            assert backlog.undelivered <= self.options.prefetch_size
        for _, number in self.line:
            in_flight = sum(flight.consumer == number for flight in self.in_flight.values())
            assert (
                next(consumer.in_flight for consumer in self.delivery.consumers if consumer.id == number) == in_flight
            )
        assert [consumer.name for consumer in self.delivery.consumers if self.options.kind is not Kind.SHARED] == [
            name for name, _ in self.line if self.options.kind is not Kind.SHARED
        ]

    def teardown(self) -> None:
        """Whatever happened, consumers that acknowledge get all that is left, and nothing stays behind."""
        if not hasattr(self, "delivery"):
            return
        if not self.line:
            self.join("ada")
        targets = {
            partition: max(backlog.position, backlog.progress.end) + 5
            for partition, backlog in self.delivery.backlogs.items()
        }
        for _ in range(2000):
            if all(
                backlog.progress.mark >= targets[partition] for partition, backlog in self.delivery.backlogs.items()
            ):
                break
            for _, number in self.line:
                self.delivery.request(number, 100)
                self.credit[number] = 100
            for partition, target in targets.items():
                missing = target - self.delivery.backlogs[partition].position
                if missing > 0:
                    self.feed(partition, missing)
            self.hand_out()
            self.take_dead_letters()
            for letter in list(self.letters):
                self.delivery.dead_letter_stored(letter, self.now)
                self.settle(letter.partition, letter.first, letter.end)
            self.letters = []
            for partition, offset in sorted(self.in_flight):
                self.delivery.ack(partition, offset, offset + 1, self.now)
                self.settle(partition, offset, offset + 1)
            self.now = max(self.now, self.delivery.next_tick() or 0.0)
        for partition, backlog in self.delivery.backlogs.items():
            assert backlog.progress.mark == targets[partition]
            assert (backlog.entries, backlog.undelivered, backlog.unsettled, backlog.held_bytes) == ([], 0, 0, 0)
            assert not backlog.progress.gaps


TestSubscriptionLife = SubscriptionLife.TestCase
TestSubscriptionLife.settings = settings(max_examples=examples(80), stateful_step_count=60)


WEIGHTS = {
    "join": 2.0,
    "leave": 1.0,
    "request": 3.0,
    "feed": 3.0,
    "pass_time": 6.0,
    "ack_late": 3.0,
    "ack_until": 1.0,
    "unknown": 1.0,
    "nack": 8.0,
    "nack_by_another": 1.0,
    "take_dead_letters": 3.0,
    "bury": 3.0,
    "crash": 0.3,
}


def step(life: SubscriptionLife, rng: random.Random, what: str) -> None:
    pick, partition = rng.randrange(1000), rng.randrange(PARTITIONS)
    match what:
        case "join":
            life.join(rng.choice(NAMES))
        case "request":
            life.request(pick, rng.randrange(10))
        case "feed":
            life.feed(partition, rng.randint(1, 12))
        case "turn":
            life.turn(rng.randrange(13), rng.randint(1, 9))
        case "pass_time":
            life.pass_time(rng.choice([0.5, 1.0, 2.5, 10.0]))
        case "ack":
            life.ack(pick, rng.randint(1, 5))
        case "unknown":
            life.answer_what_was_never_delivered(partition, rng.randrange(3), rng.random() < 0.5)
        case "nack":
            life.nack(pick, rng.randint(1, 3), rng.choice([0.0, 3.0, 100.0]))
        case "bury":
            life.bury(pick, rng.random() < 0.7)
        case "take_dead_letters" | "crash":
            getattr(life, what)()
        case _:
            getattr(life, what)(pick)


def test_long_lives(seed: int) -> None:
    """More happens in one of these than in many short ones."""
    rng = random.Random(seed)
    for _ in range(25):
        life = SubscriptionLife()
        life.begin(
            rng.choice(list(Kind)),
            rng.choice(["block", "drop", "dead_letter"]),
            rng.choice([None, 10.0]),
            rng.choice([2, 5, 100]),
            rng.randrange(3),
            rng.choice(HELD),
        )
        busy = rng.choice([5.0, 20.0])
        weights = WEIGHTS | {"turn": busy, "ack": busy}
        for what in rng.choices(list(weights), list(weights.values()), k=300):
            step(life, rng, what)
            life.accounts_agree()
        life.teardown()
