"""Serves Danube's producers: they get an id, and their messages are acknowledged when the log has them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from frazil.doors.danube import wire
from frazil.doors.danube.ids import check_length, producer_id
from frazil.errors import IdUnknown, NotSupported, ProducerRefused, RequestError
from frazil.log.topics.generations import Dispatch
from frazil.topics.messages import Message
from frazil.topics.storage import TopicStorage

GONE_SECONDS = 15.0
"""A producer that was silent for this long does not exclude others any more. Clients report every 5 seconds that they
are there, and never that they leave."""
MOST_SHARED = 10_000
"""So many producers with shared access are remembered, and any message may add another. The one that was silent for
longest is forgotten first. All it loses is that it keeps out producers that want exclusive access."""

_DISPATCH: dict[int, Dispatch] = {wire.NON_RELIABLE: "non_reliable", wire.RELIABLE: "reliable"}
_ACCESS = {wire.SHARED_ACCESS: False, wire.EXCLUSIVE_ACCESS: True}


@dataclass
class _Producer:
    id: int
    name: str
    topic: str
    exclusive: bool
    seen: float


class Producers:
    """Belongs to the event loop."""

    def __init__(self, storage: TopicStorage, monotonic: Callable[[], float]) -> None:
        self._storage = storage
        self._monotonic = monotonic
        self._shared: OrderedDict[int, _Producer] = OrderedDict()
        """They are in the order in which they were last heard of."""
        self._exclusive: dict[int, _Producer] = {}
        """There is at most one for each topic."""

    async def create(self, request: Any) -> Any:
        name = self._storage.name(request.topic_name)
        if not request.producer_name:
            raise RequestError(f"A producer of {request.topic_name!r} needs a name.")
        check_length(request.producer_name)
        if request.HasField("schema_ref"):
            raise NotSupported(
                f"Producer {request.producer_name!r} asks for the schema {request.schema_ref.subject!r}: there is no "
                f"schema registry yet. Send payloads without one."
            )
        if request.dispatch_strategy not in _DISPATCH or request.producer_access_mode not in _ACCESS:
            raise RequestError(
                f"Producer {request.producer_name!r} asks for dispatch strategy {request.dispatch_strategy} and "
                f"access mode {request.producer_access_mode}; there are 0 and 1 of each."
            )
        exclusive = _ACCESS[request.producer_access_mode]
        self._check_access(request.topic_name, request.producer_name, exclusive)
        await self._storage.ensure_topic(
            name.path, partitions=(name.partition or 0) + 1, dispatch=_DISPATCH[request.dispatch_strategy]
        )
        await self._storage.prepare(request.topic_name)
        number = producer_id(request.topic_name, request.producer_name)
        self._note(_Producer(number, request.producer_name, request.topic_name, exclusive, self._monotonic()))
        return wire.ProducerResponse(
            request_id=request.request_id, producer_id=number, producer_name=request.producer_name
        )

    def _check_access(self, topic: str, name: str, exclusive: bool) -> None:
        self._forget_silent()
        for other in self._all():
            if other.topic == topic and other.name != name and (exclusive or other.exclusive):
                raise ProducerRefused(
                    f"Topic {topic!r} has the producer {other.name!r}, and {'this one' if exclusive else 'that one'} "
                    f"wants to be alone. Try again {GONE_SECONDS:g} seconds after the other has stopped."
                )

    @property
    def count(self) -> int:
        """Returns how many producers are known now."""
        return len(self._exclusive) + len(self._shared)

    def _all(self) -> Iterator[_Producer]:
        yield from self._exclusive.values()
        yield from self._shared.values()

    def _note(self, producer: _Producer) -> None:
        self._exclusive.pop(producer.id, None)
        self._shared.pop(producer.id, None)
        (self._exclusive if producer.exclusive else self._shared)[producer.id] = producer
        if len(self._shared) > MOST_SHARED:
            self._shared.popitem(last=False)

    def _forget_silent(self) -> None:
        since = self._monotonic() - GONE_SECONDS
        for known in (self._exclusive, self._shared):
            for number in [number for number, each in known.items() if each.seen <= since]:
                del known[number]

    async def send(self, message: Any) -> Any:
        await self._storage.store(message.msg_id.topic_name, [self._checked(message)])
        return wire.MessageResponse(request_id=message.request_id)

    def _checked(self, message: Any) -> Message:
        topic, name, number = message.msg_id.topic_name, message.producer_name, message.msg_id.producer_id
        self._storage.name(topic)
        check_length(name)
        if number != producer_id(topic, name):
            raise IdUnknown(f"{number} is not the id of producer {name!r} of {topic!r}. Create the producer first.")
        self.seen(number, topic, name)
        return Message(
            message.payload,
            message.publish_time or None,
            name,
            {each.key: each.value for each in message.attributes},
            message.routing_key if message.HasField("routing_key") else None,
            message.schema_id if message.HasField("schema_id") else None,
            message.schema_version if message.HasField("schema_version") else None,
        )

    def seen(self, number: int, topic: str | None = None, name: str | None = None) -> bool:
        """Notes that a producer is alive. Returns False if it is not known."""
        found = self._exclusive.get(number) or self._shared.get(number)
        if found is None and topic is not None and name is not None:
            # The producer got its id before this process began, or it was forgotten.
            found = _Producer(number, name, topic, False, 0.0)
        if found is not None:
            found.seen = self._monotonic()
            self._note(found)
        return found is not None
