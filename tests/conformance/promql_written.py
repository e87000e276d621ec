"""Writes what scripts load as a Prometheus would send it: by remote write 2.0, about half of it into the table."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from frazil.formats.otlp.metrics import TOPIC
from frazil.formats.remote_write.messages import RequestV2
from frazil.formats.remote_write.v2 import to_rows
from frazil.formats.telemetry.message_decoding import check, decode
from frazil.formats.telemetry.rows import Arrival
from frazil.query.promql.histograms.histogram import Buckets, Histogram
from frazil.query.promql.series.memory import Sample
from frazil.query.promql.storage.source import StoredSamples
from frazil.scan.scanner import TopicScanner
from tests.formats.remote_write.v2_support import Request
from tests.query.promql.plain_context import PlainContext
from tests.query.support import World

Labels = tuple[tuple[str, str], ...]
Written = dict[Labels, dict[int, Sample]]
NOW_NS = 1_700_000_000_000_000_000


class Stored:
    """Has series in table and log, each set of them under a tenant of its own. Use it as a context manager."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._world = World(folder)
        self._chance = random.Random(seed)
        self._sets: list[Written] = []

    def __enter__(self) -> Stored:
        self._world.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._world.__exit__()

    def add(self, written: Written) -> int:
        """Takes a set of series; returns its number."""
        self._sets.append({labels: dict(samples) for labels, samples in written.items()})
        return len(self._sets) - 1

    def write(self) -> None:
        """Writes all sets: half of the samples into the table, the others into segments and the tail."""
        shares: list[list[Written]] = [[], [], []]
        for one in self._sets:
            split: list[Written] = [{}, {}, {}]
            for labels, samples in one.items():
                for time, sample in samples.items():
                    to = self._chance.choice((0, 0, 1, 2))
                    split[to].setdefault(labels, {})[time] = sample
            for share, part in zip(shares, split, strict=True):
                share.append(part)
        for number, share in enumerate(shares):
            for at in range(0, len(share), 20):
                self._append(share[at : at + 20], at)
            if number < 2:
                self._world.seal(TOPIC)
            if number == 0:
                self._world.move(TOPIC)
        self._context = PlainContext(self._world.config, TopicScanner(self._world.config))

    def source(self, number: int) -> StoredSamples:
        return StoredSamples(self._context, (tenant(number),))

    def _append(self, sets: Sequence[Written], first: int) -> None:
        bodies = [request_of(one) for one in sets]
        for body in bodies:
            check(RequestV2, body)
        rows = to_rows(decode(RequestV2, bodies), Arrival([tenant(first + at) for at in range(len(sets))], NOW_NS))
        assert not rows.rejected, rows.rejected
        if len(rows.batch):
            self._world.append(TOPIC, rows.batch)


def tenant(number: int) -> str:
    return f"set-{number}"


def request_of(written: Written) -> bytes:
    """Returns a request of remote write 2.0."""
    request = Request()
    for labels, samples in written.items():
        series = request.message.timeseries.add()
        series.labels_refs.extend(request.refs(*labels))
        for time, value, start in samples.values():
            if isinstance(value, Histogram):
                fill(series.histograms.add(timestamp=time, start_timestamp=start), value)
            else:
                series.samples.add(value=value, timestamp=time, start_timestamp=start)
    found: bytes = request.message.SerializeToString()
    return found


def fill(message: Any, histogram: Histogram) -> None:
    """Copies a histogram into a message, with counts as floats."""
    message.count_float, message.sum = histogram.count, histogram.sum
    message.schema, message.zero_threshold = histogram.schema, histogram.zero_threshold
    message.zero_count_float, message.reset_hint = histogram.zero_count, int(histogram.hint)
    message.custom_values.extend(histogram.bounds)
    for side, buckets in (("positive", histogram.positive), ("negative", histogram.negative)):
        getattr(message, f"{side}_counts").extend(buckets.counts.tolist())
        for offset, length in spans(buckets):
            getattr(message, f"{side}_spans").add(offset=offset, length=length)


def spans(buckets: Buckets) -> Iterator[tuple[int, int]]:
    """Yields runs of buckets: how far each is behind the one before it, and how many it has."""
    behind = 0
    indexes = buckets.indexes
    for run in np.split(indexes, np.flatnonzero(np.diff(indexes) != 1) + 1):
        if len(run):
            yield int(run[0]) - behind, len(run)
            behind = int(run[-1]) + 1
