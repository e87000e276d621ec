"""What a process and all its descendants use, as the system counts it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def family(pid: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for each, fields in _all():
        children.setdefault(int(fields[1]), []).append(each)
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def cpu_seconds(pid: int) -> dict[int, float]:
    """Of the process and each of its descendants."""
    wanted = set(family(pid))
    return {each: (int(fields[11]) + int(fields[12])) / _TICKS for each, fields in _all() if each in wanted}


def cpu_used(before: dict[int, float], after: dict[int, float]) -> float:
    """Seconds between two looks. Processes that ended meanwhile are left out, so look often enough."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def memory_mib(pid: int) -> float:
    """Memory of the process and its descendants; pages that several share are counted once."""
    total = 0
    for each in family(pid):
        try:
            for line in (_PROC / str(each) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        except (OSError, ProcessLookupError):
            continue
    return total / 1024


class PeakMemory:
    """The largest `memory_mib` while it is entered."""

    def __init__(self, pid: int, every_seconds: float = 0.2) -> None:
        self.mib = 0.0
        self._pid = pid
        self._every = every_seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._every):
            self.mib = max(self.mib, memory_mib(self._pid))


def _all() -> Iterator[tuple[int, list[str]]]:
    """Every process with what `/proc/PID/stat` says after its name."""
    for path in _PROC.iterdir():
        if path.name.isdigit():
            try:
                yield int(path.name), (path / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
