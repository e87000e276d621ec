"""Tests kills of the telemetry doors under load: what they acknowledged is stored once, also if it is sent again."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from frazil.config.model import Config
from frazil.doors.otlp.signals import LOGS, SIGNALS, Signal
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier
from frazil.scan.read_api import read
from tests.doors.telemetry.process import OPEN, DoorProcess, Ports
from tests.faults.pipeline_fleet import MOVED_SECONDS, QUICK_TRIM, pipeline_config
from tests.faults.serve_process import Serve
from tests.faults.telemetry_clients import COLUMNS, Exporters
from tests.pipeline.processes import committed

WAIT_SECONDS = 120.0
DEATHS = 25
LONG_LIVES = 0.4
"""The part of the lives that last until the pipeline has moved something."""


def check_log_and_table(config: Config, exporters: Exporters) -> None:
    """Checks that whatever is acknowledged by now is stored, and nothing twice."""
    for signal in SIGNALS:
        acknowledged = set(exporters.acknowledged(signal))
        column = COLUMNS[signal]
        found = Counter(read(signal.requests.topic, config=config, columns=[column]).table()[column].to_pylist())
        lost, twice = acknowledged - set(found), [text for text, count in found.items() if count > 1]
        assert not lost, f"{len(lost)} {signal.requests.topic} lost: {sorted(lost)[:10]}"
        assert not twice, f"{len(twice)} {signal.requests.topic} twice: {sorted(twice)[:10]}"


def check_recognised(serve: Serve, exporters: Exporters) -> None:
    """Kills it as soon as the last requests are acknowledged, and checks that the next process recognises them."""
    exporters.stop(WAIT_SECONDS)
    kill_and_start(serve)
    sent = exporters.send_last_again(WAIT_SECONDS)
    serve.wait_for(lambda: serve.url is not None, "told where it is watched")
    assert duplicates(serve) == sent > 0


def check_exactly(exporters: Exporters, signal: Signal, found: list[str]) -> None:
    assert Counter(found) == Counter(exporters.acknowledged(signal))


def check_all(config: Config, exporters: Exporters) -> None:
    """Checks everything after the end."""
    assert not exporters.refused
    assert exporters.repeated > 0
    for signal in SIGNALS:
        topic, column = signal.requests.topic, COLUMNS[signal]
        check_exactly(exporters, signal, read(topic, config=config).table()[column].to_pylist())


def kill_and_start(serve: Serve) -> None:
    serve.process.kill()
    serve.process.wait()
    serve.start()


def duplicates(serve: Serve) -> int:
    """Returns how many duplicate requests this process has recognised."""
    if (url := serve.url) is None:
        return 0
    text = httpx.get(f"{url}/metrics", timeout=30).text
    return sum(int(float(each)) for each in re.findall(r"^frazil_telemetry_duplicates_total\S* (\S+)", text, re.M))


def test_a_few_deaths(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    door = DoorProcess(tmp_path / "door", log={"seal": {"interval_seconds": 0.5}})
    with Exporters(door.ports, pause=0.0) as exporters:
        try:
            exporters.start()
            for _ in range(3):
                exporters.await_progress(WAIT_SECONDS)
                time.sleep(chance.random())
                door.kill()
                door.start()
            exporters.await_progress(WAIT_SECONDS)
            exporters.stop(WAIT_SECONDS)
        finally:
            door.stop()
    check_all(door.config, exporters)


@pytest.mark.xdist_group("own-jvm")
def test_deaths_of_serve(tmp_path: Path, seed: int) -> None:
    """It is killed once under load, and once when everything that was sent is acknowledged.

    Nobody waits for Spark.
    """
    chance = random.Random(seed)
    ports = Ports.free()
    config = pipeline_config(tmp_path, **ports.settings, log={"seal": {"interval_seconds": 0.5}})
    with Exporters(ports, pause=0.0) as exporters, Serve(tmp_path / "serve", config, **OPEN) as serve:
        exporters.start()
        exporters.await_progress(WAIT_SECONDS)
        time.sleep(chance.random())
        kill_and_start(serve)
        exporters.await_progress(WAIT_SECONDS)
        check_recognised(serve, exporters)
    check_all(config, exporters)


# --- with the pipeline and maintenance ---------------------------------------------------------------------


def rows_in_table(config: Config, signal: Signal) -> list[str]:
    """Returns the rows as PyIceberg reads them, without the log."""
    lake = Lake(config)
    try:
        table = lake.load(base_identifier(config, signal.requests.topic))
        found: list[str] = table.scan(selected_fields=(COLUMNS[signal],)).to_arrow()[COLUMNS[signal]].to_pylist()
        return found
    finally:
        lake.close()


def is_moved(config: Config) -> bool:
    topics = [signal.requests.topic for signal in SIGNALS]
    return all(committed(config, topic) == read(topic, config=config).offsets for topic in topics)


def await_batch(serve: Serve, config: Config) -> None:
    before = committed(config, LOGS.requests.topic)
    serve.wait_for(lambda: committed(config, LOGS.requests.topic) != before, "moved")


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.xdist_group("own-jvm")
def test_many_deaths(tmp_path: Path, seed: int) -> None:
    """The whole of `frazil serve` runs: the pipeline moves, compacts, expires and trims as often as it can."""
    chance = random.Random(seed)
    ports = Ports.free()
    log = {**QUICK_TRIM["log"], "seal": {"interval_seconds": 0.5}}
    config = pipeline_config(tmp_path, **ports.settings, log=log)
    recognised = checks = 0
    with Exporters(ports, pause=0.02) as exporters, Serve(tmp_path / "serve", config, **OPEN) as serve:
        exporters.start()
        for _ in range(DEATHS):
            exporters.await_progress(WAIT_SECONDS)
            if chance.random() < LONG_LIVES:
                await_batch(serve, config)
                check_log_and_table(config, exporters)
                checks += 1
            time.sleep(chance.uniform(0.0, 3.0))
            recognised += duplicates(serve)
            kill_and_start(serve)
        exporters.await_progress(WAIT_SECONDS)
        recognised += duplicates(serve)
        check_recognised(serve, exporters)
        check_log_and_table(config, exporters)
        serve.wait_for(lambda: is_moved(config), "moved everything", MOVED_SECONDS)
    check_all(config, exporters)
    counts = {}
    for signal in SIGNALS:
        check_exactly(exporters, signal, rows_in_table(config, signal))
        counts[signal.requests.topic] = len(exporters.acknowledged(signal))
    print(  # noqa: T201
        f"seed {seed}: {DEATHS} deaths, {counts}, {exporters.repeated} sent again, "
        f"{recognised} of them recognised, {checks} checks between"
    )
