"""Compares random lives of a topic with a subscriber with plain lists.

Everything happens that happens to a topic in `test_machine`, while a consumer receives, acknowledges, refuses or
forgets messages of a durable subscription. Each message comes until it is acknowledged and never again, in order
where there is one, and the consumer learns what retention removed.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from frazil.errors import OffsetGone
from frazil.topics.messages import from_batch
from frazil.topics.read.starts import EARLIEST, LATEST, Start
from frazil.topics.subscription_manager import SubscriptionManager
from frazil.topics.subscriptions.consumer import Consumer
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.options import Kind
from frazil.topics.subscriptions.subscription import Subscription
from tests.examples import examples
from tests.topics.machine import PARTITIONS, TopicLife
from tests.topics.subscriptions.support import crash
from tests.topics.support import TIME, TOPIC, Shop

NAME = "billing"
SETTINGS = {TOPIC: {"subscriptions": {"redelivery_delay_seconds": 0.001, "max_redeliveries": 1000}}}
PATIENCE = 0.05
"""Nothing is expected after this many seconds. What is expected comes in any case before the end."""
PATIENT = 20.0


class SubscribedLife(TopicLife):
    subscription: Subscription | None = None
    consumer: Consumer | None = None

    def make_shop(self) -> Shop:
        shop = Shop(self.folder, topics=SETTINGS)
        self.subscriptions = SubscriptionManager(shop.topics, shop.log, "a test")
        return shop

    @initialize(kind=st.sampled_from([Kind.EXCLUSIVE, Kind.SHARED, Kind.KEY_SHARED]), at_once=st.booleans())
    def begin(self, kind: Kind, at_once: bool) -> None:
        super().begin()
        self.kind = kind
        self.first = [0] * PARTITIONS
        """The subscription began at these offsets."""
        self.acknowledged: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self.flying: list[set[int]] = [set() for _ in range(PARTITIONS)]
        """The consumer has these messages."""
        for partition in range(PARTITIONS):
            self.produce(partition, 10)
        if at_once:
            self.subscribe("earliest", [0.0] * PARTITIONS, 0)

    # --- the subscription --------------------------------------------------------------------------------------

    @precondition(lambda self: self.subscription is None)
    @rule(
        where=st.sampled_from(["earliest", "latest", "offset", "time"]),
        shares=st.lists(st.floats(0, 1), min_size=PARTITIONS, max_size=PARTITIONS),
        back=st.integers(0, 100),
    )
    def subscribe(self, where: str, shares: list[float], back: int) -> None:
        ends = [len(each) for each in self.expected]
        left = [min(self.gone[each], self.log_start(each)) for each in range(PARTITIONS)]
        at = {each: left[each] + int(shares[each] * (ends[each] - left[each])) for each in range(PARTITIONS)}
        wanted = self.next - back
        start = {
            "earliest": EARLIEST,
            "latest": LATEST,
            "offset": Start.at(at),
            "time": Start.since(TIME + wanted),
        }[where]
        for partition, numbers in enumerate(self.expected):
            found = [each for each, number in enumerate(numbers) if number >= wanted and each >= left[partition]]
            self.first[partition] = {
                "earliest": left[partition],
                "latest": ends[partition],
                "offset": at[partition],
                "time": found[0] if found else ends[partition],
            }[where]
        self.subscription = self.run(self.subscriptions.subscribe(TOPIC, NAME, self.kind, start))

    def opened(self) -> Subscription:
        assert self.subscription is not None
        if self.subscription.stopped is not None:
            self.subscription = self.run(self.subscriptions.existing(TOPIC, NAME))
        return self.subscription

    def joined(self) -> Consumer:
        subscription = self.opened()
        if self.consumer is None:
            self.consumer = self.in_loop(lambda: subscription.join("c"))
        return self.consumer

    @precondition(lambda self: self.subscription is not None)
    @rule(most=st.integers(1, 20), every=st.integers(1, 3))
    def acknowledge_some(self, most: int, every: int) -> None:
        for place in self.received(most, PATIENCE)[::every]:
            self.acknowledge(*place)

    @precondition(lambda self: self.subscription is not None)
    @rule(most=st.integers(1, 20), pick=st.integers())
    def refuse_one(self, most: int, pick: int) -> None:
        if places := self.received(most, PATIENCE):
            self.refuse(*places[pick % len(places)])

    @precondition(lambda self: self.subscription is not None)
    @rule(most=st.integers(1, 20), pick=st.integers())
    def acknowledge_one_and_die(self, most: int, pick: int) -> None:
        if places := self.received(most, PATIENCE):
            self.acknowledge(*places[pick % len(places)])
        self.die()

    def received(self, most: int, patience: float) -> list[tuple[int, int]]:
        """Receives some messages and checks them."""
        consumer = self.joined()
        try:
            runs = self.run(consumer.receive(most, patience))
        except OffsetGone:
            self.pass_over_the_gone()
            return []
        return [(run.partition, offset) for run in runs for offset in self.seen(run)]

    def seen(self, run: Delivered) -> range:
        where = run.partition
        assert [int(each.payload) for each in from_batch(run.batch)] == self.expected[where][run.first : run.end]
        offsets = range(run.first, run.end)
        assert not self.acknowledged[where].intersection(offsets), "acknowledged, and delivered again"
        assert run.first >= self.first[where]
        if self.kind is Kind.EXCLUSIVE:
            before = set(range(self.first[where], run.first))
            assert before <= self.acknowledged[where] | self.flying[where], "out of order"
        assert not self.flying[where].intersection(offsets), "delivered while somebody has it"
        self.flying[where].update(offsets)
        return offsets

    def acknowledge(self, partition: int, offset: int) -> None:
        self.run(self.joined().ack(partition, offset))
        self.acknowledged[partition].add(offset)
        self.flying[partition].discard(offset)

    def refuse(self, partition: int, offset: int) -> None:
        self.run(self.joined().nack(partition, offset))
        taken_back = (
            {offset} if self.kind is Kind.SHARED else {each for each in self.flying[partition] if each >= offset}
        )
        self.flying[partition] -= taken_back

    def pass_over_the_gone(self) -> None:
        subscription = self.opened()
        for partition in [*subscription.problems]:
            first_left = self.run(subscription.skip_gone(partition))
            assert first_left == min(self.gone[partition], self.log_start(partition))
            told = set(range(self.first[partition], first_left))
            assert told - self.acknowledged[partition], "it missed nothing"
            self.acknowledged[partition] |= told
            self.flying[partition] -= told

    @precondition(lambda self: self.consumer is not None)
    @rule()
    def leave(self) -> None:
        assert self.consumer is not None
        consumer, self.consumer = self.consumer, None
        self.in_loop(consumer.close)
        self.flying = [set() for _ in range(PARTITIONS)]

    @precondition(lambda self: self.subscription is not None)
    @rule(how=st.sampled_from(["checkpoint", "hand over"]))
    def store(self, how: str) -> None:
        subscription = self.opened()
        if how == "checkpoint":
            self.run(subscription.checkpoint())
        else:
            self.run(subscription.close())
            self.forget_consumer()

    def forget_consumer(self) -> None:
        self.consumer = None
        self.flying = [set() for _ in range(PARTITIONS)]

    def let_go(self) -> None:
        """Ends as a killed process does, without a checkpoint."""

        async def end() -> None:
            if self.subscription is not None:
                await self.subscription._end()
            if self.subscriptions._growing is not None:
                self.subscriptions._growing.cancel()
            if self.subscriptions._journal is not None:
                crash(self.subscriptions._journal)

        self.run(end())
        self.forget_consumer()

    # --- the end -----------------------------------------------------------------------------------------------

    def everything_is_there(self) -> None:
        super().everything_is_there()
        if self.subscription is None:
            return
        while any(self.missing(partition) for partition in range(PARTITIONS)):
            passed_over = sum(map(len, self.acknowledged))
            places = self.received(100, PATIENT)
            assert places or sum(map(len, self.acknowledged)) > passed_over, "something is not delivered"
            for place in places:
                self.acknowledge(*place)
        ends = {partition: len(each) for partition, each in enumerate(self.expected)}
        assert self.opened().stats(ends).lag == 0

    def missing(self, partition: int) -> set[int]:
        """Returns what is neither acknowledged nor with the consumer, which forgot it. It leaves, so that they come
        again."""
        if self.flying[partition]:
            self.leave()
        return set(range(self.first[partition], len(self.expected[partition]))) - self.acknowledged[partition]


TestSubscribedLife = SubscribedLife.TestCase
TestSubscribedLife.settings = settings(max_examples=examples(8), stateful_step_count=40, deadline=None)
