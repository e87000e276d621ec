"""Tests random lives of a partition that is fed by requests and by producers.

Each append is stored once, however often it is sent, and each segment has the requests below its end and no others.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import PartitionFenced, StorageUnavailable
from frazil.log import layout
from frazil.log.positions import Origin, Positions, Sequence, StoredPositions
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import read_footer
from frazil.store.local import LocalStore
from tests.faults.faulty_store import NO_FAULTS, Faults, FaultyStore
from tests.log.support import TOPIC, Machine, crash, ids, reader, rows, writer

FAULTS = Faults(before=0.1, after=0.1, delayed=0.1)
LIVES = 20
STEP = 10
"""The ids of one append are lower than those of the next by this much."""


def origin_of(number: int) -> Origin:
    if number % 3:
        return Origin(request=number.to_bytes(16))
    return Origin(sequence=Sequence(f"producer {number}", 1))


class Life:
    def __init__(self, folder: Path, seed: int, **options: Any) -> None:
        self._chance = random.Random(seed)
        self._folder = folder
        self._inner = LocalStore(folder / "store")
        self._store = FaultyStore(self._inner, self._chance)
        self._options = {
            **options,
            "seal_rows": self._chance.choice([3, 7, 1000]),
            "max_file_bytes": self._chance.choice([1, 2000, 10**6]),
        }
        self._machine = Machine(seed)
        self._sent = 0
        self._pending: list[tuple[int, Any]] = []
        self._acknowledged: set[int] = set()
        self._open()

    def _open(self) -> None:
        self._store.faults = NO_FAULTS
        # Without a WAL, each life of a writer has its own name.
        machine = self._machine if self._options["ack"] == "local" else Machine(self._chance.getrandbits(32))
        self._machine.clock.ms = machine.clock.ms = max(machine.clock.ms, self._machine.clock.ms)
        self._writer = writer(self._store, self._folder, machine, **self._options)
        self._machine = machine
        self._store.faults = FAULTS

    def live(self) -> None:
        steps = [self._send, self._send_again, self._seal, self._arrive, self._crash, self._interfere]
        for step in self._chance.choices(steps, [40, 20, 25, 6, 6, 3], k=self._chance.randint(10, 80)):
            self._tried(step)
            self._collect()
        self._store.faults = NO_FAULTS
        self._arrive()
        while self._writer.sealed_end < self._writer.next_offset:
            self._tried(self._writer.seal_all)
        self._collect()
        self._writer.close()

    def _tried(self, step: Any) -> None:
        try:
            step()
        except StorageUnavailable:
            pass
        except PartitionFenced:
            self._writer.resume()

    def _send(self) -> None:
        self._submit(self._sent)
        self._sent += 1

    def _send_again(self) -> None:
        if self._sent:
            self._submit(self._chance.randrange(self._sent))

    def _submit(self, number: int) -> None:
        self._machine.clock.ms += self._chance.randint(-1000, 1000)
        batch = rows(number * STEP, 1 + number % 4)
        self._pending.append((number, self._writer.submit(batch, origin_of(number))))

    def _seal(self) -> None:
        self._writer.seal()

    def _arrive(self) -> None:
        self._store.release_delayed()

    def _crash(self) -> None:
        crash(self._writer)
        self._pending.clear()
        self._open()

    def _interfere(self) -> None:
        """Lets another writer append first, if two writers are possible."""
        if self._options["ack"] == "local" or not self._sent:
            return
        number = self._chance.randrange(self._sent)
        other = writer(self._inner, self._folder / "other", Machine(self._chance.getrandbits(32)), **self._options)
        pending = other.submit(rows(number * STEP, 1 + number % 4), origin_of(number))
        other.seal_all()
        pending.result(10)
        self._acknowledged.add(number)
        other.close()

    def _collect(self) -> None:
        done = [(number, pending) for number, pending in self._pending if pending.done()]
        self._pending = [each for each in self._pending if each not in done]
        for number, pending in done:
            try:
                pending.result(0)
            except PartitionFenced:
                continue
            self._acknowledged.add(number)

    def check(self) -> None:
        stored = ids(reader(self._inner).read(0))
        places = {each // STEP: offset for offset, each in enumerate(stored) if each % STEP == 0}
        expected = [number * STEP + row for number in places for row in range(1 + number % 4)]
        assert stored == expected, "each once, and whole"
        assert self._acknowledged <= places.keys()
        index = SegmentIndex(self._inner, TOPIC, 0)
        index.refresh()
        for first in index.firsts:
            segment = read_footer(self._inner, layout.segment_key(TOPIC, 0, first))
            positions = Positions.from_stored(StoredPositions.from_json(segment.positions))
            found = {number: positions.find(origin_of(number), segment.created_ms) for number in range(self._sent)}
            known = {number: place.offset for number, place in found.items() if place}
            assert known == {number: offset for number, offset in places.items() if offset < segment.end}


@pytest.mark.parametrize("ack", ["local", "object"])
def test_stored_once_and_known_by_each_segment(tmp_path: Path, seed: int, ack: str) -> None:
    for number in range(LIVES):
        life = Life(tmp_path / str(number), seed + number, ack=ack)
        life.live()
        life.check()
