"""Who gets what next: in order, strand by strand, or in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from frazil.topics.subscriptions.entries import Entry, Run, Seat, State, Strand
from frazil.topics.subscriptions.keys import Ring, key_runs
from frazil.topics.subscriptions.lanes import Lane
from frazil.topics.subscriptions.options import Kind, Options

Launch = Callable[[Entry, Seat], None]

PATIENCE_SECONDS = 30.0
"""After the first consumer came, and after one left, others have so long to come before their keys are nobody's."""


class Dispatch(Protocol):
    """Knows all entries that wait, and the consumers in line. Flying ones it counts, no more."""

    def seats(self) -> Iterable[Seat]: ...

    def join(self, seat: Seat, instead_of: Seat | None, now: float) -> None: ...

    def leave(self, seat: Seat, now: float) -> None: ...

    def pieces(self, lane: Lane, run: Run, start: int, end: int) -> Iterator[Entry]:
        """Entries for rows that were just read."""

    def add(self, entry: Entry, now: float) -> None:
        """One that was just read waits."""

    def take_back(self, entries: list[Entry], now: float) -> None:
        """Entries that flew wait again; of each partition in order."""

    def cut(self, part: Entry, entry: Entry) -> None:
        """`part` was cut from the front of `entry`, which waits."""

    def wake(self, entry: Entry, now: float) -> None:
        """An entry that waited can be delivered now."""

    def settled(self, strand: Strand | None, now: float) -> None:
        """Something of a strand does not fly, or wait, any more."""

    def hand_out(self, now: float, launch: Launch) -> None: ...

    def unwanted(self, now: float) -> list[Entry]:
        """What no consumer wants does not wait any more."""

    def next_unwanted(self) -> float | None:
        """When to ask for that."""


