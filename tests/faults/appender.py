"""A process that appends until it is killed, and prints what was acknowledged.

Run it with `python -m tests.faults.appender CONFIG_JSON FIRST_ID`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import struct
import sys
import threading

from frazil.config.model import Config
from frazil.log.log import Log
from frazil.log.writer.writer import PartitionWriter
from tests.log.support import SCHEMA, TOPIC, rows

ACK = struct.Struct("<QQQ")
TASKS = 8
THREADS = 2


def say(first: int, offset: int, count: int) -> None:
    """Prints an acknowledgement in one write, so that a killed process leaves a whole line or none."""
    os.write(1, ACK.pack(first, offset, count))


def main(config: Config, first_id: int) -> None:
    numbers = itertools.count(first_id, 10)
    with Log(config) as log:
        writer = log.writer(TOPIC, SCHEMA)
        for _ in range(THREADS):
            threading.Thread(target=append_in_thread, args=(writer, numbers), daemon=True).start()
        asyncio.run(append_in_tasks(writer, numbers))


def append_in_thread(writer: PartitionWriter, numbers: itertools.count[int]) -> None:
    for first in numbers:
        count = 1 + first // 10 % 10
        say(first, writer.append(rows(first, count)).offset, count)


async def append_in_tasks(writer: PartitionWriter, numbers: itertools.count[int]) -> None:
    async def run() -> None:
        for first in numbers:
            count = 1 + first // 10 % 10
            say(first, (await writer.append_async(rows(first, count))).offset, count)

    await asyncio.gather(*(run() for _ in range(TASKS)))


if __name__ == "__main__":
    main(Config.model_validate_json(sys.argv[1]), int(sys.argv[2]))
