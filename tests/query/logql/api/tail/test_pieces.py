"""Tests that each line comes in one piece, whatever was sealed meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import QueryError
from frazil.query.logql.api.tail import pieces
from frazil.query.logql.api.tail.pieces import POSITIONS, piece
from tests.query.logql.api.support import SECOND, START, Lines

APP = '{app="live"}'


class Client:
    def __init__(self, lines: Lines, **parameters: str | int) -> None:
        self._lines = lines
        self._parameters: dict[str, Any] = {"query": APP, **parameters}
        self.positions = b""
        self.dropped: list[str] = []

    def next(self) -> list[str]:
        reply = self._lines.reply(piece, body=self.positions, **self._parameters)
        self.positions = reply.headers[POSITIONS].encode()
        frames = [json.loads(frame) for frame in b"".join(reply.body).split(b"\n") if frame]
        self.dropped += [each["timestamp"] for frame in frames for each in frame.get("dropped_entries", ())]
        return [stream["values"][0][1] for frame in frames for stream in frame["streams"]]


def push(lines: Lines, *texts: str, at: int = START) -> None:
    lines.push(({"app": "live"}, [(at + number, text, {}) for number, text in enumerate(texts)]))


def test_old_lines_come_first_and_then_those_that_are_new(tmp_path: Path) -> None:
    with Lines(tmp_path) as lines:
        push(lines, "a", "b", "c")
        client = Client(lines, limit=2)
        assert client.next() == ["b", "c"]
        assert client.next() == []
        push(lines, "d")
        lines.push(({"app": "other"}, [(START, "x", {})]))
        lines.seal()
        push(lines, "late", at=START - 7200 * SECOND)
        assert client.next() == ["late", "d"]
        assert client.next() == []


def test_lines_come_once_although_they_move_to_the_table_meanwhile(tmp_path: Path) -> None:
    with Lines(tmp_path) as lines:
        push(lines, "a")
        client = Client(lines)
        assert client.next() == ["a"]
        push(lines, "b", "c")
        lines.move()
        assert client.next() == ["b", "c"]
        push(lines, "d", "e")
        assert client.next() == ["d", "e"]
        lines.move()
        assert client.next() == []


def test_nobody_has_sent_a_line_yet(tmp_path: Path) -> None:
    with Lines(tmp_path) as lines:
        client = Client(lines)
        assert client.next() == []
        push(lines, "first")
        assert client.next() == ["first"]


def test_the_newest_lines_are_kept_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST_LINES", 3)
    with Lines(tmp_path) as lines:
        client = Client(lines)
        client.next()
        push(lines, *"abcde")
        assert client.next() == ["c", "d", "e"]
        assert client.dropped == [str(START), str(START + 1)]


def test_only_lines_are_followed(tmp_path: Path) -> None:
    with Lines(tmp_path) as lines, pytest.raises(QueryError, match="only log selector is supported"):
        Client(lines, query="rate({app='x'}[1m])".replace("'", '"')).next()
