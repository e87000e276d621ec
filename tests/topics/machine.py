"""What tests beside this share."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from frazil.errors import OffsetGone
from frazil.lake.commit.offsets import TableState
from frazil.topics.interface import Producer
from frazil.topics.read import cold_reader, data_file, table_runs
from frazil.topics.read.cursor import PartitionCursor
from frazil.topics.read.starts import EARLIEST, LATEST, Start
from frazil.topics.read.topic_handle import TopicHandle
from tests.topics.support import LOTS, TIME, TOPIC, Shop, numbered, numbers

T = TypeVar("T")


PARTITIONS = 2


READERS = 5


partition = st.integers(0, PARTITIONS - 1)


class TopicLife(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="frazil-topic-"))
        self.runner = asyncio.Runner()
        # Chunks are so small that a file has several.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(cold_reader, "CHUNK_BYTES", 400)
        self.patch.setattr(data_file, "CHUNK_BYTES", 400)
        self.patch.setattr(table_runs, "MOST_FILES", 3)
        self.patch.setattr(table_runs, "MOST_OPEN", 2)
        self.expected: list[list[int]] = [[] for _ in range(PARTITIONS)]
        """These numbers were acknowledged, by partition. The index of each is its offset."""
        self.gone = [0] * PARTITIONS
        """Retention removed what is before these offsets from the table."""
        self.next = 0
        self.sequence = 0
        self.sent: list[tuple[int, int, int, int, int]] = []
        """These are the newest appends of a producer: partition, first number, count, sequence, offset."""
        self.steps = 0
        self.open()
        self.run(self.shop.topics.create_topic(TOPIC, PARTITIONS))
        for where in range(PARTITIONS):
            self.follow(where, EARLIEST)

    def open(self) -> None:
        self.shop = self.in_loop(self.make_shop)
        self.cursors: list[PartitionCursor] = []

    def make_shop(self) -> Shop:
        return Shop(self.folder)

    def let_go(self) -> None:
        """The process dies."""

    def in_loop(self, work: Callable[[], T]) -> T:
        async def done() -> T:
            return work()

        return self.run(done())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def committed(self) -> dict[int, int] | None:
        table = TopicHandle(TOPIC, self.shop.log, self.shop.topics._lake).table()
        return dict(TableState.of(table).offsets) if table is not None else None

    # --- what producers do -------------------------------------------------------------------------------------

    @rule(where=partition, count=st.integers(1, 30))
    def produce(self, where: int, count: int) -> None:
        stored = self.run(self.shop.topics.store(TOPIC, numbered(self.next, count), partition=where))
        assert stored.first == len(self.expected[where])
        self.expected[where] += range(self.next, self.next + count)
        self.next += count

    @rule(where=partition, count=st.integers(1, 5))
    def produce_once(self, where: int, count: int) -> None:
        self.sequence += 1
        messages = numbered(self.next, count)
        producer = Producer("p", self.sequence)
        stored = self.run(self.shop.topics.store(TOPIC, messages, partition=where, producer=producer))
        assert stored.first == len(self.expected[where])
        self.sent = [*self.sent, (where, self.next, count, self.sequence, stored.first)][-4:]
        self.expected[where] += range(self.next, self.next + count)
        self.next += count

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """The acknowledgement was lost."""
        where, first, count, sequence, offset = data.draw(st.sampled_from(self.sent))
        again = self.run(
            self.shop.topics.store(TOPIC, numbered(first, count), partition=where, producer=Producer("p", sequence))
        )
        assert (again.first, again.runs[0].duplicate) == (offset, True)

    # --- what happens to files ---------------------------------------------------------------------------------

    @rule(where=partition, then=st.sampled_from(["", "move", "move trim", "move trim delete"]))
    def seal(self, where: int, then: str) -> None:
        if self.expected[where]:
            self.shop.writer(TOPIC, where).seal_all()
        if "move" in then:
            self.shop.move(TOPIC)
        if "trim" in then:
            needed = (self.committed() or {}).get(where, 0)
            self.shop.trim(where, needed_from=needed, delete="delete" in then)

    @rule(how=st.sampled_from(["compact", "shuffle"]), expire=st.booleans())
    def rewrite(self, how: str, expire: bool) -> None:
        if self.committed() is None:
            return
        if how == "compact":
            self.shop.compact(TOPIC)
        else:
            self.shop.shuffle()
        if expire:
            self.shop.expire()

    @rule(where=partition, share=st.floats(0, 1))
    def retain(self, where: int, share: float) -> None:
        first = int((self.committed() or {}).get(where, 0) * share)
        if first > self.gone[where]:
            self.shop.retain(first, where)
            self.gone[where] = first

    @rule()
    def die(self) -> None:
        """Readers begin again where they were."""
        places = [(cursor.partition, cursor.position) for cursor in self.cursors]
        self.let_go()
        self.shop.kill()
        self.open()
        for where, position in places:
            self.follow(where, Start.at(position))

    # --- what readers see --------------------------------------------------------------------------------------

    def follow(self, where: int, start: Start) -> PartitionCursor:
        """Adds a reader. The oldest goes when there are many."""
        cursor = self.run(self.shop.topics.cursor(TOPIC, where, start))
        self.cursors = [*self.cursors, cursor][-READERS:]
        return cursor

    @invariant()
    def all_read_a_little(self) -> None:
        for number, cursor in enumerate(self.cursors):
            self.read_one(cursor, 1 + (3 * self.steps + 5 * number) % 11)
        self.steps += 1

    def log_start(self, where: int) -> int:
        return self.shop.log.reader(TOPIC, where).bounds().start

    @rule(where=partition, share=st.floats(0, 1), word=st.sampled_from(["earliest", "latest", "offset"]))
    def another_reader(self, where: int, share: float, word: str) -> None:
        end = len(self.expected[where])
        if word == "earliest":
            assert self.follow(where, EARLIEST).position == min(self.gone[where], self.log_start(where))
        elif word == "latest":
            assert self.follow(where, LATEST).position == end
        else:
            self.follow(where, Start.at(int(share * end)))

    @rule(where=partition, back=st.integers(0, 100))
    def another_reader_since_a_time(self, where: int, back: int) -> None:
        wanted = self.next - back
        first = min(self.gone[where], self.log_start(where))
        there = [at for at, number in enumerate(self.expected[where]) if number >= wanted and at >= first]
        cursor = self.follow(where, Start.since(TIME + wanted))
        assert cursor.position == (there[0] if there else len(self.expected[where]))

    def read_one(self, cursor: PartitionCursor, rows: int) -> bool:
        where, at = cursor.partition, cursor.position
        try:
            run = self.run(cursor.read(rows, LOTS))
        except OffsetGone as gone:
            self.told(cursor, gone.first_left)
            return True
        if run is None:
            assert at == len(self.expected[where])
            return False
        assert (run.partition, run.first) == (where, at)
        assert 0 < len(run.batch) <= rows
        assert numbers([run]) == self.expected[where][at : run.end]
        return True

    def told(self, cursor: PartitionCursor, first_left: int) -> None:
        where = cursor.partition
        assert cursor.position < self.gone[where], "nothing else takes messages away"
        assert first_left == min(self.gone[where], self.log_start(where))
        cursor.seek(first_left)

    def everything_is_there(self) -> None:
        for where in range(PARTITIONS):
            cursor = self.run(self.shop.topics.cursor(TOPIC, where, EARLIEST))
            while self.read_one(cursor, 1000):
                pass
            assert cursor.position == len(self.expected[where])

    def teardown(self) -> None:
        if hasattr(self, "shop"):
            self.everything_is_there()
            self.patch.undo()
            self.let_go()
            self.shop.kill()
            self.runner.close()
            shutil.rmtree(self.folder)
