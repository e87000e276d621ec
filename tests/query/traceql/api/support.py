"""Calls the functions of the API with spans in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import urlencode

import pyarrow as pa

from frazil.config.model import Config
from frazil.engine.interface import QueryRequest, QueryStatistics, Reply
from frazil.query.traceql.api.routes import ROUTES
from tests.query.traceql.memory_scanner import MemoryScanner
from tests.query.traceql.span_texts import BASE

T = TypeVar("T")
START, END = BASE // 10**9 - 10, BASE // 10**9 + 60
"""The seconds of a range that has all spans which start near `BASE`."""


class NoCache:
    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        return make()


class Context:
    def __init__(self, table: pa.Table, config: Config | None = None) -> None:
        self.config = config or Config()
        self.scanner = MemoryScanner(table)
        self.cache = NoCache()
        self.statistics = QueryStatistics()

    def check(self) -> None:
        pass

    def hold(self, nbytes: int) -> None:
        pass


class Api:
    """Finds the route of a path, and calls its function."""

    def __init__(self, table: pa.Table, tenant: str = "tenant-0", **settings: Any) -> None:
        self._table = table
        self._config = Config.model_validate(settings)
        self._tenant = tenant

    def get(self, path: str, /, *, accept: str = "", **parameters: Any) -> Reply:
        return self._ask("GET", path, urlencode(parameters), {"accept": accept} if accept else {}, b"")

    def post(self, path: str, form: bytes) -> Reply:
        return self._ask("POST", path, "", {"content-type": "application/x-www-form-urlencoded"}, form)

    def _ask(self, method: str, path: str, query: str, headers: dict[str, str], body: bytes) -> Reply:
        for route in ROUTES:
            if (found := _matches(route.path, path)) is not None:
                request = QueryRequest(method, path, found, query, headers, body, (self._tenant,), "tempo")
                module, _, function = route.answer.partition(":")
                reply: Reply = getattr(import_module(module), function)(request, Context(self._table, self._config))
                return reply
        raise LookupError(path)

    def json(self, path: str, **parameters: Any) -> Any:
        reply = self.get(path, **parameters)
        assert reply.status == 200, b"".join(reply.body)
        return json.loads(b"".join(reply.body))

    def search(self, path: str, **parameters: Any) -> Any:
        """Asks for the time of all spans."""
        return self.json(path, start=START, end=END, **parameters)

    def error(self, path: str, **parameters: Any) -> tuple[int, str]:
        reply = self.get(path, **parameters)
        return reply.status, b"".join(reply.body).decode()


def _matches(template: str, path: str) -> dict[str, str] | None:
    pattern = re.sub(r"\{(\w+):path\}", r"(?P<\1>.*)", re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template))
    found = re.fullmatch(pattern, path)
    return None if found is None else found.groupdict()
