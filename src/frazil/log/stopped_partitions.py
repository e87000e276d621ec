"""Partitions of this node that are stopped, because their files are damaged or cannot be read.

A stopped partition is opened again only when its WAL files have changed. So a damaged file is not read for every
request, and a partition that was repaired is served at once.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

from frazil.config.model import Config
from frazil.errors import FrazilError, LogCorrupted, PartitionDamaged, WalDamaged
from frazil.log import layout
from frazil.log.wal.recovery import Fingerprint, fingerprint

PartitionId = tuple[str, int]
"""Topic and partition."""


class _Stop(NamedTuple):
    error: FrazilError
    seen: Fingerprint | None
    """The damaged WAL files; None when something else is wrong, which may change at any time."""


class StoppedPartitions:
    """Remembers which partitions are stopped, and why. Thread-safe."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._stops: dict[PartitionId, _Stop] = {}
        self._lock = threading.Lock()

    def check(self, partition: PartitionId) -> None:
        """Raise the error that stopped a partition, if its WAL files have not changed since."""
        with self._lock:
            stop = self._stops.get(partition)
        if stop is not None and stop.seen is not None and stop.seen == fingerprint(self._directory(partition)):
            raise stop.error.again()

    def stop(self, partition: PartitionId, error: FrazilError) -> FrazilError:
        """Note that a partition is stopped. Return the error to raise, which says how it can be repaired."""
        told = error
        if isinstance(error, LogCorrupted) and not isinstance(error, PartitionDamaged):
            told = PartitionDamaged(_name(partition), str(error), self._repair(partition, error))
        seen = fingerprint(self._directory(partition)) if isinstance(error, WalDamaged) else None
        with self._lock:
            known = self._stops.get(partition)
            if known is None or not isinstance(error, PartitionDamaged):
                self._stops[partition] = _Stop(told, seen)
        return told

    def go_on(self, partition: PartitionId) -> None:
        with self._lock:
            self._stops.pop(partition, None)

    def all(self) -> dict[PartitionId, FrazilError]:
        with self._lock:
            return {partition: stop.error for partition, stop in sorted(self._stops.items())}

    def _repair(self, partition: PartitionId, error: LogCorrupted) -> str:
        """Return the command that repairs a damaged WAL. Damage in the store can only be repaired from a copy."""
        if not isinstance(error, WalDamaged):
            return ""
        return self._config.command("log", "repair", _name(partition), "--yes")

    def _directory(self, partition: PartitionId) -> Path:
        return layout.wal_directory(self._config.data_dir, *partition)


def _name(partition: PartitionId) -> str:
    return f"{partition[0]}/{partition[1]}"
