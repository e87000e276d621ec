"""Passes settings in a private file to the processes that Spark starts beside the driver.

Options of a stream would show credentials to everybody who sees its plan.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Self


class SettingsFile:
    def save(self, path: Path) -> None:
        path.touch(mode=0o600)
        path.write_bytes(pickle.dumps(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        settings = pickle.loads(path.read_bytes())
        assert isinstance(settings, cls)
        return settings
