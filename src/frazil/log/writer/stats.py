"""Counters of a partition's writer since it was opened. The thread that does the work counts it; any may read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class WriterStats:
    appends: int = 0
    records: int = 0
    bytes: int = 0
    commits: int = 0
    duplicates: int = 0
    waits_for_room: int = 0
    refused_full: int = 0
    segments: int = 0
    sealed_records: int = 0
    sealed_bytes: int = 0
    seal_seconds: float = 0.0
    seal_failures: int = 0
