"""Has a log with lines in it, and asks the endpoints of Loki's API for them, as a query process does."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import pyarrow as pa

from frazil.config.model import Config
from frazil.engine.interface import Answer, QueryRequest, QueryStatistics, Reply
from frazil.formats.loki import push
from frazil.formats.loki.messages import PushRequest
from frazil.formats.otlp import logs
from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.rows import Arrival
from frazil.log.log import Log
from frazil.log.writer.writer import PartitionWriter
from frazil.scan.scanner import TopicScanner
from tests.formats.loki.support import NOW, message
from tests.query.logql.moving import move_lines

T = TypeVar("T")
SECOND = 1_000_000_000
START = NOW // SECOND // 60 * 60 * SECOND
"""Is the beginning of the minute of now."""
FORM = {"content-type": "application/x-www-form-urlencoded"}


class DictCache:
    def __init__(self) -> None:
        self.kept: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        if key not in self.kept:
            self.kept[key] = make()
        found: T = self.kept[key]
        return found


class Context:
    """Lets a query have all it wants."""

    def __init__(self, lines: Lines) -> None:
        self.config = lines.config
        self.scanner = lines.scanner
        self.cache = lines.cache
        self.statistics = QueryStatistics()

    def check(self) -> None:
        pass

    def hold(self, nbytes: int) -> None:
        pass


class Lines:
    """Is a context manager. It has lines in a log and, when they are moved, in a table."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.config = Config.model_validate({"data_dir": folder, **settings})
        self.log = Log(self.config)
        self.scanner = TopicScanner(self.config)
        self.cache = DictCache()
        self._writer: PartitionWriter | None = None

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.scanner.close()
        self.log.close()

    def push(
        self, *streams: tuple[Mapping[str, str], list[tuple[int, str, dict[str, str]]]], tenant: str = "default"
    ) -> None:
        """Appends lines with their labels, times and metadata."""
        rows = push.to_rows(decode(PushRequest, [message(*streams)]), Arrival([tenant], NOW)).batch
        if self._writer is None:
            self._writer = self.log.writer("logs", logs.SCHEMA)
        self._writer.append(pa.RecordBatch.from_arrays(rows.columns, schema=rows.schema))

    def seal(self) -> None:
        assert self._writer is not None
        self._writer.seal_all()

    def move(self) -> None:
        """Moves all lines to the table."""
        assert self._writer is not None
        move_lines(self.config, self._writer)

    def forget(self) -> None:
        """Goes on as a new process does, which remembers nothing."""
        self.scanner.close()
        self.scanner, self.cache = TopicScanner(self.config), DictCache()

    def reply(
        self,
        answer: Answer,
        name: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        tenants: tuple[str, ...] = ("default",),
        **parameters: Any,
    ) -> Reply:
        given = {"start": START - 3600 * SECOND, "end": START + 600 * SECOND, **parameters}
        query = urlencode(given, doseq=True)
        request = QueryRequest("GET", "/", {"name": name}, query, headers or {}, body, tenants, "loki")
        return answer(request, Context(self))

    def ask(self, answer: Answer, name: str = "", **parameters: Any) -> Any:
        """Returns what the endpoint answers, as data."""
        reply = self.reply(answer, name, **parameters)
        assert reply.status == 200
        return json.loads(b"".join(reply.body))

    def data(self, answer: Answer, name: str = "", **parameters: Any) -> Any:
        """Returns what is in the envelope of the answer, without the statistics."""
        answered = self.ask(answer, name, **parameters)
        assert answered["status"] == "success"
        found = answered.get("data")
        if isinstance(found, dict) and "stats" in found:
            assert {"summary", "querier", "ingester", "cache", "index"} == found.pop("stats").keys()
        return found
