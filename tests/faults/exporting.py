"""Clients of the OTLP door that send one request after the other, each again until it is acknowledged."""

from __future__ import annotations

import gzip
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import grpc
import httpx
import zstandard
from google.protobuf.message import Message

from frazil.doors.otlp.signals import LOGS, METRICS, SPANS, Signal
from tests.doors.telemetry.support import PROTOBUF, TIME, logs_request

RECORDS = 5
"""In each request."""
CALL_SECONDS = 30.0
PAUSE_SECONDS = 0.05
"""Before a request is sent again."""

COLUMNS = {LOGS: "body", SPANS: "name", METRICS: "metric_name"}
"""Where the text by which a record is known is found again."""

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}


def request_of(signal: Signal, texts: list[str], number: int) -> Message:
    """A record for each text, at times that no other request of the sender has."""
    start = TIME + number * RECORDS
    if signal is LOGS:
        return logs_request(*texts, time=start)
    request = signal.requests.message()
    if signal is SPANS:
        spans = request.resource_spans.add().scope_spans.add().spans
        for place, text in enumerate(texts):
            spans.add(name=text, start_time_unix_nano=start + place, end_time_unix_nano=start + place + 1)
    else:
        metrics = request.resource_metrics.add().scope_metrics.add().metrics
        for place, text in enumerate(texts):
            metrics.add(name=text).gauge.data_points.add(time_unix_nano=start + place, as_int=place)
    return request


class Link(ABC):
    """A connection of one client."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        """Answers that a client does not try again after."""

    @abstractmethod
    def send(self, body: bytes) -> bool:
        """Whether it was acknowledged."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HttpLink(Link):
    def __init__(self, port: int, signal: Signal, encoding: str = "") -> None:
        super().__init__()
        self._url = f"http://127.0.0.1:{port}{signal.path}"
        self._compress = _COMPRESS[encoding]
        self._headers = {**PROTOBUF, **({"content-encoding": encoding} if encoding else {})}
        self._client = httpx.Client(timeout=CALL_SECONDS)

    def send(self, body: bytes) -> bool:
        try:
            answer = self._client.post(self._url, content=self._compress(body), headers=self._headers)
        except httpx.TransportError:
            return False
        if answer.status_code not in (200, 429, 503):
            self.refused.append(f"{answer.status_code} {answer.text}")
        return answer.status_code == 200

    def close(self) -> None:
        self._client.close()


class GrpcLink(Link):
    # A client that waits ever longer for a server that died often would hardly send anything.
    _OPTIONS = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500))
    _AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED)

    def __init__(self, port: int, signal: Signal, compression: grpc.Compression) -> None:
        super().__init__()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", self._OPTIONS, compression)
        self._export = self._channel.unary_unary(f"/{signal.service}/Export")

    def send(self, body: bytes) -> bool:
        try:
            self._export(body, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            if error.code() not in self._AGAIN:
                self.refused.append(f"{error.code()} {error.details()}")
            return False
        return True

    def close(self) -> None:
        self._channel.close()


class Exporter(threading.Thread):
    def __init__(self, name: str, signal: Signal, link: Link, stopping: threading.Event, pause: float) -> None:
        super().__init__(name=name, daemon=True)
        self.signal = signal
        self.link = link
        self.acknowledged: list[str] = []
        self.repeated = 0
        self._stopping = stopping
        self._pause = pause

    def run(self) -> None:
        with self.link:
            number = 0
            while not self._stopping.wait(self._pause):
                texts = [f"{self.name} {number} {each}" for each in range(RECORDS)]
                body = request_of(self.signal, texts, number).SerializeToString()
                while not self.link.send(body):
                    self.repeated += 1
                    time.sleep(PAUSE_SECONDS)
                self.acknowledged += texts
                number += 1


class Exporters:
    """One client of each kind, for each signal: over HTTP, plain or compressed, and over gRPC, likewise."""

    def __init__(self, http: int, rpc: int, pause: float) -> None:
        self._stopping = threading.Event()
        gzipped, plain = grpc.Compression.Gzip, grpc.Compression.NoCompression
        links: dict[str, tuple[Signal, Link]] = {
            "logs over http": (LOGS, HttpLink(http, LOGS)),
            "logs over http with zstd": (LOGS, HttpLink(http, LOGS, "zstd")),
            "logs over grpc with gzip": (LOGS, GrpcLink(rpc, LOGS, gzipped)),
            "spans over http with gzip": (SPANS, HttpLink(http, SPANS, "gzip")),
            "spans over grpc": (SPANS, GrpcLink(rpc, SPANS, plain)),
            "metrics over http with zstd": (METRICS, HttpLink(http, METRICS, "zstd")),
            "metrics over grpc with gzip": (METRICS, GrpcLink(rpc, METRICS, gzipped)),
        }
        self.all = [Exporter(name, *each, self._stopping, pause) for name, each in links.items()]

    def start(self) -> None:
        for exporter in self.all:
            exporter.start()

    def stop(self, seconds: float) -> None:
        """Each ends once its last request is acknowledged."""
        self._stopping.set()
        until = time.monotonic() + seconds
        for exporter in self.all:
            exporter.join(max(0.0, until - time.monotonic()))
        waiting = [exporter.name for exporter in self.all if exporter.is_alive()]
        assert not waiting, f"never acknowledged: {waiting}"

    def await_progress(self, seconds: float) -> None:
        """Until each has got an acknowledgement since now."""
        before = [len(exporter.acknowledged) for exporter in self.all]
        until = time.monotonic() + seconds
        while behind := [e.name for e, count in zip(self.all, before, strict=True) if len(e.acknowledged) <= count]:
            assert time.monotonic() < until, f"nothing is acknowledged any more: {behind}; refused: {self.refused}"
            time.sleep(0.02)

    @property
    def refused(self) -> list[str]:
        return [f"{exporter.name}: {text}" for exporter in self.all for text in exporter.link.refused]

    @property
    def repeated(self) -> int:
        return sum(exporter.repeated for exporter in self.all)

    def acknowledged(self, signal: Signal) -> list[str]:
        """Of all clients, as it is now."""
        return [text for exporter in self.all if exporter.signal is signal for text in exporter.acknowledged[:]]
