"""Compares the buffer with a simple model: a list of records for each partition."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from frazil.config.model import Config
from frazil.config.sections.kafka import BufferConfig
from frazil.formats import kafka
from frazil.hot import blocks, search
from frazil.hot.buffer import Buffer, BufferedPartition
from frazil.hot.partition_contents import PartitionContents
from tests.examples import examples
from tests.hot.support import TOPIC, records


class Writer:
    """Is a source that never loses its partitions."""

    def lost(self) -> bool:
        return False


WRITER = Writer()
KEYS = [b"a", b"b", b"c", b"", None]
GAPS = st.lists(st.integers(1, 3), min_size=1, max_size=8)


@dataclass
class Model:
    """Says what one partition should hold: records by offset, from `start` on."""

    keys: dict[int, bytes | None] = field(default_factory=dict)
    source: dict[int, int] = field(default_factory=dict)
    """This has the source's offset of each record."""
    start: int = 0
    end: int = 0
    sealed: int = 0
    last: int = -1

    def newest(self, key: bytes) -> int | None:
        return max((o for o in range(self.start, self.end) if self.keys[o] == key), default=None)


class HeldLikeTheModel(RuleBasedStateMachine):
    """Whatever happens, every buffered record is found, and nothing else is."""

    @initialize()
    def begin(self) -> None:
        self.buffer = Buffer(Config(buffer=BufferConfig(max_size_mb=1, ttl_seconds=100)))
        # It is so small that a few batches fill it.
        self.buffer.max_bytes = 40 * blocks.OVERHEAD
        self.models = [Model(), Model()]
        self.buffered = [self.buffer.get_or_create(TOPIC, partition) for partition in range(2)]
        for buffered in self.buffered:
            self.buffer.set_source(buffered, WRITER)
        self.now = 0

    @rule(partition=st.integers(0, 1), gaps=GAPS, data=st.data(), times=st.integers(1, 5))
    def append(self, partition: int, gaps: list[int], data: st.DataObject, times: int) -> None:
        for _ in range(times):
            model, buffered = self.models[partition], self.buffered[partition]
            keys = data.draw(st.lists(st.sampled_from(KEYS), min_size=len(gaps), max_size=len(gaps)))
            offsets = list(accumulate(gaps, initial=model.last))[1:]
            model.last = offsets[-1]
            for i, (key, offset) in enumerate(zip(keys, offsets, strict=True)):
                model.keys[model.end + i], model.source[model.end + i] = key, offset
            batch = records(offsets, keys, partition=partition)
            borrowed = data.draw(st.booleans())
            assert self.buffer.append(buffered, model.end, batch, self.now, borrowed=borrowed, by=WRITER)
            model.end += len(gaps)
            self.forget_what_was_evicted()

    @rule(partition=st.integers(0, 1), part=st.floats(0, 1))
    def seal(self, partition: int, part: float) -> None:
        model = self.models[partition]
        model.sealed += round((model.end - model.sealed) * part)
        self.buffer.seal(self.buffered[partition], model.sealed)
        self.forget_what_was_evicted()

    @rule(partition=st.integers(0, 1))
    def fence(self, partition: int) -> None:
        """Another writer took the partition, so unsealed records are not part of the log."""
        model = self.models[partition]
        self.buffer.truncate(self.buffered[partition], model.sealed)
        model.end = model.sealed
        model.start = min(model.start, model.end)
        model.last = max((o for n, o in model.source.items() if n < model.end), default=-1)

    @rule(seconds=st.integers(0, 80))
    def wait(self, seconds: int) -> None:
        self.now += seconds * 1000
        self.buffer.expire(self.now)
        self.forget_what_was_evicted()

    @rule(partition=st.integers(0, 1))
    def tidy(self, partition: int) -> None:
        buffered = self.buffered[partition]
        shared = [
            block for block in buffered.contents.blocks if block.borrowed and block.end > buffered.contents.sealed
        ]
        while self.buffer.compact(buffered):
            pass
        borrowed = [block for block in buffered.contents.blocks if block.borrowed]
        assert borrowed == shared, "what is sealed is copied out of the WAL; the rest is not held twice"

    @rule(partition=st.integers(0, 1), count=st.integers(1, 6))
    def fill(self, partition: int, count: int) -> None:
        """Reads records again that were evicted."""
        model, buffered = self.models[partition], self.buffered[partition]
        first = max(0, model.start - count)
        if first < model.start:
            offsets = range(first, model.start)
            batch = records([model.source[o] for o in offsets], [model.keys[o] for o in offsets], partition=partition)
            assert self.buffer.prepend(buffered, first, batch, self.now)
            model.start = first
            self.forget_what_was_evicted()

    def forget_what_was_evicted(self) -> None:
        """The model does not say when records are evicted, but which of them may be."""
        for model, buffered in zip(self.models, self.buffered, strict=True):
            start = buffered.contents.start
            assert model.start <= start <= max(model.start, model.sealed), "only sealed records go, the oldest first"
            model.start = start

    @invariant()
    def holds_an_unbroken_run(self) -> None:
        for model, buffered in zip(self.models, self.buffered, strict=True):
            contents = buffered.contents
            assert (contents.start, contents.end, contents.sealed) == (model.start, model.end, model.sealed)
            assert [b.offset for b in contents.blocks] == [contents.start, *(b.end for b in contents.blocks)][
                : len(contents.blocks)
            ]
            assert not contents.blocks or contents.blocks[-1].end == contents.end

    @invariant()
    def finds_by_key(self) -> None:
        for partition, (model, buffered) in enumerate(zip(self.models, self.buffered, strict=True)):
            for key in (b"a", b"b", b"c", b"", b"unknown"):
                record = next(search.find_by_key(partition, buffered.contents, key, kafka.KEY), None)
                assert (record.offset if record else None) == model.newest(key)

    @invariant()
    def finds_by_offset(self) -> None:
        for partition, (model, buffered) in enumerate(zip(self.models, self.buffered, strict=True)):
            there = {model.source[o]: o for o in range(model.start, model.end)}
            for offset in range(-1, model.last + 3):
                record = search.find_by_offset(partition, buffered.contents, offset)
                assert (record.offset if record else None) == there.get(offset)
            assert buffered.contents.first_source_offset == min(there, default=None)

    @invariant()
    def counts_its_memory(self) -> None:
        contents = [buffered.contents for buffered in self.buffered]
        assert self.buffer.nbytes == sum(each.index_bytes + sum(b.nbytes for b in each.blocks) for each in contents)
        evictable = any(each.evictable() for each in contents)
        assert self.buffer.nbytes <= self.buffer.max_bytes or not evictable


