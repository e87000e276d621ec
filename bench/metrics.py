"""Measures queries in PromQL: the whole server over HTTP, against the same arithmetic on arrays in memory."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
from tests.servers.child import free_ports

from bench.bare_http_server import HOST
from bench.figures import Below, Bench, Figure, Round, figure
from bench.frazil_process import Frazil
from bench.settings import NO_TELEMETRY
from frazil.config.model import Config, ServerConfig
from frazil.config.sections.pipeline import PipelineConfig
from frazil.config.sections.prometheus import PrometheusConfig
from frazil.formats.remote_write.messages import WriteRequest

BEGIN = 1_700_000_000
STEP = 15
HOSTS = 100
SAMPLES_A_REQUEST = 24
NAME = "http_requests_total"


class Asked(NamedTuple):
    name: str
    path: str
    parameters: dict[str, object]
    bare: Callable[[], object] | None = None


class Arrays:
    """Has the same samples in memory: a row for each series."""

    def __init__(self, series: int, samples: int) -> None:
        self.values = np.arange(samples, dtype=np.float64)[None, :] * (np.arange(series) % 7 + 1)[:, None]
        self.hosts = np.arange(series) % HOSTS
        self.times = np.arange(samples) * STEP
        self.ends = np.arange(0, samples * STEP, 60)

    def rates(self) -> np.ndarray:
        last = np.searchsorted(self.times, self.ends, "right") - 1
        first = np.searchsorted(self.times, self.ends - 300, "right")
        return np.asarray((self.values[:, last] - self.values[:, first]) / np.maximum(last - first, 1) / STEP)

    def rates_by_host(self) -> np.ndarray:
        found = np.zeros((HOSTS, len(self.ends)))
        np.add.at(found, self.hosts, self.rates())
        return found / np.bincount(self.hosts)[:, None]

    def count(self) -> int:
        return int(np.isfinite(self.values[:, -1]).sum())

    def sums(self) -> np.ndarray:
        return np.bincount(self.hosts, self.values[:, -1])

    def top(self) -> np.ndarray:
        return np.argpartition(self.values[:, -1], -5)[-5:]


def metrics(bench: Bench) -> Iterator[Figure]:
    """Asks for series of two hours that lie in the log: the first time, and again."""
    series, samples = (200, 120) if bench.quick else (1900, 480)
    arrays, end = Arrays(series, samples), BEGIN + (samples - 1) * STEP
    with _serving(bench) as address, closing(HTTPConnection(*address)) as connection:
        _write(connection, series, samples)
        for number, asked in enumerate(_questions(arrays, end)):
            first = _milliseconds(connection, asked)
            if number == 0:
                name = f"{asked.name}, {series * samples:,} samples, first"
                yield Figure(name, "ms", first, target=None if bench.quick else Below(5000, "ms"))

            def ours(asked: Asked = asked) -> float:
                return _milliseconds(connection, asked)

            name = f"{asked.name}, {series:,} series"
            if asked.bare is None:
                yield Figure(name, "ms", sorted(ours() for _ in range(bench.rounds))[bench.rounds // 2])
                continue
            bare = asked.bare
            rounds = [Round(ours(), _bare_milliseconds(bare)) for _ in range(bench.rounds)]
            yield figure(name, "ms", rounds, "numpy on arrays in memory")


def _questions(arrays: Arrays, end: int) -> Iterator[Asked]:
    span = {"start": BEGIN, "end": end, "step": 60}
    rates = f"rate({NAME}[5m])"
    yield Asked(
        "rate, averaged by host", "query_range", {"query": f"avg by (host) ({rates})", **span}, arrays.rates_by_host
    )
    yield Asked("count of series", "query", {"query": f"count({NAME})", "time": end}, arrays.count)
    yield Asked("sum by host", "query", {"query": f"sum by (host) ({NAME})", "time": end}, arrays.sums)
    yield Asked("topk", "query", {"query": f"topk(5, {NAME})", "time": end}, arrays.top)
    yield Asked("rate, all returned", "query_range", {"query": rates, **span}, arrays.rates)
    yield Asked("raw series of a host", "query", {"query": f'{NAME}{{host="h1"}}[2h]', "time": end})
    yield Asked("values of a label", "label/host/values", {})


def _milliseconds(connection: HTTPConnection, asked: Asked) -> float:
    started = time.perf_counter()
    connection.request("GET", f"/api/v1/{asked.path}?{urlencode(asked.parameters)}")
    answer = connection.getresponse()
    body = answer.read()
    taken = (time.perf_counter() - started) * 1e3
    assert answer.status == 200, body[:500]
    assert json.loads(body)["data"], body[:500]
    return taken


def _bare_milliseconds(bare: Callable[[], object]) -> float:
    started = time.perf_counter()
    bare()
    return (time.perf_counter() - started) * 1e3


def _write(connection: HTTPConnection, series: int, samples: int) -> None:
    headers = {"content-type": "application/x-protobuf", "content-encoding": "snappy"}
    for first in range(0, samples, SAMPLES_A_REQUEST):
        request = WriteRequest()
        for number in range(series):
            one = request.timeseries.add()
            labels = {"__name__": NAME, "host": f"h{number % HOSTS}", "job": "api", "path": f"/p{number // HOSTS}"}
            for name, text in labels.items():
                one.labels.add(name=name, value=text)
            for at in range(first, first + SAMPLES_A_REQUEST):
                one.samples.add(value=float(at * (number % 7 + 1)), timestamp=(BEGIN + at * STEP) * 1000)
        body = pa.compress(request.SerializeToString(), "snappy", asbytes=True)
        connection.request("POST", "/api/v1/write", body, headers)
        answer = connection.getresponse()
        assert answer.status == 204, answer.read()
        answer.read()


@contextmanager
def _serving(bench: Bench) -> Iterator[tuple[str, int]]:
    (port,) = free_ports(1)
    data = bench.folder / f"data-{uuid.uuid4().hex}"
    doors = {**NO_TELEMETRY, "prometheus": PrometheusConfig(port=port)}
    config = Config(data_dir=data, server=ServerConfig(port=0), pipeline=PipelineConfig(enabled=False), **doors)
    with Frazil("serve", config, bench.folder) as frazil, frazil.connect():
        yield HOST, port
    shutil.rmtree(data)
