"""Serves Danube's consumers: they subscribe, receive one stream of messages, and acknowledge each message.

A client that lost its server keeps using its consumer id without subscribing again. So what an id stands for is
stored.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from frazil.doors.danube import wire
from frazil.doors.danube.ids import check_length, consumer_id, producer_id
from frazil.errors import ConsumerGone, IdUnknown, ObjectExists, ObjectNotFound, RequestError, SubscriptionNotFound
from frazil.store import ObjectStore
from frazil.topics.messages import from_batch
from frazil.topics.storage import TopicStorage
from frazil.topics.subscription_manager import SubscriptionManager
from frazil.topics.subscriptions.consumer import Consumer
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.delivery_slices import split, take_within, total_bytes
from frazil.topics.subscriptions.key_routing import Accepts, one_of
from frazil.topics.subscriptions.options import Kind
from frazil.topics.subscriptions.subscription import Subscription

_KINDS = {
    wire.EXCLUSIVE: Kind.EXCLUSIVE,
    wire.SHARED: Kind.SHARED,
    wire.FAILOVER: Kind.FAILOVER,
    wire.KEY_SHARED: Kind.KEY_SHARED,
}
_WINDOW = 100
"""A consumer has at most this many unacknowledged messages. Those in its queue when the server is killed are
delivered again."""
CHUNK_BYTES = 64 * 1024
"""So many bytes of messages are encoded at a time for sending. A larger message is encoded alone."""
MOST_FILTERS = 1000
MOST_REMEMBERED = 10_000
"""So many consumer ids are known without a look at the store."""
_SWEEP_SECONDS = 1.0
GONE_SECONDS = 15.0
"""A consumer that subscribed but receives nothing, and was silent for this long, does not exclude others any more.
Clients report every 5 seconds that they are there."""


@dataclass(frozen=True)
class _Registration:
    """Says what a consumer id stands for."""

    topic: str
    subscription: str
    consumer: str
    kind: str
    filters: Sequence[str] = ()
    """The consumer wants only keys that match these patterns. It wants all keys if there are none."""

    @property
    def accepts(self) -> Accepts | None:
        return one_of(self.filters) if self.filters else None


@dataclass
class _PendingConsumer:
    """Is a consumer that subscribed and does not receive yet."""

    consumer: Consumer
    subscription: Subscription
    seen: float


class Consumers:
    """Belongs to the event loop. Clients reach this process at `url`."""

    def __init__(
        self,
        storage: TopicStorage,
        subscriptions: SubscriptionManager,
        store: ObjectStore,
        url: str,
        monotonic: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._subscriptions = subscriptions
        self._store = store
        self._url = url
        self._monotonic = monotonic
        self._registrations: OrderedDict[int, _Registration] = OrderedDict()
        """These are the registrations used last. The store has all of them."""
        self._waiting: dict[int, _PendingConsumer] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def subscribe(self, request: Any) -> Any:
        if not request.consumer_name or not request.subscription:
            raise RequestError(f"A consumer of {request.topic_name!r} needs a name, and one of its subscription.")
        kind = _KINDS.get(request.subscription_type)
        if kind is None:
            raise RequestError(f"{request.subscription_type} is no type of subscription; there are 0 to 3.")
        filters = tuple(sorted(set(request.key_filters)))
        if len(filters) > MOST_FILTERS:
            raise RequestError(f"A consumer has at most {MOST_FILTERS:,} filters of keys, not {len(filters):,}.")
        for each in (request.consumer_name, request.subscription, *filters):
            check_length(each)
        if filters and kind is not Kind.KEY_SHARED:
            raise RequestError(f"Filters of keys are for key-shared subscriptions, and this one is {kind}.")
        await self._check_partition(request.topic_name)
        await self._storage.prepare(request.topic_name)
        part = self._part(request.topic_name)
        subscription = await self._subscriptions.subscribe(part, request.subscription, kind)
        registration = _Registration(
            request.topic_name, request.subscription, request.consumer_name, str(kind), filters
        )
        number = consumer_id(
            registration.topic,
            registration.subscription,
            registration.kind,
            registration.consumer,
            registration.filters,
        )
        await asyncio.to_thread(self._register, number, registration)
        self._remember(number, registration)
        consumer = self._join(subscription, registration)
        self._waiting[number] = _PendingConsumer(consumer, subscription, self._monotonic())
        self._sweep_later()
        return wire.ConsumerResponse(
            request_id=request.request_id, consumer_id=number, consumer_name=request.consumer_name
        )

    async def _check_partition(self, topic: str) -> None:
        """Refuses a stream of several partitions, because clients acknowledge a message by its offset alone."""
        name = self._storage.name(topic)
        count = await self._storage.partitions(topic)
        if name.partition is None and count > 1:
            raise RequestError(
                f"{topic!r} has {count} partitions: subscribe to each of them, {name.part(0)} and so on."
            )

    def _part(self, topic: str) -> str:
        """Returns the name of the partition that a stream reads: the one in the topic's name, or the only one.

        A topic may get more partitions later. Its clients learn that when they subscribe the next time.
        """
        name = self._storage.name(topic)
        return name.part(name.partition or 0)

    async def receive(self, request: Any) -> AsyncGenerator[Any, None]:
        """Yields all messages for a consumer until it goes."""
        registration = await self._known(request.consumer_id)
        at_most_once = await self._storage.dispatch(registration.topic) == "non_reliable"
        while True:
            subscription, consumer = await self._joined(request.consumer_id, registration)
            try:
                while True:
                    received = await consumer.receive(_WINDOW)
                    with closing(self._storage.memory.account()) as account:
                        runs, rest = take_within(received, account.allowed)
                        del received
                        consumer.give_back(rest)
                        account.add(total_bytes(runs))
                        if at_most_once:
                            await consumer.ack_all(runs)
                        while runs:
                            for piece in split(runs.pop(0), CHUNK_BYTES):
                                nbytes = piece.batch.nbytes
                                for message in self._messages(piece, registration):
                                    yield message
                                account.add(-nbytes)
            except ConsumerGone:
                # Another stream took over the session. If this one ended, its client would come back at once and take
                # it again. So it waits until no consumer of this name is left.
                while subscription.has(registration.consumer):
                    await asyncio.sleep(_SWEEP_SECONDS)
            finally:
                consumer.close()

    async def _joined(self, number: int, registration: _Registration) -> tuple[Subscription, Consumer]:
        """Returns the consumer that joined when it subscribed. If that was before this process began, it joins
        again."""
        pending = self._waiting.pop(number, None)
        if pending is not None and pending.subscription.stopped is None:
            return pending.subscription, pending.consumer
        try:
            subscription = await self._subscriptions.existing(
                self._part(registration.topic), registration.subscription
            )
        except SubscriptionNotFound as error:
            # Somebody deleted the subscription. The client must learn that its id is unknown, so that it subscribes
            # again.
            await asyncio.to_thread(self._store.delete, [_key(number)])
            self._registrations.pop(number, None)
            raise IdUnknown(str(error)) from error
        return subscription, self._join(subscription, registration)

    def _join(self, subscription: Subscription, registration: _Registration) -> Consumer:
        return subscription.join(registration.consumer, registration.accepts, _WINDOW)

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._drop_silent)

    def _drop_silent(self) -> None:
        self._sweeping = None
        since = self._monotonic() - GONE_SECONDS
        for number, pending in list(self._waiting.items()):
            if pending.seen < since:
                self._waiting.pop(number).consumer.close()
        if self._waiting:
            self._sweep_later()

    def _messages(self, run: Delivered, registration: _Registration) -> list[Any]:
        found = []
        for offset, message in enumerate(from_batch(run.batch), run.first):
            sent = wire.StreamMessage(
                request_id=offset,
                payload=message.payload,
                publish_time=max(0, message.publish_time_ms or 0),
                producer_name=message.producer_name,
                subscription_name=registration.subscription,
                schema_id=message.schema_id,
                schema_version=message.schema_version,
                routing_key=message.routing_key,
            )
            sent.msg_id.producer_id = producer_id(registration.topic, message.producer_name)
            sent.msg_id.topic_name = registration.topic
            sent.msg_id.broker_addr = self._url
            sent.msg_id.topic_offset = offset
            for key, value in message.attributes.items():
                sent.attributes.add(key=key, value=value)
            found.append(sent)
        return found

    async def ack(self, request: Any) -> Any:
        subscription, partition = await self._acknowledged(request)
        offset = request.msg_id.topic_offset
        await subscription.ack([(partition, offset, offset + 1)])
        return wire.AckResponse(request_id=request.request_id)

    async def nack(self, request: Any) -> Any:
        subscription, partition = await self._acknowledged(request)
        offset = request.msg_id.topic_offset
        await subscription.nack(partition, offset, offset + 1, delay=request.delay_ms / 1000, reason=request.reason)
        return wire.NackResponse(request_id=request.request_id)

    async def _acknowledged(self, request: Any) -> tuple[Subscription, int]:
        topic = request.msg_id.topic_name
        found = await self._subscriptions.existing(self._part(topic), request.subscription_name)
        return found, self._storage.name(topic).partition or 0

    async def seen(self, number: int) -> bool:
        """Notes that a consumer is alive. Returns False if it is not known."""
        if number in self._waiting:
            self._waiting[number].seen = self._monotonic()
        try:
            await self._known(number)
        except IdUnknown:
            return False
        return True

    async def _known(self, number: int) -> _Registration:
        found = self._registrations.get(number)
        if found is None:
            found = await asyncio.to_thread(self._read, number)
        self._remember(number, found)
        return found

    def _remember(self, number: int, registration: _Registration) -> None:
        self._registrations[number] = registration
        self._registrations.move_to_end(number)
        if len(self._registrations) > MOST_REMEMBERED:
            self._registrations.popitem(last=False)

    def _register(self, number: int, registration: _Registration) -> None:
        try:
            self._store.put_new(_key(number), json.dumps(asdict(registration)).encode())
        except ObjectExists:
            return

    def _read(self, number: int) -> _Registration:
        try:
            return _Registration(**json.loads(bytes(self._store.get(_key(number)))))
        except ObjectNotFound:
            raise IdUnknown(f"{number} is not the id of a consumer. Subscribe first.") from None


def _key(number: int) -> str:
    return f"danube/consumers/{number:020d}.json"