HeldLikeTheModel.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
TestHeldLikeTheModel = HeldLikeTheModel.TestCase


def buffer_of(**settings: object) -> tuple[Buffer, BufferedPartition]:
    buffer = Buffer(Config(buffer=BufferConfig(**settings)))
    buffered = buffer.get_or_create(TOPIC, 0)
    buffer.set_source(buffered, WRITER)
    return buffer, buffered


def test_an_offset_that_comes_again_belongs_to_the_newest_life_of_its_topic() -> None:
    buffer, buffered = buffer_of()
    buffer.append(buffered, 0, records([10, 11, 12]), 0, by=WRITER)
    buffer.append(buffered, 3, records([13, 0, 1]), 0, by=WRITER)
    buffer.append(buffered, 6, records([2, 11]), 0, by=WRITER)
    found = {offset: search.find_by_offset(0, buffered.contents, offset) for offset in (0, 1, 2, 10, 11, 12, 13)}
    assert {o: record.offset if record else None for o, record in found.items()} == {
        0: 4, 1: 5, 2: 6, 10: None, 11: 7, 12: None, 13: None,
    }  # fmt: skip
    assert buffered.contents.first_source_offset == 0


def test_keys_whose_hashes_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.hot.key_index.hash_keys", lambda keys: np.zeros(len(keys), np.uint64))
    monkeypatch.setattr("frazil.hot.search.hash_key", lambda key: 0)
    buffer, buffered = buffer_of()
    for i in range(20):
        buffer.append(
            buffered, 3 * i, records(range(3 * i, 3 * i + 3), [b"x", None, b"y" if i < 7 else b"z"]), 0, by=WRITER
        )
    found = {
        key: [record.offset for record in search.find_by_key(0, buffered.contents, key, kafka.KEY)]
        for key in (b"x", b"y")
    }
    assert found == {b"x": [3 * i for i in range(19, -1, -1)], b"y": [3 * i + 2 for i in range(6, -1, -1)]}
    assert not list(search.find_by_key(0, buffered.contents, b"w", kafka.KEY))


