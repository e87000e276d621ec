"""Clients of the telemetry doors. Each sends one request after the other, and repeats it until it is acknowledged."""

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
from frazil.formats.remote_write.messages import WriteRequest
from tests.doors.loki.support import PATH as LOKI_PUSH
from tests.doors.loki.support import push_body
from tests.doors.prometheus.support import PATH as REMOTE_WRITE
from tests.doors.prometheus.support import packed
from tests.doors.telemetry.process import Ports
from tests.doors.telemetry.support import PROTOBUF, TIME, logs_request
from tests.formats.remote_write.support import TIME_MS, add

RECORDS = 5
"""The number of records in each request."""
CALL_SECONDS = 30.0
PAUSE_SECONDS = 0.05
"""How long a client waits before it sends a request again."""

COLUMNS = {LOGS: "body", SPANS: "name", METRICS: "metric_name"}
"""The column in which the text of a record is stored."""

Make = Callable[[list[str], int], bytes]
"""A function that makes the body of a request with a record for each text. The number is unique for its sender."""


def _times(number: int) -> int:
    """Returns the time of the first record of a request. No other request of the sender has it."""
    return TIME + number * RECORDS


def _bytes(message: Message) -> bytes:
    found: bytes = message.SerializeToString()
    return found


def logs_of(texts: list[str], number: int) -> bytes:
    return _bytes(logs_request(*texts, time=_times(number)))


def spans_of(texts: list[str], number: int) -> bytes:
    request = SPANS.requests.message()
    spans = request.resource_spans.add().scope_spans.add().spans
    for start, text in enumerate(texts, _times(number)):
        spans.add(name=text, start_time_unix_nano=start, end_time_unix_nano=start + 1)
    return _bytes(request)


def points_of(texts: list[str], number: int) -> bytes:
    request = METRICS.requests.message()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for start, text in enumerate(texts, _times(number)):
        metrics.add(name=text).gauge.data_points.add(time_unix_nano=start, as_int=number)
    return _bytes(request)


def lines_of(texts: list[str], number: int) -> bytes:
    """Makes a request of log lines as Loki's clients push them."""
    return push_body(*texts, time=_times(number))


def samples_request(texts: list[str], number: int) -> Message:
    request = WriteRequest()
    for text in texts:
        add(request, (number, TIME_MS + number), name=text)
    return request


def samples_of(texts: list[str], number: int) -> bytes:
    """Makes a request of samples as Prometheus writes them."""
    return packed(_bytes(samples_request(texts, number)))


