"""The buffer against a plain model of it: a list of records for each partition."""

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
from frazil.hot import blocks, finding
from frazil.hot.buffer import Buffer, Kept
from frazil.hot.held import Held
from tests.examples import examples
from tests.hot.support import TOPIC, records


class Writer:
    """One that never loses its partitions."""

    def lost(self) -> bool:
        return False


WRITER = Writer()
KEYS = [b"a", b"b", b"c", b"", None]
GAPS = st.lists(st.integers(1, 3), min_size=1, max_size=8)


@dataclass
class Model:
    """What one partition should hold: records by offset, from `start` on."""

    keys: dict[int, bytes | None] = field(default_factory=dict)
    source: dict[int, int] = field(default_factory=dict)
    """The source's offset of each record."""
    start: int = 0
    end: int = 0
    sealed: int = 0
    last: int = -1

    def newest(self, key: bytes) -> int | None:
        return max((o for o in range(self.start, self.end) if self.keys[o] == key), default=None)


class HeldLikeTheModel(RuleBasedStateMachine):
    """Whatever is done, each record that is held is found, and nothing else is."""

    @initialize()
    def begin(self) -> None:
        self.buffer = Buffer(Config(buffer=BufferConfig(max_size_mb=1, ttl_seconds=100)))
        # So small that a few batches of this test fill it.
        self.buffer.max_bytes = 40 * blocks.OVERHEAD
        self.models = [Model(), Model()]
        self.kept = [self.buffer.keep(TOPIC, partition) for partition in range(2)]
        for kept in self.kept:
            self.buffer.feed(kept, WRITER)
        self.now = 0

    @rule(partition=st.integers(0, 1), gaps=GAPS, data=st.data(), times=st.integers(1, 5))
    def append(self, partition: int, gaps: list[int], data: st.DataObject, times: int) -> None:
        for _ in range(times):
            model, kept = self.models[partition], self.kept[partition]
            keys = data.draw(st.lists(st.sampled_from(KEYS), min_size=len(gaps), max_size=len(gaps)))
            offsets = list(accumulate(gaps, initial=model.last))[1:]
            model.last = offsets[-1]
            for i, (key, offset) in enumerate(zip(keys, offsets, strict=True)):
                model.keys[model.end + i], model.source[model.end + i] = key, offset
            batch = records(offsets, keys, partition=partition)
            borrowed = data.draw(st.booleans())
            assert self.buffer.append(kept, model.end, batch, self.now, borrowed=borrowed, by=WRITER)
            model.end += len(gaps)
            self.forget_what_was_evicted()

    @rule(partition=st.integers(0, 1), part=st.floats(0, 1))
    def seal(self, partition: int, part: float) -> None:
        model = self.models[partition]
        model.sealed += round((model.end - model.sealed) * part)
        self.buffer.seal(self.kept[partition], model.sealed)
        self.forget_what_was_evicted()

    @rule(partition=st.integers(0, 1))
    def fence(self, partition: int) -> None:
        """Another writer came first: what is not sealed never was."""
        model = self.models[partition]
        self.buffer.truncate(self.kept[partition], model.sealed)
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
        kept = self.kept[partition]
        shared = [block for block in kept.held.blocks if block.borrowed and block.end > kept.held.sealed]
        while self.buffer.tidy(kept):
            pass
        borrowed = [block for block in kept.held.blocks if block.borrowed]
        assert borrowed == shared, "what is sealed is copied out of the WAL; the rest is not held twice"

    @rule(partition=st.integers(0, 1), count=st.integers(1, 6))
    def fill(self, partition: int, count: int) -> None:
        """Read again what had to go."""
        model, kept = self.models[partition], self.kept[partition]
        first = max(0, model.start - count)
        if first < model.start:
            offsets = range(first, model.start)
            batch = records([model.source[o] for o in offsets], [model.keys[o] for o in offsets], partition=partition)
            assert self.buffer.prepend(kept, first, batch, self.now)
            model.start = first
            self.forget_what_was_evicted()

    def forget_what_was_evicted(self) -> None:
        """The model does not say when records go, but which of them may."""
        for model, kept in zip(self.models, self.kept, strict=True):
            start = kept.held.start
            assert model.start <= start <= max(model.start, model.sealed), "only sealed records go, the oldest first"
            model.start = start

    @invariant()
    def holds_an_unbroken_run(self) -> None:
        for model, kept in zip(self.models, self.kept, strict=True):
            held = kept.held
            assert (held.start, held.end, held.sealed) == (model.start, model.end, model.sealed)
            assert [b.offset for b in held.blocks] == [held.start, *(b.end for b in held.blocks)][: len(held.blocks)]
            assert not held.blocks or held.blocks[-1].end == held.end

    @invariant()
    def finds_by_key(self) -> None:
        for partition, (model, kept) in enumerate(zip(self.models, self.kept, strict=True)):
            for key in (b"a", b"b", b"c", b"", b"unknown"):
                place = next(finding.with_key(partition, kept.held, key, kafka.KEY), None)
                assert (place.offset if place else None) == model.newest(key)

    @invariant()
    def finds_by_offset(self) -> None:
        for partition, (model, kept) in enumerate(zip(self.models, self.kept, strict=True)):
            there = {model.source[o]: o for o in range(model.start, model.end)}
            for offset in range(-1, model.last + 3):
                place = finding.at_source(partition, kept.held, offset)
                assert (place.offset if place else None) == there.get(offset)
            assert kept.held.first_source_offset == min(there, default=None)

    @invariant()
    def counts_its_memory(self) -> None:
        held = [kept.held for kept in self.kept]
        assert self.buffer.nbytes == sum(each.index_bytes + sum(b.nbytes for b in each.blocks) for each in held)
        evictable = any(each.evictable() for each in held)
        assert self.buffer.nbytes <= self.buffer.max_bytes or not evictable


