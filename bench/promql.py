"""Measures PromQL over series in memory, against the same kernels in a bare loop over arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.figures import Bench, Figure, Round, figure
from frazil.query.promql.engine.query import query_range
from frazil.query.promql.parse.tree import Matcher
from frazil.query.promql.series.labels import Column, LabelTable
from frazil.query.promql.series.source import Hints, Samples, SeriesBlock
from frazil.query.promql.windows.edges import windows_of
from frazil.query.promql.windows.overtime import greatest_over, mean_over, quantile_over
from frazil.query.promql.windows.rates import extrapolated

Floats = npt.NDArray[np.float64]
Bare = Callable[["Arrays"], object]

SCRAPE_MS = 15_000
SAMPLES = 2 * 3600 * 1000 // SCRAPE_MS
CPUS = 10
CHUNK = 128


@dataclass(frozen=True)
class Arrays:
    """Has two metrics of as many series, two hours of each, and the steps at which they are asked for."""

    samples: dict[str, Samples]
    labels: LabelTable
    steps: npt.NDArray[np.int64]

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, hints: Hints) -> list[SeriesBlock]:
        name = next(matcher.value for matcher in matchers if matcher.name == "__name__")
        column = Column(np.ones(self.labels.size, np.int32), ["", name])
        return [SeriesBlock(self.labels.with_column("__name__", column), self.samples[name])]

    def chunks(self) -> Iterator[Samples]:
        samples = self.samples["requests_total"]
        for first in range(0, self.labels.size, CHUNK):
            yield samples.part(first, min(first + CHUNK, self.labels.size))


def arrays(series: int) -> Arrays:
    chance = np.random.default_rng(series)
    hosts = series // CPUS
    times = np.arange(SAMPLES, dtype=np.int64) * SCRAPE_MS
    samples = {
        name: Samples(times, chance.random((series, SAMPLES)).cumsum(axis=1))
        for name in ("requests_total", "all_total")
    }
    host = Column((np.arange(series) // CPUS + 1).astype(np.int32), ["", *(f"host-{at}" for at in range(hosts))])
    cpu = Column((np.arange(series) % CPUS + 1).astype(np.int32), ["", *map(str, range(CPUS))])
    return Arrays(samples, LabelTable(series, {"host": host, "cpu": cpu}), times[20:])


def newest(data: Arrays, name: str = "requests_total") -> Floats:
    samples = data.samples[name]
    return np.asarray(samples.values[:, np.searchsorted(samples.times, data.steps, "right") - 1])


def by_host(values: Floats) -> Floats:
    return np.asarray(np.add.reduceat(values, np.arange(0, len(values), CPUS), axis=0))


def rates(data: Arrays) -> Floats:
    parts = [extrapolated(windows_of(part, data.steps, 300_000), True, True).values for part in data.chunks()]
    return np.concatenate(parts)


def over(data: Arrays, kernel: Callable[..., object]) -> list[object]:
    return [kernel(windows_of(part, data.steps, 300_000)) for part in data.chunks()]


def best(values: Floats) -> Floats:
    return np.asarray(np.partition(values, len(values) - 10, axis=0)[-10:])


QUERIES: dict[str, Bare] = {
    "count(requests_total)": lambda data: np.isfinite(newest(data)).sum(axis=0),
    "sum by (host) (requests_total)": lambda data: by_host(newest(data)),
    "avg by (host) (rate(requests_total[5m]))": lambda data: by_host(rates(data)) / CPUS,
    "rate(requests_total[5m])": rates,
    "topk(10, rate(requests_total[5m]))": lambda data: best(rates(data)),
    "requests_total / on (host, cpu) all_total": lambda data: newest(data) / newest(data, "all_total"),
    "avg_over_time(requests_total[5m])": lambda data: over(data, mean_over),
    "max_over_time(requests_total[5m])": lambda data: over(data, greatest_over),
    "quantile_over_time(0.9, requests_total[5m])": lambda data: over(
        data, lambda windows: quantile_over(windows, np.full(len(data.steps), 0.9))
    ),
}


def promql(bench: Bench) -> Iterator[Figure]:
    """Measures queries over two hours at 15 s, with a step of 15 s."""
    for series in (1900,) if bench.quick else (1900, 19_000):
        data = arrays(series)
        for query, bare in QUERIES.items():
            bench.say(f"{series:,} series: {query}")
            rounds = [Round(timed(ask, data, query), timed(bare, data)) for _ in range(3)]
            yield figure(f"{series:,} series: {query}", "ms", rounds, "bare numpy")


def ask(data: Arrays, query: str) -> object:
    return query_range(data, query, int(data.steps[0]), int(data.steps[-1]), SCRAPE_MS)


def timed(work: Callable[..., object], *arguments: object) -> float:
    """Returns the milliseconds that something takes."""
    begin = time.perf_counter()
    work(*arguments)
    return (time.perf_counter() - begin) * 1000
