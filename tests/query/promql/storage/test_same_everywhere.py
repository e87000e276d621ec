"""Tests that answers are the same wherever samples are: in the table, in segments, in the tail, or in memory."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from frazil.formats.otlp.metrics import TOPIC
from frazil.formats.remote_write.messages import WriteRequest
from frazil.query.promql.engine.query import query_range
from frazil.query.promql.series.memory import MemorySource
from frazil.query.promql.series.source import STALE, SampleSource
from frazil.query.promql.storage.source import StoredSamples
from frazil.scan.scanner import TopicScanner
from tests.formats.remote_write.support import add, rows_of
from tests.query.promql.plain_context import PlainContext
from tests.query.support import World

BEGIN = 1_700_000_000_000
MINUTE = 60_000
Written = list[tuple[dict[str, str], int, float]]
QUERIES = (
    "sum by (a) (rate(hits_total[5m]))",
    "count_over_time({a=~'1|2'}[3m])",
    "hits_total offset 2m - on(a, b) group_left() hits_total",
    "topk(2, max_over_time(load[4m]))",
    "count({__name__!=''})",
    "load{b=''}",
)
TIMES = [BEGIN + step * 15_000 for step in range(80)]


def random_samples(chance: random.Random) -> Written:
    """Returns samples in the order in which they come, some late, some with a time that comes again."""
    found: Written = []
    for number in range(40):
        labels = {"name": chance.choice(["hits_total", "load"]), "a": str(number % 4), "b": str(number // 4 or "")}
        jitter = chance.choice([0, 0, 0, 7])
        value = 0.0
        for time in TIMES:
            value = chance.choice([value + 1, value + 10, value, 0.0, np.nan, STALE, np.inf, -1.5])
            if chance.random() < 0.9:
                found.append((labels, time + jitter, value))
                value = 0.0 if np.isnan(value) else value
    found.sort(key=lambda each: each[1] + chance.choice([0, 0, 0, 200_000]))
    return found + [(labels, time, value + 1) for labels, time, value in chance.sample(found, 50)]


def renamed(labels: dict[str, str]) -> dict[str, str]:
    return {"__name__" if key == "name" else key: text for key, text in labels.items() if text}


def write(world: World, written: Written) -> None:
    request = WriteRequest()
    for labels, time, value in written:
        add(request, (value, time), **{key: text for key, text in labels.items() if text})
    if written:
        world.append(TOPIC, rows_of(request, tenants=["t"]).batch)


def answers(source: SampleSource) -> list[dict[str, np.ndarray]]:
    found = []
    for query in QUERIES:
        answer = query_range(source, query, BEGIN, BEGIN + 25 * MINUTE, MINUTE)
        assert answer.matrix is not None
        shown = np.where(answer.matrix.present, answer.matrix.values, np.nan)
        found.append({str(labels): row for labels, row in zip(answer.matrix.labels.rows(), shown, strict=True)})
    return found


@pytest.mark.parametrize("shares", [(0, 0), (1, 1), (0, 1), (0.5, 0.7)], ids=["tail", "table", "sealed", "mixed"])
def test_the_answers_of_memory_and_storage_are_the_same(tmp_path: Path, shares: tuple[float, float]) -> None:
    written = random_samples(random.Random(7))
    memory = MemorySource()
    for labels, time, value in sorted(written, key=lambda each: sorted(renamed(each[0]).items())):
        memory.add(renamed(labels), [(time, value, 0)])
    moved, sealed = (int(share * len(written)) for share in shares)
    with World(tmp_path) as world:
        write(world, written[:moved])
        if moved:
            world.seal(TOPIC)
            world.move(TOPIC)
        write(world, written[moved:sealed])
        if sealed > moved:
            world.seal(TOPIC)
        context = PlainContext(world.config, TopicScanner(world.config))
        source = StoredSamples(context, ("t",))
        if sealed < len(written):
            # The caches know the first half when the second comes.
            half = (sealed + len(written)) // 2
            write(world, written[sealed:half])
            answers(source)
            write(world, written[half:])
        for found, expected in zip(answers(source), answers(memory), strict=True):
            assert found.keys() == expected.keys()
            for series, values in expected.items():
                np.testing.assert_allclose(found[series], values, rtol=1e-9)
