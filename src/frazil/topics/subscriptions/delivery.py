"""Delivers a topic's partitions to the consumers of one subscription. It is a pure state machine.

It does nothing by itself. The caller tells it what was read, what consumers ask for and acknowledge, and what time it
is. It says which consumer gets what, and when it wants to be called again. Times are seconds of any monotonic clock.

Where messages have an order (in a partition of an exclusive or failover subscription, or in a key of a key-shared
one), a redelivered message takes along all that were delivered after it. Those that are not acknowledged by then
follow it in order. This does not count as their failure: only a message that was refused, or kept longest, has
failed.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import pyarrow as pa

from frazil.errors import ConsumerGone, ConsumerRefused, CumulativeRefused, NotDelivered
from frazil.topics.messages import MessageRun
from frazil.topics.read.memory_budget import MemoryBudget
from frazil.topics.subscriptions.backlog import PartitionBacklog
from frazil.topics.subscriptions.dispatch import Dispatcher, OrderedDispatcher, RoundRobinDispatcher
from frazil.topics.subscriptions.entries import ConsumerState, DeliveryEntry, EntryState, HeldBatch, MessageGroup
from frazil.topics.subscriptions.key_routing import Accepts
from frazil.topics.subscriptions.options import Kind, Options
from frazil.topics.subscriptions.progress import Progress

TIMED_OUT = "not acknowledged in time"
_FEW_TIMERS = 1000


class Delivered(NamedTuple):
    """Has successive messages for a consumer, from the offset `first` on."""

    consumer: int
    partition: int
    first: int
    batch: pa.RecordBatch
    epoch: str
    deliveries: int
    """It is 1 for the first delivery."""

    @property
    def end(self) -> int:
        return self.first + int(self.batch.num_rows)


class FailedMessages(NamedTuple):
    """Has messages that failed too often. They count as acknowledged once they are stored elsewhere."""

    partition: int
    first: int
    batch: pa.RecordBatch
    deliveries: int
    reason: str

    @property
    def end(self) -> int:
        return self.first + int(self.batch.num_rows)


@dataclass
class Counters:
    delivered: int = 0
    redelivered: int = 0
    dead: int = 0
    dropped: int = 0
    unwanted: int = 0
    """These messages had keys that no consumer wanted."""


class Delivery:
    def __init__(
        self,
        options: Options,
        backlogs: Mapping[int, Progress] | None = None,
        *,
        restored: bool = False,
        memory: MemoryBudget | None = None,
    ) -> None:
        """With `restored`, a former process may have delivered messages that are acknowledged only now. `memory` is
        shared with other subscriptions."""
        self.options = options
        self.account = (memory or MemoryBudget(sys.maxsize)).account()
        self.counters = Counters()
        self._backlogs: dict[int, PartitionBacklog] = {}
        self._dispatch: Dispatcher = (RoundRobinDispatcher if options.kind is Kind.SHARED else OrderedDispatcher)(
            options, self._backlogs
        )
        self._consumers: dict[int, ConsumerState] = {}
        self._numbers = count(1)
        self._timers: list[tuple[float, int, DeliveryEntry, int]] = []
        self._most_timers = _FEW_TIMERS
        """When there are more timers than this, cancelled ones are removed."""
        self._ticks = count()
        self._delivery_numbers = count(1)
        self._dead_letters: list[DeliveryEntry] = []
        self._dropped: list[tuple[int, int, int]] = []
        self._unwanted: list[tuple[int, int, int]] = []
        self._out: list[Delivered] = []
        for partition, progress in (backlogs or {}).items():
            self.add_partition(partition, progress, restored=restored)

    # --- partitions --------------------------------------------------------------------------------------

    def add_partition(self, partition: int, progress: Progress, *, restored: bool = False) -> None:
        self._backlogs[partition] = PartitionBacklog(partition, progress, self.account, restored=restored)

    @property
    def backlogs(self) -> Mapping[int, PartitionBacklog]:
        return self._backlogs

    def wants(self, partition: int) -> int:
        """Returns how many messages may be read ahead now."""
        backlog = self._backlogs[partition]
        if not self.room(partition):
            backlog.thin_out()
        if not self._consumers or not self.room(partition) or backlog.full(self.options.max_gaps):
            return 0
        return max(0, self.options.prefetch_size - backlog.undelivered)

    def room(self, partition: int) -> int:
        """Returns how many bytes of a partition may be read ahead now."""
        most = min(self.options.max_held_bytes, self.account.allowed)
        return max(0, most - self._backlogs[partition].held_bytes)

    def next_offset(self, partition: int) -> int:
        """Returns where to read next. Acknowledged messages are skipped."""
        backlog = self._backlogs[partition]
        backlog.position = backlog.progress.first_missing(backlog.position)
        return backlog.position

    def feed(self, records: MessageRun, now: float) -> bool:
        """Takes messages that were read. Returns True when a new epoch began: progress may have gone back, and must
        be stored as a whole."""
        backlog = self._backlogs[records.partition]
        changed = self._enter_epoch(backlog, records, now)
        if records.first > backlog.position:
            raise ValueError(
                f"partition {backlog.partition}: offset {backlog.position} was to be read next, not {records.first}"
            )
        start = max(records.first, backlog.position)
        missing = list(backlog.progress.missing(start, records.end))
        backlog.position = max(backlog.position, records.end)
        if missing:
            held = HeldBatch(records.first, records.batch, records.epoch, sum(end - start for start, end in missing))
            backlog.hold(held)
            for first, end in missing:
                for entry in self._dispatch.entries_of(backlog, held, first, end):
                    backlog.add(entry)
                    self._dispatch.add(entry, now)
        return changed

    def _enter_epoch(self, backlog: PartitionBacklog, records: MessageRun, now: float) -> bool:
        """Forgets everything after the start of a new epoch, acknowledged or not, because it is not part of the log
        any more."""
        known = backlog.progress.epoch
        if known == records.epoch:
            return False
        if not known:
            backlog.progress.epoch = records.epoch
            return False
        self._remove(backlog, records.first, backlog.position, now)
        backlog.progress.rewind(records.first, records.epoch)
        backlog.position = min(backlog.position, records.first)
        backlog.restored = False
        return True

    def skip(self, partition: int, until: int, now: float) -> tuple[int, int]:
        """Counts everything below `until` as acknowledged, delivered or not, and returns that range."""
        backlog = self._backlogs[partition]
        start, end = backlog.progress.mark, max(until, backlog.progress.mark)
        self._remove(backlog, start, end, now)
        backlog.progress.acknowledge(start, end)
        backlog.position = max(backlog.position, end)
        return start, end

    def restart(self, partition: int, offset: int, epoch: str, now: float) -> None:
        """Continues at another offset: everything below counts as acknowledged, and nothing else does."""
        backlog = self._backlogs[partition]
        self._remove(backlog, 0, backlog.position, now)
        backlog.progress.restart(offset, epoch)
        backlog.position = offset
        backlog.restored = False

    # --- consumers ---------------------------------------------------------------------------------------

    def join(
        self, name: str, now: float, accepts: Accepts | None = None, window: int | None = None
    ) -> tuple[int, int | None]:
        """Adds a consumer. Returns its number, and that of a consumer of the same name whose session it takes over.

        `accepts` says which keys it wants in a key-shared subscription. `window` limits its unacknowledged messages
        instead of the options.
        """
        consumers = list(self._dispatch.consumers())
        former = next((consumer for consumer in consumers if consumer.name == name), None)
        if self.options.kind is Kind.EXCLUSIVE and consumers and former is None:
            raise ConsumerRefused(
                f"The subscription is exclusive, and consumer {consumers[0].name!r} has it. Wait until it leaves, "
                f"use its name to take its session over, or choose another subscription or type."
            )
        consumer = ConsumerState(next(self._numbers), name, window or self.options.window, accepts)
        self._consumers[consumer.id] = consumer
        returned = self._take_back_all(former) if former else []
        self._dispatch.join(consumer, former, now)
        self._dispatch.take_back(returned, now)
        return consumer.id, former.id if former else None

    def leave(self, number: int, now: float) -> None:
        """Removes a consumer. Its messages go to others or wait for one, and do not count as failed."""
        if (consumer := self._consumers.get(number)) is not None:
            returned = self._take_back_all(consumer)
            self._dispatch.leave(consumer, now)
            self._dispatch.take_back(returned, now)
            if not self._consumers:
                self._forget_undelivered(now)

    def _forget_undelivered(self, now: float) -> None:
        """Drops what was read ahead when there is no consumer. It is read again later."""
        for backlog in self._backlogs.values():
            index = len(backlog.entries)
            while index and backlog.entries[index - 1].deliveries == 0:
                index -= 1
            if index < len(backlog.entries):
                start = backlog.entries[index].start
                self._remove(backlog, start, backlog.position, now)
                backlog.position = start

    def _take_back_all(self, consumer: ConsumerState) -> list[DeliveryEntry]:
        """Takes back all entries of a consumer that is gone."""
        del self._consumers[consumer.id]
        in_flight = [
            entry for backlog in self._backlogs.values() for entry in backlog.entries if entry.consumer is consumer
        ]
        for entry in in_flight:
            self._return(entry)
        return in_flight

    @property
    def consumers(self) -> list[ConsumerState]:
        """Returns the consumers in the order of the queue."""
        return list(self._dispatch.consumers())

    def request(self, number: int, rows: int) -> None:
        """Sets how many more messages a consumer wants."""
        self._consumer(number).credit = rows

    def _consumer(self, number: int) -> ConsumerState:
        try:
            return self._consumers[number]
        except KeyError:
            raise ConsumerGone(
                f"Consumer {number} has left, or another of its name took its session over. Subscribe again."
            ) from None

    # --- handing out -------------------------------------------------------------------------------------

    def hand_out(self, now: float) -> list[Delivered]:
        """Returns everything that can be delivered now."""
        self.tick(now)
        timeout = self.options.ack_timeout_seconds
        due = 0.0 if timeout is None else now + timeout

        def deliver(entry: DeliveryEntry, consumer: ConsumerState) -> None:
            rows = entry.rows
            self._backlogs[entry.partition].count_delivery(entry)
            self.counters.delivered += rows
            if entry.deliveries > 1:
                self.counters.redelivered += rows
            entry.state, entry.consumer, entry.due = EntryState.IN_FLIGHT, consumer, due
            entry.delivery_number, entry.delivered_at = next(self._delivery_numbers), now
            entry.stamp += 1
            consumer.in_flight += rows
            consumer.credit -= rows
            self._set_timer(entry)
            self._out.append(
                Delivered(
                    consumer.id, entry.partition, entry.start, entry.batch(), entry.held.epoch, entry.deliveries
                )
            )

        self._dispatch.hand_out(now, deliver)
        for entry in self._dispatch.unwanted(now):
            self.counters.unwanted += entry.rows
            self._unwanted.append((entry.partition, entry.start, entry.end))
            self._settle(self._backlogs[entry.partition], entry.start, entry.end, now)
        out, self._out = self._out, []
        return out

    # --- what consumers say ------------------------------------------------------------------------------

    def check(self, partition: int, start: int, end: int) -> None:
        """Raises `NotDelivered` if something in [start, end) was never delivered."""
        self._check_delivered(self._backlog(partition), start, end)

    def ack(self, partition: int, start: int, end: int, now: float, *, known: bool = False) -> None:
        """Settles [start, end). All of it must have been delivered; what is settled already stays so.

        With `known` the caller has checked that it was delivered.
        """
        if not known:
            self.check(partition, start, end)
        self._settle(self._backlog(partition), start, end, now)

    def ack_until(self, partition: int, end: int, now: float) -> tuple[int, int]:
        """Settles everything below `end`, and returns that range."""
        if not self.options.ordered:
            raise CumulativeRefused(
                f"A {self.options.kind} subscription acknowledges message by message: others may still have earlier "
                f"ones."
            )
        start = min(self._backlog(partition).progress.mark, end)
        self.ack(partition, start, end, now)
        return start, end

    def nack(
        self,
        partition: int,
        start: int,
        end: int,
        now: float,
        *,
        delay: float = 0.0,
        reason: str = "",
        consumer: int | None = None,
    ) -> None:
        """Has [start, end) delivered again after a delay. Messages that are not in flight, or are with another
        consumer, stay as they are."""
        backlog = self._backlog(partition)
        self._check_delivered(backlog, start, end)
        blamed = [
            entry
            for entry in self._isolated(backlog, start, end)
            if entry.state is EntryState.IN_FLIGHT
            and (consumer is None or (entry.consumer and entry.consumer.id == consumer))
        ]
        for entry in blamed:
            self._answered(entry, entry.end, now)
        self._fail(self._with_those_behind(backlog, blamed), set(blamed), now, delay, reason)

    def _backlog(self, partition: int) -> PartitionBacklog:
        try:
            return self._backlogs[partition]
        except KeyError:
            raise NotDelivered(f"The subscription has no partition {partition}.") from None

    def _check_delivered(self, backlog: PartitionBacklog, start: int, end: int) -> None:
        for first, last in backlog.progress.missing(start, end):
            index = backlog.first_at(first)
            while first < last:
                entry = backlog.entries[index] if index < len(backlog.entries) else None
                if entry is None or entry.start > first or not (entry.deliveries or backlog.restored):
                    raise NotDelivered(
                        f"Offset {first} of partition {backlog.partition} was not delivered to anybody."
                    )
                first = entry.end
                index += 1

    def _settle(self, backlog: PartitionBacklog, start: int, end: int, now: float) -> None:
        backlog.progress.acknowledge(start, end)
        self._remove(backlog, start, end, now)

    def _remove(self, backlog: PartitionBacklog, start: int, end: int, now: float) -> None:
        """Drops entries in [start, end)."""
        groups: dict[MessageGroup | None, None] = {}
        index = backlog.first_at(start)
        while index < len(backlog.entries) and (entry := backlog.entries[index]).start < end:
            if entry.start < start:
                self._cut(backlog, entry, start)
                index += 1
            stop = min(entry.end, end)
            if entry.state is EntryState.IN_FLIGHT:
                self._answered(entry, stop, now)
                self._count_down(entry, stop - entry.start)
            groups[entry.group] = None
            if stop == entry.end:
                backlog.remove(entry)
            else:
                backlog.shorten(entry, stop)
        for group in groups:
            self._dispatch.settled(group, now)
        if backlog.paused:
            paused, backlog.paused = backlog.paused, []
            for entry in reversed(paused):
                if entry.state is EntryState.WAITING:
                    self._dispatch.wake(entry, now)

    # --- failures ----------------------------------------------------------------------------------------

    def _with_those_behind(self, backlog: PartitionBacklog, entries: list[DeliveryEntry]) -> list[DeliveryEntry]:
        """Returns entries in flight, with those that were delivered after them in the same group, in order."""
        first: dict[MessageGroup, int] = {}
        for entry in entries:
            if entry.group is not None:
                first.setdefault(entry.group, entry.start)
        if not first:
            return entries
        return [
            entry
            for entry in backlog.entries[backlog.first_at(entries[0].start) :]
            if entry.group in first and entry.state is EntryState.IN_FLIGHT and entry.start >= first[entry.group]
        ]

    def _fail(
        self, returned: list[DeliveryEntry], blamed: set[DeliveryEntry], now: float, delay: float, reason: str
    ) -> None:
        """Takes entries back, of which only some failed."""
        for entry in returned:
            self._return(entry)
        self._dispatch.take_back(
            [entry for entry in returned if entry not in blamed or self._failed(entry, now, delay, reason)], now
        )
        for group in {entry.group: None for entry in returned if entry.group is not None}:
            self._dispatch.settled(group, now)

    def _failed(self, entry: DeliveryEntry, now: float, delay: float, reason: str) -> bool:
        """Counts a failure. Returns True when the entry waits for another delivery."""
        backlog = self._backlogs[entry.partition]
        entry.failures += 1
        entry.reason = reason
        over = entry.failures > self.options.max_redeliveries
        if over and self.options.poison == "drop":
            self.counters.dropped += entry.rows
            self._dropped.append((backlog.partition, entry.start, entry.end))
            self._settle(backlog, entry.start, entry.end, now)
            return False
        if over and self.options.poison == "dead_letter":
            entry.state = EntryState.DEAD
            self._dead_letters.append(entry)
            return False
        longest = self.options.max_delay_seconds
        entry.due = now + (longest if over else min(longest, max(delay, self.options.delay(entry.failures))))
        self._set_timer(entry)
        return True

    def take_dropped(self) -> list[tuple[int, int, int]]:
        """Returns the ranges (partition, start, end) that were dropped since the last call, and so are
        acknowledged."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def take_unwanted(self) -> list[tuple[int, int, int]]:
        """Returns the ranges (partition, start, end) that no consumer wanted since the last call, and so are
        acknowledged."""
        unwanted, self._unwanted = self._unwanted, []
        return unwanted

    def take_dead_letters(self) -> list[FailedMessages]:
        """Returns what must be stored in the dead-letter topic. The caller reports `dead_letter_stored` or
        `dead_letter_failed`."""
        taken, self._dead_letters = self._dead_letters, []
        dead = [entry for entry in taken if entry.state is EntryState.DEAD]
        for entry in dead:
            entry.due = 0.0
        return [
            FailedMessages(each.partition, each.start, each.batch(), each.deliveries, each.reason) for each in dead
        ]

    def dead_letter_stored(self, dead_letter: FailedMessages, now: float) -> None:
        self.counters.dead += dead_letter.batch.num_rows
        self._settle(self._backlogs[dead_letter.partition], dead_letter.first, dead_letter.end, now)

    def dead_letter_failed(self, dead_letter: FailedMessages, now: float) -> None:
        """Returns a dead letter again after a while, because it could not be stored."""
        for entry in self._isolated(self._backlogs[dead_letter.partition], dead_letter.first, dead_letter.end):
            if entry.state is EntryState.DEAD:
                entry.failures += 1
                entry.due = now + self.options.delay(entry.failures - self.options.max_redeliveries)
                entry.stamp += 1
                self._set_timer(entry)

    # --- time --------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Does what is due."""
        while self._timers and self._timers[0][0] <= now:
            _, _, entry, stamp = heapq.heappop(self._timers)
            if entry.stamp != stamp:
                continue
            if entry.state is EntryState.IN_FLIGHT:
                entry.due = self._deadline(entry)
                if entry.due <= now:
                    self._time_out(entry, now)
                else:
                    self._set_timer(entry)
            elif entry.state is EntryState.WAITING:
                self._dispatch.wake(entry, now)
            elif entry.state is EntryState.DEAD:
                self._dead_letters.append(entry)

    def next_tick(self) -> float | None:
        """Returns when something is due next."""
        while self._timers and self._timers[0][2].stamp != self._timers[0][3]:
            heapq.heappop(self._timers)
        due = [self._timers[0][0]] if self._timers else []
        if (unwanted := self._dispatch.next_unwanted()) is not None:
            due.append(unwanted)
        return min(due, default=None)

    def _deadline(self, entry: DeliveryEntry) -> float:
        """Returns when a message in flight times out.

        A consumer may have many messages and work on them one after the other, so it is alive as long as it answers.
        But it has forgotten messages that it got before others which it answered long ago.
        """
        consumer, timeout = entry.consumer, self.options.ack_timeout_seconds
        assert consumer is not None
        assert timeout is not None
        forgotten = (entry.delivery_number, entry.start) < consumer.passed
        return (entry.delivered_at if forgotten else max(entry.delivered_at, consumer.answered_at)) + timeout

    def _answered(self, entry: DeliveryEntry, end: int, now: float) -> None:
        """Notes that the consumer has answered messages in flight, up to this offset."""
        consumer, timeout = entry.consumer, self.options.ack_timeout_seconds
        assert consumer is not None
        if consumer.answer((entry.delivery_number, end - 1), now, timeout):
            for backlog in self._backlogs.values():
                for each in backlog.entries:
                    if each.consumer is consumer and (each.delivery_number, each.start) < consumer.passed:
                        each.due = self._deadline(each)
                        self._set_timer(each)

    def _time_out(self, entry: DeliveryEntry, now: float) -> None:
        """Takes back all that a consumer has had for too long. Only the first one has failed, because the consumer
        may be stuck there.

        A silent consumer then gets one message at a time, because earlier ones may still be in its queue.
        """
        consumer, timeout = entry.consumer, self.options.ack_timeout_seconds
        assert consumer is not None
        assert timeout is not None
        if now - consumer.answered_at >= timeout:
            consumer.window = 1
        late = {
            backlog: [each for each in backlog.entries if each.consumer is consumer and self._deadline(each) <= now]
            for backlog in self._backlogs.values()
        }
        first = min((each for some in late.values() for each in some), key=lambda each: each.delivery_number)
        returned = [each for backlog, some in late.items() for each in self._with_those_behind(backlog, some)]
        if first.rows > 1:
            rest, first = first, self._cut(self._backlogs[first.partition], first, first.start + 1)
            returned.insert(returned.index(rest), first)
        self._fail(returned, {first}, now, 0.0, TIMED_OUT)

    def _set_timer(self, entry: DeliveryEntry) -> None:
        if entry.due:
            heapq.heappush(self._timers, (entry.due, next(self._ticks), entry, entry.stamp))
            if len(self._timers) > self._most_timers:
                self._timers = [each for each in self._timers if each[2].stamp == each[3]]
                heapq.heapify(self._timers)
                self._most_timers = _FEW_TIMERS + 2 * len(self._timers)

    # --- entries -----------------------------------------------------------------------------------------

    def _isolated(self, backlog: PartitionBacklog, start: int, end: int) -> Iterator[DeliveryEntry]:
        """Yields the entries in [start, end), and splits those that reach beyond it."""
        index = backlog.first_at(start)
        while index < len(backlog.entries) and (entry := backlog.entries[index]).start < end:
            if entry.start < start:
                self._cut(backlog, entry, start)
                index += 1
            yield self._cut(backlog, entry, end) if entry.end > end else entry
            index += 1

    def _cut(self, backlog: PartitionBacklog, entry: DeliveryEntry, at: int) -> DeliveryEntry:
        """Splits an entry like `PartitionBacklog.cut`, whatever its state is."""
        part = backlog.cut(entry, at)
        if part.state is EntryState.WAITING:
            self._dispatch.cut(part, entry)
        elif part.state is EntryState.DEAD and entry in self._dead_letters:
            self._dead_letters.append(part)
        self._set_timer(part)
        return part

    def _count_down(self, entry: DeliveryEntry, rows: int) -> None:
        assert entry.consumer is not None
        entry.consumer.in_flight -= rows
        if entry.group is not None:
            entry.group.in_flight -= rows

    def _return(self, entry: DeliveryEntry) -> None:
        """Makes an entry in flight wait again."""
        self._count_down(entry, entry.rows)
        entry.state, entry.consumer, entry.due = EntryState.WAITING, None, 0.0
        entry.stamp += 1
