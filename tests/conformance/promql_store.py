"""Keeps what a script loads, as Prometheus's storage would give it back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from frazil.query.promql.functions.quantiles import parse_bound
from frazil.query.promql.histograms.histogram import CUSTOM_SCHEMA, Buckets, Histogram
from frazil.query.promql.series.hints import hinted
from frazil.query.promql.series.memory import MemorySource, Sample
from tests.conformance.promql_script import Load
from tests.conformance.promql_series import Expected, Point

Labels = tuple[tuple[str, str], ...]


@dataclass
class ScriptStore:
    source: MemorySource = field(default_factory=MemorySource)
    written: dict[Labels, dict[int, Sample]] = field(default_factory=dict)

    def load(self, command: Load) -> None:
        for labels, points, starts in command.series:
            samples = []
            for at, point in enumerate(points):
                if point is None:
                    continue
                time = at * command.interval
                offset = starts[at] if starts is not None else None
                value = point.histogram if isinstance(point, Expected) else point
                samples.append((time, value, 0 if offset is None else time + offset))
            self.add(labels, samples)
        if command.with_custom_buckets:
            for labels, samples in custom_buckets(command):
                self.add(labels, samples)

    def add(self, labels: dict[str, str], samples: list[Sample]) -> None:
        key = tuple(sorted(labels.items()))
        known = self.written.setdefault(key, {})
        known.update((sample[0], sample) for sample in samples)
        self.source.series.pop(key, None)
        self.source.add(labels, read_back([known[time] for time in sorted(known)]))


def read_back(samples: list[Sample]) -> list[Sample]:
    """Gives histograms the hints with which Prometheus reads them back: by the chunks it would have written."""
    found: list[Sample] = []
    waiting: list[tuple[int, Histogram, int]] = []

    def flush() -> None:
        values = hinted([value for _, value, _ in waiting])
        found.extend((time, value, start) for (time, _, start), value in zip(waiting, values, strict=True))
        waiting.clear()

    for time, value, start in samples:
        if isinstance(value, Histogram):
            waiting.append((time, value, start))
        else:
            flush()
            found.append((time, value, start))
    flush()
    return found


@dataclass
class Classic:
    """Is what a classic histogram has at one time."""

    buckets: dict[float, float] = field(default_factory=dict)
    count: float | None = None
    sum: float = 0.0

    def convert(self) -> Histogram:
        """Returns the same as a histogram with custom bounds."""
        bounds = sorted(bound for bound in self.buckets if not math.isinf(bound))
        cumulated = [self.buckets[bound] for bound in bounds]
        last = self.buckets.get(math.inf)
        count = self.count if self.count is not None else last if last is not None else (cumulated or [0.0])[-1]
        counts = np.diff([0.0, *cumulated, count])
        filled = np.flatnonzero(counts != 0)
        return Histogram(
            schema=CUSTOM_SCHEMA,
            count=count,
            sum=self.sum,
            positive=Buckets(filled.astype(np.int64), counts[filled]),
            bounds=tuple(bounds),
        )


def custom_buckets(command: Load) -> list[tuple[dict[str, str], list[Sample]]]:
    """Returns each family of classic buckets as one series of histograms."""
    families: dict[Labels, dict[int, Classic]] = {}
    for labels, points, _ in command.series:
        name = labels.get("__name__", "")
        for suffix in ("_bucket", "_count", "_sum"):
            if not name.endswith(suffix):
                continue
            base = {k: v for k, v in labels.items() if k != "le"} | {"__name__": name.removesuffix(suffix)}
            family = families.setdefault(tuple(sorted(base.items())), {})
            collect(family, suffix, labels.get("le", ""), points, command.interval)
    return [
        (dict(labels), [(time, classic.convert(), 0) for time, classic in sorted(family.items())])
        for labels, family in families.items()
    ]


def collect(family: dict[int, Classic], suffix: str, le: str, points: list[Point], interval: int) -> None:
    for at, point in enumerate(points):
        if not isinstance(point, float):
            continue
        classic = family.setdefault(at * interval, Classic())
        if suffix == "_bucket":
            bound = parse_bound(le)
            if bound is not None:
                classic.buckets[bound] = point
        elif suffix == "_count":
            classic.count = point
        else:
            classic.sum = point
