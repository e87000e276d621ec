"""Counts what the threads of one scan read."""

from __future__ import annotations

import threading

from frazil.scan.interface import ScanStatistics


class Tally:
    """Is thread-safe."""

    def __init__(self) -> None:
        self.statistics = ScanStatistics()
        self._lock = threading.Lock()

    def read(self, rows: int, kept: int) -> None:
        with self._lock:
            self.statistics.units += 1
            self.statistics.rows_read += rows
            self.statistics.rows_out += kept

    def out(self, rows: int) -> None:
        with self._lock:
            self.statistics.rows_out += rows

    def bytes(self, count: int) -> None:
        with self._lock:
            self.statistics.bytes_read += int(count)

    def files(self, read: int, skipped: int, unread: int) -> None:
        with self._lock:
            self.statistics.files += read
            self.statistics.files_skipped += skipped
            self.statistics.files_unread += unread

    def log(self, rows: int) -> None:
        with self._lock:
            self.statistics.log_rows += rows

    def looked_up(self, *, hit: bool) -> None:
        with self._lock:
            if hit:
                self.statistics.cache_hits += 1
            else:
                self.statistics.cache_misses += 1
