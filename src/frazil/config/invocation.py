"""Builds a command line that has the same settings as this process, wherever it is typed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Invocation:
    """Remembers how the settings were given. It does not count when settings are compared."""

    config_path: Path | None = field(default=None, compare=False)
    variables: Mapping[str, str] = field(default_factory=dict, compare=False)
    """These are the environment variables that set settings, without secrets."""

    def line(self, data_dir: Path, *arguments: str) -> str:
        """Returns a line for a shell.

        The data folder is always named, because it may be relative to where this process started.
        """
        variables = {**self.variables, "FRAZIL__DATA_DIR": str(data_dir.resolve())}
        words = [f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
        words.append(shlex.quote(_program()))
        if self.config_path is not None:
            words.append(f"--config {shlex.quote(str(self.config_path.resolve()))}")
        return " ".join([*words, *map(shlex.quote, arguments)])


def _program() -> str:
    """Returns the name of the program, or its path where the name alone would not find it."""
    called = Path(sys.argv[0])
    if called.name != "frazil" or not called.exists():
        return "frazil"
    found = shutil.which("frazil")
    return "frazil" if found is not None and os.path.samefile(found, called) else str(called.resolve())
