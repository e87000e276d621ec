"""Tests that what comes to a topic that is scanned is decoded before the next scan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from frazil.errors import TopicNotFound
from frazil.log.wal.entries import Entry
from frazil.scan.interface import ScanRequest
from frazil.scan.log_rows.decoding import Block, LogDecoder
from frazil.scan.scanner import TopicScanner
from tests.query.support import World, rows

WANTED = ScanRequest("orders", None)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Collects the offsets of entries that are decoded."""
    found: list[tuple[int, int]] = []
    decode = LogDecoder.entries

    def counting(self: LogDecoder, partition: int, entries: Sequence[Entry]) -> list[Block]:
        found.append((entries[0].offset, entries[-1].end))
        return decode(self, partition, entries)

    monkeypatch.setattr(LogDecoder, "entries", counting)
    return found


def test_a_scan_finds_decoded_what_came_before(tmp_path: Path, decoded: list[tuple[int, int]]) -> None:
    with World(tmp_path) as world:
        scanner = TopicScanner(world.config)
        world.append("orders", rows(0, 10))
        scanner.decode_new(60)
        assert decoded == []  # Nobody has asked for it yet.
        assert len(scanner.scan(WANTED).table()) == 10
        for start in (10, 20):
            world.append("orders", rows(start, 10))
            scanner.decode_new(60)
            scanner.decode_new(60)
        assert decoded == [(0, 10), (10, 20), (20, 30)]
        assert sorted(scanner.scan(WANTED).table()["id"].to_pylist()) == list(range(30))
        assert decoded == [(0, 10), (10, 20), (20, 30)]
        world.append("orders", rows(30, 10))
        scanner.decode_new(0)
        assert len(decoded) == 3
        scanner.close()


def test_what_has_no_room_is_not_decoded_again_and_again(tmp_path: Path, decoded: list[tuple[int, int]]) -> None:
    with World(tmp_path) as world:
        scanner = TopicScanner(world.config, memory_bytes=100_000)
        world.append("orders", rows(0, 10))
        scanner.scan(WANTED).table()
        for start in (0, 1, 2, 3):
            world.append("orders", rows(10 + start * 1000, 1000))
            for _ in range(3):
                scanner.decode_new(60)
        assert len(decoded) == 5
        assert sorted(scanner.scan(WANTED).table()["id"].to_pylist()) == list(range(4010))
        scanner.close()


def test_rows_that_other_processes_have_in_memory_are_left_alone(
    tmp_path: Path, decoded: list[tuple[int, int]]
) -> None:
    with World(tmp_path, topics={"orders": {"ack": "object", "linger_ms": 3_600_000}}) as world:
        asked = []

        def tails(topic: str) -> dict[int, object]:
            asked.append(topic)
            return {0: world.writer("orders").tail.view()}

        scanner = TopicScanner(world.config, tails=tails)  # type: ignore[arg-type]
        world.append("orders", rows(0, 10))
        assert len(scanner.scan(WANTED).table()) == 10
        scanner.decode_new(60)
        assert len(asked) == 1
        scanner.close()


def test_all_topics_together_keep_no_more_than_there_is_room(tmp_path: Path, decoded: list[tuple[int, int]]) -> None:
    names = ("orders", "returns", "offers")
    with World(tmp_path) as world:
        for name in names:
            world.append(name, rows(0, 10_000))
        whole = TopicScanner(world.config).scan(WANTED).table().nbytes
        scanner = TopicScanner(world.config, memory_bytes=5 * whole)  # There is room for the tails of two.
        decoded.clear()
        for name in names:
            assert len(scanner.scan(ScanRequest(name, None)).table()) == 10_000
        scanner.decode_new(60)
        assert len(decoded) == 3
        for name in reversed(names):
            assert len(scanner.scan(ScanRequest(name, None)).table()) == 10_000
        assert len(decoded) == 4  # Only the one that was used longest ago.
        scanner.close()


def test_names_of_topics_that_do_not_exist_take_no_memory_for_ever(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        scanner = TopicScanner(world.config, memory_bytes=8 * 100 * 1024)
        for number in range(20):
            with pytest.raises(TopicNotFound):
                scanner.scan(ScanRequest(f"nothing-{number}", None))
        assert len(scanner._topics) < 10
        scanner.close()
