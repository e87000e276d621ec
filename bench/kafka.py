"""Measures the Kafka door: records from a broker to the log, and all the way into a table.

The limit is a bare loop that only counts the messages of the same topic on the same broker.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.servers.kafka import KafkaServer

from bench import process_usage
from bench.bare_kafka import Consumed, count_messages
from bench.figures import AtLeast, Below, Bench, Figure, Round, figure
from bench.frazil_process import Frazil, committed
from bench.kafka_records import VALUE_BYTES, HiddenRecords, TopicFiller, broker
from bench.settings import NO_TELEMETRY
from frazil.config.model import Config, ServerConfig
from frazil.config.sections.kafka import KafkaConfig
from frazil.doors.kafka.settings import consumer_settings
from frazil.log.segments.index import SegmentIndex
from frazil.store import open_store

BARE = "a loop that only counts"
IMPATIENT = "such a loop, fetch.queue.backoff.ms as ours"
FIRST_RECORDS = 10_000
"""The benchmark of the table begins with these records:

Spark starts its workers with them, and the table is created.
"""
K2I_CPU_SECONDS = 5.7
"""K2I needs this much processor time for a million such records into Parquet files, without any catalog."""
QUIET_CPU = 0.1
"""A process that uses less processor time than this in a second has nothing to do."""
POLL_SECONDS = 0.05


def settings(server: KafkaServer, data: Path, topic: str) -> Config:
    """Returns the default settings."""
    return Config(
        data_dir=data,
        kafka=KafkaConfig(bootstrap_servers=[server.bootstrap], topics=[topic]),
        server=ServerConfig(port=0),
        **NO_TELEMETRY,
    )


# --- to the log ------------------------------------------------------------------------------------------------


def to_log(bench: Bench) -> Iterator[Figure]:
    """Measures `frazil ingest`, with its hot buffer, from the first record to the last one that is sealed."""
    count = 200_000 if bench.quick else 1_000_000
    with broker(bench) as server:
        for partitions in (1, 4):
            topic = server.create_topic(partitions)
            bench.say(f"producing {count:,} records for {partitions} partitions")
            TopicFiller(server, topic, partitions).put(count)
            name = f"{VALUE_BYTES} bytes from Kafka, {partitions} partition{'s' * (partitions > 1)}, to the log"
            rounds = list(
                bench.alternate(
                    name,
                    partial(_counted, server, topic, count),
                    partial(_through_the_door, bench, server, topic, partitions, count),
                    rounds=1 if bench.quick else 3,
                )
            )
            for which, (limit, target) in enumerate(((BARE, AtLeast(0.5)), (IMPATIENT, None))):
                against = "" if target else ", against one that never pauses"
                yield figure(
                    f"{name}{against}",
                    "records/s",
                    [Round(b[0].per_second, (a[which].per_second + c[which].per_second) / 2) for a, b, c in rounds],
                    limit,
                    target,
                )
            yield figure(
                f"{name}: CPU",
                "CPU s/M",
                [
                    Round(b[0].cpu_per_million, (a[0].cpu_per_million + c[0].cpu_per_million) / 2)
                    for a, b, c in rounds
                ],
                BARE,
            )


def _counted(server: KafkaServer, topic: str, count: int) -> tuple[Consumed, ...]:
    """Counts with the client as it is, and with the door's setting: by default it pauses for a second when its queue
    is full.
    """
    pause = "fetch.queue.backoff.ms"
    ours = consumer_settings(KafkaConfig(bootstrap_servers=[server.bootstrap], topics=[topic]))[pause]
    return (
        count_messages(server.bootstrap, topic, count),
        count_messages(server.bootstrap, topic, count, {pause: ours}),
    )


def _through_the_door(bench: Bench, server: KafkaServer, topic: str, partitions: int, count: int) -> tuple[Consumed]:
    data = bench.folder / f"log-{uuid.uuid4().hex}"
    config = settings(server, data, topic)
    with Frazil("ingest", config, bench.folder) as frazil, frazil.connect() as door:
        begun = 0.0
        used = 0.0

        def reads() -> float:
            return door.metric("frazil_kafka_next_offset")

        def begins() -> bool:
            nonlocal begun
            begun = reads()
            return begun > 0

        def seals() -> bool:
            nonlocal used
            used = max(used, process_usage.cpu_alone(frazil.pid) - cpu)
            return _sealed(config, topic, partitions) >= count

        frazil.wait(begins, POLL_SECONDS)
        started, cpu = time.perf_counter(), process_usage.cpu_alone(frazil.pid)
        frazil.wait(lambda: reads() >= count, POLL_SECONDS)
        # Records left in the tails would wait for more, or for their time. A door that stops seals them at once.
        frazil.terminate()
        frazil.wait(seals, POLL_SECONDS / 5)
        seconds = time.perf_counter() - started
    shutil.rmtree(data)
    return (Consumed(count - round(begun), seconds, used),)


def _sealed(config: Config, topic: str, partitions: int) -> int:
    store = open_store(config.store, config.data_dir)
    total = 0
    for partition in range(partitions):
        index = SegmentIndex(store, topic, partition)
        index.refresh()
        total += index.sealed_end()
    return total


# --- to the table ----------------------------------------------------------------------------------------------


def to_table(bench: Bench) -> Iterator[Figure]:
    """Measures `frazil serve` with Spark, until all records are in the table.

    The records are one transaction, which becomes visible as a whole, so nobody produces while the door consumes.
    """
    count = 200_000 if bench.quick else 3_000_000
    with broker(bench) as server:
        topic = server.create_topic()
        config = settings(server, bench.folder / "data", topic)
        with Frazil("serve", config, bench.folder) as frazil:
            bench.say(f"producing {count:,} records, while Spark starts")
            TopicFiller(server, topic).put(FIRST_RECORDS)
            hidden = HiddenRecords(server, topic)
            hidden.put(count)
            frazil.wait(lambda: committed(config, topic) >= FIRST_RECORDS)
            await_quiet(frazil)
            bench.say(f"Kafka to the table: {count:,} records")
            with process_usage.CpuUse(frazil.pid) as cpu:
                started = time.perf_counter()
                hidden.show()
                frazil.wait(lambda: committed(config, topic) >= FIRST_RECORDS + count, POLL_SECONDS)
                seconds = time.perf_counter() - started
        bare = count_messages(server.bootstrap, topic, count)
    name = f"{VALUE_BYTES} bytes from Kafka, 1 partition, to the table"
    taken = Consumed(count, seconds, cpu.seconds)
    yield figure(
        f"{name}, with the time that the last ones wait for more",
        "records/s",
        [Round(taken.per_second, bare.per_second)],
        BARE,
    )
    yield Figure(
        f"{name}: CPU, without the start of Spark",
        "CPU s/M",
        taken.cpu_per_million,
        K2I_CPU_SECONDS,
        "K2I, no catalog, another run",
        (K2I_CPU_SECONDS / taken.cpu_per_million,),
        Below(K2I_CPU_SECONDS, "CPU s/M"),
    )
    for part, used in cpu_by_part(cpu).items():
        yield Figure(f"{name}: CPU of {part}", "CPU s/M", used / count * 1e6)


def await_quiet(frazil: Frazil) -> None:
    """Wait until Spark has finished what it does once at its start."""

    def is_quiet() -> bool:
        with process_usage.CpuUse(frazil.pid) as cpu:
            time.sleep(1)
        return cpu.seconds < QUIET_CPU

    frazil.wait(is_quiet, 0)


def cpu_by_part(cpu: process_usage.CpuUse) -> dict[str, float]:
    used: defaultdict[str, float] = defaultdict(float)
    for line, seconds in cpu.by_command.items():
        used[_part(line)] += seconds
    return dict(used)


def _part(line: str) -> str:
    if line.split(" ", 1)[0].endswith("java"):
        return "Spark's JVM"
    if "frazil.app.pipeline_process" in line:
        return "the pipeline's driver"
    return "doors and hot buffer" if line.rstrip().endswith("serve") else "Spark's Python workers"
