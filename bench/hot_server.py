"""Runs a process with a hot buffer full of records, which measures itself and then answers over HTTP.

It is called with a folder and a number of rows, and prints its measurements as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client import CollectorRegistry

from bench.figures import Latencies
from bench.log import TOPIC
from bench.machine import resident_mib
from bench.settings import NO_TELEMETRY
from frazil.app.parts.hot import HotPart
from frazil.app.parts.log import LogPart
from frazil.app.roles import Assembly, serve
from frazil.config.model import Config, ServerConfig
from frazil.config.sections.kafka import BufferConfig
from frazil.config.sections.log import LogConfig
from frazil.config.sections.section import MIB
from frazil.config.sections.topics import TopicConfig
from frazil.formats import kafka
from frazil.hot.queries import HotBuffer
from frazil.log.writer.writer import PartitionWriter
from frazil.ops.health import Health, HealthReport

APPEND_ROWS = 10_000
"""One append has as many rows as the Kafka door appends at once."""
VALUE_BYTES = 130
WARM_UP = 500
LOOKUPS = 2_000
ROUNDS = 10
_START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class HotMeasurement:
    address: str
    keys: list[str]
    """These keys can be found."""
    record_bytes: int
    index_bytes: int
    resident_bytes: int
    """This is how much the process has grown."""
    p50_ms: float
    p99_ms: float
    """These are latencies of lookups in process: the median of some rounds."""


class Keys:
    """Draws keys at random.

    About five of eight numbers below the count of rows are keys, some of them several times.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._rng = np.random.default_rng(7)
        self._samples: list[bytes] = []

    def some(self, count: int) -> pa.Array:
        numbers = self._rng.integers(0, self._rows, count)
        keys = pc.binary_join_element_wise("customer-", pa.array(numbers).cast(pa.string()), "").cast(pa.binary())
        self._samples += keys.slice(0, count // 100).to_pylist()
        return keys

    def found(self, count: int) -> list[bytes]:
        """Returns keys that some record has, in random order."""
        return [self._samples[at] for at in self._rng.integers(0, len(self._samples), count)]


class BufferFiller:
    """A part of the process that fills the buffer through the log, as a door does, and looks keys up."""

    name = "filler"

    def __init__(self, rows: int, log: LogPart, hot: HotPart) -> None:
        self._rows = rows
        self._log = log
        self._hot = hot
        self._keys = Keys(rows)
        self._resident = 0.0

    async def start(self) -> None:
        await asyncio.to_thread(self._fill)

    async def stop(self) -> None:
        pass

    def health(self) -> Health:
        return Health()

    def _fill(self) -> None:
        before = resident_mib()
        writer = self._log.log.writer(TOPIC, kafka.SCHEMA, partition=0)
        for first in range(0, self._rows, APPEND_ROWS):
            writer.submit(_records(first, self._keys.some(APPEND_ROWS)))
        writer.drain()
        writer.seal_all()
        _await_all(writer, self._hot.hot)
        self._resident = resident_mib() - before

    def measure(self, address: str) -> HotMeasurement:
        hot = self._hot.hot
        contents = hot.buffer.topic(TOPIC)[0].contents
        assert contents.rows == self._rows
        _look_up(hot, self._keys.found(WARM_UP))
        rounds = [_look_up(hot, self._keys.found(LOOKUPS)) for _ in range(ROUNDS)]
        return HotMeasurement(
            address=address,
            keys=[key.decode() for key in self._keys.found(1000)],
            record_bytes=contents.nbytes,
            index_bytes=contents.index_bytes,
            resident_bytes=round(self._resident * MIB),
            p50_ms=statistics.median(each.p50 for each in rounds),
            p99_ms=statistics.median(each.p99 for each in rounds),
        )


def _records(first: int, keys: pa.Array) -> pa.RecordBatch:
    rows = len(keys)
    borders = np.arange(0, (rows + 1) * VALUE_BYTES, VALUE_BYTES, dtype=np.int32)
    data = np.random.default_rng(first).bytes(rows * VALUE_BYTES)
    times = pa.array(np.arange(first, first + rows) + _START_MS)
    columns = {
        kafka.KEY: keys,
        kafka.VALUE: pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(borders), pa.py_buffer(data)]),
        kafka.HEADERS: pa.nulls(rows, kafka.SCHEMA.field(kafka.HEADERS).type),
        kafka.TIMESTAMP: times.cast(kafka.SCHEMA.field(kafka.TIMESTAMP).type),
        kafka.TIMESTAMP_TYPE: pa.repeat(pa.scalar(0, pa.int8()), rows),
        kafka.PARTITION: pa.repeat(pa.scalar(0, pa.int32()), rows),
        kafka.OFFSET: pa.array(np.arange(first, first + rows)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in kafka.SCHEMA.names], schema=kafka.SCHEMA)


def _await_all(writer: PartitionWriter, hot: HotBuffer) -> None:
    while (buffered := hot.buffer.topic(TOPIC).get(0)) is None or buffered.contents.end < writer.next_offset:
        time.sleep(0.01)


def _look_up(hot: HotBuffer, keys: list[bytes]) -> Latencies:
    taken = []
    for key in keys:
        started = time.perf_counter()
        row = hot.query_by_key(TOPIC, key)
        taken.append(time.perf_counter() - started)
        assert row is not None
    return Latencies.of(taken)


def settings(folder: Path) -> Config:
    """Returns settings with room for all rows. Rows are sealed as records from Kafka are by default."""
    return Config(
        data_dir=folder,
        log=LogConfig(linger_ms=10_000),
        buffer=BufferConfig(max_size_mb=100_000, ttl_seconds=86_400),
        topics={TOPIC: TopicConfig(ack="object")},
        server=ServerConfig(port=0),
        **NO_TELEMETRY,
    )


def main(folder: Path, rows: int) -> None:
    fillers: list[BufferFiller] = []

    def role(config: Config, metrics: CollectorRegistry) -> Assembly:
        log = LogPart(config, metrics)
        hot = HotPart(config, log, metrics)
        fillers.append(BufferFiller(rows, log, hot))
        return Assembly((log, hot, *fillers), hot.endpoints)

    def announce(url: str, _: HealthReport) -> None:
        (filler,) = fillers
        print(json.dumps(asdict(filler.measure(url.removeprefix("http://")))), flush=True)

    asyncio.run(serve(settings(folder), role, announce))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
