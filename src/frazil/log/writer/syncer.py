"""The timer of `sync: periodic`."""

from __future__ import annotations

import logging
import threading

from frazil.errors import FrazilError
from frazil.log.writer.writer import PartitionWriter

logger = logging.getLogger(__name__)


class Syncer:
    """Syncs the WALs of its writers at an interval, whether or not more is appended."""

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._writers: set[PartitionWriter] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, writer: PartitionWriter) -> None:
        with self._lock:
            self._writers.add(writer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="frazil-syncer", daemon=True)
                self._thread.start()

    def remove(self, writer: PartitionWriter) -> None:
        with self._lock:
            self._writers.discard(writer)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            with self._lock:
                writers = list(self._writers)
            for writer in writers:
                try:
                    writer.sync()
                except FrazilError as error:
                    logger.error(
                        "cannot sync",
                        extra={"topic": writer.topic, "partition": writer.partition, "reason": str(error)},
                    )
                    self.remove(writer)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join()
