"""Decides which consumer gets which entry next: in order by message group, or round-robin."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from frazil.topics.subscriptions.backlog import PartitionBacklog
from frazil.topics.subscriptions.entries import ConsumerState, DeliveryEntry, EntryState, HeldBatch, MessageGroup
from frazil.topics.subscriptions.key_routing import HashRing, key_runs
from frazil.topics.subscriptions.options import Kind, Options

Deliver = Callable[[DeliveryEntry, ConsumerState], None]

PATIENCE_SECONDS = 30.0
"""Consumers have this long to join after the first one came, and after one left, before their keys count as
unwanted."""


class Dispatcher(Protocol):
    """Knows all waiting entries, and the consumers. Of entries in flight it only keeps the number."""

    def consumers(self) -> Iterable[ConsumerState]: ...

    def join(self, consumer: ConsumerState, instead_of: ConsumerState | None, now: float) -> None: ...

    def leave(self, consumer: ConsumerState, now: float) -> None: ...

    def entries_of(self, backlog: PartitionBacklog, held: HeldBatch, start: int, end: int) -> Iterator[DeliveryEntry]:
        """Yields entries for rows that were just read."""

    def add(self, entry: DeliveryEntry, now: float) -> None:
        """Adds an entry that was just read."""

    def take_back(self, entries: list[DeliveryEntry], now: float) -> None:
        """Makes entries in flight wait again. Those of each partition are in order."""

    def cut(self, part: DeliveryEntry, entry: DeliveryEntry) -> None:
        """Notes that `part` was split off the front of `entry`, which waits."""

    def wake(self, entry: DeliveryEntry, now: float) -> None:
        """Notes that a waiting entry can be delivered now."""

    def settled(self, group: MessageGroup | None, now: float) -> None:
        """Notes that something of a group is not in flight, or does not wait, any more."""

    def hand_out(self, now: float, deliver: Deliver) -> None: ...

    def unwanted(self, now: float) -> list[DeliveryEntry]:
        """Returns entries that no consumer wants, and removes them from those that wait."""

    def next_unwanted(self) -> float | None:
        """Returns when `unwanted` will have something."""


class OrderedDispatcher:
    """Gives each message group to one consumer at a time. A group changes its consumer only while nothing of it is in
    flight."""

    def __init__(self, options: Options, backlogs: Mapping[int, PartitionBacklog]) -> None:
        self._backlogs = backlogs
        self._max_gaps = options.max_gaps
        self._by_key = options.kind is Kind.KEY_SHARED
        self._groups: dict[str, MessageGroup] = {}
        self._consumers: list[ConsumerState] = []
        self._by_name: dict[str, ConsumerState] = {}
        self._ring = HashRing()
        self._changes = 0
        self._filtering = False
        """Some consumer does not want all keys."""
        self._unwanted: dict[MessageGroup, None] = {}
        self._patient_until = 0.0

    def consumers(self) -> Iterable[ConsumerState]:
        return self._consumers

    def join(self, consumer: ConsumerState, instead_of: ConsumerState | None, now: float) -> None:
        if instead_of is None:
            self._consumers.append(consumer)
        else:
            self._consumers[self._consumers.index(instead_of)] = consumer
        if len(self._consumers) == 1:
            # Other consumers may be about to join, or to come back.
            self._patient_until = now + PATIENCE_SECONDS
        self._changed(now)

    def leave(self, consumer: ConsumerState, now: float) -> None:
        self._consumers.remove(consumer)
        self._patient_until = now + PATIENCE_SECONDS
        self._changed(now)

    def _changed(self, now: float) -> None:
        self._changes += 1
        if self._by_key:
            self._by_name = {consumer.name: consumer for consumer in self._consumers}
            self._ring = HashRing(self._by_name)
            self._filtering = any(consumer.accepts for consumer in self._consumers)
            self._unwanted.clear()
        for group in list(self._groups.values()):
            self._enqueue(group, now)

    def entries_of(self, backlog: PartitionBacklog, held: HeldBatch, start: int, end: int) -> Iterator[DeliveryEntry]:
        if not self._by_key:
            yield DeliveryEntry(backlog.partition, start, end, held, self._group(str(backlog.partition)))
            return
        for key, first, last in key_runs(held.batch.slice(start - held.first, end - start)):
            yield DeliveryEntry(backlog.partition, start + first, start + last, held, self._group(key))

    def _group(self, key: str) -> MessageGroup:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = MessageGroup(key)
        return group

    def add(self, entry: DeliveryEntry, now: float) -> None:
        group = _group_of(entry)
        group.waiting.append(entry)
        self._enqueue(group, now)

    def take_back(self, entries: list[DeliveryEntry], now: float) -> None:
        by_group: dict[MessageGroup, list[DeliveryEntry]] = {}
        for entry in entries:
            by_group.setdefault(_group_of(entry), []).append(entry)
        for group, mine in by_group.items():
            # The group may have been removed meanwhile, when nothing of it was in flight or waited.
            self._groups[group.key] = group
            group.waiting.extendleft(reversed(mine))
            self._enqueue(group, now)

    def cut(self, part: DeliveryEntry, entry: DeliveryEntry) -> None:
        _insert_before(_group_of(entry).waiting, part, entry)

    def wake(self, entry: DeliveryEntry, now: float) -> None:
        self._enqueue(_group_of(entry), now)

    def settled(self, group: MessageGroup | None, now: float) -> None:
        assert group is not None
        self._enqueue(group, now)

    def _enqueue(self, group: MessageGroup, now: float) -> None:
        """Queues a group with its consumer, if it has something to deliver now."""
        head = group.head()
        if head is None:
            if self._by_key and not group.in_flight and self._groups.get(group.key) is group:
                del self._groups[group.key]
        elif head.due <= now:
            if (consumer := self._route(group)) is not None:
                consumer.queue[group] = None
            elif self._filtering:
                self._unwanted[group] = None

    def _route(self, group: MessageGroup) -> ConsumerState | None:
        if group.in_flight:
            return group.owner
        if group.chosen_in != self._changes:
            group.chosen, group.chosen_in = self._choose(group.key), self._changes
        return group.chosen

    def _choose(self, key: str) -> ConsumerState | None:
        if self._by_key:
            among = (
                {consumer.name for consumer in self._consumers if consumer.accepts is None or consumer.accepts(key)}
                if self._filtering
                else None
            )
            name = self._ring.owner(key, among)
            return self._by_name[name] if name is not None else None
        return self._consumers[0] if self._consumers else None

    def hand_out(self, now: float, deliver: Deliver) -> None:
        for consumer in self._consumers:
            while consumer.queue and consumer.room > 0:
                self._hand_round(consumer, now, deliver)

    def unwanted(self, now: float) -> list[DeliveryEntry]:
        if not self._unwanted or now < self._patient_until:
            return []
        found = []
        for group in self._unwanted:
            found += [entry for entry in group.waiting if entry.state is EntryState.WAITING]
            group.waiting.clear()
        self._unwanted.clear()
        return found

    def next_unwanted(self) -> float | None:
        return self._patient_until if self._unwanted else None

    def _hand_round(self, consumer: ConsumerState, now: float, deliver: Deliver) -> None:
        """Gives an equal share of the consumer's room to each group in its queue."""
        share = max(1, consumer.room // len(consumer.queue))
        for group in list(consumer.queue):
            if consumer.room <= 0:
                return
            del consumer.queue[group]
            if self._route(group) is consumer and self._give(
                group, consumer, min(share, consumer.room), now, deliver
            ):
                consumer.queue[group] = None

    def _give(self, group: MessageGroup, consumer: ConsumerState, most: int, now: float, deliver: Deliver) -> bool:
        """Returns True when there is more for the consumer."""
        while (head := group.head()) is not None and head.due <= now:
            if most <= 0:
                return True
            backlog = self._backlogs[head.partition]
            rows = _rows(backlog, head, most, self._max_gaps)
            if not rows:
                backlog.paused.append(head)
                return False
            if rows < head.rows:
                head = backlog.cut(head, head.start + rows)
            else:
                group.waiting.popleft()
            most -= rows
            group.in_flight += rows
            group.owner = consumer
            deliver(head, consumer)
        return False


class RoundRobinDispatcher:
    """Gives entries to consumers that have room, in turn."""

    def __init__(self, options: Options, backlogs: Mapping[int, PartitionBacklog]) -> None:
        self._backlogs = backlogs
        self._max_gaps = options.max_gaps
        self._ready: deque[DeliveryEntry] = deque()
        self._consumers: deque[ConsumerState] = deque()
        """The consumer at the front is next."""

    def consumers(self) -> Iterable[ConsumerState]:
        return self._consumers

    def join(self, consumer: ConsumerState, instead_of: ConsumerState | None, now: float) -> None:
        if instead_of is not None:
            self._consumers.remove(instead_of)
        self._consumers.append(consumer)

    def leave(self, consumer: ConsumerState, now: float) -> None:
        self._consumers.remove(consumer)

    def entries_of(self, backlog: PartitionBacklog, held: HeldBatch, start: int, end: int) -> Iterator[DeliveryEntry]:
        yield DeliveryEntry(backlog.partition, start, end, held, None)

    def add(self, entry: DeliveryEntry, now: float) -> None:
        self._ready.append(entry)

    def take_back(self, entries: list[DeliveryEntry], now: float) -> None:
        self._ready.extendleft(entry for entry in reversed(entries) if entry.due <= now)

    def cut(self, part: DeliveryEntry, entry: DeliveryEntry) -> None:
        if entry in self._ready:
            part.due = 0.0
            _insert_before(self._ready, part, entry)
        elif part.due == 0.0:
            # The entry is paused. Otherwise it would not be due yet.
            self._ready.append(part)

    def wake(self, entry: DeliveryEntry, now: float) -> None:
        self._ready.appendleft(entry)

    def settled(self, group: MessageGroup | None, now: float) -> None:
        """Does nothing, because there are no groups."""

    def hand_out(self, now: float, deliver: Deliver) -> None:
        hungry = deque(consumer for consumer in self._consumers if consumer.room > 0)
        if not hungry or not self._ready:
            return
        rows = sum(entry.rows for entry in self._ready if entry.state is EntryState.WAITING)
        share = max(1, -(-rows // len(hungry)))
        while hungry and self._ready:
            consumer = hungry.popleft()
            if self._give(consumer, share, now, deliver):
                self._consumers.remove(consumer)
                self._consumers.append(consumer)
            if consumer.room > 0:
                hungry.append(consumer)

    def unwanted(self, now: float) -> list[DeliveryEntry]:
        return []

    def next_unwanted(self) -> float | None:
        return None

    def _give(self, consumer: ConsumerState, most: int, now: float, deliver: Deliver) -> int:
        given = 0
        while self._ready and given < most and consumer.room > 0:
            entry = self._ready[0]
            if entry.state is not EntryState.WAITING:
                self._ready.popleft()
                continue
            backlog = self._backlogs[entry.partition]
            rows = _rows(backlog, entry, min(consumer.room, most - given), self._max_gaps)
            if not rows:
                backlog.paused.append(self._ready.popleft())
                continue
            if rows < entry.rows:
                entry = backlog.cut(entry, entry.start + rows)
            else:
                self._ready.popleft()
            given += rows
            deliver(entry, consumer)
        return given


def _rows(backlog: PartitionBacklog, entry: DeliveryEntry, room: int, max_gaps: int) -> int:
    """Returns how many rows of an entry can be delivered now."""
    rows = min(room, entry.rows)
    return rows if entry.deliveries else min(rows, backlog.allowance(entry, max_gaps))


def _insert_before(waiting: deque[DeliveryEntry], part: DeliveryEntry, entry: DeliveryEntry) -> None:
    waiting.insert(waiting.index(entry), part)


def _group_of(entry: DeliveryEntry) -> MessageGroup:
    assert entry.group is not None
    return entry.group
