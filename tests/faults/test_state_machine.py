"""Tests random lives of a partition against a plain list: nothing acknowledged is lost, repeated or reordered.

The store fails before or after doing its work, and does puts late. The process dies at any step.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from frazil.errors import FrazilError, PartitionFenced, SequenceTooOld, StorageUnavailable
from frazil.log.positions import Origin, Sequence
from frazil.log.segments.trim import trim
from frazil.log.wal.recovery import ScannedWal
from frazil.log.writer.writer import PartitionWriter, Pending
from frazil.store.local import LocalStore
from tests.examples import examples
from tests.faults.faulty_store import NO_FAULTS, Faults, FaultyStore
from tests.log.support import TOPIC, Machine, crash, ids, newest_wal, reader, rows, writer

FAULTS = Faults(before=0.1, after=0.1, delayed=0.2)


class PartitionLife(RuleBasedStateMachine):
    """A partition with `ack: local`. The subclass has no WAL."""

    ack = "local"

    @initialize(seed=st.integers(0, 2**32), sync=st.sampled_from(["always", "periodic", "none"]))
    def begin(self, seed: int, sync: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="frazil-life-"))
        self.machine = Machine(seed)
        self.inner = LocalStore(self.folder / "store")
        self.store = FaultyStore(self.inner, random.Random(seed), sleep=lambda _: None)
        self.sync = sync
        self.expected: dict[int, int] = {}
        """The id at each offset that was acknowledged."""
        self.unknown: set[int] = set()
        """The ids that were sent, and of which it is unknown whether they are stored."""
        self.waiting: list[tuple[Pending, int, int, int]] = []
        self.recent: list[tuple[int, int, int]] = []
        """The newest appends, acknowledged or not, as first id, count and sequence."""
        self.next_id = 0
        self.sequence = 0
        self.open()

    def open(self) -> None:
        self.store.faults = NO_FAULTS
        self.w: PartitionWriter = writer(
            self.store,
            self.folder,
            self.machine,
            ack=self.ack,
            sync=self.sync,
            seal_rows=25,
            max_file_bytes=3000,
        )
        self.store.faults = FAULTS

    @rule(count=st.integers(1, 12))
    def append(self, count: int) -> None:
        self.sequence += 1
        self.recent = [*self.recent[-3:], (self.next_id, count, self.sequence)]
        self._send(self.next_id, count, self.sequence)
        self.next_id += count

    @rule(back=st.integers(0, 3))
    def append_again(self, back: int) -> None:
        """Sends one of the newest appends again, perhaps after a restart, as if its acknowledgement was lost."""
        if self.recent:
            self._send(*self.recent[-1 - min(back, len(self.recent) - 1)])

    def _send(self, first: int, count: int, sequence: int) -> None:
        self.unknown |= set(range(first, first + count))
        try:
            pending = self.w.submit(rows(first, count), Origin(sequence=Sequence("p", sequence)))
        except PartitionFenced:
            self.w.resume()
            return
        self.waiting.append((pending, first, count, sequence))
        self._collect()

    def _collect(self) -> None:
        """Records what was acknowledged meanwhile."""
        done = [each for each in self.waiting if each[0].done()]
        self.waiting = [each for each in self.waiting if each not in done]
        for pending, first, count, _ in done:
            try:
                ack = pending.result(0)
            except SequenceTooOld:
                assert first not in self.expected.values(), "a repeat of what was acknowledged gets its offset"
                continue
            except FrazilError:
                continue
            assert ack.rows == count
            for i in range(count):
                assert self.expected.setdefault(ack.offset + i, first + i) == first + i
            self.unknown -= set(range(first, first + count))

    @rule()
    def seal(self) -> None:
        try:
            self.w.seal()
        except StorageUnavailable:
            pass
        except PartitionFenced:
            self.w.resume()
        self._collect()

    @rule()
    def late_puts_arrive(self) -> None:
        self.store.release_delayed()

    @rule(torn=st.binary(max_size=40), reboot=st.booleans(), late=st.booleans())
    def die(self, torn: bytes, reboot: bool, late: bool) -> None:
        """Kills the process, perhaps in the middle of writing a frame. Delayed puts may arrive before the restart."""
        self._settle()
        crash(self.w)
        self.waiting.clear()
        if self.ack == "local":
            newest = newest_wal(self.folder)
            end = ScannedWal(newest).clean_bytes
            with newest.open("r+b") as file:
                file.seek(end)
                file.write(torn)
        if late:
            self.store.release_delayed()
        if reboot:
            self.machine.reboot()
        self.open()

    @rule(reboot=st.booleans())
    def stop(self, reboot: bool) -> None:
        self._settle()
        self.w.close()
        self._collect()
        self.waiting.clear()
        if reboot:
            self.machine.reboot()
        self.open()

    def _settle(self) -> None:
        """Waits for the committing thread of the `always` mode.

        What it has not done when the process dies is not done.
        """
        if self.ack == "local":
            for pending, *_ in self.waiting:
                pending.group.event().wait(10)
            self._collect()

    @rule(keep=st.integers(0, 60), wait=st.booleans())
    def trim_log(self, keep: int, wait: bool) -> None:
        needed = max(0, max(self.expected, default=0) - keep)
        with contextlib.suppress(StorageUnavailable):
            trim(self.store, TOPIC, 0, needed_from=needed, grace_seconds=10, now_ms=self.machine.clock.now_ms())
        if wait:
            self.machine.clock.advance(11)

    @rule(seed=st.integers(0, 2**32), steps=st.integers(20, 80))
    def live_on(self, seed: int, steps: int) -> None:
        """Does many random steps at once, because bugs are in deep states."""
        rng = random.Random(seed)

        def flip() -> bool:
            return rng.random() < 0.5

        moves: dict[Callable[[], object], int] = {
            lambda: self.append(count=rng.randint(1, 12)): 40,
            lambda: self.append_again(back=rng.randint(0, 3)): 15,
            lambda: self.seal(): 30,
            lambda: self.late_puts_arrive(): 10,
            lambda: self.die(torn=rng.randbytes(rng.randint(0, 40)), reboot=flip(), late=flip()): 8,
            lambda: self.stop(reboot=flip()): 3,
            lambda: self.trim_log(keep=rng.randint(0, 60), wait=flip()): 5,
        }
        for step in range(steps):
            rng.choices(list(moves), list(moves.values()))[0]()
            if step % 5 == 0:
                self.everything_acknowledged_is_there_once()

    @invariant()
    def everything_acknowledged_is_there_once(self) -> None:
        if not hasattr(self, "store"):
            return
        self._collect()
        faults, self.store.faults = self.store.faults, NO_FAULTS
        try:
            self._check()
        finally:
            self.store.faults = faults

    def _check(self) -> None:
        tail = self.w if self.ack == "local" else None
        r = reader(self.inner, tail)
        bounds = r.bounds()
        found = dict(enumerate(ids(r.read(bounds.start)), bounds.start))
        assert all(o < bounds.end for o in self.expected), "nothing acknowledged is beyond the end"
        left = {o: i for o, i in self.expected.items() if o >= bounds.start}
        assert {o: found[o] for o in left} == left
        assert len(set(found.values())) == len(found), "nothing twice"
        unexpected = set(found.values()) - set(self.expected.values())
        assert unexpected <= self.unknown, "nothing that nobody sent"
        if self.ack == "local":
            assert list(found.values()) == sorted(found.values()), "in the order they were sent"

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self._finish()
            shutil.rmtree(self.folder)

    def _finish(self) -> None:
        """Ends all faults, seals everything, and reads it from the store alone."""
        self.store.release_delayed()
        self.store.faults = NO_FAULTS
        for _ in range(100):
            try:
                self.w.drain()
                self.w.seal_all()
                break
            except PartitionFenced:
                self.w.resume()
        self._collect()
        r = reader(self.inner)
        start = r.bounds().start
        found = dict(enumerate(ids(r.read(start)), start))
        assert {o: i for o, i in self.expected.items() if o >= start}.items() <= found.items()
        self.w.close()


class PartitionLifeWithoutWal(PartitionLife):
    ack = "object"


def _case(machine: type[RuleBasedStateMachine], lives: int, steps: int) -> Any:
    class Case(machine.TestCase):  # type: ignore[name-defined,misc]
        settings = settings(max_examples=lives, stateful_step_count=steps, deadline=None)

    return Case


TestWithWal = _case(PartitionLife, examples(15), 12)
TestWithoutWal = _case(PartitionLifeWithoutWal, examples(15), 12)
TestWithWalLong = pytest.mark.soak(_case(PartitionLife, 300, 25))
TestWithoutWalLong = pytest.mark.soak(_case(PartitionLifeWithoutWal, 300, 25))