HeldLikeTheModel.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
TestHeldLikeTheModel = HeldLikeTheModel.TestCase


def buffer_of(**settings: object) -> tuple[Buffer, Kept]:
    buffer = Buffer(Config(buffer=BufferConfig(**settings)))
    kept = buffer.keep(TOPIC, 0)
    buffer.feed(kept, WRITER)
    return buffer, kept


def test_an_offset_that_comes_again_belongs_to_the_newest_life_of_its_topic() -> None:
    buffer, kept = buffer_of()
    buffer.append(kept, 0, records([10, 11, 12]), 0, by=WRITER)
    buffer.append(kept, 3, records([13, 0, 1]), 0, by=WRITER)
    buffer.append(kept, 6, records([2, 11]), 0, by=WRITER)
    found = {offset: finding.at_source(0, kept.held, offset) for offset in (0, 1, 2, 10, 11, 12, 13)}
    assert {o: place.offset if place else None for o, place in found.items()} == {
        0: 4, 1: 5, 2: 6, 10: None, 11: 7, 12: None, 13: None,
    }  # fmt: skip
    assert kept.held.first_source_offset == 0


def test_keys_whose_hashes_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.hot.runs.hash_keys", lambda keys: np.zeros(len(keys), np.uint64))
    monkeypatch.setattr("frazil.hot.finding.hash_key", lambda key: 0)
    buffer, kept = buffer_of()
    for i in range(20):
        buffer.append(
            kept, 3 * i, records(range(3 * i, 3 * i + 3), [b"x", None, b"y" if i < 7 else b"z"]), 0, by=WRITER
        )
    found = {key: [place.offset for place in finding.with_key(0, kept.held, key, kafka.KEY)] for key in (b"x", b"y")}
    assert found == {b"x": [3 * i for i in range(19, -1, -1)], b"y": [3 * i + 2 for i in range(6, -1, -1)]}
    assert not list(finding.with_key(0, kept.held, b"w", kafka.KEY))