def test_records_that_do_not_follow_are_not_taken() -> None:
    buffer, buffered = buffer_of()
    buffer.restart(buffered, 5, by=WRITER)
    assert not buffer.append(buffered, 6, records([0]), 0, by=WRITER)
    assert not buffer.prepend(buffered, 3, records([0]), 0)
    assert not buffer.append(buffered, 5, records([0]), 0), "nor what another brings"
    assert not buffer.restart(buffered, 0)
    assert buffered.contents == PartitionContents(5, 5)
    buffer.set_source(buffered, None)
    assert buffer.append(buffered, 5, records([0]), 0)


def test_the_bound_is_kept_and_the_index_is_small_for_records_of_130_bytes() -> None:
    buffer, buffered = buffer_of(max_size_mb=32)
    rows, largest = 4096, 0.0
    values = [b"v" * 100] * rows
    for i in range(200):
        keys: list[bytes | None] = [f"user-{n:010d}".encode() for n in range(i * rows, (i + 1) * rows)]
        batch = records(range(i * rows, (i + 1) * rows), keys, values)
        buffer.append(buffered, i * rows, batch, i, nbytes=130 * rows, by=WRITER)
        buffer.seal(buffered, (i + 1) * rows)
        assert buffer.nbytes <= buffer.max_bytes
        largest = max(largest, buffered.contents.index_bytes / buffered.contents.nbytes)
    assert buffered.contents.start > 0, "so much did not fit"
    assert buffered.contents.rows * 130 > 0.8 * buffer.max_bytes, "what could stay did"
    # A merge needs the memory of its inputs once more for a moment, which is at most a quarter of the index.
    assert largest * 1.25 < 0.15


def test_unsealed_records_stay_even_when_there_is_no_room() -> None:
    buffer, buffered = buffer_of(max_size_mb=1)
    batch = records(range(1000), values=[b"v" * 1000] * 1000)
    for i in range(3):
        buffer.append(buffered, i * 1000, batch, 0, by=WRITER)
    assert (buffered.contents.start, buffered.contents.end, buffer.is_full) == (0, 3000, True)
    assert buffer.unsealed_bytes == buffered.contents.nbytes
    buffer.seal(buffered, 3000)
    assert not buffer.is_full
    assert buffer.unsealed_bytes == 0


def test_the_oldest_records_of_all_topics_go_first() -> None:
    buffer, buffered = buffer_of(max_size_mb=1)
    other = buffer.get_or_create("other", 7)
    buffer.set_source(other, WRITER)
    buffer.append(other, 0, records(range(100), values=[b"v" * 4000] * 100), 50, by=WRITER)
    buffer.append(buffered, 0, records(range(100), values=[b"v" * 4000] * 100), 10, by=WRITER)
    for each in (buffered, other):
        buffer.seal(each, 100)
    buffer.append(other, 100, records(range(100, 200), values=[b"v" * 4000] * 100), 60, by=WRITER)
    assert (buffered.contents.rows, other.contents.rows) == (0, 200)
    assert (buffer.stats(TOPIC).evicted, buffer.stats("other").evicted) == (100, 0)


def test_readers_see_batches_whole_while_others_are_added_and_old_ones_go() -> None:
    """Each batch is one version of ten keys. A reader that sees one of them must see all."""
    buffer, buffered = buffer_of(max_size_mb=1)
    keys: list[bytes | None] = [f"key {n}".encode() for n in range(10)]
    batches = 250
    done = threading.Event()
    wrong: list[object] = []

    def look() -> None:
        newest_seen = -1
        while not done.is_set():
            contents = buffered.visible()
            if not contents.rows:
                continue
            versions = {next(search.find_by_key(0, contents, key, kafka.KEY)).offset // 10 for key in keys if key}
            if len(versions) != 1 or contents.end % 10 or min(versions) < newest_seen:
                wrong.append((versions, contents.start, contents.end))
            newest_seen = max(versions)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for i in range(batches):
            batch: pa.RecordBatch = records(range(i * 10, i * 10 + 10), keys, [b"v" * 1000] * 10)
            assert buffer.append(buffered, i * 10, batch, i, by=WRITER)
            buffer.seal(buffered, i * 10 + 10)
            buffer.compact(buffered)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert buffered.contents.end == batches * 10
    assert buffered.stats.evicted > 0
