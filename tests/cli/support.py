"""Runs the real `frazil` command in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.forked import ForkedCommands

FRAZIL = Path(sys.executable).with_name("frazil")
TIMEOUT_SECONDS = 60

_commands = ForkedCommands()

NO_TELEMETRY = {f"FRAZIL__{door}__ENABLED": "false" for door in ("OTLP", "LOKI", "PROMETHEUS", "TEMPO", "DANUBE")}


def environment(**settings: str) -> dict[str, str]:
    """Returns this process's environment without settings of Frazil, and with Python's usual buffering of stdout.

    The doors for telemetry are closed, because their ports are the same for all.
    """
    clean = {name: value for name, value in os.environ.items() if not name.upper().startswith("FRAZIL_")}
    clean.pop("PYTHONUNBUFFERED", None)
    return {**clean, **NO_TELEMETRY, **settings}


def frazil(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process that has imported it already."""
    return frazil_given(b"", folder, *arguments, **settings)


def frazil_given(content: bytes, folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a command that may read `content` from its input."""
    return _commands.run(arguments, folder, environment(**settings), TIMEOUT_SECONDS, content)


def new_frazil(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user's shell does: in a new process, which takes a second of CPU time for its imports."""
    return subprocess.run(
        [FRAZIL, *arguments],
        cwd=folder,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@dataclass
class Served:
    process: subprocess.Popen[str]
    banner: str
    url: str

    def end(self, signal: int) -> tuple[int, str]:
        """Send a signal, and return the exit code and what was written to stderr."""
        self.process.send_signal(signal)
        _, errors = self.process.communicate(timeout=TIMEOUT_SECONDS)
        return self.process.returncode, errors


@contextmanager
def serving(folder: Path, settings: Mapping[str, str] | None = None, *, pipeline: bool = False) -> Iterator[Served]:
    """Runs `frazil serve` on a free port, once it has said that it is ready.

    Few tests need its pipeline, and so Spark.
    """
    given = {"FRAZIL__PIPELINE__ENABLED": str(pipeline).lower(), **(settings or {})}
    with _running(folder, ("serve",), given, r"operations +(http://\S+)", "Ctrl-C") as served:
        yield served


@contextmanager
def running(folder: Path, *role: str, **settings: str) -> Iterator[Served]:
    """Runs `frazil` in another role on a free port, once it has said where its health is."""
    with _running(folder, role, settings, r"health at (http://\S+)/health", "") as served:
        yield served


@contextmanager
def _running(
    folder: Path, arguments: Sequence[str], settings: Mapping[str, str], url: str, last: str
) -> Iterator[Served]:
    """Waits for the line that begins with `last`, which is in the banner after the URL or has it."""
    process = subprocess.Popen(
        [FRAZIL, *arguments],
        cwd=folder,
        env=environment(**{"FRAZIL__SERVER__PORT": "0", **settings}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(last):
                break
        banner = "".join(lines)
        found = re.search(url, banner)
        if found is None:
            _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
            raise AssertionError(f"frazil {' '.join(arguments)} did not start:\n{banner}{errors}")
        yield Served(process, banner, found[1])
    finally:
        process.kill()
        process.communicate()
