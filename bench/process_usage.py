"""What a process and all its descendants use, as the system counts it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bench.sampling import Sampler

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
    return {each: cpu_alone(each) for each in family(pid)}


def cpu_used(before: dict[int, float], after: dict[int, float]) -> float:
    """Seconds between two looks. Processes that ended meanwhile are left out: for those there is `CpuUse`."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def cpu_alone(pid: int) -> float:
    """Of one process; nothing when it has ended."""
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


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


class PeakMemory(Sampler):
    """The largest `memory_mib` meanwhile."""

    def __init__(self, pid: int) -> None:
        super().__init__(0.2)
        self._pid = pid
        self.mib = 0.0

    def _sample(self) -> None:
        self.mib = max(self.mib, memory_mib(self._pid))


class CpuUse(Sampler):
    """Seconds of CPU that were used meanwhile, also by processes that did not live all the time."""

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
        """By the processes' command lines."""
        used: dict[str, float] = {}
        for pid, seconds in self._after.items():
            line = self._commands.get(pid, "")
            used[line] = used.get(line, 0.0) + seconds - (self._before or {}).get(pid, 0.0)
        return used


def command_line(pid: int) -> str:
    """Empty when the process is gone."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _all() -> Iterator[tuple[int, list[str]]]:
    """Every process with what `/proc/PID/stat` says after its name."""
    for path in _PROC.iterdir():
        if path.name.isdigit() and (fields := _fields(int(path.name))):
            yield int(path.name), fields


def _fields(pid: int) -> list[str] | None:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
