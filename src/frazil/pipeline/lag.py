"""How far tables are behind the sealed log, for the metrics."""

from __future__ import annotations

from frazil.lake.rows.extents import Extents
from frazil.pipeline.tools import Tools

INTERVAL_SECONDS = 10.0


class Lag:
    """Belongs to one thread."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._logs: dict[str, Extents] = {}
        self._due = float("-inf")

    def measure(self) -> None:
        """Look at the log of every topic that is moved, if it is time to."""
        now = self._tools.world.clock.monotonic()
        if now < self._due:
            return
        self._due = now + INTERVAL_SECONDS
        for (topic, table), committed in list(self._tools.committed.items()):
            for partition, extent in self._log(topic).look(tail=False).items():
                behind = max(0, extent.sealed_end - committed.get(partition, 0))
                self._tools.metrics.lag.labels(topic, table, partition).set(behind)

    def _log(self, topic: str) -> Extents:
        if topic not in self._logs:
            self._logs[topic] = Extents(self._tools.store, topic, self._tools.config.data_dir)
        return self._logs[topic]
