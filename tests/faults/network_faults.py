"""Faults on the network to a catalog or an object store, and movers without Spark that go on in spite of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from frazil.clock import World
from frazil.config.model import Config
from frazil.config.sections.maintenance import OrphansConfig
from frazil.errors import FrazilError, TableNotFound
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier, dead_letter_identifier
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.expiry import Expiry
from frazil.maintain.files import TableFiles, normalized_path
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.operations import run_operation
from frazil.maintain.orphans import OrphanRemoval
from frazil.pipeline.move.attempt_cleanup import AttemptCleanup
from frazil.store import open_store
from tests.faults.loader import Loader, moved, reachable
from tests.log.support import ManualClock
from tests.pipeline.support import move_all, pipeline_context
from tests.servers.proxy import Exchange, Proxy, Rule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENT = {
    "retry": {"base_delay_ms": 10, "max_delay_seconds": 0.2},
    "breaker": {"reset_timeout_seconds": 0.2},
}
LONGEST_SECONDS = 120.0
GRACE_HOURS = 100
TIMES = (1, 2, 6, 30)
"""How often a fault strikes. Retries get over a few faults, and give up after more."""

Fault = Callable[[Rule, int], object]

FAULTS: dict[str, Fault] = {
    "409": lambda rule, times: rule.answer(409, times=times),
    "500 before": lambda rule, times: rule.answer(500, times=times),
    "503 before": lambda rule, times: rule.answer(503, times=times),
    "500 after": lambda rule, times: rule.replace_reply(500, times=times),
    "409 after": lambda rule, times: rule.replace_reply(409, times=times),
    "no request": lambda rule, times: rule.drop_request(times=times),
    "no reply": lambda rule, times: rule.drop_reply(times=times),
    "half a reply": lambda rule, times: rule.cut_reply(times=times),
    "late": lambda rule, times: rule.keep_request(times=times),
    "slow": lambda rule, times: rule.delay(3.0, times=1),
    "slow reply": lambda rule, times: rule.delay_reply(3.0, times=1),
}


def move_on(config: Config, loader: Loader, seed: int, most_rows: int = 200) -> int:
    """Moves until the tables have everything in the log, with one process after the other.

    Returns how many gave up.
    """
    failed = 0
    deadline = time.monotonic() + LONGEST_SECONDS
    while True:
        try:
            with pipeline_context(config, seed + failed) as context:
                AttemptCleanup(context).clean()
                for topic in loader.topics:
                    move_all(context, topic, batch_rows=most_rows)
        except FrazilError as error:
            failed += 1
            if not error.retryable or time.monotonic() > deadline:
                raise
        else:
            assert moved(config, loader)
            return failed


@contextmanager
def faults(
    proxy: Proxy, chance: random.Random, kind: str, pattern: str, method: str = "*"
) -> Iterator[list[Exchange]]:
    """Makes some requests fail in this way. Requests that are held back are yielded, for the test to send them."""
    kept: list[Exchange] = []
    for _ in range(chance.randint(1, 3)):
        held = FAULTS[kind](proxy.on(method, pattern), chance.choice(TIMES))
        if isinstance(held, list):
            kept = held
    yield kept
    proxy.clear()


def tables_of(lake: Lake, config: Config, topics: tuple[str, ...]) -> list[Table]:
    found = []
    for topic in topics:
        for identifier in (base_identifier(config, topic), dead_letter_identifier(config, topic)):
            try:
                found.append(lake.load(identifier))
            except TableNotFound:
                continue
    return found


def check_leftovers(config: Config, topics: tuple[str, ...], seed: int) -> None:
    """Checks that a file that is in no table belongs to an attempt that cannot be decided yet. Others are deleted."""
    with pipeline_context(config, seed) as context:
        AttemptCleanup(context).clean()
        waiting = {attempt.attempt for attempt in context.txlog.open_attempts()}
        for table in tables_of(context.lake, config, topics):
            stray = {path for path in _data_files(table) if path not in reachable(table)}
            assert {path.rsplit("/", 2)[-2] for path in stray} <= waiting


def _data_files(table: Table) -> list[str]:
    files = TableFiles(table)
    return [normalized_path(found.path) for found in files.below(f"{files.location}/data")]


def check_no_orphans(config: Config, topics: tuple[str, ...]) -> None:
    """Checks that after the grace time maintenance leaves no file that the metadata does not refer to."""
    lake = Lake(config)
    clock = ManualClock()
    clock.ms = int(time.time() * 1000) + GRACE_HOURS * 3_600_000
    context = MaintenanceContext(
        config=config,
        lake=lake,
        store=open_store(config.store, config.data_dir),
        world=World(clock, random.Random(0)),
        spark=_no_spark,
    )
    try:
        for table in tables_of(lake, config, topics):
            target = MaintainedTable(table.name(), table.name()[-1], "base")
            for operation in (Expiry(config.maintenance.expiry), OrphanRemoval(OrphansConfig())):
                report = run_operation(context, operation, target)
                assert report.outcome in {"done", "nothing"}, report.work.note
            table = lake.load(table.name())
            files = TableFiles(table)
            there = {normalized_path(found.path) for found in files.below(files.location)}
            assert there == reachable(table)
            table.scan().to_arrow()
    finally:
        lake.close()


def _no_spark() -> SparkSession:
    raise AssertionError("nothing here needs Spark")