def test_records_that_do_not_follow_are_not_taken() -> None:
    buffer, kept = buffer_of()
    buffer.restart(kept, 5, by=WRITER)
    assert not buffer.append(kept, 6, records([0]), 0, by=WRITER)
    assert not buffer.prepend(kept, 3, records([0]), 0)
    assert not buffer.append(kept, 5, records([0]), 0), "nor what another brings"
    assert not buffer.restart(kept, 0)
    assert kept.held == Held(5, 5)
    buffer.feed(kept, None)
    assert buffer.append(kept, 5, records([0]), 0)


def test_the_bound_is_kept_and_the_index_is_small_for_records_of_130_bytes() -> None:
    buffer, kept = buffer_of(max_size_mb=32)
    rows, largest = 4096, 0.0
    values = [b"v" * 100] * rows
    for i in range(200):
        keys: list[bytes | None] = [f"user-{n:010d}".encode() for n in range(i * rows, (i + 1) * rows)]
        batch = records(range(i * rows, (i + 1) * rows), keys, values)
        buffer.append(kept, i * rows, batch, i, nbytes=130 * rows, by=WRITER)
        buffer.seal(kept, (i + 1) * rows)
        assert buffer.nbytes <= buffer.max_bytes
        largest = max(largest, kept.held.index_bytes / kept.held.nbytes)
    assert kept.held.start > 0, "so much did not fit"
    assert kept.held.rows * 130 > 0.8 * buffer.max_bytes, "what could stay did"
    # A merge needs the memory of what it merges once more, for a moment: a quarter of the index at most.
    assert largest * 1.25 < 0.15


def test_unsealed_records_stay_even_when_there_is_no_room() -> None:
    buffer, kept = buffer_of(max_size_mb=1)
    batch = records(range(1000), values=[b"v" * 1000] * 1000)
    for i in range(3):
        buffer.append(kept, i * 1000, batch, 0, by=WRITER)
    assert (kept.held.start, kept.held.end, buffer.is_full) == (0, 3000, True)
    assert buffer.unsealed_bytes == kept.held.nbytes
    buffer.seal(kept, 3000)
    assert not buffer.is_full
    assert buffer.unsealed_bytes == 0


def test_the_oldest_records_of_all_topics_go_first() -> None:
    buffer, kept = buffer_of(max_size_mb=1)
    other = buffer.keep("other", 7)
    buffer.feed(other, WRITER)
    buffer.append(other, 0, records(range(100), values=[b"v" * 4000] * 100), 50, by=WRITER)
    buffer.append(kept, 0, records(range(100), values=[b"v" * 4000] * 100), 10, by=WRITER)
    for each in (kept, other):
        buffer.seal(each, 100)
    buffer.append(other, 100, records(range(100, 200), values=[b"v" * 4000] * 100), 60, by=WRITER)
    assert (kept.held.rows, other.held.rows) == (0, 200)
    assert (buffer.stats(TOPIC).evicted, buffer.stats("other").evicted) == (100, 0)


def test_readers_see_batches_whole_while_others_are_added_and_old_ones_go() -> None:
    """Each batch is one version of ten keys: whoever sees one of them sees them all."""
    buffer, kept = buffer_of(max_size_mb=1)
    keys: list[bytes | None] = [f"key {n}".encode() for n in range(10)]
    batches = 250
    done = threading.Event()
    wrong: list[object] = []

    def look() -> None:
        newest_seen = -1
        while not done.is_set():
            held = kept.visible()
            if not held.rows:
                continue
            versions = {next(finding.with_key(0, held, key, kafka.KEY)).offset // 10 for key in keys if key}
            if len(versions) != 1 or held.end % 10 or min(versions) < newest_seen:
                wrong.append((versions, held.start, held.end))
            newest_seen = max(versions)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for i in range(batches):
            batch: pa.RecordBatch = records(range(i * 10, i * 10 + 10), keys, [b"v" * 1000] * 10)
            assert buffer.append(kept, i * 10, batch, i, by=WRITER)
            buffer.seal(kept, i * 10 + 10)
            buffer.tidy(kept)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert kept.held.end == batches * 10
    assert kept.stats.evicted > 0