class InOrder:
    """Strands: each is with one consumer at a time, and moves only while nothing of it flies."""

    def __init__(self, options: Options, lanes: Mapping[int, Lane]) -> None:
        self._lanes = lanes
        self._max_gaps = options.max_gaps
        self._by_key = options.kind is Kind.KEY_SHARED
        self._strands: dict[str, Strand] = {}
        self._seats: list[Seat] = []
        self._by_name: dict[str, Seat] = {}
        self._ring = Ring()
        self._changes = 0
        self._filtering = False
        """Somebody does not want all keys."""
        self._unwanted: dict[Strand, None] = {}
        self._patient_until = 0.0

    def seats(self) -> Iterable[Seat]:
        return self._seats

    def join(self, seat: Seat, instead_of: Seat | None, now: float) -> None:
        if instead_of is None:
            self._seats.append(seat)
        else:
            self._seats[self._seats.index(instead_of)] = seat
        if len(self._seats) == 1:
            # Others may be about to come, or to come back.
            self._patient_until = now + PATIENCE_SECONDS
        self._changed(now)

    def leave(self, seat: Seat, now: float) -> None:
        self._seats.remove(seat)
        self._patient_until = now + PATIENCE_SECONDS
        self._changed(now)

    def _changed(self, now: float) -> None:
        self._changes += 1
        if self._by_key:
            self._by_name = {seat.name: seat for seat in self._seats}
            self._ring = Ring(self._by_name)
            self._filtering = any(seat.accepts for seat in self._seats)
            self._unwanted.clear()
        for strand in list(self._strands.values()):
            self._enroll(strand, now)

    def pieces(self, lane: Lane, run: Run, start: int, end: int) -> Iterator[Entry]:
        if not self._by_key:
            yield Entry(lane.partition, start, end, run, self._strand(str(lane.partition)))
            return
        for key, first, last in key_runs(run.batch.slice(start - run.first, end - start)):
            yield Entry(lane.partition, start + first, start + last, run, self._strand(key))

    def _strand(self, key: str) -> Strand:
        strand = self._strands.get(key)
        if strand is None:
            strand = self._strands[key] = Strand(key)
        return strand

    def add(self, entry: Entry, now: float) -> None:
        strand = _strand_of(entry)
        strand.waiting.append(entry)
        self._enroll(strand, now)

    def take_back(self, entries: list[Entry], now: float) -> None:
        by_strand: dict[Strand, list[Entry]] = {}
        for entry in entries:
            by_strand.setdefault(_strand_of(entry), []).append(entry)
        for strand, mine in by_strand.items():
            # It may have been let go of in between, when nothing of it flew or waited.
            self._strands[strand.key] = strand
            strand.waiting.extendleft(reversed(mine))
            self._enroll(strand, now)

    def cut(self, part: Entry, entry: Entry) -> None:
        _insert_before(_strand_of(entry).waiting, part, entry)

    def wake(self, entry: Entry, now: float) -> None:
        self._enroll(_strand_of(entry), now)

    def settled(self, strand: Strand | None, now: float) -> None:
        assert strand is not None
        self._enroll(strand, now)

    def _enroll(self, strand: Strand, now: float) -> None:
        """Queue a strand with the consumer it is for, if it has something to be delivered now."""
        head = strand.head()
        if head is None:
            if self._by_key and not strand.flying and self._strands.get(strand.key) is strand:
                del self._strands[strand.key]
        elif head.due <= now:
            if (seat := self._route(strand)) is not None:
                seat.queue[strand] = None
            elif self._filtering:
                self._unwanted[strand] = None

    def _route(self, strand: Strand) -> Seat | None:
        if strand.flying:
            return strand.owner
        if strand.chosen_in != self._changes:
            strand.chosen, strand.chosen_in = self._choose(strand.key), self._changes
        return strand.chosen

    def _choose(self, key: str) -> Seat | None:
        if self._by_key:
            among = (
                {seat.name for seat in self._seats if seat.accepts is None or seat.accepts(key)}
                if self._filtering
                else None
            )
            name = self._ring.owner(key, among)
            return self._by_name[name] if name is not None else None
        return self._seats[0] if self._seats else None

    def hand_out(self, now: float, launch: Launch) -> None:
        for seat in self._seats:
            while seat.queue and seat.room > 0:
                self._hand_round(seat, now, launch)

    def unwanted(self, now: float) -> list[Entry]:
        if not self._unwanted or now < self._patient_until:
            return []
        found = []
        for strand in self._unwanted:
            found += [entry for entry in strand.waiting if entry.state is State.WAITING]
            strand.waiting.clear()
        self._unwanted.clear()
        return found

    def next_unwanted(self) -> float | None:
        return self._patient_until if self._unwanted else None

    def _hand_round(self, seat: Seat, now: float, launch: Launch) -> None:
        """Every strand that has something for a consumer gets an equal part of its room."""
        share = max(1, seat.room // len(seat.queue))
        for strand in list(seat.queue):
            if seat.room <= 0:
                return
            del seat.queue[strand]
            if self._route(strand) is seat and self._give(strand, seat, min(share, seat.room), now, launch):
                seat.queue[strand] = None

    def _give(self, strand: Strand, seat: Seat, most: int, now: float, launch: Launch) -> bool:
        """True when there is more for the consumer."""
        while (head := strand.head()) is not None and head.due <= now:
            if most <= 0:
                return True
            lane = self._lanes[head.partition]
            rows = _rows(lane, head, most, self._max_gaps)
            if not rows:
                lane.paused.append(head)
                return False
            if rows < head.rows:
                head = lane.cut(head, head.start + rows)
            else:
                strand.waiting.popleft()
            most -= rows
            strand.flying += rows
            strand.owner = seat
            launch(head, seat)
        return False


class InTurn:
    """Whatever can be delivered goes to whoever has room, round and round."""

    def __init__(self, options: Options, lanes: Mapping[int, Lane]) -> None:
        self._lanes = lanes
        self._max_gaps = options.max_gaps
        self._ready: deque[Entry] = deque()
        self._seats: deque[Seat] = deque()
        """The next to be given something first."""

    def seats(self) -> Iterable[Seat]:
        return self._seats

    def join(self, seat: Seat, instead_of: Seat | None, now: float) -> None:
        if instead_of is not None:
            self._seats.remove(instead_of)
        self._seats.append(seat)

    def leave(self, seat: Seat, now: float) -> None:
        self._seats.remove(seat)

    def pieces(self, lane: Lane, run: Run, start: int, end: int) -> Iterator[Entry]:
        yield Entry(lane.partition, start, end, run, None)

    def add(self, entry: Entry, now: float) -> None:
        self._ready.append(entry)

    def take_back(self, entries: list[Entry], now: float) -> None:
        self._ready.extendleft(entry for entry in reversed(entries) if entry.due <= now)

    def cut(self, part: Entry, entry: Entry) -> None:
        if entry in self._ready:
            part.due = 0.0
            _insert_before(self._ready, part, entry)
        elif part.due == 0.0:
            # The entry is paused; otherwise it is not due yet.
            self._ready.append(part)

    def wake(self, entry: Entry, now: float) -> None:
        self._ready.appendleft(entry)

    def settled(self, strand: Strand | None, now: float) -> None:
        """There are no strands."""

    def hand_out(self, now: float, launch: Launch) -> None:
        hungry = deque(seat for seat in self._seats if seat.room > 0)
        if not hungry or not self._ready:
            return
        rows = sum(entry.rows for entry in self._ready if entry.state is State.WAITING)
        share = max(1, -(-rows // len(hungry)))
        while hungry and self._ready:
            seat = hungry.popleft()
            if self._give(seat, share, now, launch):
                self._seats.remove(seat)
                self._seats.append(seat)
            if seat.room > 0:
                hungry.append(seat)

    def unwanted(self, now: float) -> list[Entry]:
        return []

    def next_unwanted(self) -> float | None:
        return None

    def _give(self, seat: Seat, most: int, now: float, launch: Launch) -> int:
        given = 0
        while self._ready and given < most and seat.room > 0:
            entry = self._ready[0]
            if entry.state is not State.WAITING:
                self._ready.popleft()
                continue
            lane = self._lanes[entry.partition]
            rows = _rows(lane, entry, min(seat.room, most - given), self._max_gaps)
            if not rows:
                lane.paused.append(self._ready.popleft())
                continue
            if rows < entry.rows:
                entry = lane.cut(entry, entry.start + rows)
            else:
                self._ready.popleft()
            given += rows
            launch(entry, seat)
        return given


def _rows(lane: Lane, entry: Entry, room: int, max_gaps: int) -> int:
    """How many rows of an entry can be delivered now."""
    rows = min(room, entry.rows)
    return rows if entry.deliveries else min(rows, lane.allowance(entry, max_gaps))


def _insert_before(waiting: deque[Entry], part: Entry, entry: Entry) -> None:
    waiting.insert(waiting.index(entry), part)


def _strand_of(entry: Entry) -> Strand:
    assert entry.strand is not None
    return entry.strand
