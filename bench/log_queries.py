"""Measures LogQL over a table of generated records, compacted and fresh, against bare Polars on the same files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from bench.figures import Below, Bench, Figure, Round, figure
from bench.log_records import END_NS, SERVICES, START_NS, TENANT_NAME, records, services_of
from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.engine.memory import LruCache
from frazil.formats.otlp.logs import SCHEMA, TOPIC
from frazil.lake.catalog.lake import Lake
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.tables import base_identifier, create_table
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.topics.schemas import TopicSchemas
from frazil.query.logql.engine import Engine
from frazil.query.logql.source.log_rows import LogRows
from frazil.scan.scanner import TopicScanner
from frazil.store import open_store

_MINUTE_NS = 60_000_000_000
_FRESH_FILES = 12
_CACHE_BYTES = 512 * MIB

Ask = Callable[[Engine], object]
Bare = Callable[[pl.LazyFrame], pl.LazyFrame]

_SERVICE = SERVICES[7]
_OWN = pl.col("service_name") == _SERVICE


@dataclass(frozen=True)
class Query:
    text: str
    bare: Bare
    goal_ms: float
    """For a million records."""
    lines: int = 0
    """The limit of a query for lines; 0 stands for one at steps of a minute."""
    step_ns: int = _MINUTE_NS

    def ask(self, engine: Engine) -> object:
        if self.lines:
            return engine.logs(self.text, START_NS, END_NS, self.lines)
        return engine.range(self.text, START_NS + self.step_ns, END_NS, self.step_ns)


def _newest(frame: pl.LazyFrame) -> pl.LazyFrame:
    return frame.select("timestamp", "body", "attributes").top_k(100, by="timestamp")


def _counted(*columns: str) -> Bare:
    minute = pl.col("timestamp").dt.truncate("1m")
    return lambda frame: frame.group_by(*columns, minute).agg(pl.len())


_ALL = '{service_name=~".+"}'
_ONE = f'{{service_name="{_SERVICE}"}}'
QUERIES: dict[str, Query] = {
    "newest 100 of a service": Query(_ONE, lambda frame: _newest(frame.filter(_OWN)), 5, lines=100),
    "newest 100 of everything": Query(_ALL, _newest, 20, lines=100),
    "text in a service": Query(
        f'{_ONE} |= "order 77"',
        lambda frame: _newest(frame.filter(_OWN, pl.col("body").str.contains("order 77", literal=True))),
        12,
        lines=100,
    ),
    "regex in a service": Query(
        f'{_ONE} |~ "order 7[0-4]\\\\d took"',
        lambda frame: _newest(frame.filter(_OWN, pl.col("body").str.contains(r"order 7[0-4]\d took"))),
        12,
        lines=100,
    ),
    "needle over everything": Query(
        f'{_ALL} |= "order 123456 "',
        lambda frame: _newest(frame.filter(pl.col("body").str.contains("order 123456 ", literal=True))),
        10,
        lines=100,
    ),
    "count by service": Query(f"sum by (service_name) (count_over_time({_ALL}[1m]))", _counted("service_name"), 25),
    "errors by service": Query(
        f'sum by (service_name) (rate({_ALL} | detected_level="error" [1m]))',
        lambda frame: _counted("service_name")(frame.filter(pl.col("detected_level") == "error")),
        25,
    ),
    "count by level": Query(f"sum by (detected_level) (count_over_time({_ALL}[1m]))", _counted("detected_level"), 25),
    "topk of an attribute": Query(
        f"topk(10, sum by (http_route) (count_over_time({_ALL}[6h])))",
        lambda frame: frame.group_by(pl.col("attributes").map.get("http.route")).agg(pl.len()).top_k(10, by="len"),
        33,
        step_ns=END_NS - START_NS,
    ),
    "json filter in a service": Query(
        f"{_ONE} | json | status >= 500",
        lambda frame: _newest(
            frame.filter(_OWN, pl.col("body").str.extract(r'"status":(\d+)').cast(pl.Int64) >= 500)
        ),
        24,
        lines=100,
    ),
    "unwrapped sum in a service": Query(
        f"sum(sum_over_time({_ONE} | json | unwrap took_ms [1m]))",
        lambda frame: (
            frame.filter(_OWN)
            .group_by(pl.col("timestamp").dt.truncate("1m"))
            .agg(pl.col("body").str.extract(r'"took_ms":(\d+)').cast(pl.Int64).sum())
        ),
        12,
    ),
}


def logs(bench: Bench) -> Iterator[Figure]:
    """Asks again what was asked before, in this process. The goals are those of a million records."""
    for count in (250_000,) if bench.quick else (1_000_000, 10_000_000):
        for layout, files in (("compacted", 1), ("fresh", _FRESH_FILES)):
            folder = bench.folder / f"{layout}-{count}"
            bench.say(f"writing {count:,} records, {layout}")
            config = _written(folder, count, files)
            yield from _measured(bench, config, folder, f"{count:,} records, {layout}", count / 1e6)


def _measured(bench: Bench, config: Config, folder: Path, name: str, millions: float) -> Iterator[Figure]:
    frame = pl.scan_parquet([str(path) for path in folder.rglob("data/**/*.parquet")], hive_partitioning=False)
    scanner = TopicScanner(config, memory_bytes=_CACHE_BYTES)
    engine = Engine(LogRows(scanner, (TENANT_NAME,), cache=LruCache(lambda: _CACHE_BYTES)))
    for what, query in QUERIES.items():
        first = _cpu_ms(lambda: query.ask(engine))  # noqa: B023 - called at once
        rounds = [
            Round(_ms(lambda: query.ask(engine)), _ms(lambda: query.bare(frame).collect()))  # noqa: B023
            for _ in range(3 if bench.quick else 7)
        ]
        bench.say(f"{name}: {what}: {first:.0f} ms of processor time the first time")
        goal = Below(query.goal_ms * millions, "ms") if millions >= 1 else None
        yield figure(f"{name}: {what}", "ms", rounds, "bare Polars", goal)
    scanner.close()


def _written(folder: Path, count: int, files: int) -> Config:
    """Makes the table `logs`, with files of a part of the time each, or sorted as a whole."""
    config = Config.model_validate({"data_dir": folder})
    TopicSchemas(open_store(config.store, config.data_dir.absolute()), TOPIC).admit(SCHEMA)
    table = create_table(
        Lake(config),
        base_identifier(config, TOPIC),
        base_table_schema(SCHEMA),
        topic=TOPIC,
        role="base",
        layout=config.topic(TOPIC).table,
        offsets={0: 0},
        epochs={0: "one"},
    )
    schema = arrow_schema(table.schema())
    numbers = np.arange(count)
    parts = (
        np.array_split(numbers, files) if files > 1 else [numbers[np.argsort(services_of(numbers), kind="stable")]]
    )
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        for part, chosen in enumerate(parts):
            place = f"{table.metadata.location}/data/{part}"
            with DataFileWriter(table.io, table.metadata, place, 0) as writer:
                for rows in records(chosen, count, schema):
                    writer.write(rows)
                for file in writer.close():
                    append.append_data_file(file)
    return config


def _ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def _cpu_ms(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e3
