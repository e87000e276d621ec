"""Delivery of a topic's partitions to the consumers of one subscription, as a state machine.

It does nothing by itself: it is told what was read, what consumers ask for and acknowledge, and what time it is; it
says who gets what, and when it wants to be asked again. Times are seconds of any clock that never runs backwards.

Where there is an order (a partition of an exclusive or failover subscription, a key of a key-shared one) a message
that must be delivered again takes all that was delivered behind it along: after it come, in order, those of them
that are not acknowledged by then. They are not to blame: only what was refused, or kept longest, counts as failed.
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
from frazil.topics.messages import Records
from frazil.topics.read.memory import Memory
from frazil.topics.subscriptions.dispatch import Dispatch, InOrder, InTurn
from frazil.topics.subscriptions.entries import Entry, Run, Seat, State, Strand
from frazil.topics.subscriptions.keys import Accepts
from frazil.topics.subscriptions.lanes import Lane
from frazil.topics.subscriptions.options import Kind, Options
from frazil.topics.subscriptions.progress import Progress

TIMED_OUT = "not acknowledged in time"
_FEW_TIMERS = 1000


class Delivered(NamedTuple):
    """Neighbours that a consumer is given: offsets `first` and following."""

    seat: int
    partition: int
    first: int
    batch: pa.RecordBatch
    epoch: str
    deliveries: int
    """1 for the first time."""

    @property
    def end(self) -> int:
        return self.first + int(self.batch.num_rows)


class Letter(NamedTuple):
    """Messages that failed too often, to be stored elsewhere before they count as acknowledged."""

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
    """Of keys that no consumer wanted."""


class Delivery:
    def __init__(
        self,
        options: Options,
        lanes: Mapping[int, Progress] | None = None,
        *,
        restored: bool = False,
        memory: Memory | None = None,
    ) -> None:
        """With `restored`, a former process may have delivered messages that are acknowledged only now. `memory` is
        shared with others."""
        self.options = options
        self.account = (memory or Memory(sys.maxsize)).account()
        self.counters = Counters()
        self._lanes: dict[int, Lane] = {}
        self._dispatch: Dispatch = (InTurn if options.kind is Kind.SHARED else InOrder)(options, self._lanes)
        self._seats: dict[int, Seat] = {}
        self._numbers = count(1)
        self._timers: list[tuple[float, int, Entry, int]] = []
        self._most_timers = _FEW_TIMERS
        """Beyond this, void ones are thrown out."""
        self._ticks = count()
        self._flights = count(1)
        self._letters: list[Entry] = []
        self._dropped: list[tuple[int, int, int]] = []
        self._unwanted: list[tuple[int, int, int]] = []
        self._out: list[Delivered] = []
        for partition, progress in (lanes or {}).items():
            self.add_partition(partition, progress, restored=restored)

    # --- partitions --------------------------------------------------------------------------------------

    def add_partition(self, partition: int, progress: Progress, *, restored: bool = False) -> None:
        self._lanes[partition] = Lane(partition, progress, self.account, restored=restored)

    @property
    def lanes(self) -> Mapping[int, Lane]:
        return self._lanes

    def wants(self, partition: int) -> int:
        """How many messages may be read ahead now."""
        lane = self._lanes[partition]
        if not self.room(partition):
            lane.thin_out()
        if not self._seats or not self.room(partition) or lane.full(self.options.max_gaps):
            return 0
        return max(0, self.options.prefetch_size - lane.fresh)

    def room(self, partition: int) -> int:
        """How many bytes of a partition may be read ahead now."""
        most = min(self.options.max_held_bytes, self.account.allowed)
        return max(0, most - self._lanes[partition].held_bytes)

    def next_offset(self, partition: int) -> int:
        """Where to read next: what is acknowledged already is passed over."""
        lane = self._lanes[partition]
        lane.position = lane.progress.first_missing(lane.position)
        return lane.position

    def feed(self, records: Records, now: float) -> bool:
        """Take what was read. True when a new epoch began: progress may have gone back, and is to be stored whole."""
        lane = self._lanes[records.partition]
        changed = self._enter_epoch(lane, records, now)
        if records.first > lane.position:
            raise ValueError(
                f"partition {lane.partition}: offset {lane.position} was to be read next, not {records.first}"
            )
        start = max(records.first, lane.position)
        missing = list(lane.progress.missing(start, records.end))
        lane.position = max(lane.position, records.end)
        if missing:
            run = Run(records.first, records.batch, records.epoch, sum(end - start for start, end in missing))
            lane.hold(run)
            for first, end in missing:
                for entry in self._dispatch.pieces(lane, run, first, end):
                    lane.add(entry)
                    self._dispatch.add(entry, now)
        return changed

    def _enter_epoch(self, lane: Lane, records: Records, now: float) -> bool:
        """What was seen from the start of a new epoch on did not last: it is forgotten, acknowledged or not."""
        known = lane.progress.epoch
        if known == records.epoch:
            return False
        if not known:
            lane.progress.epoch = records.epoch
            return False
        self._remove(lane, records.first, lane.position, now)
        lane.progress.rewind(records.first, records.epoch)
        lane.position = min(lane.position, records.first)
        lane.restored = False
        return True

    def skip(self, partition: int, until: int, now: float) -> tuple[int, int]:
        """Count everything below `until` as acknowledged, delivered or not; returns that range."""
        lane = self._lanes[partition]
        start, end = lane.progress.mark, max(until, lane.progress.mark)
        self._remove(lane, start, end, now)
        lane.progress.acknowledge(start, end)
        lane.position = max(lane.position, end)
        return start, end

    def restart(self, partition: int, offset: int, epoch: str, now: float) -> None:
        """Go on at another offset: everything below counts as acknowledged, nothing else does."""
        lane = self._lanes[partition]
        self._remove(lane, 0, lane.position, now)
        lane.progress.restart(offset, epoch)
        lane.position = offset
        lane.restored = False

    # --- consumers ---------------------------------------------------------------------------------------

    def join(
        self, name: str, now: float, accepts: Accepts | None = None, window: int | None = None
    ) -> tuple[int, int | None]:
        """The number of the new consumer, and of the one of the same name whose session it takes over.

        `accepts` tells which keys it wants, where messages are shared by their keys; `window` how many unacknowledged
        messages it may have, if not as many as the options say.
        """
        seats = list(self._dispatch.seats())
        former = next((seat for seat in seats if seat.name == name), None)
        if self.options.kind is Kind.EXCLUSIVE and seats and former is None:
            raise ConsumerRefused(
                f"The subscription is exclusive, and consumer {seats[0].name!r} has it. Wait until it leaves, use "
                f"its name to take its session over, or choose another subscription or type."
            )
        seat = Seat(next(self._numbers), name, window or self.options.window, accepts)
        self._seats[seat.id] = seat
        returned = self._land(former) if former else []
        self._dispatch.join(seat, former, now)
        self._dispatch.take_back(returned, now)
        return seat.id, former.id if former else None

    def leave(self, number: int, now: float) -> None:
        """What the consumer has goes to others, or waits for one; that counts as no failure."""
        if (seat := self._seats.get(number)) is not None:
            returned = self._land(seat)
            self._dispatch.leave(seat, now)
            self._dispatch.take_back(returned, now)
            if not self._seats:
                self._forget_fresh(now)

    def _forget_fresh(self, now: float) -> None:
        """Nobody is there: what was read ahead is read again when somebody is."""
        for lane in self._lanes.values():
            index = len(lane.entries)
            while index and lane.entries[index - 1].deliveries == 0:
                index -= 1
            if index < len(lane.entries):
                start = lane.entries[index].start
                self._remove(lane, start, lane.position, now)
                lane.position = start

    def _land(self, seat: Seat) -> list[Entry]:
        """Take everything back that a consumer has, which is gone after this."""
        del self._seats[seat.id]
        flying = [entry for lane in self._lanes.values() for entry in lane.entries if entry.seat is seat]
        for entry in flying:
            self._return(entry)
        return flying

    @property
    def consumers(self) -> list[Seat]:
        """In line."""
        return list(self._dispatch.seats())

    def request(self, number: int, rows: int) -> None:
        """How many more messages a consumer wants, in all."""
        self._seat(number).credit = rows

    def _seat(self, number: int) -> Seat:
        try:
            return self._seats[number]
        except KeyError:
            raise ConsumerGone(
                f"Consumer {number} has left, or another of its name took its session over. Subscribe again."
            ) from None

    # --- handing out -------------------------------------------------------------------------------------

    def hand_out(self, now: float) -> list[Delivered]:
        """Everything that can be delivered now."""
        self.tick(now)
        timeout = self.options.ack_timeout_seconds
        due = 0.0 if timeout is None else now + timeout

        def launch(entry: Entry, seat: Seat) -> None:
            rows = entry.rows
            self._lanes[entry.partition].launch(entry)
            self.counters.delivered += rows
            if entry.deliveries > 1:
                self.counters.redelivered += rows
            entry.state, entry.seat, entry.due = State.FLYING, seat, due
            entry.flight, entry.flown_at = next(self._flights), now
            entry.stamp += 1
            seat.flying += rows
            seat.credit -= rows
            self._set_timer(entry)
            self._out.append(
                Delivered(seat.id, entry.partition, entry.start, entry.batch(), entry.run.epoch, entry.deliveries)
            )

        self._dispatch.hand_out(now, launch)
        for entry in self._dispatch.unwanted(now):
            self.counters.unwanted += entry.rows
            self._unwanted.append((entry.partition, entry.start, entry.end))
            self._settle(self._lanes[entry.partition], entry.start, entry.end, now)
        out, self._out = self._out, []
        return out

    # --- what consumers say ------------------------------------------------------------------------------

    def check(self, partition: int, start: int, end: int) -> None:
        """`NotDelivered` if something in [start, end) was never handed out."""
        self._check_delivered(self._lane(partition), start, end)

    def ack(self, partition: int, start: int, end: int, now: float, *, known: bool = False) -> None:
        """Settle [start, end); what is settled already stays so. All of it must have been delivered.

        With `known` the caller knows that it was.
        """
        if not known:
            self.check(partition, start, end)
        self._settle(self._lane(partition), start, end, now)

    def ack_until(self, partition: int, end: int, now: float) -> tuple[int, int]:
        """Settle everything below `end`; returns that range."""
        if not self.options.ordered:
            raise CumulativeRefused(
                f"A {self.options.kind} subscription acknowledges message by message: others may still have earlier "
                f"ones."
            )
        start = min(self._lane(partition).progress.mark, end)
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
        seat: int | None = None,
    ) -> None:
        """Have [start, end) delivered again, after a delay. What is not with a consumer, or not with this one, is
        left as it is."""
        lane = self._lane(partition)
        self._check_delivered(lane, start, end)
        blamed = [
            entry
            for entry in self._isolated(lane, start, end)
            if entry.state is State.FLYING and (seat is None or (entry.seat and entry.seat.id == seat))
        ]
        for entry in blamed:
            self._answered(entry, entry.end, now)
        self._fail(self._with_those_behind(lane, blamed), set(blamed), now, delay, reason)

    def _lane(self, partition: int) -> Lane:
        try:
            return self._lanes[partition]
        except KeyError:
            raise NotDelivered(f"The subscription has no partition {partition}.") from None

    def _check_delivered(self, lane: Lane, start: int, end: int) -> None:
        for first, last in lane.progress.missing(start, end):
            index = lane.first_at(first)
            while first < last:
                entry = lane.entries[index] if index < len(lane.entries) else None
                if entry is None or entry.start > first or not (entry.deliveries or lane.restored):
                    raise NotDelivered(f"Offset {first} of partition {lane.partition} was not delivered to anybody.")
                first = entry.end
                index += 1

    def _settle(self, lane: Lane, start: int, end: int, now: float) -> None:
        lane.progress.acknowledge(start, end)
        self._remove(lane, start, end, now)

    def _remove(self, lane: Lane, start: int, end: int, now: float) -> None:
        """Let go of what is in [start, end)."""
        strands: dict[Strand | None, None] = {}
        index = lane.first_at(start)
        while index < len(lane.entries) and (entry := lane.entries[index]).start < end:
            if entry.start < start:
                self._cut(lane, entry, start)
                index += 1
            stop = min(entry.end, end)
            if entry.state is State.FLYING:
                self._answered(entry, stop, now)
                self._count_down(entry, stop - entry.start)
            strands[entry.strand] = None
            if stop == entry.end:
                lane.remove(entry)
            else:
                lane.shorten(entry, stop)
        for strand in strands:
            self._dispatch.settled(strand, now)
        if lane.paused:
            paused, lane.paused = lane.paused, []
            for entry in reversed(paused):
                if entry.state is State.WAITING:
                    self._dispatch.wake(entry, now)

    # --- failures ----------------------------------------------------------------------------------------

    def _with_those_behind(self, lane: Lane, entries: list[Entry]) -> list[Entry]:
        """Entries of a partition that fly, in order, with what was delivered behind each in its order."""
        first: dict[Strand, int] = {}
        for entry in entries:
            if entry.strand is not None:
                first.setdefault(entry.strand, entry.start)
        if not first:
            return entries
        return [
            entry
            for entry in lane.entries[lane.first_at(entries[0].start) :]
            if entry.strand in first and entry.state is State.FLYING and entry.start >= first[entry.strand]
        ]

    def _fail(self, returned: list[Entry], blamed: set[Entry], now: float, delay: float, reason: str) -> None:
        """Take entries back; only some of them failed."""
        for entry in returned:
            self._return(entry)
        self._dispatch.take_back(
            [entry for entry in returned if entry not in blamed or self._failed(entry, now, delay, reason)], now
        )
        for strand in {entry.strand: None for entry in returned if entry.strand is not None}:
            self._dispatch.settled(strand, now)

    def _failed(self, entry: Entry, now: float, delay: float, reason: str) -> bool:
        """Count a failure; True when the entry waits for another try."""
        lane = self._lanes[entry.partition]
        entry.failures += 1
        entry.reason = reason
        over = entry.failures > self.options.max_redeliveries
        if over and self.options.poison == "drop":
            self.counters.dropped += entry.rows
            self._dropped.append((lane.partition, entry.start, entry.end))
            self._settle(lane, entry.start, entry.end, now)
            return False
        if over and self.options.poison == "dead_letter":
            entry.state = State.DEAD
            self._letters.append(entry)
            return False
        longest = self.options.max_delay_seconds
        entry.due = now + (longest if over else min(longest, max(delay, self.options.delay(entry.failures))))
        self._set_timer(entry)
        return True

    def take_dropped(self) -> list[tuple[int, int, int]]:
        """Partition, start and end of what was given up, and so is acknowledged, since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def take_unwanted(self) -> list[tuple[int, int, int]]:
        """Partition, start and end of what nobody wanted, and so is acknowledged, since the last call."""
        unwanted, self._unwanted = self._unwanted, []
        return unwanted

    def take_letters(self) -> list[Letter]:
        """What is to be stored in the dead-letter topic; each is given back with `buried` or `not_buried`."""
        letters, self._letters = self._letters, []
        dead = [entry for entry in letters if entry.state is State.DEAD]
        for entry in dead:
            entry.due = 0.0
        return [Letter(each.partition, each.start, each.batch(), each.deliveries, each.reason) for each in dead]

    def buried(self, letter: Letter, now: float) -> None:
        self.counters.dead += letter.batch.num_rows
        self._settle(self._lanes[letter.partition], letter.first, letter.end, now)

    def not_buried(self, letter: Letter, now: float) -> None:
        """It could not be stored: what is left of it is among the letters again after a while."""
        for entry in self._isolated(self._lanes[letter.partition], letter.first, letter.end):
            if entry.state is State.DEAD:
                entry.failures += 1
                entry.due = now + self.options.delay(entry.failures - self.options.max_redeliveries)
                entry.stamp += 1
                self._set_timer(entry)

    # --- time --------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Do what is due."""
        while self._timers and self._timers[0][0] <= now:
            _, _, entry, stamp = heapq.heappop(self._timers)
            if entry.stamp != stamp:
                continue
            if entry.state is State.FLYING:
                entry.due = self._deadline(entry)
                if entry.due <= now:
                    self._time_out(entry, now)
                else:
                    self._set_timer(entry)
            elif entry.state is State.WAITING:
                self._dispatch.wake(entry, now)
            elif entry.state is State.DEAD:
                self._letters.append(entry)

    def next_tick(self) -> float | None:
        """When something is due next."""
        while self._timers and self._timers[0][2].stamp != self._timers[0][3]:
            heapq.heappop(self._timers)
        due = [self._timers[0][0]] if self._timers else []
        if (unwanted := self._dispatch.next_unwanted()) is not None:
            due.append(unwanted)
        return min(due, default=None)

    def _deadline(self, entry: Entry) -> float:
        """When a message that flies is given up on.

        A consumer may have many at a time and work on them one after the other: as long as it answers, it is at work.
        But what it got before others that it answered long ago, it has forgotten.
        """
        seat, timeout = entry.seat, self.options.ack_timeout_seconds
        assert seat is not None
        assert timeout is not None
        forgotten = (entry.flight, entry.start) < seat.passed
        return (entry.flown_at if forgotten else max(entry.flown_at, seat.answered_at)) + timeout

    def _answered(self, entry: Entry, end: int, now: float) -> None:
        """Its consumer said something to a message that flies, up to this offset."""
        seat, timeout = entry.seat, self.options.ack_timeout_seconds
        assert seat is not None
        if seat.answer((entry.flight, end - 1), now, timeout):
            for lane in self._lanes.values():
                for each in lane.entries:
                    if each.seat is seat and (each.flight, each.start) < seat.passed:
                        each.due = self._deadline(each)
                        self._set_timer(each)

    def _time_out(self, entry: Entry, now: float) -> None:
        """Take back all that its consumer has for too long. To blame is what it got first: it may be stuck there.

        One that says nothing is given no more than one message at a time: what it got may still be in its queue.
        """
        seat, timeout = entry.seat, self.options.ack_timeout_seconds
        assert seat is not None
        assert timeout is not None
        if now - seat.answered_at >= timeout:
            seat.window = 1
        late = {
            lane: [each for each in lane.entries if each.seat is seat and self._deadline(each) <= now]
            for lane in self._lanes.values()
        }
        first = min((each for some in late.values() for each in some), key=lambda each: each.flight)
        returned = [each for lane, some in late.items() for each in self._with_those_behind(lane, some)]
        if first.rows > 1:
            rest, first = first, self._cut(self._lanes[first.partition], first, first.start + 1)
            returned.insert(returned.index(rest), first)
        self._fail(returned, {first}, now, 0.0, TIMED_OUT)

    def _set_timer(self, entry: Entry) -> None:
        if entry.due:
            heapq.heappush(self._timers, (entry.due, next(self._ticks), entry, entry.stamp))
            if len(self._timers) > self._most_timers:
                self._timers = [each for each in self._timers if each[2].stamp == each[3]]
                heapq.heapify(self._timers)
                self._most_timers = _FEW_TIMERS + 2 * len(self._timers)

    # --- entries -----------------------------------------------------------------------------------------

    def _isolated(self, lane: Lane, start: int, end: int) -> Iterator[Entry]:
        """The entries in [start, end), cut where they reach beyond it."""
        index = lane.first_at(start)
        while index < len(lane.entries) and (entry := lane.entries[index]).start < end:
            if entry.start < start:
                self._cut(lane, entry, start)
                index += 1
            yield self._cut(lane, entry, end) if entry.end > end else entry
            index += 1

    def _cut(self, lane: Lane, entry: Entry, at: int) -> Entry:
        """As `Lane.cut`, for entries that wait, fly or are dead."""
        part = lane.cut(entry, at)
        if part.state is State.WAITING:
            self._dispatch.cut(part, entry)
        elif part.state is State.DEAD and entry in self._letters:
            self._letters.append(part)
        self._set_timer(part)
        return part

    def _count_down(self, entry: Entry, rows: int) -> None:
        assert entry.seat is not None
        entry.seat.flying -= rows
        if entry.strand is not None:
            entry.strand.flying -= rows

    def _return(self, entry: Entry) -> None:
        """From flying to waiting, at once."""
        self._count_down(entry, entry.rows)
        entry.state, entry.seat, entry.due = State.WAITING, None, 0.0
        entry.stamp += 1
