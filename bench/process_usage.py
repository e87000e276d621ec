"""Measures what a process and all its descendants use, as the system counts it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bench.sampling import Sampler

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def family(pid: int) -> list[int]:
    """Returns the process and its descendants."""
    children: dict[int, list[int]] = {}
    for each, fields in _all():
        children.setdefault(int(fields[1]), []).append(each)
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def cpu_seconds(pid: int) -> dict[int, float]:
    """Returns the processor time of the process and of each of its descendants."""
    return {each: cpu_alone(each) for each in family(pid)}


def cpu_used(before: dict[int, float], after: dict[int, float]) -> float:
    """Returns the seconds between two measurements, without processes that ended (`CpuUse` counts those)."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def cpu_alone(pid: int) -> float:
    """Returns the processor time of one process, or 0 when it has ended."""
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def memory_mib(pid: int) -> float:
    """Returns the memory of the process and its descendants. Pages that several share are counted once."""
    total = 0
    for each in family(pid):
        try:
            for line in (_PROC / str(each) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        except (OSError, ProcessLookupError):
            continue
    return total / 1024


class PeakMemory(Sampler):
    """Measures the largest `memory_mib` while it is entered."""

    def __init__(self, pid: int) -> None:
        super().__init__(0.2)
        self._pid = pid
        self.mib = 0.0

    def _sample(self) -> None:
        self.mib = max(self.mib, memory_mib(self._pid))


class CpuUse(Sampler):
    """Measures the processor time that was used while it is entered, also by processes that ended meanwhile."""

    def __init__(self, pid: int) -> None:
        super().__init__(0.5)
        self._pid = pid
        self._before: dict[int, float] | None = None
        self._after: dict[int, float] = {}
        self._commands: dict[int, str] = {}

    def _sample(self) -> None:
        now = cpu_seconds(self._pid)
        if self._before is None:
            self._before = now
        for pid, seconds in now.items():
            self._after[pid] = max(seconds, self._after.get(pid, 0.0))
            if line := command_line(pid):
                self._commands[pid] = line

    @property
    def seconds(self) -> float:
        return sum(self.by_command.values())

    @property
    def by_command(self) -> dict[str, float]:
        """Returns the seconds by command line."""
        used: dict[str, float] = {}
        for pid, seconds in self._after.items():
            line = self._commands.get(pid, "")
            used[line] = used.get(line, 0.0) + seconds - (self._before or {}).get(pid, 0.0)
        return used


def command_line(pid: int) -> str:
    """Returns the command line, which is empty when the process is gone."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _all() -> Iterator[tuple[int, list[str]]]:
    """Yields every process with the fields of `/proc/PID/stat` that follow its name."""
    for path in _PROC.iterdir():
        if path.name.isdigit() and (fields := _fields(int(path.name))):
            yield int(path.name), fields


def _fields(pid: int) -> list[str] | None:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