class Link(ABC):
    """The connection of one client."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        """The answers after which a client does not try again."""

    @abstractmethod
    def send(self, body: bytes) -> bool:
        """Sends a request and returns whether it was acknowledged."""

    @abstractmethod
    def close(self) -> None: ...


class HttpLink(Link):
    def __init__(self, port: int, path: str, compress: Callable[[bytes], bytes] = bytes, **headers: str) -> None:
        super().__init__()
        self._url = f"http://127.0.0.1:{port}{path}"
        self._compress = compress
        self._headers = {**PROTOBUF, **{name.replace("_", "-"): value for name, value in headers.items()}}
        self._client = httpx.Client(timeout=CALL_SECONDS)

    def send(self, body: bytes) -> bool:
        try:
            answer = self._client.post(self._url, content=self._compress(body), headers=self._headers)
        except httpx.TransportError:
            return False
        if not answer.is_success and answer.status_code not in (429, 503):
            self.refused.append(f"{answer.status_code} {answer.text}")
        return answer.is_success

    def close(self) -> None:
        self._client.close()


class GrpcLink(Link):
    # gRPC's default backoff would grow until the client hardly sends anything to a server that died often.
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
    def __init__(
        self, name: str, signal: Signal, make: Make, link: Link, stopping: threading.Event, pause: float
    ) -> None:
        """`signal` is the topic in which the records of this client are stored."""
        super().__init__(name=name, daemon=True)
        self.signal = signal
        self.link = link
        self._make = make
        self.acknowledged: list[str] = []
        self.repeated = 0
        self._last = b""
        self._stopping = stopping
        self._pause = pause

    def run(self) -> None:
        number = 0
        while not self._stopping.wait(self._pause):
            texts = [f"{self.name} {number} {each}" for each in range(RECORDS)]
            body = self._make(texts, number)
            while not self.link.send(body):
                self.repeated += 1
                time.sleep(PAUSE_SECONDS)
            self.acknowledged += texts
            self._last = body
            number += 1

    def send_last_again(self, until: float) -> None:
        """Sends the last acknowledged request again, as a client does that did not get the acknowledgement."""
        while not self.link.send(self._last):
            assert time.monotonic() < until, f"{self.name} is not acknowledged again; refused: {self.link.refused}"
            time.sleep(PAUSE_SECONDS)


class Exporters:
    """One client of each kind for each signal.

    The kinds are OTLP over HTTP and over gRPC, each plain and compressed, Loki's push API and Prometheus's remote
    write.
    """

    def __init__(self, ports: Ports, pause: float) -> None:
        self._stopping = threading.Event()
        gzipped, plain = grpc.Compression.Gzip, grpc.Compression.NoCompression

        def http(signal: Signal, encoding: str, compress: Callable[[bytes], bytes]) -> HttpLink:
            return HttpLink(ports.http, signal.path, compress, content_encoding=encoding)

        links: dict[str, tuple[Signal, Make, Link]] = {
            "logs over http": (LOGS, logs_of, HttpLink(ports.http, LOGS.path)),
            "logs over http with zstd": (LOGS, logs_of, http(LOGS, "zstd", zstandard.compress)),
            "logs over grpc with gzip": (LOGS, logs_of, GrpcLink(ports.grpc, LOGS, gzipped)),
            "lines pushed": (LOGS, lines_of, HttpLink(ports.loki, LOKI_PUSH)),
            "spans over http with gzip": (SPANS, spans_of, http(SPANS, "gzip", gzip.compress)),
            "spans over grpc": (SPANS, spans_of, GrpcLink(ports.grpc, SPANS, plain)),
            "metrics over http with zstd": (METRICS, points_of, http(METRICS, "zstd", zstandard.compress)),
            "metrics over grpc with gzip": (METRICS, points_of, GrpcLink(ports.grpc, METRICS, gzipped)),
            "samples written": (
                METRICS,
                samples_of,
                HttpLink(ports.prometheus, REMOTE_WRITE, content_encoding="snappy"),
            ),
        }
        self.all = [Exporter(name, *each, self._stopping, pause) for name, each in links.items()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for exporter in self.all:
            # A client that still tries would only report that its link is closed, and hide the real error.
            if not exporter.is_alive():
                exporter.link.close()

    def start(self) -> None:
        for exporter in self.all:
            exporter.start()

    def stop(self, seconds: float) -> None:
        """Waits until each client has got the acknowledgement of its last request, and stops."""
        self._stopping.set()
        until = time.monotonic() + seconds
        for exporter in self.all:
            exporter.join(max(0.0, until - time.monotonic()))
        waiting = [exporter.name for exporter in self.all if exporter.is_alive()]
        assert not waiting, f"never acknowledged: {waiting}"

    def send_last_again(self, seconds: float) -> int:
        """Sends the last requests again after the clients have stopped.

        Returns how many were acknowledged once more.
        """
        until = time.monotonic() + seconds
        for exporter in self.all:
            exporter.send_last_again(until)
        return len(self.all)

    def await_progress(self, seconds: float) -> None:
        """Waits until each client has got another acknowledgement."""
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
        """Returns the texts that all clients have acknowledged by now."""
        return [text for exporter in self.all if exporter.signal is signal for text in exporter.acknowledged[:]]
