"""Runs the Kafka door as a part of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.doors.kafka.door import KafkaDoor
from frazil.errors import FrazilError
from frazil.log.log import Log
from frazil.ops.health import Health


class KafkaPart:
    name = "kafka"

    def __init__(self, config: Config, metrics: CollectorRegistry, log: Callable[[], Log]) -> None:
        """`log` returns the log of this process, which starts before this part."""
        self._config = config
        self._metrics = metrics
        self._log = log
        self._door: KafkaDoor | None = None

    @property
    def door(self) -> KafkaDoor:
        if self._door is None:
            raise FrazilError("The Kafka door is not started.")
        return self._door

    async def start(self) -> None:
        """Raise when the settings cannot work. Brokers that do not answer are no error: the door waits for them."""
        self._door = await asyncio.to_thread(KafkaDoor, self._config, self._log(), self._metrics)
        self._door.start()

    async def stop(self) -> None:
        await asyncio.to_thread(self.door.stop)

    def health(self) -> Health:
        return self.door.health()
